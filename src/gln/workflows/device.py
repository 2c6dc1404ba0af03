"""The device a model runs on, and whether its memory suffices."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gln.errors import GLNError


def out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` means out of memory, which torch reports as a plain RuntimeError."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def put_on(model: Any, name: str, local: int | None = None) -> Any:
    """Move ``model`` to the device ``name``: ``cpu``, ``cuda``, ``cuda:1``, …, or ``auto`` for a GPU if there is one.

    Of several processes on a machine, process ``local`` takes the GPU with that number. A baseline is left alone: it
    chooses its own device.
    """
    if not isinstance(model, nn.Module):
        return model
    wanted = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    if local is not None and ":" in wanted:
        raise GLNError(
            f"Got the device {name!r} for several processes; choose cuda, and each takes its own GPU."
        )
    if local is not None and wanted == "cuda" and torch.cuda.is_available():
        wanted = f"cuda:{local % torch.cuda.device_count()}"  # a process may see only its own GPU
    try:
        return model.to(torch.device(wanted))
    except (RuntimeError, AssertionError, NotImplementedError):
        # There is no such device, or torch was built without it.
        choice = "auto, cpu or cuda" if torch.cuda.is_available() else "auto or cpu"
        raise GLNError(f"The device {name!r} cannot be used here; choose {choice}.") from None
