"""Training, the same for every model.

Names are loaded on first use: settings are plain data, and reading them must not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gln.later import names_of

if TYPE_CHECKING:
    from gln.training.config import FitConfig
    from gln.training.data import Fresh
    from gln.training.loop import FitResult, fit
    from gln.training.processes import Interrupted

_HOME = {
    "gln.training.config": ["FitConfig"],
    "gln.training.data": ["Fresh"],
    "gln.training.loop": ["FitResult", "fit"],
    "gln.training.processes": ["Interrupted"],
}

__all__ = ["FitConfig", "FitResult", "Fresh", "Interrupted", "fit"]

__getattr__ = names_of(__name__, _HOME)
