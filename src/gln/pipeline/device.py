"""Where a model computes, and whether there is room."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gln.errors import GLNError


def out_of_memory(error: BaseException) -> bool:
    """Torch reports a machine or GPU without memory as a RuntimeError like any other."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def put_on(model: Any, name: str, local: int | None = None) -> Any:
    """``model`` on the device ``name``: ``cpu``, ``cuda``, ``cuda:1``, …, or ``auto`` for a GPU if there is one.

    Of several processes on a machine, number ``local`` takes the GPU of that number. A baseline is no network and
    computes where it wants to.
    """
    if not isinstance(model, nn.Module):
        return model
    wanted = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    if local is not None and ":" in wanted:
        raise GLNError(
            f"Got the device {name!r} for several processes; say cuda, and each takes one of its own."
        )
    if local is not None and wanted == "cuda" and torch.cuda.is_available():
        wanted = f"cuda:{local % torch.cuda.device_count()}"  # a scheduler may show each process only its own
    try:
        return model.to(torch.device(wanted))
    except (RuntimeError, AssertionError, NotImplementedError):
        # There is no such device, or torch was built without it.
        raise GLNError(f"The device {name!r} cannot be used here; choose auto, cpu or cuda.") from None
