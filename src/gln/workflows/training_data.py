"""Graphs that words name: of a family, or from files with edges, to train, validate and test on."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gln.errors import GLNError, instead
from gln.families import FAMILIES, parse_family
from gln.files import apart_from
from gln.graphs import split
from gln.graphs.check import check_whole
from gln.graphs.convert import share_kinds
from gln.graphs.record import KINDS, NAMES, ROWS, TYPES, Graph
from gln.io import Item, ReadOptions, Skipped, find_files, read_items
from gln.io.reading import node_files
from gln.seeds import check_seed
from gln.storage.models import find_saved
from gln.workflows import Say, Skip, silent
from gln.workflows.divide import TrainValTest, divide
from gln.workflows.methods import check_readable, put_in_words, unfit_for

if TYPE_CHECKING:
    from gln.workflows.recipe import Recipe

NO_EDGES = "it has no true edges; give a table of edges with --edges."
NONE_LABELLED = "There is no graph with true edges: none was read, or no file gives them; see --edges."

Held = Sequence[str] | None  # the files of a part, perhaps none; None: it is split off from the others


def is_family(words: Sequence[str]) -> bool:
    """Whether the words name a family; otherwise they name files."""
    return len(words) == 1 and words[0].partition(":")[0] in FAMILIES


def is_run(word: str) -> bool:
    """Whether this is the folder of a run or of a saved model."""
    return word not in FAMILIES and any(Path(word, name).is_file() for name in ("config.json", "model.json"))


def check_graphs(
    words: Sequence[str],
    options: ReadOptions,
    count: int | None = None,
    seed: int = 0,
    *,
    labelled: bool = True,
    model: str | None = None,
    skip: Skip = silent,
) -> None:
    """Refuse words that name neither a family, from which ``count`` graphs are drawn by ``seed``, nor files.

    Some of the files must be readable, if ``labelled`` with true edges, and by the saved ``model``.
    """
    if is_family(words):
        parse_family(words[0])
        if count is not None:
            check_whole("sample", "count", count, 1)
        check_seed("sample", seed)
        return
    unfit = unfit_for(model)

    def reason(item: Item) -> str | None:
        return unfit(item) if item.labelled or not labelled else NO_EDGES

    nothing = NONE_LABELLED if labelled else "None of the files can be read."
    check_readable(find_data(words), options, reason, skip, nothing)


def check_view(
    source: Sequence[str],
    options: ReadOptions,
    count: int,
    seed: int,
    model: str | None,
    predicted: Path | None,
) -> None:
    """Refuse graphs to view that are nowhere, a file that cannot be read, and a page with two predictions."""
    if not source:
        raise GLNError("Got nothing to show; name a family, files or a run.")
    if count < 1:
        raise GLNError(f"Got count={count}; expected at least 1.")
    if model is not None and predicted is not None:
        raise GLNError(
            "Got both --model and --predicted; a page shows only one of them: leave the other out."
        )
    stored = all(word.endswith(".safetensors") for word in source)
    if not stored and not (len(source) == 1 and is_run(source[0])):
        check_graphs(source, options, count, seed, labelled=False)
    if predicted is not None:
        predicted.stat()
    if model is not None:
        find_saved(model)


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
    graphs: list[Graph] = []
    bare: set[Path] = set()
    for item in read_items(paths, options, on_bad=skip, say=say):
        if not item.labelled:
            if item.path not in bare:  # reported once, however many graphs it holds
                bare.add(item.path)
                skip(Skipped(item.path, NO_EDGES))
            continue
        kinds = {name: item.graph.get(name) for name in (*KINDS, *NAMES, "directed")}
        graph = item.graph.with_edges(item.graph.edge_index, name=item.caption, **kinds)
        counted = {str(number) for number in range(graph.num_nodes + 1)}
        if item.ids is not None and not counted.issuperset(item.ids):  # more than 0 to n − 1, or 1 to n
            graph.ids = list(item.ids)
        if options.group is not None:
            if item.groups is None:
                raise GLNError(
                    f"{item.name} has no column {options.group!r}, which --group names; it is for tables."
                )
            graph.group = list(item.groups)
        graphs.append(graph)
    if not graphs:
        raise GLNError(NONE_LABELLED)
    _check_alike(graphs)
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
    words: Sequence[str], val: Held, test: Held, recipe: Recipe, skip: Skip, say: Say
) -> TrainValTest:
    """Graphs from files, divided by :func:`divide`; files that ``val`` and ``test`` name are not trained on."""

    def read(some: Held) -> list[Graph] | None:
        if not some:
            return None if some is None else []
        return read_labelled(find_data(some), recipe.read, skip, say)

    paths = node_files(find_data(words), recipe.read)
    rest = apart_from(paths, [path for some in (val, test) if some for path in find_data(some)])
    if not rest:
        raise GLNError("All files are named with --val or --test; leave some to train on.")
    if len(rest) < len(paths):
        say(
            f"{len(paths) - len(rest)} of {len(paths)} files are not trained on, as --val or --test names them"
        )
    graphs, held = read_labelled(rest, recipe.read, skip, say), [read(val), read(test)]
    everything = [*graphs, *(graph for part in held for graph in part or [])]
    _check_alike(everything)
    number_alike(everything)
    return replace(divide(graphs, recipe.patches, recipe.seed, *held), read=len(everything))


def _check_alike(graphs: Sequence[Graph]) -> None:
    first = graphs[0]
    for graph in graphs:
        for name, ours, theirs in zip(ROWS, first.widths, graph.widths, strict=True):
            if ours != theirs:
                raise GLNError(
                    f"{graph.name} has {theirs} values of {name} per node, but {first.name} has {ours}; "
                    "all graphs must have the same number."
                )
