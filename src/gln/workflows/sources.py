"""Graphs to view: from families, files, runs, and from what ``gln predict`` has just written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from gln.errors import GLNError
from gln.families import FAMILIES, parse_family
from gln.graphs import split
from gln.graphs.pack import load_graphs
from gln.io import Item, ReadOptions, Skipped, find_files, read_items
from gln.io.predictions import is_archive, is_table, read_predictions, seen_in
from gln.seeds import TEST_SEED
from gln.storage.tensors import read_json, write_json
from gln.viewing.pages import check_page, write_page
from gln.viewing.views import View, of_answer, views_of, watch
from gln.workflows.fitness import misfit
from gln.workflows.predict_files import Job, ask
from gln.workflows.recipe import Recipe
from gln.workflows.train_files import Parts, divide, find_data, read_labelled

PREDICTED = 20  # the most graphs of a prediction that are shown,
PREDICTED_NODES = 10_000  # with at most this many nodes together
DATA, RECIPE = "data.json", "recipe.json"  # in a run folder: what the run learned from

Say = Callable[[str], None]
Skip = Callable[[Skipped], None]


def family_views(spec: str, count: int, seed: int = TEST_SEED) -> list[View]:
    """Graphs of a family, each named by its caption."""
    family = parse_family(spec)
    graphs = family.graphs(count, seed=seed)
    return views_of(graphs, [family.caption(graph) for graph in graphs])


def file_views(words: Sequence[str], options: ReadOptions, count: int, skip: Skip, say: Say) -> list[View]:
    """The first ``count`` graphs in files, with true edges if the files have them, or with predicted ones."""
    return list(islice(_read(words, options, skip, say), count))


def _read(words: Sequence[str], options: ReadOptions, skip: Skip, say: Say) -> Iterator[View]:
    if all(word.endswith(".safetensors") for word in words):
        for word in words:
            yield from _stored(Path(word))
        return
    paths = find_data(words)
    if len(paths) == 1 and is_table(paths[0]):
        raise GLNError(
            f"{paths[0]} holds edges but no node positions; give the file of the nodes, "
            f"and this one with --predicted."
        )
    archives = [path for path in paths if is_archive(path)]
    others = [path for path in paths if path not in archives]
    if others:
        yield from map(_view, read_items(others, options, on_bad=skip, say=say))
    for path in archives:
        yield from _predicted(path, options, skip, say)


def _view(item: Item) -> View:
    """The item with the edges that its file gives, the truth or a prediction."""
    return View(item.graph, item.name, item.graph.get("edge_index") is not None, item.ids)


def _stored(path: Path) -> Iterator[View]:
    """Graphs stored by ``gln generate``, with edge probabilities if they have them."""
    for number, graph in enumerate(load_graphs(path)):
        name = f"{path.name}#{number}"
        if graph.get("edge_prob") is None:
            yield View(graph, name)
        else:
            yield View(graph, name, False, seen=of_answer(graph, 0.01))


def _predicted(path: Path, options: ReadOptions, skip: Skip, say: Say) -> Iterator[View]:
    """The graphs of an archive written by ``gln predict``: read like any archive, but their edges are predictions."""
    found = read_predictions(path)
    items = list(read_items([path], options, on_bad=skip, say=say))
    if len(items) != len(found):
        raise GLNError(f"{path} holds {len(items)} graphs and {len(found)} names; write it again.")
    for item, (name, edges) in zip(items, found.items(), strict=True):
        view = View(item.graph, name, False)
        yield replace(view, seen=seen_in(view, edges, path))


@contextmanager
def noting_data(
    run: Path, words: Sequence[str], count: int | None, seed: int, recipe: Recipe | None
) -> Iterator[None]:
    """When the training inside ends or is interrupted, record in the run folder what the run learned from."""
    try:
        yield
    except KeyboardInterrupt:
        if run.is_dir():
            _note_data(run, words, count, seed, recipe)
        raise
    _note_data(run, words, count, seed, recipe)


def _note_data(run: Path, words: Sequence[str], count: int | None, seed: int, recipe: Recipe | None) -> None:
    if recipe is None:
        write_json(run / DATA, {"family": words[0], "count": count, "seed": seed})
    else:
        write_json(run / DATA, {"files": [str(Path(word).absolute()) for word in words]})
        recipe.save(run / RECIPE)


def run_views(run: Path, count: int, seed: int, skip: Skip, say: Say) -> list[View]:
    """Graphs that a run has not learned from: new ones of its family, or the test graphs among its files."""
    facts = _read_data(run)
    if facts is None:
        raise GLNError(
            f"{run} does not say what it learned from; give graphs to view: gln view FAMILY|FILE --model {run}."
        )
    if "family" in facts:
        return family_views(facts["family"], count, seed)
    test = run_parts(run, skip, say)[2][:count]
    return views_of(test, [f"test graph {number}" for number in range(len(test))])


def run_parts(run: Path, skip: Skip, say: Say) -> Parts:
    """The graphs that ``gln train`` trained, validated and tested this run on, sampled or read again."""
    facts = _read_data(run)
    if facts is None:
        raise GLNError(f"{run} does not say what it learned from.")
    if "family" in facts:
        return family_parts(facts["family"], facts.get("count"), facts.get("seed", 0))
    recipe = Recipe.load(run / RECIPE)
    graphs = read_labelled(find_data([str(file) for file in facts["files"]]), recipe.read, skip, say)
    return divide(graphs, recipe.patches, recipe.seed)[0]


def _read_data(run: Path) -> dict[str, Any] | None:
    """What :func:`noting_data` wrote; ``None`` if it wrote nothing."""
    facts = read_json(run / DATA) if (run / DATA).exists() else {}
    known = isinstance(facts.get("family"), str) or isinstance(facts.get("files"), list)
    return facts if known else None


def learned_from(run: Path, paths: Sequence[Path]) -> list[Path]:
    """Which of ``paths`` are among the files that a run was trained, validated and tested on."""
    facts = _read_data(run) if run.is_dir() else None
    known: set[Path] = set()
    for word in (facts or {}).get("files", []):
        with suppress(GLNError):  # the file has been moved
            known |= {file.resolve() for file in find_files([str(word)])}
    return [path for path in paths if path.resolve() in known]


def family_parts(spec: str, count: int | None, seed: int) -> Parts:
    """Graphs of a family to train, validate and test on; without ``count``, the paper's number of graphs or 1200."""
    family = parse_family(spec)
    total = (family.paper_count or 1200) if count is None else count
    return split(family.graphs(total, seed=seed), seed=seed)


