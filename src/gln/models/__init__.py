"""The models, by name; each is loaded on first use.

A model is an ``nn.Module`` with

- ``config``: a dict of plain JSON values; ``type(model)(**config)`` rebuilds the model;
- ``threshold``: the probability at or above which a pair is an edge; 0.5 until training chooses it;
- ``forward(batch, initial=None, steps=None)``: starts from the structure ``initial`` and turns a
  :class:`~gln.graphs.GraphBatch`, whose ``adj`` it never reads, into a :class:`~gln.models.output.StructureOutput`.

``MODELS`` maps the name stored with a saved model to its class; add your own class to it to load your own models.
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
