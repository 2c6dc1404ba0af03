"""Training, the same for every model.

Names are loaded on first use: settings are plain data, and reading them must not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gln.training.config import FitConfig
    from gln.training.data import Fresh
    from gln.training.loop import FitResult, fit
    from gln.training.processes import Interrupted

_MODULE_OF = {
    "FitConfig": "config",
    "FitResult": "loop",
    "Fresh": "data",
    "Interrupted": "processes",
    "fit": "loop",
}

__all__ = ["FitConfig", "FitResult", "Fresh", "Interrupted", "fit"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gln.training' has no attribute {name!r}")
    return getattr(import_module(f"gln.training.{_MODULE_OF[name]}"), name)
