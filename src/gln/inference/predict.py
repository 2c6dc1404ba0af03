"""Prediction: points in, graphs out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast, overload, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.graphs.batch import as_batch
from gln.graphs.check import as_record, check_graph, far_from, make_graph
from gln.graphs.columns import is_frame, is_table, node_rows
from gln.graphs.convert import as_graph, is_networkx, rename_types
from gln.graphs.record import Graph, is_a, is_data
from gln.inference.choice import AS_TRAINED, Choice
from gln.models.candidates import TREE_NODES
from gln.models.contract import (
    Replayable,
    ScoredPairs,
    ScoresCandidates,
    StructureOutput,
    check_kinds,
    kind_names,
    kinds_of,
    products,
)
from gln.models.settings import input_widths
from gln.ops.replay import Replay, padded_size
from gln.storage.models import load_model
from gln.threads import at_most, at_once, threads_for

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data

LARGE = TREE_NODES  # larger sets are processed one by one, a block of nodes at a time
_MODES = threading.Lock()
# How many ask a model, and what was in training mode before.
_ASKED: dict[nn.Module, tuple[int, list[nn.Module]]] = {}
TRIPLES = 2**26  # the most triples of nodes in a batch: GLN visits all of them in sets of up to 256 nodes


@runtime_checkable
class CanPredict(Protocol):
    """Anything that predicts a graph from points, such as a baseline; ``edge_prob`` is optional."""

    def predict(self, points: Any) -> Any: ...


@runtime_checkable
class CanSample(Protocol):
    """Anything that generates graphs, such as a sampling baseline."""

    def sample(self, count: int, seed: int = 0) -> list[Any]: ...


@runtime_checkable
class HoldsModel(Protocol):
    """Anything that has trained a model, such as a :class:`gln.GraphLearner`."""

    model_: nn.Module


Tick = Callable[[int], object]

#: A model, a baseline, or anything like one; what cannot do what is asked of it is refused in words.
Method = nn.Module | CanPredict | CanSample | HoldsModel


def as_method(model: Method | Path | str) -> Method:
    """The model itself: of a folder, of a shipped model's name, or of what holds one."""
    if isinstance(model, Path | str):
        return load_model(model)
    return model.model_ if isinstance(model, HoldsModel) else model


Row = Sequence[float]


@overload
def predict(
    model: Method | Path | str, points: np.ndarray | Tensor | Graph | Data | Sequence[Row], **choice: Any
) -> Data: ...


@overload
def predict(
    model: Method | Path | str,
    points: Batch | Sequence[np.ndarray | Tensor | Data | Sequence[Row]],
    **choice: Any,
) -> list[Data]: ...


@overload  # which our own type checker, that does not follow PyG, takes for the first
def predict(  # type: ignore[overload-cannot-match]
    model: Method | Path | str, points: Any, **choice: Any
) -> Data | list[Data]: ...


