"""Edge scores: the ratios of their counts and average precision, also over lists of edges; intervals of their means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy.special import ndtri, stdtrit
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation.kinds import Matched, kinds_of_pairs
from gln.evaluation.metrics import POOLED, Scores
from gln.graphs.batch import real
from gln.graphs.check import check_choice
from gln.graphs.convert import as_graph_pairs
from gln.graphs.record import Graph

Entries = Literal["pairs", "directed", "all"]


def ratios(found: Tensor, predicted: Tensor, true: Tensor, entries: Tensor) -> dict[str, Tensor]:
    """Scores from counts of any shape: true edges found, edges predicted, true edges, entries.

    Where a ratio is 0/0: all scores are 1 if there was nothing to find and nothing was predicted; otherwise
    precision without predictions and recall without true edges are 0.
    """
    nothing = real((predicted + true) == 0)

    def ratio(part: Tensor, whole: Tensor) -> Tensor:
        return torch.where(whole > 0, real(part) / real(whole.clamp(min=1)), nothing)

    return {
        "accuracy": ratio(entries - predicted - true + 2 * found, entries),
        "iou": ratio(found, predicted + true - found),
        "dice": ratio(2 * found, predicted + true),
        "precision": ratio(found, predicted),
        "recall": ratio(found, true),
    }


def average_precision(score: Tensor, truth: Tensor, valid: Tensor) -> Tensor:
    """Σ (Rₖ − Rₖ₋₁) Pₖ over the distinct scores of each row ``[B, P]``: ``[B]``, 0 without true edges."""
    score = score.masked_fill(~valid, -1)  # what does not count comes last
    score, order = score.sort(dim=1, descending=True)
    hit = truth.gather(1, order)
    found = hit.cumsum(1)  # true edges among the first k
    place = torch.arange(score.shape[1], device=score.device).expand_as(score)
    # Equal scores enter together: an edge is judged at the last place of its tie.
    tied = torch.zeros_like(hit)
    tied[:, :-1] = score[:, 1:] == score[:, :-1]
    last = place.masked_fill(tied, score.shape[1]).flip(1).cummin(1).values.flip(1)
    precision = real(found.gather(1, last)) / real(last + 1)
    return (precision * hit).sum(1) / hit.sum(1).clamp(min=1)


PER_GRAPH = ("accuracy", "iou", "dice", "precision", "recall", "average_precision", "exact")


def per_graph(counts: Tensor, precision: Tensor) -> Tensor:
    """The scores :data:`PER_GRAPH` from the ``counts [4, B]`` of :func:`ratios` and AP ``[B]``: ``[7, B]``.

    Without true edges, average precision is 1 if nothing was predicted and 0 otherwise, as the other ratios are.
    """
    found, predicted, true, _ = counts
    scores = ratios(*counts)
    scores["average_precision"] = torch.where(true > 0, precision, scores["recall"])
    scores["exact"] = real((found == predicted) & (found == true))
    return torch.stack([scores[name] for name in PER_GRAPH])


def named(means: Tensor, counts: Tensor) -> dict[str, Tensor]:
    """The mean scores :data:`PER_GRAPH` ``[7]``, and the ratios of the ``counts [4]`` of all graphs, by name."""
    pooled = {POOLED + name: value for name, value in ratios(*counts).items()}
    return dict(zip(PER_GRAPH, means, strict=True)) | pooled


def edge_scores(true: Iterable[Any], predicted: Iterable[Any], entries: Entries = "pairs") -> Scores:
    """The scores of :class:`gln.evaluation.EdgeScores` for graphs of any kind and size, in time O(edges).

    Args:
        true: the true graphs: PyG, networkx, numpy, scipy or torch.
        predicted: one graph per true graph, on the same nodes. If a ``Graph`` has ``edge_prob [2m]``, one
            probability per column of its ``edge_index``, this ranks the edges for average precision (with
            ``"pairs"``, by the mean of both directions); otherwise every edge has probability 1. A pair
            without an edge has probability 0.
        entries: ``"pairs"`` counts unordered pairs i < j, or, if a graph is directed, ``"directed"``, the ordered
            pairs i ≠ j, each direction on its own; ``"all"`` the n² entries, diagonal included.

    Where both have kinds, the scores of :func:`gln.evaluation.kind_scores` are among them.
    """
    truths, guesses = as_graph_pairs(true, predicted)
    entries = _entries(entries, truths, guesses)
    table, values = _table(truths, guesses, entries)
    kinds = kinds_of_pairs(truths, guesses)
    notes = [f"{table.shape[1]} graphs, {_OVER[entries]}"]
    return Scores({**named(values.mean(1), table.sum(1)), **kinds}, notes, tables=kinds.tables)


_OVER: dict[Entries, str] = {
    "pairs": "over unordered pairs",
    "directed": "over ordered pairs",
    "all": "over all n² entries, diagonal included",
}


def _entries(entries: Entries, *sets: Sequence[Graph]) -> Entries:
    """``"directed"`` for the pairs of graphs of which one is directed."""
    check_choice("edge_scores", "entries", entries, get_args(Entries))
    directed = any(graph.directed for graphs in sets for graph in graphs)
    return "directed" if entries == "pairs" and directed else entries


def score_table(true: Iterable[Any], predicted: Iterable[Any]) -> tuple[Tensor, Tensor]:
    """For every graph, the counts of :func:`ratios` ``[4, G]`` and the scores :data:`PER_GRAPH` ``[7, G]``."""
    truths, guesses = as_graph_pairs(true, predicted)
    return _table(truths, guesses, _entries("pairs", truths, guesses))


def _table(truths: Sequence[Graph], guesses: Sequence[Graph], entries: Entries) -> tuple[Tensor, Tensor]:
    counts, precisions = [], []
    for index, (truth, guess) in enumerate(zip(truths, guesses, strict=True)):
        pair = Matched(truth, guess, directed=entries != "pairs")
        total = pair.nodes**2 if entries == "all" else pair.pairs
        counts.append([len(pair.both[1]), len(pair.found), len(pair.true), total])
        score = _chances(guess, f"predicted[{index}]", entries)[pair.found]
        hit = torch.from_numpy(np.isin(pair.found, pair.both[1]))
        precisions.append(_sparse_average_precision(score, hit, len(pair.true), total))
    table = torch.tensor(counts).T
    return table, per_graph(table, torch.tensor(precisions, dtype=torch.float64))


def _chances(graph: Graph, what: str, entries: Entries) -> Tensor:
    """The probability of every column of ``edge_index``; with ``"pairs"``, the mean of both directions."""
    source, target = graph.edge_index.cpu()
    values = graph.get("edge_prob")
    values = torch.ones(len(source)) if values is None else torch.as_tensor(values, dtype=torch.float64).cpu()
    if values.shape != source.shape:
        raise GLNError(
            f"{what}: edge_prob has shape {list(values.shape)}, expected one value for each of the "
            f"{len(source)} columns of edge_index."
        )
    if not ((values >= 0) & (values <= 1)).all():
        raise GLNError(f"{what}: edge_prob holds NaN or values outside 0 to 1; expected probabilities.")
    if entries != "pairs":
        return values
    # The columns are sorted, so sorting them by their reverse lists the reverse of every column in order.
    return (values + values[(target * graph.num_nodes + source).argsort()]) / 2


def _sparse_average_precision(score: Tensor, hit: Tensor, true: int, total: int) -> float:
    """AP ``(Σ precision at each true edge) / true`` where all entries not listed tie at score 0."""
    if not true:
        return 0.0
    listed = score > 0
    hits = int(hit[listed].sum())
    among_listed = average_precision(score[None, listed], hit[None, listed], listed[None, listed])
    # Those at score 0 come last, all together: the precision there is that of taking every entry.
    return (float(among_listed) * hits + (true - hits) * true / total) / true


DRAWS = 200
MANY = 10  # from this many graphs on, they vary enough to speak for themselves
COVERED = 0.95

Ends = tuple[float, float]


def score_intervals(
    values: Mapping[str, Sequence[float]], true: Sequence[Graph], predicted: Sequence[Graph]
) -> dict[str, Ends]:
    """95 % intervals of the means of ``values``, one value per graph: what other graphs like these would give.

    From ten graphs on, these are Student's. Of fewer, graphs and their nodes are drawn with replacement (the vertex
    bootstrap of Snijders and Borgatti, 1999); scores that are not ratios of counted edges then have no interval. Shares
    have Wilson's: that of graphs exactly right and, as nothing else can be drawn from what has no mistake, a score of 0
    or 1 of few graphs, with one trial for every node that has an edge.
    """
    rng, count = np.random.default_rng(0), len(true)
    if count >= MANY:
        found = {name: students(np.asarray(value)) for name, value in values.items()}
        if "exact" in values:
            found["exact"] = wilsons(float(np.mean(values["exact"])), count)
        return found
    each = [torch.tensor(list(_draw_nodes(*pair, rng))) for pair in zip(true, predicted, strict=True)]
    scores = ratios(*torch.stack(each).permute(2, 1, 0))  # [draws, graphs] each
    drawn = rng.integers(count, size=(DRAWS, count))
    rows = np.arange(DRAWS)[:, None]
    found = {}
    for name in values:
        if name in scores and not np.isnan(values[name]).any():
            means = scores[name].numpy()[rows, drawn].mean(1)
            low, high = np.quantile(means, [(1 - COVERED) / 2, (1 + COVERED) / 2])
            found[name] = float(low), float(high)
    trials = sum(len(np.unique(graph.edge_index)) for graph in true)
    return {
        name: wilsons(ends[0], trials) if ends in ((0, 0), (1, 1)) else ends for name, ends in found.items()
    }


def students(values: np.ndarray, most: float = 1.0) -> Ends:
    """Student's interval of the mean of ``values``, within 0 and ``most``."""
    reach = stdtrit(len(values) - 1, (1 + COVERED) / 2) * values.std(ddof=1) / len(values) ** 0.5
    low, high = np.clip([values.mean() - reach, values.mean() + reach], 0, most)
    return float(low), float(high)


