"""Whether a model can read a set of nodes, checked before prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gln.graphs.record import Graph

WORDS = {"pos": "positions (pos)", "x": "features (x)"}


def misfit(model: Any, graph: Graph) -> str | None:
    """Why ``model`` cannot read the nodes of ``graph``, as the end of a sentence; ``None`` if it can.

    A model whose config does not describe its inputs is assumed to read anything.
    """
    config, pos, x = getattr(model, "config", {}), *graph.widths
    if "nodes" in config:  # PaperGLN: one size, positions and features concatenated
        if graph.num_nodes != config["nodes"]:
            return f"it has {graph.num_nodes} nodes, but the model takes sets of exactly {config['nodes']}."
        if pos + x != config["in_channels"]:
            return f"it has {pos + x} values per node, but the model takes {config['in_channels']}."
        return None
    for name, got, wanted in (("pos", pos, config.get("pos_channels")), ("x", x, config.get("in_channels"))):
        if wanted and not got:
            return f"it has no {WORDS[name]}, but the model was trained with {wanted} per node; see --{name}."
        if wanted and got != wanted:
            return (
                f"it has {got} {WORDS[name]} per node, but the model was trained with {wanted}; see --{name}."
            )
    return None


def unread(model: Any, graph: Graph) -> list[str]:
    """Which of ``pos`` and ``x`` the graph has but the model does not read."""
    config, pos, x = getattr(model, "config", {}), *graph.widths
    if "nodes" in config:
        return []
    settings = (("pos", pos, "pos_channels"), ("x", x, "in_channels"))
    return [name for name, got, setting in settings if got and config.get(setting) == 0]


def coinciding(model: Any, graph: Graph) -> int:
    """How many nodes have exactly the position of another one, and its features if the model reads them."""
    given = [name for name, width in zip(WORDS, graph.widths, strict=True) if width]
    read = [name for name in given if name not in unread(model, graph)]
    if "pos" not in read:
        return 0
    rows = torch.cat([graph[name] for name in read], dim=1).numpy() + 0.0  # so that -0.0 is 0.0
    whole = rows.view(f"V{rows.itemsize * rows.shape[1]}")  # much faster than unique rows
    counts = np.unique(whole, return_counts=True)[1]
    return int(counts[counts > 1].sum())
