"""Intervals of mean edge scores: what other test graphs, or other nodes in them, might have given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from gln.evaluation.edges import ratios
from gln.graphs.record import Graph

DRAWS = 1000  # of graphs,
NODE_DRAWS = 200  # and of nodes
MANY = 10  # from this many graphs on, they vary enough to speak for themselves
COVERED = 0.95

Ends = tuple[float, float]


def score_intervals(
    values: Mapping[str, Sequence[float]], true: Sequence[Graph], predicted: Sequence[Graph]
) -> dict[str, Ends]:
    """95 % bootstrap intervals of the means of ``values``, one value per graph.

    From ten graphs on, graphs are drawn with replacement. Of fewer, nodes are drawn too, in each of them (the vertex
    bootstrap of Snijders and Borgatti, 1999); scores that are not ratios of counted edges then have no interval.
    """
    rng, count = np.random.default_rng(0), len(true)
    if count >= MANY:
        drawn = rng.integers(count, size=(DRAWS, count))
        return {name: _ends(np.asarray(value)[drawn].mean(1)) for name, value in values.items()}
    each = [torch.tensor(list(_draw_nodes(*pair, rng))) for pair in zip(true, predicted, strict=True)]
    scores = ratios(*torch.stack(each).permute(2, 1, 0))  # [draws, graphs] each
    drawn = rng.integers(count, size=(NODE_DRAWS, count))
    rows = np.arange(NODE_DRAWS)[:, None]
    return {
        name: _ends(scores[name].numpy()[rows, drawn].mean(1))
        for name in values
        if name in scores and not np.isnan(values[name]).any()
    }


def _ends(means: np.ndarray) -> Ends:
    low, high = np.quantile(means, [(1 - COVERED) / 2, (1 + COVERED) / 2])
    return float(low), float(high)


def _draw_nodes(truth: Graph, guess: Graph, rng: np.random.Generator) -> Iterator[list[int]]:
    """The counts of :func:`gln.evaluation.edges.ratios` after drawing nodes with replacement, again and again."""
    nodes = truth.num_nodes
    true, predicted = truth.edges_once(), guess.edges_once()
    found = predicted[np.isin(predicted @ (nodes, 1), true @ (nodes, 1))]
    for _ in range(NODE_DRAWS):
        times = np.bincount(rng.integers(nodes, size=nodes), minlength=nodes)
        pairs = [int((times[edges[:, 0]] * times[edges[:, 1]]).sum()) for edges in (found, predicted, true)]
        yield [*pairs, int(nodes**2 - (times**2).sum()) // 2]
