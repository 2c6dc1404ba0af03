"""Graphs from files, divided into those to train, validate and test on, so that the scores are honest."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gln.errors import GLNError
from gln.graphs import split
from gln.graphs.record import Graph
from gln.graphs.split import cut_cells, cut_patches, neighbours_of, subgraph
from gln.later import torch

TEST, VAL = 0.2, 0.1  # shares of the graphs, and of what is left for training, as in gln.split
VAL_PART = 0.2  # the share for validation within graphs, where nodes are few
FEW = 10  # fewer graphs than this are cut into parts, if they may be cut at all
COVER = 8  # training patches that contain a node, on average
FEWEST_PATCHES = 64  # at least, to train on
CELLS = 8, 64  # the fewest and the most areas that a graph is cut into, to be shared out
ROOM = 4  # an area, and a piece to validate on, has room for this many patches
CHOOSE_BY = 100  # true edges to validate on; with fewer, the best epoch and threshold are near chance

Shares = tuple[float, float]  # of test and validation, as in gln.split


@dataclass(frozen=True)
class TrainValTest:
    """Graphs to train, validate and test on, in this order when unpacked.

    In a graph of which only a part belongs here, ``judged [n]`` says what is scored: pairs of nodes whose values add up
    to at least 2.
    """

    train: list[Graph]
    val: list[Graph]
    test: list[Graph]
    whole: list[Graph] = field(default_factory=list)  # what training patches were cut from; also judged
    whole_val: list[Graph] = field(default_factory=list)  # the same of the pieces to validate on
    how: str = ""  # in words, how the graphs were divided
    remarks: list[str] = field(default_factory=list)  # what a reader of the scores must know
    read: int = 0  # graphs that files gave

    def __iter__(self) -> Iterator[list[Graph]]:
        return iter((self.train, self.val, self.test))

    def sizes(self) -> str:
        """How many graphs each part has, in words."""
        return " / ".join(str(len(part)) for part in self)


def divide(
    graphs: Sequence[Graph],
    patches: int | None,
    seed: int,
    val: Sequence[Graph] | None = None,
    test: Sequence[Graph] | None = None,
) -> TrainValTest:
    """Divide graphs from files into those to train, validate and test on.

    Many graphs are split as :func:`gln.split` does, those of one ``group`` together. With ``patches``, fewer than ten
    are each divided into areas with a margin between them or, where the nodes have no positions and many edges, into
    rows drawn at random. If nodes of one graph belong to several groups, each graph is divided by group. Training
    graphs are then cut into pieces of that many nodes; test graphs stay whole, to be predicted as a user would.

    Where ``val`` or ``test`` (perhaps none) are given, these are not taken from ``graphs``.
    """
    check_patches(patches)
    shares = (TEST if test is None else 0.0, VAL if val is None else 0.0)
    inside = (shares[0], VAL_PART if val is None else 0.0)
    needed = 1 + sum(share > 0 for share in shares)
    named = [name for name, part in (("validation", val), ("test", test)) if part]
    grouped = all("group" in graph for graph in graphs)
    local = patches is None or _is_local(graphs, patches)
    if grouped and any(len(set(graph.group)) > 1 for graph in graphs):
        parts, source = _by_rows(graphs, seed, inside, grouped=True), "different groups"
    elif needed == 1:
        parts, source = TrainValTest(list(graphs), [], []), "the files named"
    elif patches is not None and len(graphs) < FEW and not grouped:
        parts = _by_area(graphs, seed, inside, patches) if local else _by_rows(graphs, seed, inside)
        source = "areas of each graph with a margin between them" if local else "rows drawn at random"
    elif len(graphs) < needed:
        nodes = " and ".join(f"{graph.num_nodes:,}" for graph in graphs)
        what = "one graph" if len(graphs) == 1 else f"{len(graphs)} graphs"
        raise GLNError(
            f"Got {what} of {nodes} nodes, which cannot be split into graphs to train and to test on; "
            "give more graphs, or cut into patches with --patches 100."
        )
    else:
        labels = [graph.group[0] for graph in graphs] if grouped else None
        parts = TrainValTest(*split(graphs, seed, *shares, labels))
        source = "different groups" if grouped else "different graphs"
    what, seen = "graphs", [_own_part(graph) for graph in parts.train]
    held = parts.val if val is None else list(val), parts.test if test is None else list(test)
    found = TrainValTest(seen, *held)
    if patches is not None:
        what = f"{'patches' if local else 'samples'} of up to {patches} nodes, larger pieces and whole graphs"
        train, pieces = _patches(seen, patches, seed, local), _pieces(found.val, ROOM * patches, local)
        found = TrainValTest(train, pieces, found.test, whole=parts.train, whole_val=found.val)
    how = f"{found.sizes()} {what} to train / validate / test, from {source}"
    if named and needed > 1:
        how += f"; {' and '.join(named)} graphs are those named"
    apart = "" if grouped else "keep records apart with --group COLUMN"
    way_out = "name other files with --test" if test else apart
    few = [] if grouped else _few_left(parts, graphs)
    remarks = [*few, *_too_few(found.val), *_shared(seen, found.test, way_out)]
    return replace(found, how=how, remarks=remarks)


def check_patches(nodes: int | None) -> None:
    """Refuse pieces without an edge."""
    if nodes is not None and nodes < 2:
        raise GLNError(f"Got patches of {nodes} nodes; expected at least 2.")


def _is_local(graphs: Sequence[Graph], patches: int) -> bool:
    """Whether near nodes make better patches than any nodes: they have positions, or too few edges to draw rows."""
    if graphs[0].widths[0]:
        return True
    kept = [graph.num_edges / graph.num_nodes * min(1, patches / graph.num_nodes) for graph in graphs]
    return min(kept) < 1  # edges per node that a random sample keeps


def _by_area(graphs: Sequence[Graph], seed: int, shares: Shares, patches: int) -> TrainValTest:
    """Share out the areas of each graph; nodes joined to another part belong to none of them.

    Every part holds the whole graph. To validate and test on, areas are judged with every pair that has an end there.
    """
    found = TrainValTest([], [], [])
    for number, graph in enumerate(graphs):
        least, most = CELLS
        cells = min(max(graph.num_nodes // (ROOM * patches), least), most)
        areas = cut_cells(graph, -(-graph.num_nodes // cells))
        if min(map(len, areas)) < 2:
            raise GLNError(
                f"The graph has {graph.num_nodes} nodes, too few for {least} areas of at least 2; give a larger graph."
            )
        drawn = split(areas, seed + number, *shares)
        train, val, test = (np.sort(np.concatenate([*part, _NONE])) for part in drawn)
        val = np.setdiff1d(val, neighbours_of(graph, test))
        train = np.setdiff1d(train, neighbours_of(graph, np.concatenate([val, test])))
        for part, nodes, value in ((found.train, train, 1), (found.val, val, 2), (found.test, test, 2)):
            if len(nodes) > 1:
                part.append(_judging(graph, nodes, value))
    return _none_empty(found, shares)


def _by_rows(graphs: Sequence[Graph], seed: int, shares: Shares, grouped: bool = False) -> TrainValTest:
    """Share out the nodes of all graphs at random, those of one group together.

    Every part holds what a user has: a whole table of rows, of which only the pairs of its own rows are judged. By
    group, a part holds its own rows alone.
    """
    sizes = [graph.num_nodes for graph in graphs]
    labels = [label for graph in graphs for label in graph.group] if grouped else None
    part_of = np.empty(sum(sizes), dtype=np.int64)
    for number, rows in enumerate(split(range(sum(sizes)), seed, *shares, labels)):
        part_of[rows] = number
    found = TrainValTest([], [], [])
    for graph, mine in zip(graphs, np.split(part_of, np.cumsum(sizes)[:-1]), strict=True):
        for number, part in enumerate(found):
            rows = (mine == number).nonzero()[0]
            if len(rows) > 1:
                part.append(subgraph(graph, rows) if grouped else _judging(graph, rows, 1))
    return _none_empty(found, shares)


_NONE = np.empty(0, dtype=np.int64)


def _judging(graph: Graph, nodes: np.ndarray, value: int) -> Graph:
    """The graph with the ``nodes`` that are judged, as :class:`TrainValTest` explains."""
    judged = torch.zeros(graph.num_nodes, dtype=torch.int64)
    judged[torch.from_numpy(nodes)] = value
    marked = copy.copy(graph)
    marked.judged = judged
    return marked


def _own_part(graph: Graph) -> Graph:
    """The judged nodes alone."""
    if "judged" not in graph:
        return graph
    part = subgraph(graph, graph.judged.nonzero().flatten().numpy())
    del part.judged
    return part


def _none_empty(parts: TrainValTest, shares: Shares) -> TrainValTest:
    for name, share in zip(("train", "test", "val"), (1.0, *shares), strict=True):
        if share and not getattr(parts, name):
            raise GLNError(
                f"Nothing is left for the part {name!r}: the graphs are too small to be divided; "
                "give larger ones, or name its files with --val and --test."
            )
    return parts


def _patches(graphs: Sequence[Graph], size: int, seed: int, local: bool) -> list[Graph]:
    """Training patches, in proportion to the nodes of each graph."""
    least = -(-FEWEST_PATCHES // len(graphs))
    cut = []
    for number, graph in enumerate(graphs):
        count = max(least, -(-COVER * graph.num_nodes // size))
        cut += cut_patches(graph, size, count, [seed, 0, number], local)
    return cut


def _pieces(graphs: Sequence[Graph], most: int, local: bool) -> list[Graph]:
    """All nodes of the validation graphs, in pieces that are large enough to look like whole graphs."""
    cut = []
    for graph in map(_own_part, graphs):
        if local:
            cells = cut_cells(graph, most)
        else:
            order = np.random.default_rng(0).permutation(graph.num_nodes)
            cells = np.array_split(order, -(-graph.num_nodes // most))
        cut += [subgraph(graph, nodes) for nodes in cells if len(nodes) > 1]
    return cut or [_own_part(graph) for graph in graphs]


def _few_left(parts: TrainValTest, graphs: Sequence[Graph]) -> list[str]:
    """A warning if most of the graphs went to validation and test."""
    train, total = len(parts.train), len(graphs)
    if train > total / 2:
        return []
    left = f"of {total} graphs, {train} {'is' if train == 1 else 'are'} left to train on"
    return [f"{left}; --patches 100 trains on areas of each, and --val and --test name files to hold out"]


def _too_few(val: Sequence[Graph]) -> list[str]:
    edges = sum(graph.num_edges for graph in val) // 2
    if edges >= CHOOSE_BY:
        return []
    nodes = sum(graph.num_nodes for graph in val)
    return [
        f"validation has {nodes:,} nodes and {edges:,} edges, too few to choose the best epoch and threshold by; "
        "name more with --val"
    ]


def _shared(train: Sequence[Graph], test: Sequence[Graph], way_out: str) -> list[str]:
    """A warning if nodes of the test graphs occur in training, by their values or their ids."""
    rows = {row for graph in train for row in _rows(graph)}
    ids = {name for graph in train for name in _ids(graph)}
    count = total = 0
    for graph in test:
        judged = graph.get("judged")
        counts = np.ones(graph.num_nodes, bool) if judged is None else judged.numpy() > 0
        seen = np.array([row in rows for row in _rows(graph)])
        if len(names := _ids(graph)):
            seen |= np.array([name in ids for name in names])
        count, total = count + int((seen & counts).sum()), total + int(counts.sum())
    if not count:
        return []
    words = f"{count:,} of {total:,} test nodes are also in training, so the scores are too good"
    return [f"{words}; {way_out}" if way_out else words]


def _rows(graph: Graph) -> list[bytes]:
    """What each node is known again by: its row, or with positions, which a grid repeats, or bare, the whole graph."""
    if graph.widths[0] or not graph.widths[1]:
        whole = graph.pos if graph.widths[0] else graph.edge_index
        return [whole.numpy().tobytes()] * graph.num_nodes
    return [row.tobytes() for row in graph.x.numpy()]


def _ids(graph: Graph) -> list[str]:
    """The names of the nodes, if rows are records; points of different graphs may have equal names."""
    return [] if graph.widths[0] else graph.get("ids") or []
