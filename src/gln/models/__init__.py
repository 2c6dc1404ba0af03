"""The models, by name; each is loaded on first use. What a model is, :mod:`gln.models.contract` says.

``MODELS`` maps the name stored with a saved model to its class; add your own class to it to load your own models.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gln.models.contract import StructureOutput, build_model

if TYPE_CHECKING:
    from torch import nn

    from gln.models.gln import GLN
    from gln.models.paper import PaperGLN
    from gln.models.set2graph import Set2Graph

    MODELS: dict[str, type[nn.Module]]

__all__ = ["GLN", "MODELS", "PaperGLN", "Set2Graph", "StructureOutput", "build_model"]

_HOME = {"GLN": "gln.models.gln", "PaperGLN": "gln.models.paper", "Set2Graph": "gln.models.set2graph"}


def __getattr__(name: str) -> Any:
    if name == "MODELS":
        globals()[name] = {model: getattr(import_module(home), model) for model, home in _HOME.items()}
        return globals()[name]
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gln.models' has no attribute {name!r}")