def wilsons(share: float, trials: int) -> Ends:
    """Wilson's score interval."""
    z = ndtri((1 + COVERED) / 2)
    centre = (share * trials + z**2 / 2) / (trials + z**2)
    reach = z / (trials + z**2) * (share * (1 - share) * trials + z**2 / 4) ** 0.5
    # Rounding would leave a tiny distance to an end that is reached.
    return 0.0 if share == 0 else float(centre - reach), 1.0 if share == 1 else float(centre + reach)


def _draw_nodes(truth: Graph, guess: Graph, rng: np.random.Generator) -> Iterator[list[int]]:
    """The counts of :func:`gln.evaluation.edges.ratios` after drawing nodes with replacement, again and again."""
    pair = Matched(truth, guess)
    true, predicted = (graph.edge_index.numpy(force=True) for graph in (truth, guess))
    ends = (predicted[:, pair.both[1]], predicted[:, pair.found], true[:, pair.true])
    nodes, share = pair.nodes, pair.pairs / max(pair.nodes * (pair.nodes - 1), 1)
    for _ in range(DRAWS):
        times = np.bincount(rng.integers(nodes, size=nodes), minlength=nodes)
        pairs = [int((times[source] * times[target]).sum()) for source, target in ends]
        yield [*pairs, int(share * (nodes**2 - (times**2).sum()))]
