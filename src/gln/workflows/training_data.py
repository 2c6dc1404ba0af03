"""Graphs to train, validate and test on: of a family, or from labelled files."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gln.errors import GLNError, instead
from gln.families import FAMILIES, parse_family
from gln.files import apart_from
from gln.graphs import split
from gln.graphs.kinds import TYPES, share_kinds
from gln.graphs.record import KINDS, NAMES, ROWS, Graph
from gln.io import Item, ReadOptions, Skipped, find_files, read_items
from gln.io.reading import node_files
from gln.workflows import Say, Skip
from gln.workflows.divide import TrainValTest, divide
from gln.workflows.methods import put_in_words

NO_EDGES = "it has no true edges; give a table of edges with --edges."
NONE_LABELLED = "There is no graph with true edges: none was read, or no file gives them; see --edges."

Held = Sequence[str] | None  # the files of a part, perhaps none; None: it is split off from the others


def is_family(words: Sequence[str]) -> bool:
    """Whether the words name a family; otherwise they name files."""
    return len(words) == 1 and words[0].partition(":")[0] in FAMILIES


def family_data(spec: str, count: int | None, seed: int) -> TrainValTest:
    """Graphs of a family; without ``count``, the paper's number of graphs or 1200."""
    family = parse_family(spec)
    total = (family.paper_count or 1200) if count is None else count
    return TrainValTest(*split(family.graphs(total, seed=seed), seed=seed, val=family.val_share))


def find_data(words: Sequence[str]) -> list[Path]:
    """The files that ``words`` name; a word that names nothing may be a misspelt family."""
    for word in words:
        if not glob.has_magic(word) and not Path(word).exists():
            if word.partition(":")[0] in FAMILIES:
                raise GLNError(f"Got {' '.join(words)}; expected one family, or files only.")
            family = instead(word.partition(":")[0], sorted(FAMILIES))
            raise GLNError(f"There is no file and no family {word!r}; {family}")
    return find_files(words)


def read_labelled(paths: Sequence[Path], options: ReadOptions, skip: Skip, say: Say) -> list[Graph]:
    """The graphs of all files that have edges; files without edges, or that cannot be read, are skipped.

    Where a file names its nodes, and does not only count them, the graph has their ``ids``, and with ``options.group``
    the ``group`` of each.
    """
    items = []
    bare: set[Path] = set()
    for item in read_items(paths, options, on_bad=skip, say=say):
        if item.labelled:
            items.append(item)
        elif item.path not in bare:  # reported once, however many graphs it holds
            bare.add(item.path)
            skip(Skipped(item.path, NO_EDGES))
    if not items:
        raise GLNError(NONE_LABELLED)
    _check_alike(items)
    graphs = [_labelled(item, options.group) for item in items]
    number_alike(graphs)
    return graphs


def number_alike(graphs: Sequence[Graph]) -> None:
    """Give graphs from files one numbering of their types, in place.

    Where whole numbers are words in some graphs, as these have negative ones, they are words in all.
    """
    for kind in TYPES:
        names, typed = f"{kind}_names", [graph for graph in graphs if kind in graph]
        words = {word for graph in typed for word in graph.get(names) or ()}
        for graph in typed:
            if words and all(word.lstrip("-").isdecimal() for word in words):
                put_in_words(graph, kind)
    share_kinds(graphs)


def file_data(
    words: Sequence[str],
    val: Held,
    test: Held,
    *,
    options: ReadOptions,
    patches: int | None,
    seed: int,
    skip: Skip,
    say: Say,
) -> TrainValTest:
    """Graphs from files, divided by :func:`divide`; files that ``val`` and ``test`` name are not trained on."""

    def read(some: Held) -> list[Graph] | None:
        return read_labelled(find_data(some), options, skip, say) if some else None if some is None else []

    paths = node_files(find_data(words), options)
    rest = apart_from(paths, [path for some in (val, test) if some for path in find_data(some)])
    if not rest:
        raise GLNError("All files are named with --val or --test; leave some to train on.")
    if len(rest) < len(paths):
        say(
            f"{len(paths) - len(rest)} of {len(paths)} files are not trained on, as --val or --test names them"
        )
    graphs, held = read_labelled(rest, options, skip, say), [read(val), read(test)]
    for part in held:
        for graph in part or []:
            if graph.widths != graphs[0].widths:
                raise GLNError(
                    f"The training graphs have {graphs[0].widths} values of pos and x per node, but those named with "
                    f"--val or --test have {graph.widths}; all graphs must have the same number."
                )
    number_alike([*graphs, *(graph for part in held for graph in part or [])])
    divided = divide(graphs, patches, seed, *held)
    return replace(divided, read=len(graphs) + sum(len(part or []) for part in held))


def _labelled(item: Item, group: str | None) -> Graph:
    kinds = {name: item.graph.get(name) for name in (*KINDS, *NAMES, "directed")}
    graph = item.graph.with_edges(item.graph.edge_index, name=item.caption, **kinds)
    counted = {str(number) for number in range(graph.num_nodes + 1)}
    if item.ids is not None and not counted.issuperset(item.ids):  # more than 0 to n − 1, or 1 to n
        graph.ids = list(item.ids)
    if group is not None:
        if item.groups is None:
            raise GLNError(f"{item.name} has no column {group!r}, which --group names; it is for tables.")
        graph.group = list(item.groups)
    return graph


def _check_alike(items: Sequence[Item]) -> None:
    first = items[0]
    for item in items:
        for name, ours, theirs in zip(ROWS, first.graph.widths, item.graph.widths, strict=True):
            if ours != theirs:
                raise GLNError(
                    f"{item.name} has {theirs} values of {name} per node, but {first.name} has {ours}; "
                    "all graphs must have the same number."
                )
