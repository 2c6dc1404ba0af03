"""Intervals of mean edge scores: what other test graphs, or other nodes in them, might have given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from scipy.special import ndtri, stdtrit

from gln.evaluation.edges import ratios
from gln.graphs.record import Graph

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
        return found | {
            name: wilsons(float(np.mean(values[name])), count) for name in ("exact",) if name in values
        }
    each = [torch.tensor(list(_draw_nodes(*pair, rng))) for pair in zip(true, predicted, strict=True)]
    scores = ratios(*torch.stack(each).permute(2, 1, 0))  # [draws, graphs] each
    drawn = rng.integers(count, size=(DRAWS, count))
    rows = np.arange(DRAWS)[:, None]
    found = {
        name: _middle(scores[name].numpy()[rows, drawn].mean(1))
        for name in values
        if name in scores and not np.isnan(values[name]).any()
    }
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


def _middle(means: np.ndarray) -> Ends:
    low, high = np.quantile(means, [(1 - COVERED) / 2, (1 + COVERED) / 2])
    return float(low), float(high)


def _draw_nodes(truth: Graph, guess: Graph, rng: np.random.Generator) -> Iterator[list[int]]:
    """The counts of :func:`gln.evaluation.edges.ratios` after drawing nodes with replacement, again and again."""
    nodes, directed = truth.num_nodes, truth.directed or guess.directed
    true, predicted = (
        graph.edge_index.T.numpy(force=True) if directed else graph.edges_once() for graph in (truth, guess)
    )
    found = predicted[np.isin(predicted @ (nodes, 1), true @ (nodes, 1))]
    share = 1.0 if "scored_pairs" not in truth else truth.scored_pairs / (nodes * (nodes - 1) // 2)
    for _ in range(DRAWS):
        times = np.bincount(rng.integers(nodes, size=nodes), minlength=nodes)
        pairs = [int((times[edges[:, 0]] * times[edges[:, 1]]).sum()) for edges in (found, predicted, true)]
        yield [*pairs, int(share * (nodes**2 - (times**2).sum()) / (1 if directed else 2))]