def predict(  # type: ignore[misc]  # the settings are the same in all three
    model: Method | Path | str,
    points: Any,
    *,
    threshold: float | None = None,
    top_k: int | None = None,
    known: Any = None,
    steps: int | None = None,
    candidates: int | None = None,
    batch_size: int = 32,
    type_thresholds: Sequence[float] | None = None,
) -> Data | list[Data]:
    """Predict the graph over ``points``.

    Sets of more than 4 000 nodes are processed a block of nodes at a time, with a progress bar, in memory that grows
    with the number of scored pairs; the answer is the same.

    Args:
        model: a model, the name of a shipped one, the folder of a saved one, a fitted ``GraphLearner``, or anything
            with a method ``predict(points)``, as baselines have.
        points: one row per node: an array or tensor, a list of rows, or a DataFrame, whose columns named x, y, z (and
            the like) are positions. Of other tables, the model says how many columns are positions, which come first,
            and how many are features. Or a ``Data`` or networkx graph with ``pos`` and/or ``x``, a list of any of
            these, or a PyG ``Batch``. Its ``edge_index`` is never read, unless ``known`` says so.
        threshold: a scored pair is an edge if its probability reaches this; default: the threshold stored with the
            model.
        top_k: of these edges, keep the k most probable of every node, ties included; an edge stays if either end
            keeps it. If directed, those that leave the node.
        known: the structure ``A⁰`` that the model starts from: ``True`` for the ``edge_index`` of ``points``, with
            its ``edge_type`` if the model predicts types, or pairs ``[m, 2]`` (one array per graph if ``points`` is a
            list). The answer is the model's alone: it may leave out a known edge.
        steps: how many steps of the recurrence; default: as trained.
        candidates: how many nearest nodes each node is paired with, in sets of any size; default: all in sets of up to
            128 nodes, the model's own number in larger ones. Fewer are faster, but an edge to a node that is not a
            candidate is never found.
        batch_size: graphs at a time.
        type_thresholds: one threshold for each type of edge, in place of ``threshold``: that of its most probable type
            decides about a pair.

    Returns:
        A ``Data`` with ``pos``, ``x``, ``edge_index [2, 2m]`` (both directions, sorted) and
        ``edge_prob [2m]``, the probability of each of its columns, on the CPU; a list of them for a list. If the model
        predicts them, also ``edge_type [2m]``, the most probable type of each column, ``edge_type_prob [2m, T]``,
        ``edge_weight [2m]``, ``node_type [n]`` and ``node_type_prob [n, C]``; a directed model lists each direction on
        its own, and ``directed`` is True.
    """
    each = None if type_thresholds is None else tuple(type_thresholds)
    choice = Choice(threshold, top_k, steps, candidates, batch_size, each)
    model = as_method(model)
    if is_a(points, "torch_geometric.data.Batch"):
        # Unlike to_data_list, as_batch gives the nodes whatever became of the edges since the batch was made.
        points = points.to_data_list() if known is True else as_batch(points).to_records()
    many = isinstance(points, list | tuple) and not is_table(points)
    items = list(points) if many else [points]
    structures = known if many and isinstance(known, list | tuple) else [known] * len(items)
    if len(structures) != len(items):
        raise GLNError(
            f"Got known edges for {len(structures)} of {len(items)} sets of points; give them for every set."
        )
    widths, directed = input_widths(model), kinds_of(model).directed
    graphs = [as_points(item, edges, widths, directed) for item, edges in zip(items, structures, strict=True)]
    answers = [graph.to_data() for graph in predict_graphs(model, graphs, choice, known is not None)]
    for graph, answer in zip(graphs, answers, strict=True):
        if "origin" in graph:
            answer.pos = answer.pos.double() + graph.origin
    return answers if many else answers[0]


def predict_graphs(
    model: Method,
    graphs: Sequence[Graph],
    choice: Choice = AS_TRAINED,
    start: bool = False,
    tick: Tick = lambda count: None,
) -> list[Graph]:
    """The graphs over the nodes of checked ``graphs``; with ``start``, the recurrence begins from their edges.

    ``tick`` is called with the number of graphs of every batch that is done.
    """
    if isinstance(model, nn.Module):
        answers = list(graphs)
        for number, answer in answers_one_by_one(model, graphs, choice, start):
            by_type = choice.type_thresholds is not None
            answers[number] = answer.some_edges(choice.keeps(model, answer)) if by_type else answer
            tick(1)
    elif start or any(map(choice.asks, ("steps", "candidates", "type_thresholds"))):
        raise GLNError(
            f"{type(model).__name__} does not take known, steps, candidates or type_thresholds; leave them out."
        )
    else:
        answers = [_ask(model, graph, choice.threshold) for graph in graphs]
    if choice.top_k is not None:
        answers = [keep_strongest(answer, choice.top_k) for answer in answers]
    return answers


def answers_one_by_one(
    model: nn.Module, graphs: Sequence[Graph], choice: Choice, start: bool = False
) -> Iterator[tuple[int, Graph]]:
    """The numbers of ``graphs``, in some order, each with the graph that ``model`` predicts."""
    rest: list[int] = []
    names = kind_names(model)
    if start:
        graphs = [as_record(graph) for graph in graphs]
        for graph in graphs:
            rename_types(graph, "edge_type", names.get("edge_type_names", graph.get("edge_type_names")))
        check_kinds(model, graphs, "known", learned=False)
    for number, graph in enumerate(graphs):
        if isinstance(model, ScoresCandidates) and graph.num_nodes > LARGE:
            yield number, graph.with_edges(**_large_edges(model, graph, choice, start), **names)
        else:
            rest.append(number)
    some = [graphs[number] for number in rest]
    for numbers, _, output in outputs(model, some, choice, start):
        nodes = [some[number] for number in numbers]
        answers = answers_of(output, nodes, choice.cut(model), names)
        yield from zip([rest[number] for number in numbers], answers, strict=True)


