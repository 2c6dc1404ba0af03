"""The models, by name; each is loaded on first use.

A model is an ``nn.Module`` with

- ``config``: a dict of plain JSON values with which ``type(model)(**config)`` rebuilds it;
- ``threshold``: the probability from which a pair is an edge, 0.5 until training has chosen it;
- ``forward(batch, initial=None, steps=None)``: a :class:`~gln.models.output.StructureOutput` from a
  :class:`~gln.graphs.GraphBatch`, whose ``adj`` it never reads, starting at the structure ``initial``.

``MODELS`` maps the name that a saved model carries to its class; add a class of your own to it to load yours.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gln.models.build import build_model
from gln.models.output import StructureOutput

if TYPE_CHECKING:
    from torch import nn

    from gln.baselines.set2graph import Set2Graph
    from gln.models.gln import GLN
    from gln.models.paper import PaperGLN

    MODELS: dict[str, type[nn.Module]]

__all__ = ["GLN", "MODELS", "PaperGLN", "Set2Graph", "StructureOutput", "build_model"]

_HOME = {"GLN": "gln.models.gln", "PaperGLN": "gln.models.paper", "Set2Graph": "gln.baselines.set2graph"}


def __getattr__(name: str) -> Any:
    if name == "MODELS":
        globals()[name] = {model: getattr(import_module(home), model) for model, home in _HOME.items()}
        return globals()[name]
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gln.models' has no attribute {name!r}")
