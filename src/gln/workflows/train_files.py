"""Read labelled files as graphs to train, validate and test on."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from gln.errors import GLNError
from gln.graphs import split
from gln.graphs.record import ROWS, Graph
from gln.graphs.split import cut_patches, cut_regions
from gln.io import Item, ReadOptions, Skipped, find_files, read_items

SHARES = (0.72, 0.08, 0.2)  # of the nodes of a single graph: as gln.split divides graphs
COVER = 8  # training patches that contain a node, on average; 2 for validation and test
FEWEST_PATCHES = 64  # at least, to train on


Parts = tuple[list[Graph], list[Graph], list[Graph]]


def find_data(words: Sequence[str]) -> list[Path]:
    """The files that ``words`` name; a word that names nothing may be a misspelt family."""
    from gln.families import FAMILIES

    for word in words:
        if not glob.has_magic(word) and not Path(word).exists():
            if len(words) > 1 and word.partition(":")[0] in FAMILIES:
                raise GLNError(f"Got {' '.join(words)}; expected one family, or files only.")
            raise GLNError(
                f"There is no file and no family {word!r}; families are {', '.join(sorted(FAMILIES))}."
            )
    return find_files(words)


def has_gpu(accelerator: str) -> bool:
    """Whether training will have a GPU, by Lightning's name of the accelerator."""
    return accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()


def read_labelled(
    paths: Sequence[Path],
    options: ReadOptions,
    skip: Callable[[Skipped], None],
    say: Callable[[str], None],
) -> list[Graph]:
    """The graphs of all files that have edges; files without edges, or that cannot be read, are skipped."""
    items = []
    bare: set[Path] = set()
    for item in read_items(paths, options, on_bad=skip, say=say):
        if item.labelled:
            items.append(item)
        elif item.path not in bare:  # reported once, however many graphs it holds
            bare.add(item.path)
            skip(Skipped(item.path, "it has no true edges; give a table of edges with --edges."))
    if not items:
        raise GLNError(
            "There is no graph with true edges: none was read, or no file gives them; see --edges."
        )
    _check_alike(items)
    return [_plain(item.graph) for item in items]


def divide(graphs: Sequence[Graph], patches: int | None, seed: int) -> tuple[Parts, str]:
    """Graphs to train, validate and test on, and a description of how they were divided.

    The graphs are split first; with ``patches`` they are then cut into pieces of that many nodes, so that the pieces of
    a graph stay together. Fewer than three graphs cannot be split: each is cut into three regions that share no node.
    """
    if patches is not None and patches < 2:
        raise GLNError(f"Got patches of {patches} nodes; expected at least 2.")
    if len(graphs) >= 3:
        parts, source = split(graphs, seed=seed), "different graphs"
    elif patches is None:
        raise GLNError(_cannot_split(graphs))
    else:
        regions = [cut_regions(graph, SHARES) for graph in graphs]
        train, val, test = (list(part) for part in zip(*regions, strict=True))
        parts, source = (train, val, test), "regions that share no node"
    if patches is not None:
        parts = (
            _patches(parts[0], patches, COVER, FEWEST_PATCHES, [seed, 0]),
            _patches(parts[1], patches, 2, 1, [seed, 1]),
            _patches(parts[2], patches, 2, 1, [seed, 2]),
        )
    sizes = " / ".join(str(len(part)) for part in parts)
    what = "graphs" if patches is None else f"patches of up to {patches} nodes"
    return parts, f"{sizes} {what} to train / validate / test, from {source}"


def _patches(graphs: Sequence[Graph], size: int, cover: int, least: int, seed: Sequence[int]) -> list[Graph]:
    """Cut patches in proportion to the nodes of each graph."""
    least = -(-least // len(graphs))
    cut = []
    for number, graph in enumerate(graphs):
        count = max(least, -(-cover * graph.num_nodes // size))
        cut += cut_patches(graph, size, count, [*seed, number])
    return cut


def _cannot_split(graphs: Sequence[Graph]) -> str:
    nodes = " and ".join(f"{graph.num_nodes:,}" for graph in graphs)
    what = "one graph" if len(graphs) == 1 else f"{len(graphs)} graphs"
    return (
        f"Got {what} of {nodes} nodes, which cannot be split into graphs to train and to test on; "
        "give more graphs, or cut into patches with --patches 100."
    )


def _check_alike(items: Sequence[Item]) -> None:
    first = items[0]
    for item in items:
        for name, ours, theirs in zip(ROWS, first.graph.widths, item.graph.widths, strict=True):
            if ours != theirs:
                raise GLNError(
                    f"{item.name} has {theirs} values of {name} per node, but {first.name} has {ours}; "
                    "all graphs must have the same number."
                )


def _plain(graph: Graph) -> Graph:
    """``graph`` without attributes that only some files have."""
    return graph.with_edges(graph.edge_index)
