"""Known edges, which a prediction completes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.io import Item
from gln.io.tables import EdgeTable


class KnownEdges:
    """A table of known edges: source and target by node id, and graph if there are several.

    Args:
        path: the table.
        graph: the column that names the graph; guessed if ``None``.
        files: the number of files of nodes.
    """

    def __init__(self, path: Path, graph: str | None, files: int) -> None:
        self.used = False
        try:
            self.table = EdgeTable(path, graph)
        except GLNError as error:
            raise GLNError(f"{path}: {error}") from None
        if files > 1 and not self.table.grouped:
            raise GLNError(
                f"{path} has no graph column, but there are {files} files of nodes; add a column with their names."
            )

    def of(self, item: Item) -> np.ndarray:
        """The known edges ``[m, 2]`` of ``item``, each once."""
        ids = [str(node) for node in range(item.graph.num_nodes)] if item.ids is None else item.ids
        pairs = self.table.pairs((item.part, item.name), {name: n for n, name in enumerate(ids)})
        self.used |= len(pairs) > 0
        return np.unique(np.sort(pairs, axis=1), axis=0)

    def check_used(self) -> None:
        """Refuse a table of which nothing was used: it is the wrong one or names the graphs differently."""
        if not self.table.places:
            raise GLNError(f"{self.table.path} holds no edges; give a table with a row for each known edge.")
        if not self.used:
            raise GLNError(
                f"{self.table.path} holds no edge of any of the graphs; check the names in its graph column."
            )


def completed(answer: Graph, pairs: np.ndarray) -> Graph:
    """``answer`` with the known ``pairs [m, 2]`` added at probability 1.

    The model does not start from them, as with ``gln.predict(known=...)``: it was trained to start from nothing, and
    from half of the true edges of a triangulation it finds fewer of the others than from nothing.
    """
    known = torch.from_numpy(pairs).T
    edges = torch.cat([known, known.flip(0), answer.edge_index], dim=1)
    prob = torch.cat([answer.edge_prob.new_ones(2 * len(pairs)), answer.edge_prob])
    keys = edges[0] * answer.num_nodes + edges[1]
    order = keys.argsort(stable=True)  # of equal keys, the known edge comes first
    keys = keys[order]
    first = torch.cat([torch.ones(min(1, len(keys)), dtype=torch.bool), keys[1:] != keys[:-1]])
    answer.edge_index, answer.edge_prob = edges[:, order[first]], prob[order[first]]
    return answer
