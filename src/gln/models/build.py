"""Build a model for given graphs from its short form."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.registry import parse_spec


def build_model(text: str, graphs: Sequence[Data]) -> nn.Module:
    """Build a model, such as ``GLN:width=64``, with inputs as wide as the features of ``graphs``."""
    from gln.models import MODELS

    asked, settings = parse_spec(text)
    names = {name.lower(): name for name in MODELS}
    if asked.lower() not in names:
        raise GLNError(f"There is no model {asked!r}; choose from {', '.join(sorted(MODELS))}.")
    name = names[asked.lower()]
    known = list(inspect.signature(MODELS[name]).parameters)
    for setting in settings:
        if setting not in known:
            raise GLNError(f"{name} has no setting {setting!r}; choose from {', '.join(known)}.")
    inputs = _inputs(name, graphs)
    return MODELS[name](**{key: value for key, value in inputs.items() if key in known} | settings)


def _inputs(name: str, graphs: Sequence[Data]) -> dict[str, Any]:
    widths = {key: 0 if graphs[0].get(key) is None else graphs[0][key].shape[1] for key in ("pos", "x")}
    if name != "PaperGLN":
        return {"in_channels": widths["x"], "pos_channels": widths["pos"]}
    sizes = {graph.num_nodes for graph in graphs}
    if len(sizes) > 1:
        raise GLNError(
            f"PaperGLN needs graphs of one size, but these have {min(sizes)} to {max(sizes)} nodes; train GLN instead."
        )
    return {"nodes": sizes.pop(), "in_channels": widths["x"] + widths["pos"]}