def is_run(word: str) -> bool:
    """Whether this is the folder of a run or of a saved model."""
    return word not in FAMILIES and any(
        (Path(word) / name).is_file() for name in ("config.json", "model.json")
    )


def check_fit(model: Any, views: Iterable[View]) -> None:
    """Refuse nodes that the model cannot read."""
    for view in views:
        wrong = misfit(model, view.graph)
        if wrong is not None:
            raise GLNError(f"{view.name}: {wrong}")


def page_of_files(job: Job, page: Path, title: str = "gln predict", say: Say = print) -> Path | None:
    """Write the page of a prediction, with the first graphs of its files; ``None`` if none can be shown.

    Files that cannot be read are skipped silently: the prediction itself has reported them. ``say`` receives messages
    about what the page leaves out.
    """
    check_page(page)
    items = read_items(job.paths, job.options, on_bad=lambda _: None)
    found = list(islice((item for item in items if not misfit(job.model, item.graph)), PREDICTED + 1))
    shown = _first(found)
    if not shown:
        say(
            f"{page} is not written: the page of a prediction shows graphs of up to {PREDICTED_NODES:,} nodes."
        )
        return None
    if len(shown) < len(found):
        say(
            f"{page} shows {len(shown)} of the graphs: at most the first {PREDICTED}, "
            f"with up to {PREDICTED_NODES:,} nodes together."
        )
    return write_page(page, _answered(job, shown), title)


def _first(items: Sequence[Item]) -> list[Item]:
    """The first items that fit into one page."""
    shown: list[Item] = []
    nodes = 0
    for item in items[:PREDICTED]:
        if nodes + item.graph.num_nodes <= PREDICTED_NODES:
            shown.append(item)
            nodes += item.graph.num_nodes
    return shown


def _answered(job: Job, items: list[Item]) -> list[View]:
    """The items with what the job predicts: every step, or only the last if ``top_k`` or known edges change it."""
    model, choice, views = job.model, job.choice, [_view(item) for item in items]
    if choice.top_k is None and job.known is None:
        return watch(
            model, views, steps=choice.steps, threshold=choice.threshold, candidates=choice.candidates
        )
    cut = float(getattr(model, "threshold", 0.5) if choice.threshold is None else choice.threshold)
    seen = [of_answer(answer, cut, floor=cut) for answer in ask(model, items, choice, job.known_edges())]
    return [replace(view, seen=what) for view, what in zip(views, seen, strict=True)]
