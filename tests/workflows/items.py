"""Items as a reader would give them, without files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gln.graphs import make_graph
from gln.io import Item


def item(name: str, nodes: int = 5, width: int = 2, edges: Any = None, **more: Any) -> Item:
    """A set of random points, the same for the same name."""
    rng = np.random.default_rng(sum(name.encode()))
    graph = make_graph(rng.random((nodes, width), dtype=np.float32), more.get("x"), edges)
    if edges is None:
        del graph.edge_index
    path, mark, part = name.partition("#")
    return Item(name, Path(path), graph, edges is not None, more.get("ids"), part if mark else None)