def outputs(
    model: nn.Module, graphs: Sequence[Graph], choice: Choice = AS_TRAINED, start: bool = False
) -> Iterator[tuple[list[int], GraphBatch, StructureOutput]]:
    """Batches of ``graphs``: their numbers, the batch without its edges, and the model's output.

    Large graphs come in smaller batches. With ``start``, the recurrence begins from the edges of the graphs.
    """
    if choice.candidates is not None and not isinstance(model, ScoresCandidates):
        raise GLNError(f"{type(model).__name__} takes no number of candidates; leave it out, or ask a GLN.")
    types = kinds_of(model).edge_types
    with _asking(model) as device:
        forward = Forward(model, device, choice, start)

        def ask(numbers: list[int]) -> tuple[list[int], GraphBatch, StructureOutput]:
            nodes = 0 if forward.replay is None else padded_size(graphs[numbers[-1]].num_nodes, alike=False)
            some, kinds = [graphs[number] for number in numbers], ("edge_type",) if types > 1 else ()
            batch = GraphBatch.from_graphs(some, start, kinds, nodes).to(device)
            initial = batch.adj.float() if start else None
            if batch.edge_type is not None:
                initial = (batch.edge_type[..., None] == torch.arange(types, device=device)).float()
            blind = batch.without_edges()  # what a model cannot see, it cannot copy
            with torch.no_grad(), at_most(threads_for(*batch.mask.shape[:2])):
                output = forward(blind, initial)
                _check_scores(output.logits[-1][output.mask])
            return numbers, blind, output

        batches, threads = _batches(graphs, choice.batch_size), torch.get_num_threads()
        if device.type != "cpu" or min(threads, len(batches)) < 2:
            yield from map(ask, batches)
            return
        # A batch of small graphs keeps one core busy at most, so there are several at a time.
        workers = min(threads, len(batches))
        most = max(threads_for(len(numbers), graphs[numbers[-1]].num_nodes) for numbers in batches)
        yield from at_once(ask, batches, workers, min(most, threads // workers))


def _batches(graphs: Sequence[Graph], most: int) -> list[list[int]]:
    """The numbers of the graphs in every batch: at most so many, and few of large ones; sorted, for less padding."""
    order, batches = sorted(range(len(graphs)), key=lambda number: graphs[number].num_nodes), []
    while order:
        nodes = graphs[order[min(most, len(order)) - 1]].num_nodes
        batches.append(order[: max(1, min(most, TRIPLES // nodes**3))])
        del order[: len(batches[-1])]
    return batches


class Forward:
    """The model as prediction calls it: on a GPU in bfloat16 if it trains so, and replayed where shapes repeat."""

    def __init__(
        self, model: nn.Module, device: torch.device, choice: Choice = AS_TRAINED, start: bool = False
    ) -> None:
        self.model, self.device = model, device
        self.more: dict[str, Any] = {"steps": choice.steps}
        if choice.candidates is not None:
            self.more["candidates"] = choice.candidates
        fixed = isinstance(model, Replayable) and choice.candidates is None and not start
        self.replay = Replay(self._replayed) if fixed and device.type == "cuda" else None

    def __call__(self, batch: GraphBatch, initial: Tensor | None = None) -> StructureOutput:
        with products(self.model, self.device):
            drawn = cast(Replayable, self.model).draw(batch) if self.replay is not None else None
            if self.replay is None or drawn is None:
                return self.model(batch, initial=initial, **self.more)
            with self.replay.apart():
                return self.replay(batch.of_nodes(), drawn).clone()

    def _replayed(self, nodes: dict[str, Tensor], drawn: dict[str, Tensor]) -> StructureOutput:
        batch = GraphBatch(nodes.get("pos"), nodes.get("x"), nodes["mask"], nodes["mask"]).without_edges()
        return self.model(batch, **self.more, **drawn)


@contextmanager
def _asking(model: nn.Module) -> Iterator[torch.device]:
    """Put the model into evaluation mode while any thread asks it; yields its device."""
    with _MODES:
        asking, training = _ASKED.get(model, (0, []))
        if not asking:
            training = [module for module in model.modules() if module.training]
            if training:  # to visit all modules once more takes longer than to look
                model.eval()
        _ASKED[model] = asking + 1, training
    try:
        yield next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    finally:
        with _MODES:
            asking, training = _ASKED.pop(model)
            if asking > 1:
                _ASKED[model] = asking - 1, training
            else:
                for module in training:
                    module.training = True


def _check_scores(scores: Tensor) -> None:
    if scores.isnan().any():
        raise GLNError(
            "The model's scores are NaN; its weights are broken, or the features are far from those it was trained on."
        )


def _large_edges(model: Any, graph: Graph, choice: Choice, start: bool) -> dict[str, Any]:
    """What :func:`answers_of` says of edges and nodes, for one large set, by blocks."""
    kinds = kinds_of(model)
    with _asking(model) as device:
        batch = GraphBatch.from_graphs([graph], edges=False).to(device)
        total = graph.num_nodes * model.checked_steps(choice.steps)
        with tqdm(total=total, unit="node", unit_scale=True, disable=None, leave=False) as bar:
            known, more = graph.edge_index if start else None, {}
            if start and graph.edge_type is not None and kinds.edge_types > 1:
                more = {"known_types": graph.edge_type}
            given = (batch, known, choice.steps, choice.candidates)
            with products(model, device):
                scored = model.score_set(*given, tick=bar.update, **more)
    found = chosen_edges(scored, choice.cut(model), graph.num_nodes) | _node_kinds(scored.nodes)
    return {name: value.cpu() for name, value in found.items()} | {"directed": kinds.directed}


def chosen_edges(scored: ScoredPairs, threshold: float, nodes: int) -> dict[str, Tensor]:
    """The pairs among ``nodes`` nodes that reach ``threshold``, sorted, as attributes of a graph."""
    _check_scores(scored.score)
    prob = scored.score.to(torch.promote_types(scored.score.dtype, torch.float32)).sigmoid()
    chosen = (prob >= threshold).nonzero().flatten()
    chosen = chosen[(scored.source[chosen] * nodes + scored.target[chosen]).argsort()]
    types, weights = (None if part is None else part[chosen] for part in (scored.types, scored.weights))
    found = {
        "edge_index": torch.stack([scored.source[chosen], scored.target[chosen]]),
        "edge_prob": prob[chosen],
    }
    return found | _edge_kinds(None if types is None else types.softmax(-1), weights)


def answers_of(
    output: StructureOutput,
    graphs: Sequence[Graph],
    threshold: float,
    names: Mapping[str, Any] = MappingProxyType({}),
) -> list[Graph]:
    """The nodes of ``graphs``, joined where a scored pair reaches ``threshold``: ``edge_index [2, 2m]``, sorted.

    They have ``edge_prob [2m]`` and what the model says of kinds; ``names`` are the words for types. Scores over
    candidates are never expanded into a matrix of all pairs.
    """
    output = output.full_precision()
    last = {name: steps[-1] for name in ("types", "weights") if (steps := getattr(output, name)) is not None}
    if "types" in last:
        last["types"] = last["types"].softmax(-1)
    if output.candidates is None:
        soft = output.soft_adjacency()
        graph, source, target = ((soft >= threshold) & output.mask).nonzero(as_tuple=True)
        prob = soft[graph, source, target]
        last = {name: values[graph, source, target] for name, values in last.items()}
    else:
        graph, source, target, prob, last = _listed(output, last)
        chosen = prob >= threshold
        graph, source, target, prob = graph[chosen], source[chosen], target[chosen], prob[chosen]
        last = {name: values[chosen] for name, values in last.items()}
    found = {"edge_prob": prob} | _edge_kinds(last.get("types"), last.get("weights"))
    counts = torch.bincount(graph, minlength=len(graphs)).tolist()
    parts = {name: value.cpu().split(counts) for name, value in found.items()}
    edges = torch.stack([source, target]).cpu().split(counts, dim=1)
    answers = []
    for number, nodes in enumerate(graphs):
        kinds = {name: part[number].clone() for name, part in parts.items()}
        if output.nodes is not None:
            kinds |= _node_kinds(output.nodes[-1][number, : nodes.num_nodes].cpu())
        answers.append(nodes.with_edges(edges[number].clone(), **kinds, **names, directed=output.directed))
    return answers


def _edge_kinds(chances: Tensor | None, weights: Tensor | None) -> dict[str, Tensor]:
    """The attributes of edges from the chances of every type ``[m, T]`` and the logarithms of weights ``[m]``."""
    kinds = {} if chances is None else {"edge_type": chances.argmax(-1), "edge_type_prob": chances}
    return kinds if weights is None else kinds | {"edge_weight": weights.float().clamp(-80, 80).exp()}


def _node_kinds(scores: Tensor | None) -> dict[str, Tensor]:
    """The attributes of nodes from the scores of every type ``[n, C]``."""
    return {} if scores is None else {"node_type": scores.argmax(-1), "node_type_prob": scores.softmax(-1)}


def _listed(
    output: StructureOutput, values: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
    """Graph, source, target, probability and ``values`` of the scored pairs, sorted.

    If undirected, they are the mean of both directions, of which one that was not scored has probability 0.
    """
    assert output.candidates is not None
    nodes = output.mask.shape[1]
    graph, source, slot = output.mask.nonzero(as_tuple=True)
    target = output.candidates[graph, source, slot]
    prob = output.logits[-1].sigmoid()[graph, source, slot]
    values = {name: value[graph, source, slot] for name, value in values.items()}
    forth, back = (graph * nodes + source) * nodes + target, (graph * nodes + target) * nodes + source
    if output.directed:
        key, place = forth.sort()
        prob, values = prob[place], {name: value[place] for name, value in values.items()}
    else:
        key, place = torch.cat([forth, back]).unique(return_inverse=True)

        def total(part: Tensor) -> Tensor:
            return part.new_zeros(len(key), *part.shape[1:]).index_add(0, place, torch.cat([part, part]))

        count = total(torch.ones_like(prob))
        prob, sums = total(prob) / 2, {name: total(value) for name, value in values.items()}
        values = {name: (value.movedim(0, -1) / count).movedim(-1, 0) for name, value in sums.items()}
    return key // nodes**2, key // nodes % nodes, key % nodes, prob, values


def keep_strongest(graph: Graph, count: int) -> Graph:
    """``graph`` with the ``count`` most probable edges of every node, ties included; either end can keep an edge.

    Of a directed graph, these are the edges that leave a node.
    """
    source, target = graph.edge_index
    order = graph.edge_prob.argsort(descending=True)
    order = order[source[order].argsort(stable=True)]  # by node, then from most to least probable
    degree = torch.bincount(source, minlength=graph.num_nodes)
    last = degree.cumsum(0) - degree + degree.clamp(max=count) - 1  # the last kept edge of each node
    least = graph.edge_prob[order][last.clamp(min=0)] if len(order) else graph.edge_prob
    stays = graph.edge_prob >= least[source]
    if not graph.directed:
        pair = torch.minimum(source, target) * graph.num_nodes + torch.maximum(source, target)
        stays = torch.isin(pair, pair[stays])
    return graph.some_edges(stays)


def as_points(
    item: Any, known: Any = None, widths: tuple[int, int] | None = None, directed: bool = False
) -> Graph:
    """Checked nodes with no edges, or with the known ones.

    ``widths`` as in :func:`gln.graphs.columns.node_rows`; ``directed`` says how known pairs are meant. Where large
    positions were centred, ``origin [p]`` is what was subtracted.
    """
    if is_networkx(item):
        item = as_graph(item, kinds=known is not None)
    if isinstance(item, Graph) or is_data(item):
        given = as_record(item)
        if known is True and given.edge_index is None:
            raise GLNError("Got known=True, but the Data has no edge_index; give the known edges.")
        rows: dict[str, Any] = given.rows()
        if known is True:
            kinds = {name: given.get(name) for name in ("directed", "edge_type", "edge_type_names")}
            graph = check_graph(given.with_edges(given.edge_index, **kinds))
        else:
            graph = make_graph(**rows, edges=known, num_nodes=given.num_nodes, directed=directed)
        return _with_origin(graph, rows)
    if known is True:
        raise GLNError(
            f"known=True reads the edges of a Data, but got a {type(item).__name__}; give the edges instead."
        )
    if not (isinstance(item, np.ndarray | Tensor) or is_table(item) or is_frame(item)):
        raise GLNError(
            f"Got a {type(item).__name__}; expected points as an array [n, p], a tensor, a list of rows, a DataFrame "
            "or a Data."
        )
    rows = node_rows(item, widths)
    return _with_origin(make_graph(**rows, edges=known, directed=directed), rows)


def _with_origin(graph: Graph, rows: dict[str, Any]) -> Graph:
    origin = far_from(rows["pos"]) if "pos" in rows else None
    if origin is not None:
        graph.origin = torch.tensor(origin, dtype=torch.float64)
    return graph


def _ask(model: Any, graph: Graph, threshold: float | None) -> Graph:
    if not isinstance(model, CanPredict):
        raise GLNError(f"Got a {type(model).__name__}; expected a model or an object with predict(points).")
    points = graph.with_edges(torch.empty(2, 0, dtype=torch.int64))  # what it cannot see, it cannot copy
    # Our baselines answer with our own record of a graph.
    answer = as_record(model.answer(points) if hasattr(model, "answer") else model.predict(points.to_data()))
    if answer.edge_prob is None:
        answer.edge_prob = torch.ones(answer.num_edges)
    elif threshold is not None:
        answer = answer.some_edges(answer.edge_prob >= threshold)
    return answer
