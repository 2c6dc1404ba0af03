"""Seeded split into training, validation and test graphs, and parts cut out of one graph."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from gln.errors import GLNError
from gln.graphs.convert import each_of
from gln.graphs.record import NAMES, Graph, is_per_edge
from gln.later import sparse, spatial, torch
from gln.seeds import check_seed

T = TypeVar("T")


def split(
    graphs: Iterable[T],
    seed: int = 0,
    test: float = 0.2,
    val: float = 0.1,
    groups: Iterable[Hashable] | None = None,
) -> tuple[list[T], list[T], list[T]]:
    """Shuffle by ``seed`` and cut into ``(train, val, test)``.

    Args:
        graphs: enough that no part is empty.
        seed: the same seed gives the same parts.
        test: share of all graphs held out for testing (20 % in the paper); 0 for none.
        val: share of the remaining graphs held out for validation; 0 for none.
        groups: one label per graph, as in scikit-learn; graphs of one group stay together, and a part that would
            begin with half a group takes all of it.
    """
    items = list(each_of(graphs))
    number = check_seed("split", seed)
    count, parts = len(items), 1 + (test > 0) + (val > 0)
    if not (0 <= test < 1 and 0 <= val < 1):
        raise GLNError(f"Got test={test} and val={val}; expected shares between 0 and 1.")
    labels = list(range(count)) if groups is None else list(groups)
    if len(labels) != count:
        raise GLNError(f"Got {len(labels)} groups for {count} graphs; expected one group per graph.")
    members: dict[Hashable, list[int]] = {}
    for place, label in enumerate(labels):
        members.setdefault(label, []).append(place)
    if len(members) < parts:
        what = "graphs" if groups is None else "groups"
        raise GLNError(
            f"Got {len(members)} {what}; expected at least {parts}, one for each of train, val and test."
        )
    n_test = min(max(round(count * test), 1), count - parts + 1) if test else 0
    n_val = min(max(round((count - n_test) * val), 1), count - n_test - 1) if val else 0
    sets = list(members.values())
    rest = [sets[i] for i in np.random.default_rng(number).permutation(len(sets))]
    held_out = _take(rest, n_test, parts - 1)
    validation = _take(rest, n_val, 1)
    train, val_items, test_items = (
        [items[i] for some in part for i in some] for part in (rest, validation, held_out)
    )
    return train, val_items, test_items


def _take(rest: list[list[int]], wanted: int, leave: int) -> list[list[int]]:
    """Move groups from the end of ``rest`` until they have ``wanted`` members, but leave some groups."""
    taken, members = [], 0
    while members < wanted and len(rest) > leave:
        taken.append(rest.pop())
        members += len(taken[-1])
    return taken[::-1]


def cut_patches(
    graph: Graph, size: int, count: int, seed: int | Sequence[int] = 0, local: bool = True
) -> list[Graph]:
    """Cut out ``count`` patches: a random node, its ``size`` − 1 nearest nodes, and the edges among them.

    Distances are in ``pos``, or in ``x`` if there is no ``pos``; if not ``local``, any other nodes stand in place of
    the nearest. In a smaller graph, every patch is the whole graph. No node is a centre twice before every node has
    been one. The same ``seed``, one number or several, cuts the same patches.
    """
    if size < 2 or count < 1:
        raise GLNError(f"Got patches of size={size}, count={count}; expected at least 2 nodes and 1 patch.")
    rng, cutter, nodes = np.random.default_rng(seed), _Cutter(graph), graph.num_nodes
    if not local:
        return [cutter.part(rng.permutation(nodes)[:size]) for _ in range(count)]
    where = graph.where()
    rounds = -(-count // nodes)
    centres = np.concatenate([rng.permutation(nodes) for _ in range(rounds)])[:count]
    _, near = spatial.cKDTree(where).query(where[centres], k=min(size, nodes))
    return [cutter.part(some) for some in near.reshape(count, -1)]


def cut_cells(graph: Graph, most: int) -> list[np.ndarray]:
    """Halve the nodes across their longest extent, and the halves again, until no cell has more than ``most``."""
    where = graph.where()

    def halve(nodes: np.ndarray) -> list[np.ndarray]:
        if len(nodes) <= most:
            return [nodes]
        widest = np.ptp(where[nodes], axis=0).argmax()
        nodes = nodes[np.argsort(where[nodes, widest], kind="stable")]
        middle = len(nodes) // 2
        return [*halve(nodes[:middle]), *halve(nodes[middle:])]

    return [np.sort(nodes) for nodes in halve(np.arange(len(where)))]


def neighbours_of(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """The nodes that an edge joins to one of ``nodes``, themselves perhaps among them."""
    source, target = graph.edge_index.numpy(force=True)
    if graph.directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    return np.unique(target[np.isin(source, nodes)])


def judged_part(graph: Graph, judged: torch.Tensor | None) -> Graph:
    """What is scored of a truth or a prediction: pairs of nodes whose values ``judged [n]`` add up to at least 2.

    Where a single value is 2, all nodes stay, edges with neither end judged are dropped, and ``scored_pairs`` says how
    many pairs count; otherwise the other nodes are dropped. ``None``: everything is scored.
    """
    if judged is None:
        return graph
    if int(judged.max()) < 2:
        return subgraph(graph, judged.nonzero().flatten().numpy())
    counts = judged[graph.edge_index].sum(0) >= 2
    whole, half = int((judged >= 2).sum()), int((judged == 1).sum())
    pairs = whole * (whole - 1) // 2 + whole * (len(judged) - whole) + half * (half - 1) // 2
    part = graph.some_edges(counts)
    part.scored_pairs = pairs * (2 if graph.directed else 1)
    return part


def subgraph(graph: Graph, nodes: np.ndarray) -> Graph:
    """The graph on some of the nodes, which keep their order, with all that belongs to them and their edges."""
    return _Cutter(graph).part(nodes)


class _Cutter:
    """Cuts parts out of a checked graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, ends = graph, graph.edge_index.numpy(force=True)
        self.edges = sparse.csr_array((np.arange(ends.shape[1]), ends), shape=(graph.num_nodes,) * 2)
        names = [name for name in graph.keys() if name not in ("edge_index", "num_nodes")]  # noqa: SIM118
        self.of_edges = [name for name in names if is_per_edge(name)]
        self.of_nodes = [name for name in names if name not in self.of_edges and _per_node(graph, name)]

    def part(self, nodes: np.ndarray) -> Graph:
        """The subgraph on ``nodes``, which keep their order in the graph."""
        nodes = np.sort(nodes)
        inside = self.edges[nodes][:, nodes].tocoo()
        part = copy.copy(self.graph)
        part.edge_index = torch.from_numpy(np.stack([inside.row, inside.col]).astype(np.int64))
        chosen, kept = torch.from_numpy(nodes), torch.from_numpy(inside.data)
        for names, rows in ((self.of_nodes, chosen), (self.of_edges, kept)):
            for name in names:  # in a tensor, an array or a list
                values = self.graph[name]
                listed = isinstance(values, list | tuple)
                part[name] = [values[row] for row in rows.tolist()] if listed else values[rows]
        part.num_nodes = len(nodes)
        return part


def _per_node(graph: Graph, name: str) -> bool:
    values = graph[name]
    if isinstance(values, str) or name in NAMES:  # its name, and words for types
        return False
    return bool(getattr(values, "ndim", 1)) and hasattr(values, "__len__") and len(values) == graph.num_nodes
