"""Checks of the devices and numbers that a user passes."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from gln.errors import GLNError

Device = torch.device | str | None


def is_whole(value: Any) -> bool:
    """Whether this is an integer from Python or NumPy; True and False do not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether this is a real number from Python, NumPy or torch."""
    return isinstance(value, Real) or (isinstance(value, Tensor) and value.numel() == 1)


def check_device(device: Device) -> torch.device | None:
    """The device, if this machine can compute on it in float64; ``None`` stays ``None``."""
    if device is None:
        return None
    try:
        place = torch.device(device)
        torch.zeros(1, dtype=torch.float64, device=place).item()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError):
        raise GLNError(
            f"Got device={device!r}, which this machine does not have or which cannot compute in float64; "
            'choose another, for example "cpu".'
        ) from None
    return place
