"""Graphs to view, each with its name and what was predicted for it: from families, files, runs and predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from gln.decoding.clusters import Grouping, clusters
from gln.errors import GLNError, quote
from gln.families import parse_family
from gln.graphs import as_graphs
from gln.graphs.check import as_record
from gln.graphs.convert import rename_types
from gln.graphs.pack import load_graphs
from gln.graphs.record import TYPES, Graph
from gln.inference.predict import Choice, Method
from gln.inference.steps import Seen, every_step
from gln.io import Item, ReadOptions, read_items
from gln.io.reading import Predictions, is_archive, is_table, read_archive
from gln.models.contract import Generates
from gln.models.settings import misfit
from gln.workflows import Say, Skip, silent
from gln.workflows.answers import Window
from gln.workflows.forms import drawing
from gln.workflows.methods import as_molecules, check_fit, compared, load, load_for
from gln.workflows.predict_files import Job
from gln.workflows.runs import learned_from, run_data
from gln.workflows.training_data import find_data, is_family, is_run

LARGEST, MOST_EDGES = 100_000, 500_000  # the most nodes and edges of a graph that a page shows
KEPT = 12  # noisy graphs on the way to a graph that a flow draws
MOLFILES = (".sdf", ".mol")  # whose bonds have orders
PREDICTED = 20  # the most graphs of a prediction that are shown,
PREDICTED_NODES = 50_000  # with at most this many nodes together


@dataclass(frozen=True)
class View:
    """One graph of a page."""

    graph: Graph  # the nodes; its edges count only if ``labelled``
    name: str = ""  # on the page
    labelled: bool = True  # whether the edges of ``graph`` are the truth
    labels: Sequence[str] | None = None  # names of the nodes; None: their numbers
    seen: Seen | None = None  # the prediction; None: the graph is shown as it is
    full: str = ""  # its name with that of its file, by which a prediction of several files knows it
    title: str = ""  # what else its file calls it
    symbols: Sequence[str] | None = None  # what the nodes are, drawn beside them: the elements of atoms
    clusters: np.ndarray | None = (
        None  # of every node [n], as :func:`gln.clusters` finds it in the prediction
    )
    faces: np.ndarray | None = (
        None  # triangles [f, 3] that are predicted; the true ones are the graph's ``face``
    )

    @classmethod
    def of(cls, item: Item) -> View:
        """A graph from a file; its edges are the truth, if it has any."""
        known = item.graph.edge_index is not None
        return cls(item.graph, item.label, known, item.ids, None, item.name, item.title, item.symbols)

    def clustered(self, method: Grouping) -> View:
        """The same with the clusters of what is predicted at the initial threshold."""
        graph = self.graph if self.seen is None else self.seen.answer(self.graph)
        return replace(self, clusters=clusters(graph, method).numpy())


def views_of(graphs: Iterable[Any], names: Sequence[str] | None = None) -> list[View]:
    """Views of graphs of any kind, with their edges as the truth."""
    graphs = as_graphs(graphs)
    if names is not None and len(names) != len(graphs):
        raise GLNError(f"Got {len(graphs)} graphs and {len(names)} names; give one for each graph.")
    names = [f"graph {number}" for number in range(len(graphs))] if names is None else names
    return [View(graph, name) for graph, name in zip(graphs, names, strict=True)]


def views_of_made(graphs: Sequence[Graph]) -> list[View]:
    """Views of generated graphs; of a flow that kept them, with the noisy graphs on the way."""
    kept = [Seen.forming(graph) if "forming" in graph else None for graph in graphs]
    return [
        View(graph, f"sample {number}", seen is None, seen=seen)
        for number, (graph, seen) in enumerate(zip(graphs, kept, strict=True))
    ]


def watch(
    model: Method,
    views: Sequence[View],
    *,
    steps: int | None = None,
    threshold: float | None = None,
    candidates: int | None = None,
    progress: bool = False,
) -> list[View]:
    """The views with what ``model`` predicts for their nodes after every step of its recurrence.

    Args:
        model: a model, or anything with a method ``predict(points)``, as baselines have; it does not see the edges.
        steps: how many steps of the recurrence; default: as trained.
        threshold: the initial threshold; default: the one stored with the model.
        candidates: as in :func:`gln.predict`.
        progress: show a progress bar on a terminal.
    """
    choice = Choice(threshold, steps=steps, candidates=candidates)
    graphs = [compared(model, as_record(view.graph)) for view in views]
    found = zip(views, graphs, every_step(model, graphs, choice, progress), strict=True)
    return [_shown(replace(view, graph=graph, seen=seen), seen) for view, graph, seen in found]


def _shown(view: View, seen: Seen) -> View:
    """With the faces that follow from the prediction, where the truth has faces; only what is judged, as in a score."""
    graph = view.graph
    if graph.get("face") is not None:
        from gln.decoding.faces import boundary, find_faces  # here, as it compiles loops

        where = graph.pos.numpy(force=True).astype(np.float64)
        is_open = bool(boundary(graph.face.T.numpy(force=True)).any())
        view = replace(view, faces=find_faces(where, seen.pairs, seen.chances[-1], open=is_open))
    judged = graph.get("judged")
    if judged is None:
        return view
    counts = judged[seen.graph.edge_index].sum(0) >= 2
    part = graph.some_edges(judged[graph.edge_index].sum(0) >= 2)
    return replace(view, graph=part, seen=seen.some(counts), title="only what was held out to test on")


def within_reach(
    views: Sequence[View], say: Say, largest: int = LARGEST, most: int = MOST_EDGES
) -> list[View]:
    """The views that are small enough for a page; ``say`` receives a message about the others."""
    graphs = [view.graph for view in views]
    sizes = [(graph.num_nodes, graph.num_edges // (1 if graph.directed else 2)) for graph in graphs]
    kept = [
        view for view, (nodes, edges) in zip(views, sizes, strict=True) if nodes <= largest and edges <= most
    ]
    if views and not kept:
        nodes, edges = min(sizes)
        raise GLNError(
            f"A page shows graphs of up to {largest:,} nodes and {most:,} edges, but the smallest here has "
            f"{nodes:,} nodes and {edges:,} edges; cut out a part."
        )
    if len(kept) < len(views):
        what = "1 graph is" if len(views) - len(kept) == 1 else f"{len(views) - len(kept)} graphs are"
        say(f"{what} not on the page: more than {largest:,} nodes or {most:,} edges.")
    return kept


def views_from(
    source: Sequence[str],
    options: ReadOptions,
    count: int,
    seed: int,
    skip: Skip,
    say: Say,
    model: str | None = None,
    predicted: Path | None = None,
    choice: Choice = Choice(),  # noqa: B008 - frozen
) -> tuple[list[View], str]:
    """The first ``count`` graphs of a family, of files or of a run, with a prediction, and a title for them.

    It is that of ``model``, of a run its own, or in place of it the edges in the file ``predicted``.
    """
    title = " ".join(source)
    run = source[0] if len(source) == 1 and is_run(source[0]) else None
    if run is not None and model is None and predicted is None:
        model, method = run, load(run)
        if isinstance(method, Generates) and method.kind == "sample":
            return views_of_made(method.sampled(count, seed, None, None, progress=True, keep=KEPT)), title
    if run is not None:
        views = run_views(Path(run), count, seed, skip, say)
    elif is_family(source):
        views = family_views(source[0], count, seed)
    else:
        views = list(islice(file_views(source, options, skip, say), count))
    if not views:
        raise GLNError(f"There is no graph to show in {title}; nothing was written.")
    views = within_reach(views, say)
    if predicted is not None:
        return add_predictions(views, predicted), title
    if model is None:
        return views, title
    method = load_for("predict", model)
    for view in views:
        check_fit(method, view.graph, view.name)
    views = watch(method, views, steps=choice.steps, threshold=choice.threshold, progress=True)
    return views, title if title == model else f"{model} on {title}"


def family_views(spec: str, count: int, seed: int) -> list[View]:
    """Graphs of a family, each named by its caption."""
    family = parse_family(spec)
    graphs = family.graphs(count, seed=seed)
    return views_of(graphs, [family.caption(graph) for graph in graphs])


def run_views(run: Path, count: int, seed: int, skip: Skip, say: Say) -> list[View]:
    """Graphs that a run has not learned from: new ones of its family, or the test graphs among its files."""
    facts = learned_from(run)
    if facts is None:
        raise GLNError(
            f"{run} does not say what it learned from; give graphs to view: gln view FAMILY|FILE --model {run}."
        )
    if "family" in facts:
        return family_views(facts["family"], count, seed)
    test = run_data(run, skip, say).test[:count]
    return views_of(test, [name_of(graph, number) for number, graph in enumerate(test)])


def name_of(test: Graph, number: int) -> str:
    """What a test graph is called: as in its file, if it comes from one."""
    return str(test.get("name") or f"test graph {number}")


def file_views(words: Sequence[str], options: ReadOptions, skip: Skip, say: Say) -> Iterator[View]:
    """The graphs in files, with true edges if the files have them, or with predicted ones."""
    if all(word.endswith(".safetensors") for word in words):  # stored by gln generate
        for path in map(Path, words):
            for number, graph in enumerate(load_graphs(path)):
                hard = graph.edge_prob is None
                seen = None if hard else Seen.last(graph, 0.01)
                yield View(graph, f"{path.name}#{number}", hard, seen=seen)
        return
    paths = find_data(words)
    if len(paths) == 1 and is_table(paths[0]):
        raise GLNError(
            f"{paths[0]} holds edges but no node positions; give the file of the nodes, "
            f"and this one with --predicted."
        )
    archives = [path for path in paths if is_archive(path)]
    others = [path for path in paths if path not in archives]
    if options.types is None and all(path.suffix.lower() in MOLFILES for path in others):
        options = replace(options, types="order", node_types=options.node_types or "charge")
    if others:
        for item in read_items(others, options, on_bad=skip, say=say):
            yield View.of(item)
    for path in archives:  # of gln predict: their edges are predictions
        for item in read_archive(path):
            yield _with_edges(View(item.graph, item.label, False), item.graph)


def add_predictions(views: Sequence[View], path: Path) -> list[View]:
    """The views with their edges, found by name in ``path``, a .csv or .npz from ``gln predict``."""
    found = Predictions(path)
    names = [view.full if view.full in found.names else view.name for view in views]
    if len(views) == len(found.names) == 1:
        names = found.names
    strange = next((name for name in names if name not in found.names), None)
    if strange is not None:
        raise GLNError(
            f"{path} holds no graph {quote(strange)}, but {', '.join(map(quote, found.names[:3]))}; "
            "give the files as they were given to gln predict."
        )
    return [
        _with_edges(view, found.of(name, view.graph, view.labels))
        for view, name in zip(views, names, strict=True)
    ]


def _with_edges(view: View, edges: Graph) -> View:
    for kind in TYPES:  # numbered as those of the truth, which may have others
        known, words = view.graph.get(f"{kind}_names") or (), edges.get(f"{kind}_names") or ()
        if words:
            rename_types(edges, kind, [*known, *(word for word in words if word not in known)])
    # The file does not store its threshold, but holds nothing below it.
    lowest = edges.edge_prob.numpy().min(initial=1)
    least = max(float(np.floor(lowest * 100) / 100), 0.01)
    return replace(view, seen=Seen.last(edges, least, least))


def job_items(job: Job, page: Path, say: Say) -> list[Item]:
    """The first graphs in the files of a prediction, for ``page``; ``say`` tells what is left out.

    Files that cannot be read are skipped silently: the prediction itself reports them.
    """
    items = read_items(job.paths, job.options, on_bad=silent)
    found = list(islice((item for item in items if not misfit(job.model, item.graph)), PREDICTED + 1))
    shown, nodes = [], 0
    for item in found[:PREDICTED]:
        if nodes + item.graph.num_nodes <= PREDICTED_NODES:
            shown.append(item)
            nodes += item.graph.num_nodes
    if found and not shown:
        least = min(item.graph.num_nodes for item in found)
        raise GLNError(
            f"Got --view {page} for {least:,} nodes; the page of a prediction shows up to {PREDICTED_NODES:,}: "
            "leave it out, or cut out a part."
        )
    if len(shown) < len(found):
        say(
            f"{page} shows {len(shown)} of the graphs: at most the first {PREDICTED}, "
            f"with up to {PREDICTED_NODES:,} nodes together."
        )
    return shown


def job_views(job: Job, shown: list[Item]) -> list[View]:
    """Items of a prediction with what it predicts for them."""
    if job.form is None and job.choice.top_k is None and job.known is None:
        seen = every_step(job.model, [item.graph for item in shown], job.choice)
        views = [_of_job(job, item, what) for item, what in zip(shown, seen, strict=True)]
    else:  # these change only what the last step says
        job.known_table, job.tick = job.known_edges(), silent  # the bar of the prediction is closed
        answers, cut = job.answer(Window(1, shown)).answers, job.choice.cut(job.model)
        if as_molecules(job.output):
            drawn = [(replace(View.of(item), labelled=False), drawing(one)) for item, one in answers]
            return [_with_edges(view, molecule) for view, molecule in drawn]
        views = [_of_job(job, item, Seen.last(answer, cut, floor=cut)) for item, answer in answers]
    return views if job.clusters is None else [view.clustered(job.clusters) for view in views]


def _of_job(job: Job, item: Item, seen: Seen) -> View:
    face = seen.graph.get("face")  # of a mesh
    faces = None if face is None else face.T.numpy()
    return replace(View.of(item), graph=compared(job.model, item.graph), seen=seen, faces=faces)
