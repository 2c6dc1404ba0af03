"""Whether a model can read a set of nodes, checked before prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gln.graphs.record import ROWS, Graph
from gln.models import contract


def misfit(model: Any, graph: Graph) -> str | None:
    """Why ``model`` cannot read the nodes of ``graph``, as the end of a sentence; ``None`` if it can."""
    return contract.misfit(model, int(graph.num_nodes or 0), *graph.widths)


def unread(model: Any, graph: Graph) -> list[str]:
    """Which of ``pos`` and ``x`` the graph has but the model does not read."""
    return contract.unread(model, *graph.widths)


def coinciding(model: Any, graph: Graph) -> int:
    """How many nodes have exactly the position of another one, and its features if the model reads them."""
    given = [name for name, width in zip(ROWS, graph.widths, strict=True) if width]
    read = [name for name in given if name not in unread(model, graph)]
    if "pos" not in read:
        return 0
    rows = torch.cat([graph[name] for name in read], dim=1).numpy() + 0.0  # so that -0.0 is 0.0
    whole = rows.view(f"V{rows.itemsize * rows.shape[1]}")  # much faster than unique rows
    counts = np.unique(whole, return_counts=True)[1]
    return int(counts[counts > 1].sum())
