"""How a generator of graphs is judged: valid, distinct and new graphs, and, as in published tables, their MMD.

Which graphs are the same, isomorphism says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaincc

from gln.errors import GLNError
from gln.evaluation.counting import Blocks, Device
from gln.evaluation.edges import Ends, students, wilsons
from gln.evaluation.metrics import Scores
from gln.evaluation.mmd import DESCRIPTORS, Kernel, estimate
from gln.evaluation.statistics import communities, component_labels
from gln.graphs import as_graphs
from gln.graphs.convert import CheckedGraphs, to_networkx
from gln.graphs.record import Graph

Colours = NDArray[np.uint64]
ROUNDS = 16  # of refinement in the hash; graphs that only later rounds tell apart are left to the exact test
BUDGET = 1000  # colourings that one exact test may try

# Of the stochastic block models of SPECTRE: sizes and number of blocks, chances of an edge in one and between two.
SIZES, BLOCKS = (20, 40), (2, 5)
INSIDE, BETWEEN = 0.3, 0.005
PASSES = 0.9  # the least mean p-value
RESOLUTION = 0.8  # of Louvain's method; at 1, it often divides a block
TINY = 1e-6  # keeps the published formulas finite

Valid = Callable[[Graph], bool]


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


def is_connected(graph: Graph) -> bool:
    """Whether every node can be reached from every other."""
    return len(component_labels(CheckedGraphs([graph]))[0].unique()) == 1


def is_planar(graph: Graph) -> bool:
    """Whether the graph is connected and can be drawn without crossings."""
    import networkx as nx

    few = graph.num_nodes < 3 or len(graph.edges_once()) <= 3 * graph.num_nodes - 6
    return few and is_connected(graph) and nx.check_planarity(to_networkx(graph))[0]


def is_tree(graph: Graph) -> bool:
    """Whether the graph is a tree."""
    return len(graph.edges_once()) == graph.num_nodes - 1 and is_connected(graph)


def is_sbm(graph: Graph) -> bool:
    """SPECTRE's test of a stochastic block model, with blocks found by Louvain's method.

    The published numbers are with blocks found by graph-tool, which is not a dependency: where a number is to be
    compared, find the blocks with it and call :func:`fits_blocks`.
    """
    return fits_blocks(graph, communities(to_networkx(graph), RESOLUTION, seed=0))


def fits_blocks(graph: Graph, block: np.ndarray) -> bool:
    """SPECTRE's test of a stochastic block model, given the block of every node ``[n]``.

    There must be 2 to 5 blocks of 20 to 40 nodes. The share of edges within every block, and between every two, is
    compared with that of the model by Wald's statistic, as published: without the number of pairs; and the mean of the
    p-values must exceed 0.9.
    """
    names, block = np.unique(block, return_inverse=True)
    sizes = np.bincount(block)
    if not BLOCKS[0] <= len(names) <= BLOCKS[1] or sizes.min() < SIZES[0] or sizes.max() > SIZES[1]:
        return False
    source, target = graph.edge_index.numpy(force=True)
    edges = np.zeros((len(names), len(names)))
    np.add.at(edges, (block[source], block[target]), 1)  # both directions
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    share = edges / (pairs + TINY)
    wanted = np.where(np.eye(len(names), dtype=bool), INSIDE, BETWEEN)
    wald = (share - wanted) ** 2 / (share * (1 - share) + TINY)
    return float(gammaincc(0.5, wald / 2).mean()) > PASSES  # the tail of χ² with one degree of freedom


#: What is valid, by the name of a family.
VALID: Mapping[str, Valid] = {"planar": is_planar, "tree": is_tree, "sbm": is_sbm}


TABLES = ("degree", "clustering", "orbit", "spectrum", "wavelet")
GROUP = 40  # graphs that the tables compare with the test graphs
DIGITS = 4  # of the training graphs' MMD² in the ratio, as published; one of 0, as of trees' clustering, is left out


def generation_scores(
    train: Iterable[Any],
    test: Iterable[Any],
    made: Iterable[Any],
    valid: Valid | Sequence[bool] | None = None,
    *,
    group: int = GROUP,
    device: Device = None,
) -> Scores:
    """The scores of published tables (SPECTRE, DiGress, DeFoG, …), with intervals.

    ====================  ======================================================================================
    ``valid``             the share of graphs that are valid
    ``uniqueness``        distinct graphs by graphs, and ``novelty``: as in :func:`gln.novelty`
    ``vun``               distinct graphs that are valid and new, by graphs
    ``mmd_degree``, …     MMD² to the test graphs in groups of ``group``: Gaussian of total variation, biased
    ``mmd_ratio``         the mean over descriptors of this MMD² by that of the training graphs; 1 is perfect
    ====================  ======================================================================================

    Args:
        train: the graphs that the generator learned from.
        test: those that it is compared with.
        made: what it generated; graphs beyond the last whole group do not enter the MMD².
        valid: whether a graph is valid, or whether each of ``made`` is; ``None``: there is no rule.
        group: graphs compared with the test graphs at a time: a biased MMD² depends on how many there are.
        device: where to compute.
    """
    given = {"train": train, "test": test, "made": made}
    known, reference, graphs = (as_undirected(some, name) for name, some in given.items())
    if len(graphs) < group:
        raise GLNError(f"Got {len(graphs)} generated graphs; expected at least {group}, or a smaller group.")
    scores, ends, notes = _distances(known, reference, graphs, group, device)
    shares, new, hard = tell_apart(known, graphs)
    if valid is not None:
        fit = [valid(graph) for graph in graphs] if callable(valid) else list(valid)
        shares = {"valid": float(np.mean(fit))} | shares
        shares["vun"] = sum(fit[kind] for kind in new) / len(graphs)
    ends |= {name: wilsons(share, len(graphs)) for name, share in shares.items()}
    return Scores(shares | scores, [*notes, *hard], ends)


def _distances(
    train: CheckedGraphs, test: CheckedGraphs, made: CheckedGraphs, group: int, device: Device
) -> tuple[dict[str, float], dict[str, Ends], list[str]]:
    """MMD² and ratio, their intervals over groups, and notes."""
    sets = (test, train, made)
    everything = CheckedGraphs(graph for some in sets for graph in some)
    groups = len(made) // group
    member = torch.zeros(groups, len(made), dtype=torch.float64)
    member[torch.arange(groups * group) // group, torch.arange(groups * group)] = 1
    each: dict[str, np.ndarray] = {}
    floor: dict[str, float] = {}
    for name in TABLES:
        descriptor = DESCRIPTORS[name]
        kernel = Kernel("tv", descriptor.kernel.sigma)
        x, t, y = descriptor.compute(everything, device).split([len(some) for some in sets])
        xx = kernel(x, x)
        one, every = xx.new_ones(1, len(x)), xx.new_ones(1, len(t))
        floor[name] = float(estimate(xx, kernel(x, t), kernel(t, t), one, every, "biased").abs())
        found = estimate(
            xx, kernel(x, y), kernel(y, y), one.expand(groups, -1), member.to(xx.device), "biased"
        )
        each[name] = found.abs().numpy(force=True)  # the tables take the absolute value
    base = {name: round(value, DIGITS) for name, value in floor.items() if round(value, DIGITS)}
    values = {f"mmd_{name}": found for name, found in each.items()}
    if base:
        values["mmd_ratio"] = np.mean([each[name] / value for name, value in base.items()], axis=0)
    ends = {name: students(found, np.inf) for name, found in values.items()} if groups > 1 else {}
    notes = [
        f"{len(made)} generated, {len(test)} test and {len(train)} training graphs; MMD²: Gaussian TV, biased, mean "
        f"over {groups} groups of {group}",
        "MMD² of the training graphs: " + ", ".join(f"{name} {floor[name]:.2g}" for name in TABLES),
    ]
    return {name: float(found.mean()) for name, found in values.items()}, ends, notes
