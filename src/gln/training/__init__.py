"""Training, saved models, prediction, evaluation and generation: the same for every model.

Names are loaded on first use: settings are plain data, and reading them must not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gln.training.config import FitConfig
    from gln.training.data import Fresh
    from gln.training.fitting import FitResult, fit
    from gln.training.generation import generate
    from gln.training.guard import Interrupted
    from gln.training.prediction import predict
    from gln.training.saved import load, save, shipped
    from gln.training.scoring import evaluate

_MODULE_OF = {
    "FitConfig": "config",
    "FitResult": "fitting",
    "Fresh": "data",
    "Interrupted": "guard",
    "evaluate": "scoring",
    "fit": "fitting",
    "generate": "generation",
    "load": "saved",
    "predict": "prediction",
    "save": "saved",
    "shipped": "saved",
}

__all__ = [
    "FitConfig",
    "FitResult",
    "Fresh",
    "Interrupted",
    "evaluate",
    "fit",
    "generate",
    "load",
    "predict",
    "save",
    "shipped",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gln.training' has no attribute {name!r}")
    return getattr(import_module(f"gln.training.{_MODULE_OF[name]}"), name)
