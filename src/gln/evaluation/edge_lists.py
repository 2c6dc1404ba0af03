"""Edge scores of lists of graphs, from their edge lists: no n × n matrix is ever built."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.evaluation.edges import PER_GRAPH, per_graph
from gln.evaluation.metrics import POOLED, Scores
from gln.evaluation.pairs import Entries, average_precision, check_entries, ratios
from gln.graphs.convert import as_graph_pairs


def edge_scores(true: Iterable[Any], predicted: Iterable[Any], entries: Entries = "pairs") -> Scores:
    """The scores of :class:`gln.evaluation.EdgeScores` for graphs of any kind and size, in time O(edges).

    Args:
        true: the true graphs: PyG, networkx, numpy, scipy or torch.
        predicted: one graph per true graph, on the same nodes. If a ``Data`` has ``edge_prob [2m]``, one
            probability per column of its ``edge_index``, this ranks the edges for average precision (with
            ``"pairs"``, by the mean of both directions); otherwise every edge has probability 1. A pair
            without an edge has probability 0.
        entries: ``"pairs"`` counts unordered pairs i < j; ``"all"`` the n² entries, diagonal included.
    """
    check_entries(entries)
    truths, guesses = as_graph_pairs(true, predicted)
    counts, precisions = [], []
    for index, (truth, guess) in enumerate(zip(truths, guesses, strict=True)):
        nodes = truth.num_nodes
        actual = _keys(truth.edge_index.cpu(), nodes, entries)
        chosen = _keys(guess.edge_index.cpu(), nodes, entries)
        hit = torch.isin(chosen, actual)
        total = nodes**2 if entries == "all" else nodes * (nodes - 1) // 2
        counts.append([int(hit.sum()), len(chosen), len(actual), total])
        score = _scores(guess, f"predicted[{index}]", entries)
        precisions.append(_sparse_average_precision(score, hit, len(actual), total))
    table = torch.tensor(counts).T  # [4, G]
    means = per_graph(table, torch.tensor(precisions, dtype=torch.float64)).mean(1)
    pooled = {POOLED + name: value for name, value in ratios(*table.sum(1)).items()}
    note = "over unordered pairs" if entries == "pairs" else "over all n² entries, diagonal included"
    scores = dict(zip(PER_GRAPH, means, strict=True)) | pooled
    return Scores(scores, notes=[f"{len(truths)} graphs, {note}"])


def _counted(edge_index: Tensor, entries: Entries) -> Tensor:
    """The columns that count: both directions of an edge, or i < j only."""
    source, target = edge_index
    return source < target if entries == "pairs" else source != target


def _keys(edge_index: Tensor, nodes: int, entries: Entries) -> Tensor:
    """One number per entry that holds an edge."""
    source, target = edge_index[:, _counted(edge_index, entries)]
    return source * nodes + target


def _scores(graph: Data, what: str, entries: Entries) -> Tensor:
    """The probability of every entry that holds an edge, in the order of :func:`_keys`."""
    source, target = edges = graph.edge_index.cpu()
    counted = _counted(edges, entries)
    values = graph.get("edge_prob")
    if values is None:
        return torch.ones(int(counted.sum()))
    values = torch.as_tensor(values, dtype=torch.float64).cpu()
    if values.shape != source.shape:
        raise GLNError(
            f"{what}: edge_prob has shape {list(values.shape)}, expected one value for each of the "
            f"{len(source)} columns of edge_index."
        )
    if not ((values >= 0) & (values <= 1)).all():
        raise GLNError(f"{what}: edge_prob holds NaN or values outside 0 to 1; expected probabilities.")
    if entries == "pairs":
        # The columns are sorted, so sorting them by their reverse lists the reverse of every column in order.
        values = (values + values[(target * graph.num_nodes + source).argsort()]) / 2
    return values[counted]


def _sparse_average_precision(score: Tensor, hit: Tensor, true: int, total: int) -> float:
    """AP ``(Σ precision at each true edge) / true`` where all entries not listed tie at score 0."""
    if not true:
        return 0.0
    listed = score > 0
    hits = int(hit[listed].sum())
    among_listed = average_precision(score[None, listed], hit[None, listed], listed[None, listed])
    # Those at score 0 come last, all together: the precision there is that of taking every entry.
    return (float(among_listed) * hits + (true - hits) * true / total) / true
