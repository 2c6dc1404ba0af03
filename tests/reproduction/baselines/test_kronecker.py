"""Kronecker graphs: kinds and drawing against every pair, Metropolis against the enumerated posterior, recovery."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.graphs import check_graph, make_graph
from reproduction.baselines.kronecker import (
    LEAST,
    MOST,
    Kinds,
    Kronecker,
    Placement,
    _step,
    draw_edges,
    levels_for,
)
from tests.conftest import assert_same_graph

INITIATOR = np.array([0.9, 0.55, 0.3])


def count_ones(levels: int) -> np.ndarray:
    """The number of 1 bits in every position: ``[2^levels]``."""
    return np.array([bin(place).count("1") for place in range(2**levels)])


def every_probability(initiator: np.ndarray, levels: int) -> np.ndarray:
    """The definition: the Kronecker power of the 2 × 2 matrix, ``[2^levels, 2^levels]``."""
    a, b, c = initiator
    power = np.ones((1, 1))
    for _ in range(levels):
        power = np.kron(power, [[a, b], [b, c]])
    return power


def slow_log_likelihood(initiator: np.ndarray, adjacency: np.ndarray) -> float:
    p = every_probability(initiator, levels_for(len(adjacency)))
    terms = np.where(adjacency, np.log(p), np.log1p(-p))
    return float(np.triu(terms, 1).sum())


def adjacency_of(edges: np.ndarray, nodes: int) -> np.ndarray:
    adjacency = np.zeros((nodes, nodes), dtype=bool)
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = True
    return adjacency


def step_of_arrays(placement: Placement, log_odds: np.ndarray) -> None:
    """:meth:`Placement.step` without a loop: all pairs of nodes of all graphs at once."""
    bit = 1 << placement.rng.integers(placement.levels)
    nodes = len(placement.graph)
    first, second = placement.rng.random(nodes), placement.rng.random(nodes)
    at = np.empty(nodes, dtype=np.int64)  # the node at every position
    at[placement.position + placement.offset] = np.arange(nodes)
    swapped = placement.position ^ bit[placement.graph]
    mate = at[swapped + placement.offset]

    leader = np.minimum(mate, np.arange(nodes))  # a pair's random numbers are drawn once
    priority = first[leader] - (1 - placement.share)[placement.graph]  # above 0 for a random share
    looked_at = np.flatnonzero(np.repeat(priority > 0, placement.degree))  # among all edge ends
    source, target = np.repeat(np.arange(nodes), placement.degree)[looked_at], placement.target[looked_at]
    # An edge between two mates keeps its kind when they swap.
    outward = target != mate[source]
    source, target = source[outward], target[outward]
    rival = np.zeros(nodes)
    np.maximum.at(rival, source, priority[target])
    proposes = priority > np.maximum(rival, rival[mate])

    moving = proposes[source]
    source, there = source[moving], placement.position[target[moving]]
    graph, old, new = placement.graph[source], placement.position[source], swapped[source]
    after = log_odds[graph, placement.ones[new & there], placement.ones[new ^ there]]
    before = log_odds[graph, placement.ones[old & there], placement.ones[old ^ there]]
    gain = np.bincount(source, after - before, minlength=nodes)
    accepted = proposes & (np.log(second)[leader] < gain + gain[mate])
    placement.position = np.where(accepted, swapped, placement.position)


@pytest.fixture
def placed() -> Placement:
    """Two graphs with 3 and 4 levels, one of them padded."""
    rng = np.random.default_rng(0)
    small = make_graph(edges=draw_edges(INITIATOR, 3, rng), num_nodes=8)
    pairs = np.argwhere(np.triu(rng.random((11, 11)) < 0.3, 1))
    return Placement([small, make_graph(edges=pairs, num_nodes=11)], rng)


def placed_adjacencies(placement: Placement) -> list[np.ndarray]:
    ends = np.cumsum(2**placement.levels)
    found = []
    for start, end in zip(placement.starts, ends, strict=True):
        pairs = np.stack(placement.edges, axis=1)
        here = pairs[(pairs[:, 0] >= start) & (pairs[:, 0] < end)]
        found.append(adjacency_of(placement.position[here], end - start))
    return found


class TestKinds:
    def test_every_pair_is_counted_in_its_kind_with_its_probability(self) -> None:
        levels = 4
        kinds, ones = Kinds(np.array([levels])), count_ones(levels)
        i, j = np.triu_indices(2**levels, 1)
        counted = np.zeros_like(kinds.pairs[0])
        np.add.at(counted, (ones[i & j], ones[i ^ j]), 1)
        assert np.array_equal(kinds.pairs[0], counted)
        p = np.exp(kinds.log_probabilities(INITIATOR[None]))[0]
        np.testing.assert_allclose(p[ones[i & j], ones[i ^ j]], every_probability(INITIATOR, levels)[i, j])

    def test_the_likelihood_is_that_of_every_pair(self, placed: Placement) -> None:
        initiators = np.array([INITIATOR, [0.6, 0.2, 0.7]])
        fast = Kinds(placed.levels).log_likelihood(initiators, placed.count_edges())
        slow = [
            slow_log_likelihood(one, adjacency)
            for one, adjacency in zip(initiators, placed_adjacencies(placed), strict=True)
        ]
        np.testing.assert_allclose(fast, slow, rtol=1e-12)

    def test_the_gradient_is_that_of_finite_differences(self, placed: Placement) -> None:
        kinds, edges = Kinds(placed.levels), placed.count_edges()
        initiators = np.array([INITIATOR, [0.6, 0.2, 0.7]])
        width = 1e-6
        for entry, move in enumerate(np.eye(3) * width):
            up = kinds.log_likelihood(initiators * np.exp(move), edges)
            down = kinds.log_likelihood(initiators * np.exp(-move), edges)
            slope = (up - down) / (2 * width)
            np.testing.assert_allclose(kinds.gradient(initiators, edges)[:, entry], slope, rtol=1e-6)

    def test_the_information_is_the_slope_of_the_expected_gradient(self) -> None:
        kinds = Kinds(np.array([3, 5]))
        initiators = np.array([INITIATOR, [0.6, 0.2, 0.7]])
        expected = kinds.pairs * np.exp(kinds.log_probabilities(initiators))
        width = 1e-6
        for entry, move in enumerate(np.eye(3) * width):
            up = kinds.gradient(initiators * np.exp(move), expected)
            down = kinds.gradient(initiators * np.exp(-move), expected)
            slope = (down - up) / (2 * width)
            np.testing.assert_allclose(kinds.information(initiators)[:, entry], slope, rtol=1e-5, atol=1e-6)

    def test_a_step_climbs_and_stays_within_bounds(self, placed: Placement) -> None:
        kinds, edges = Kinds(placed.levels), placed.count_edges()
        initiator = np.tile([MOST, 0.4, LEAST], (2, 1))
        for _ in range(20):
            before = kinds.log_likelihood(initiator, edges)
            gradient, information = kinds.gradient(initiator, edges), kinds.information(initiator)
            initiator = _step(initiator, gradient, information)
            assert (kinds.log_likelihood(initiator, edges) >= before - 1e-9).all()
            assert ((initiator >= LEAST) & (initiator <= MOST)).all()


class TestDrawing:
    def test_every_pair_is_joined_as_often_as_it_should(self) -> None:
        levels, draws = 3, 1500
        rng = np.random.default_rng(1)
        drawn = sum(adjacency_of(draw_edges(INITIATOR, levels, rng), 8).astype(float) for _ in range(draws))
        p = every_probability(INITIATOR, levels) * (1 - np.eye(8))
        deviation = np.sqrt(p * (1 - p) / draws)
        assert (np.abs(drawn / draws - p) <= 4.5 * deviation).all()

    def test_the_number_of_edges_varies_as_with_coins(self) -> None:
        rng = np.random.default_rng(2)
        counts = [len(draw_edges(INITIATOR, 5, rng)) for _ in range(1000)]
        p = every_probability(INITIATOR, 5)[np.triu_indices(32, 1)]
        variance = (p * (1 - p)).sum()
        assert abs(np.mean(counts) - p.sum()) < 4 * np.sqrt(variance / 1000)
        assert np.var(counts) == pytest.approx(variance, rel=0.2)


class TestPlacement:
    def test_positions_stay_a_permutation_of_each_graph(self, placed: Placement) -> None:
        odds = Kinds(placed.levels).log_odds(np.array([INITIATOR, INITIATOR]))
        before = placed.position.copy()
        for _ in range(50):
            placed.step(odds)
        assert not np.array_equal(before, placed.position)
        for start, level in zip(placed.starts, placed.levels, strict=True):
            assert sorted(placed.position[start : start + 2**level]) == list(range(2**level))

    def test_the_compiled_step_is_the_one_in_numpy(self) -> None:
        rng = np.random.default_rng(4)
        graphs = [
            make_graph(edges=np.argwhere(np.triu(rng.random((n, n)) < chance, 1)), num_nodes=n)
            for n, chance in ((1, 0.5), (2, 1.0), (11, 0.9), (30, 0.1), (64, 0.05))
        ]
        one, other = (Placement(graphs, np.random.default_rng(5)) for _ in range(2))
        odds = Kinds(one.levels).log_odds(np.tile(INITIATOR, (len(graphs), 1)))
        for _ in range(100):
            before = one.position.copy()
            one.step(odds)
            step_of_arrays(other, odds)
            assert np.array_equal(one.position, other.position)
        assert not np.array_equal(one.position, before)

    def test_metropolis_reaches_the_posterior(self) -> None:
        """Many copies of a path of four nodes: how often each of its 24 placements is met, against its exact share."""
        initiator, edges, copies, steps = (
            np.array([0.95, 0.3, 0.1]),
            np.array([[0, 1], [1, 2], [2, 3]]),
            300,
            600,
        )
        path = make_graph(edges=edges, num_nodes=4)
        placement = Placement([path] * copies, np.random.default_rng(3))
        odds = Kinds(placement.levels).log_odds(np.tile(initiator, (copies, 1)))
        seen = np.zeros((4, 4, 4, 4))
        for step in range(steps):
            placement.step(odds)
            if step >= steps // 4:
                np.add.at(seen, tuple(placement.position.reshape(copies, 4).T), 1)
        exact = np.zeros((4, 4, 4, 4))
        for order in permutations(range(4)):
            exact[order] = np.exp(slow_log_likelihood(initiator, adjacency_of(np.array(order)[edges], 4)))
        np.testing.assert_allclose(seen / seen.sum(), exact / exact.sum(), atol=0.006)


class TestKronecker:
    def test_recovers_the_initiator_of_a_planted_graph(self) -> None:
        true = np.array([0.99, 0.55, 0.35])
        rng = np.random.default_rng(0)
        edges = rng.permutation(2**10)[draw_edges(true, 10, rng)]
        fitted = Kronecker(rounds=100).fit([make_graph(edges=edges, num_nodes=2**10)])
        np.testing.assert_allclose(fitted.initiator_[0], true, atol=0.03)

    def test_many_small_graphs_tell_as_much_as_one_large(self) -> None:
        true = np.array([0.95, 0.5, 0.3])
        rng = np.random.default_rng(0)
        graphs = [
            make_graph(edges=rng.permutation(128)[draw_edges(true, 7, rng)], num_nodes=128) for _ in range(20)
        ]
        fitted = Kronecker(rounds=60).fit(graphs)
        np.testing.assert_allclose(fitted.initiator_[0], true, atol=0.05)
        each = Kronecker(rounds=10, steps=1, per="graph").fit(graphs)
        assert each.initiator_.shape == (20, 3)
        assert (each.initiator_[:, 0] >= each.initiator_[:, 2]).all()

    def test_sampled_graphs_are_graphs_of_the_training_sizes_and_a_function_of_the_seed(self) -> None:
        rng = np.random.default_rng(2)
        graphs = [
            make_graph(edges=np.argwhere(np.triu(rng.random((n, n)) < 0.4, 1)), num_nodes=n)
            for n in (1, 6, 8, 13)
        ]
        fitted = Kronecker(rounds=4, steps=1).fit(graphs, seed=5)
        again = Kronecker(rounds=4, steps=1).fit(graphs, seed=5)
        assert torch.equal(fitted.initiator_, again.initiator_)
        drawn = fitted.sample(30, seed=1)
        assert {graph.num_nodes for graph in drawn} == {1, 6, 8, 13}
        restored = Kronecker(rounds=4, steps=1)
        restored.restore(fitted.state())
        for actual, expected in zip(restored.sample(12, seed=1), drawn, strict=False):
            assert_same_graph(actual, expected)
            assert_same_graph(check_graph(actual), actual)
        assert any(g.num_edges != h.num_edges for g, h in zip(fitted.sample(30, seed=2), drawn, strict=True))

    def test_graphs_without_edges_stay_empty(self) -> None:
        fitted = Kronecker(rounds=30, steps=1).fit([make_graph(num_nodes=5)])
        assert all(graph.num_nodes == 5 and graph.num_edges == 0 for graph in fitted.sample(5))

    @pytest.mark.parametrize("settings", [{"per": "node"}, {"rounds": 0}, {"steps": 0}])
    def test_wrong_settings_are_refused(self, settings: dict) -> None:
        with pytest.raises(GLNError):
            Kronecker(**settings)

    def test_only_what_is_fitted_samples(self) -> None:
        with pytest.raises(GLNError, match="not fitted"):
            Kronecker().sample(1)
        with pytest.raises(GLNError):
            Kronecker().fit([])
