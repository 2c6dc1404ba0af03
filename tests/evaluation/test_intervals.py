"""Intervals hold what other graphs, or other nodes, would have given."""

from __future__ import annotations

import numpy as np
import pytest

from gln.evaluation.edges import PER_GRAPH, score_intervals, score_table
from gln.graphs import make_graph
from gln.graphs.record import Graph


def pair(rng: np.random.Generator, nodes: int) -> tuple[Graph, Graph]:
    """A random graph, and a prediction that misses some edges and invents others."""
    every = np.stack(np.triu_indices(nodes, 1), axis=1)
    true = rng.random(len(every)) < 0.3
    guess = np.where(true, rng.random(len(every)) < 0.8, rng.random(len(every)) < 0.08)
    return tuple(make_graph(edges=every[some], num_nodes=nodes) for some in (true, guess))  # type: ignore[return-value]


def intervals_of(pairs: list[tuple[Graph, Graph]]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    true, guesses = map(list, zip(*pairs, strict=True))
    values = dict(zip(PER_GRAPH, score_table(true, guesses)[1].tolist(), strict=True))
    return {name: float(np.mean(value)) for name, value in values.items()}, score_intervals(
        values, true, guesses
    )


@pytest.mark.parametrize(("graphs", "nodes"), [(1, 40), (3, 25), (12, 12)])
def test_most_intervals_hold_the_score_of_very_many_graphs(graphs: int, nodes: int) -> None:
    rng = np.random.default_rng(0)
    expected, _ = intervals_of([pair(rng, nodes) for _ in range(150)])
    inside = []
    for _ in range(40):
        means, found = intervals_of([pair(rng, nodes) for _ in range(graphs)])
        low, high = found["dice"]
        assert low <= means["dice"] <= high
        assert 0 <= low < high <= 1
        inside.append(low <= expected["dice"] <= high)
    assert np.mean(inside) >= 0.8


def test_more_graphs_narrow_an_interval() -> None:
    rng = np.random.default_rng(1)
    pairs = [pair(rng, 12) for _ in range(400)]
    wide, narrow = (intervals_of(some)[1]["iou"] for some in (pairs[:10], pairs))
    assert narrow[1] - narrow[0] < 0.5 * (wide[1] - wide[0])


def test_without_a_mistake_an_interval_has_a_width_that_more_nodes_narrow() -> None:
    low = []
    for nodes in (10, 20, 40):
        truth, _ = pair(np.random.default_rng(2), nodes)
        _, found = intervals_of([(truth, truth)])
        assert found["dice"][1] == 1
        low.append(found["dice"][0])
    assert 0.5 < low[0] < low[1] < low[2] < 1
    pairs = [pair(np.random.default_rng(seed), 12) for seed in range(20)]
    none, some = (intervals_of(part)[1]["exact"] for part in (pairs, [(truth, truth), *pairs]))
    assert none == pytest.approx((0, 0.161), abs=1e-3)  # as in tables of Wilson's interval
    assert some == pytest.approx((0.008, 0.227), abs=1e-3)


def test_few_graphs_have_no_interval_of_a_ranking() -> None:
    _, found = intervals_of([pair(np.random.default_rng(2), 20)])
    assert found.keys() == {"accuracy", "iou", "dice", "precision", "recall"}
