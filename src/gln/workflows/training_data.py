"""Graphs to train, validate and test on: of a family, or from labelled files."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gln.errors import GLNError
from gln.families import FAMILIES, parse_family
from gln.graphs import split
from gln.graphs.record import ROWS, Graph
from gln.graphs.split import cut_patches, cut_regions
from gln.io import Item, ReadOptions, Skipped, find_files, read_items
from gln.workflows import Say, Skip

SHARES = (0.72, 0.08, 0.2)  # of the nodes of a single graph: as gln.split divides graphs
COVER = 8  # training patches that contain a node, on average; 2 for validation and test
FEWEST_PATCHES = 64  # at least, to train on
NO_EDGES = "it has no true edges; give a table of edges with --edges."


class TrainValTest(NamedTuple):
    """Graphs to train, validate and test on."""

    train: list[Graph]
    val: list[Graph]
    test: list[Graph]

    def sizes(self) -> str:
        """How many graphs each part has, in words."""
        return " / ".join(str(len(part)) for part in self)


def is_family(words: Sequence[str]) -> bool:
    """Whether the words name a family; otherwise they name files."""
    return len(words) == 1 and words[0].partition(":")[0] in FAMILIES


def family_data(spec: str, count: int | None, seed: int) -> TrainValTest:
    """Graphs of a family; without ``count``, the paper's number of graphs or 1200."""
    family = parse_family(spec)
    total = (family.paper_count or 1200) if count is None else count
    return TrainValTest(*split(family.graphs(total, seed=seed), seed=seed))


def find_data(words: Sequence[str]) -> list[Path]:
    """The files that ``words`` name; a word that names nothing may be a misspelt family."""
    for word in words:
        if not glob.has_magic(word) and not Path(word).exists():
            if len(words) > 1 and word.partition(":")[0] in FAMILIES:
                raise GLNError(f"Got {' '.join(words)}; expected one family, or files only.")
            raise GLNError(
                f"There is no file and no family {word!r}; families are {', '.join(sorted(FAMILIES))}."
            )
    return find_files(words)


def read_labelled(paths: Sequence[Path], options: ReadOptions, skip: Skip, say: Say) -> list[Graph]:
    """The graphs of all files that have edges; files without edges, or that cannot be read, are skipped."""
    items = []
    bare: set[Path] = set()
    for item in read_items(paths, options, on_bad=skip, say=say):
        if item.labelled:
            items.append(item)
        elif item.path not in bare:  # reported once, however many graphs it holds
            bare.add(item.path)
            skip(Skipped(item.path, NO_EDGES))
    if not items:
        raise GLNError(
            "There is no graph with true edges: none was read, or no file gives them; see --edges."
        )
    _check_alike(items)
    # Without what only some files have.
    return [item.graph.with_edges(item.graph.edge_index, name=item.caption) for item in items]


def check_patches(nodes: int | None) -> None:
    """Refuse pieces without an edge."""
    if nodes is not None and nodes < 2:
        raise GLNError(f"Got patches of {nodes} nodes; expected at least 2.")


def divide(graphs: Sequence[Graph], patches: int | None, seed: int) -> tuple[TrainValTest, str]:
    """Graphs to train, validate and test on, and a description of how they were divided.

    The graphs are split first; with ``patches`` they are then cut into pieces of that many nodes, so that the pieces of
    a graph stay together. Fewer than three graphs cannot be split: each is cut into three regions that share no node.
    """
    check_patches(patches)
    parts: Sequence[list[Graph]]
    if len(graphs) >= 3:
        parts, source = split(graphs, seed=seed), "different graphs"
    elif patches is None:
        nodes = " and ".join(f"{graph.num_nodes:,}" for graph in graphs)
        what = "one graph" if len(graphs) == 1 else f"{len(graphs)} graphs"
        raise GLNError(
            f"Got {what} of {nodes} nodes, which cannot be split into graphs to train and to test on; "
            "give more graphs, or cut into patches with --patches 100."
        )
    else:
        parts = list(map(list, zip(*(cut_regions(graph, SHARES) for graph in graphs), strict=True)))
        source = "regions that share no node"
    what = "graphs"
    if patches is not None:
        what = f"patches of up to {patches} nodes"
        amounts = ((COVER, FEWEST_PATCHES), (2, 1), (2, 1))
        parts = [
            _patches(part, patches, *amount, [seed, number])
            for number, (part, amount) in enumerate(zip(parts, amounts, strict=True))
        ]
    data = TrainValTest(*parts)
    return data, f"{data.sizes()} {what} to train / validate / test, from {source}"


def _patches(graphs: Sequence[Graph], size: int, cover: int, least: int, seed: Sequence[int]) -> list[Graph]:
    """Cut patches in proportion to the nodes of each graph."""
    least = -(-least // len(graphs))
    cut = []
    for number, graph in enumerate(graphs):
        count = max(least, -(-cover * graph.num_nodes // size))
        cut += cut_patches(graph, size, count, [*seed, number])
    return cut


def _check_alike(items: Sequence[Item]) -> None:
    first = items[0]
    for item in items:
        for name, ours, theirs in zip(ROWS, first.graph.widths, item.graph.widths, strict=True):
            if ours != theirs:
                raise GLNError(
                    f"{item.name} has {theirs} values of {name} per node, but {first.name} has {ours}; "
                    "all graphs must have the same number."
                )
