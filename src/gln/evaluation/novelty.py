"""Isomorphism, and how many generated graphs are new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gln.errors import GLNError
from gln.evaluation.counting import Blocks
from gln.evaluation.metrics import Scores
from gln.graphs import as_graphs
from gln.graphs.convert import CheckedGraphs
from gln.graphs.record import Graph

Colours = NDArray[np.uint64]
ROUNDS = 16  # of refinement in the hash; graphs that only later rounds tell apart are left to the exact test
BUDGET = 1000  # colourings that one exact test may try


class Union:
    """The disjoint union of graphs; the neighbours of node i are ``neighbour[start[i]:start[i + 1]]``."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        blocks = Blocks.of(graphs, "cpu")
        self.first = np.cumsum([0, *blocks.nodes])  # the first node of every graph
        self.source, self.neighbour = blocks.edges.numpy()
        self.nodes = int(self.first[-1])
        self.start = np.searchsorted(self.source, np.arange(self.nodes + 1))

    def refine(self, colour: Colours) -> Colours:
        """One Weisfeiler–Leman round: the next colour combines a node's own with the multiset of its neighbours'."""
        # Sums and their differences wrap at 2⁶⁴, which keeps the differences right.
        total = np.concatenate([[np.uint64(0)], np.cumsum(_mix(colour)[self.neighbour], dtype=np.uint64)])
        return _mix(colour + _mix(total[self.start[1:]] - total[self.start[:-1]]))

    def settle(self, colour: Colours) -> Colours:
        """Refine until no colour splits any further."""
        before, count = 0, len(np.unique(colour))
        while before < count:
            colour = self.refine(colour)
            before, count = count, len(np.unique(colour))
        return colour

    def edges(self, name: NDArray[np.int64]) -> NDArray[np.int64]:
        """The edges as sorted numbers, with node i renamed to ``name[i]``."""
        return np.sort(name[self.source] * self.nodes + name[self.neighbour])


def graph_hashes(graphs: Sequence[Graph]) -> list[int]:
    """A number per graph: equal for isomorphic graphs, nearly always different for others."""
    union = Union(graphs)
    sizes = np.diff(union.first)
    colour = np.repeat(sizes, sizes).astype(np.uint64)
    for _ in range(ROUNDS):
        colour = union.refine(colour)
    return np.add.reduceat(_mix(colour), union.first[:-1]).tolist()


def isomorphic(one: Any, other: Any, budget: int = BUDGET) -> bool | None:
    """Whether two graphs of any kind are isomorphic; ``None`` if the budget ran out first.

    Colours are refined until they settle, and the nodes matched in the order of their colours. If the edges
    then differ, one node is singled out in the first graph and each node of its colour in turn in the
    second, until the edges agree or every node has a colour of its own.
    """
    first, second = as_undirected([one, other], "graphs")
    return isomorphic_of(first, second, budget)


def isomorphic_of(one: Graph, other: Graph, budget: int = BUDGET) -> bool | None:
    """:func:`isomorphic` for checked graphs."""
    if one.num_nodes != other.num_nodes or one.num_edges != other.num_edges:
        return False
    a, b = Union([one]), Union([other])
    plain = np.zeros(a.nodes, dtype=np.uint64)
    todo: list[tuple[Colours, int | None, Colours, int | None]] = [(plain, None, plain, None)]
    while todo:
        budget -= 1
        if budget < 0:
            return None
        colour_a, node_a, colour_b, node_b = todo.pop()
        colour_a, colour_b = a.settle(_single_out(colour_a, node_a)), b.settle(_single_out(colour_b, node_b))
        order_a, order_b = np.argsort(colour_a), np.argsort(colour_b)
        if not np.array_equal(colour_a[order_a], colour_b[order_b]):
            continue
        if np.array_equal(a.edges(np.argsort(order_a)), b.edges(np.argsort(order_b))):
            return True
        kinds, first, sizes = np.unique(colour_a, return_index=True, return_counts=True)
        if len(kinds) < a.nodes:
            kind = np.where(sizes > 1, sizes, a.nodes + 1).argmin()  # the fewest branches
            same = np.flatnonzero(colour_b == kinds[kind]).tolist()
            todo += [(colour_a, int(first[kind]), colour_b, node) for node in same]
    return False


def as_undirected(graphs: Iterable[Any], what: str) -> CheckedGraphs:
    """Checked graphs without their kinds; a directed one is refused."""
    out = as_graphs(graphs, what, kinds=False)
    for number, graph in enumerate(out):
        if graph.directed:
            raise GLNError(
                f"{what}[{number}] is directed; expected undirected graphs, which alone are compared."
            )
    return CheckedGraphs(out)


def _single_out(colour: Colours, node: int | None) -> Colours:
    """Give one node its own colour; equally coloured nodes of two graphs get the same one."""
    if node is None:
        return colour
    out = colour.copy()
    out[node : node + 1] = _mix(colour[node : node + 1] + np.uint64(1))
    return out


def _mix(x: Colours) -> Colours:
    """Spread the bits (splitmix64's last step), so that sums of the results tell multisets apart."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def novelty(training: Iterable[Any], generated: Iterable[Any]) -> Scores:
    """How many generated graphs are new and distinct; isomorphic graphs count as the same, whatever their kinds.

    ``novelty`` is the share of generated graphs that are not training graphs, ``uniqueness`` the number of
    distinct generated graphs divided by the number of generated graphs.

    Candidates are found by a Weisfeiler–Leman hash and decided by an exact isomorphism test. A pair too
    hard for the test's budget counts as the same graph, and a note says how many there were.

    Args:
        training: the graphs that the generator learned from, of any kind.
        generated: the graphs that it generated.
    """
    known, made = as_undirected(training, "training"), as_undirected(generated, "generated")
    shares, _, notes = tell_apart(known, made)
    return Scores(shares, [f"{len(made)} generated graphs, {len(known)} training graphs", *notes])


def tell_apart(known: Sequence[Graph], made: Sequence[Graph]) -> tuple[dict[str, float], set[int], list[str]]:
    """The scores of :func:`novelty`, the numbers of distinct graphs that are not known, and notes."""
    hashes = graph_hashes([*known, *made])
    known_by_hash: defaultdict[int, list[Graph]] = defaultdict(list)
    for graph, key in zip(known, hashes[: len(known)], strict=True):
        known_by_hash[key].append(graph)
    undecided = 0

    def find(graph: Graph, others: Iterable[Graph]) -> int | None:
        """The index of the first graph that is the same."""
        nonlocal undecided
        for place, other in enumerate(others):
            same = isomorphic_of(graph, other)
            undecided += same is None
            if same is not False:
                return place
        return None

    kinds: defaultdict[int, list[int]] = defaultdict(list)  # by hash: the first graph of each kind
    kind_of: list[int] = []
    for index, (graph, key) in enumerate(zip(made, hashes[len(known) :], strict=True)):
        place = find(graph, (made[kind] for kind in kinds[key]))
        if place is None:
            kinds[key].append(index)
        kind_of.append(index if place is None else kinds[key][place])
    new = {
        kind for key, group in kinds.items() for kind in group if find(made[kind], known_by_hash[key]) is None
    }
    shares = {
        "novelty": sum(kind in new for kind in kind_of) / len(made),
        "uniqueness": len(set(kind_of)) / len(made),
    }
    hard = f"{undecided} pairs were too hard to tell apart and count as the same graph"
    return shares, new, [hard] if undecided else []
