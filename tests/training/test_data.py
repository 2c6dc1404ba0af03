"""Which process sees which graph: laws over any number of graphs, batch sizes and processes."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.stats import kstest, uniform
from torch_geometric.data import Data

import gln
from gln.errors import GLNError
from gln.graphs import GraphBatch, make_graph
from gln.graphs.features import feature_noise
from gln.training.config import FitConfig
from gln.training.data import Fresh, RandomRotation, Share, Shares, describe, global_batches, seed_step
from gln.training.loop import Loop
from gln.training.processes import Place
from gln.training.progress import Progress
from tests.training.tiny import TinyLoss, graphs, tiny

GRAPHS = graphs(23)


@given(st.integers(1, 60), st.integers(1, 25), st.integers(0, 5), st.integers(0, 5))
def test_an_epoch_shows_every_graph_once(count: int, size: int, seed: int, epoch: int) -> None:
    batches = global_batches([9] * count, size, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(count))
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert all(map(np.array_equal, batches, global_batches([9] * count, size, seed, epoch)))


def test_the_order_depends_on_seed_and_epoch() -> None:
    orders = {
        tuple(np.concatenate(global_batches([9] * 50, 8, seed, epoch)))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9
    assert np.array_equal(np.concatenate(global_batches([9] * 50, 8)), np.arange(50))


@given(st.integers(1, 23), st.integers(1, 9), st.integers(1, 5))
def test_processes_share_every_global_batch_among_them(count: int, size: int, world: int) -> None:
    batches = global_batches([9] * count, size, seed=1)
    parts = [Shares(GRAPHS[:count], batches, rank, world) for rank in range(world)]
    for number, batch in enumerate(batches):
        shares = [part[number] for part in parts]
        seen = [graph for share in shares if share.weight for graph in share.batch.to_graphs()]
        assert len(seen) == len(batch)
        assert all(share.numbers == batch.tolist() and share.total == len(batch) for share in shares)
        # What DDP averages: the mean over processes of the weighted sums is the mean over graphs.
        values = [float((share.batch.sizes**2).sum()) * share.weight for share in shares]
        assert np.mean(values) == pytest.approx(np.mean([GRAPHS[i].num_nodes ** 2 for i in batch]))


def test_gradients_of_shares_average_to_the_gradient_of_the_global_batch() -> None:
    model, loss, batches = tiny(dropout=0.0), TinyLoss(), [np.arange(7)]

    def gradients(world: int) -> list[torch.Tensor]:
        total = [torch.zeros_like(parameter) for parameter in model.parameters()]
        for rank in range(world):
            share = Shares(GRAPHS, batches, rank, world)[0]
            weighted = loss(model(share.batch), share.batch, model).sum() * share.weight
            for sum_, part in zip(
                total, torch.autograd.grad(weighted, list(model.parameters())), strict=True
            ):
                sum_ += part / world
        return total

    whole = gradients(1)
    for world in (2, 3, 9):  # 9 processes for 7 graphs: two have only a stand-in
        for one, many in zip(whole, gradients(world), strict=True):
            assert torch.allclose(one, many, atol=1e-7)


def jitter(graph: Data, rng: np.random.Generator) -> Data:
    graph = graph.clone()
    graph.pos += torch.from_numpy(rng.normal(size=graph.pos.shape)).float()
    return graph


def test_noise_is_a_function_of_seed_epoch_and_graph_alone() -> None:
    def noisy(size: int, world: int, seed: int = 3, epoch: int = 0) -> dict[int, torch.Tensor]:
        batches = global_batches([9] * 23, size, seed, epoch)
        found = {}
        for rank in range(world):
            shares = Shares(GRAPHS, batches, rank, world, jitter, seed, epoch)
            for share in (shares[number] for number in range(len(shares))):
                mine = zip(share.numbers[rank::world], share.batch.to_graphs(), strict=False)
                found |= {number: graph.pos for number, graph in mine}
        return found

    one, many = noisy(size=5, world=1), noisy(size=4, world=3)
    assert all(torch.equal(one[number], many[number]) for number in range(23))
    for other in (noisy(5, 1, epoch=1), noisy(5, 1, seed=4)):
        assert not any(torch.equal(one[number], other[number]) for number in range(23))


class Family:
    def sample(self, count: int, seed: int = 0) -> list[Data]:
        return graphs(count, seed)


def test_fresh_graphs_are_new_in_every_epoch_and_the_same_each_time() -> None:
    fresh = Fresh(Family(), 4, seed=2)
    assert describe(fresh(0)) == describe(fresh(0))
    assert len({describe(fresh(epoch))["sha256"] for epoch in range(4)}) == 4
    assert describe(fresh(0)) != describe(Fresh(Family(), 4, seed=3)(0))


def test_a_fingerprint_sees_every_value() -> None:
    changed = [graph.clone() for graph in GRAPHS]
    assert describe(changed) == describe(GRAPHS)
    changed[5].pos[0, 0] += 1e-6
    assert describe(changed) != describe(GRAPHS)


def test_feature_noise_measures_sizes_and_columns() -> None:
    noise = feature_noise(GRAPHS)
    rows = torch.cat([graph.pos for graph in GRAPHS]).double()
    assert noise["pos"]["mean"] == pytest.approx(rows.mean(0).tolist())
    assert noise["pos"]["std"] == pytest.approx(rows.std(0, correction=0).tolist())
    assert sum(count for _, count in noise["sizes"]) == len(GRAPHS)


def test_graphs_of_like_size_share_a_batch_and_every_graph_is_seen_once() -> None:
    nodes = np.random.default_rng(0).integers(20, 81, 5000)
    batches = global_batches(nodes.tolist(), 64, seed=1)
    assert sorted(np.concatenate(batches)) == list(range(5000))
    room = sum(len(batch) * nodes[batch].max() for batch in batches)
    assert 1 - nodes.sum() / room < 0.15
    sizes = [nodes[batch].max() for batch in batches]
    assert sizes != sorted(sizes)
    in_order = global_batches(nodes.tolist(), 64)
    assert sorted(np.concatenate(in_order)) == list(range(5000))
    assert 1 - nodes.sum() / sum(len(batch) * nodes[batch].max() for batch in in_order) < 0.02
    again = global_batches(nodes.tolist(), 64, seed=1)
    assert all(map(np.array_equal, batches, again))


def test_a_rotation_needs_positions() -> None:
    with pytest.raises(GLNError, match="no pos to rotate"):
        RandomRotation()(make_graph(x=[[1.0]]), np.random.default_rng(0))


@pytest.mark.parametrize("width", [1, 2, 3])
def test_rotations_are_uniform_over_all_orthogonal_matrices(width: int) -> None:
    rng, count = np.random.default_rng(0), 4000
    axes = make_graph(np.eye(width)).to_data()
    found = np.stack([RandomRotation()(axes, rng).pos.numpy() for _ in range(count)])  # [count, width, width]
    assert np.allclose(found @ found.transpose(0, 2, 1), np.eye(width), atol=1e-5)
    # Means over the matrices have deviations of at most 1/√count; these bounds are five of them.
    assert abs(np.sign(np.linalg.det(found)).mean()) < 5 / count**0.5  # as many mirrored as not
    assert (abs(np.sign(found).mean(axis=0)) < 5 / count**0.5).all()
    assert (abs((found**2).mean(axis=0) - 1 / width) < 5 / count**0.5).all()
    if width == 2:
        turns = np.arctan2(found[:, 0, 1], found[:, 0, 0])
        assert kstest(turns, uniform(-np.pi, 2 * np.pi).cdf).pvalue > 0.001


def test_what_a_step_draws_depends_on_seed_epoch_and_batch() -> None:
    drawn = set()
    before = torch.get_rng_state()
    for place in [(seed, epoch, batch) for seed in range(3) for epoch in range(3) for batch in range(3)]:
        seed_step(torch.device("cpu"), *place)
        drawn.add(float(torch.rand((), dtype=torch.float64)))
    torch.set_rng_state(before)
    assert len(drawn) == 27


@pytest.mark.parametrize(("model", "alike"), [(gln.GLN, True), (gln.GraphFlow, False)])
def test_processes_score_as_many_candidates_but_draw_noise_of_their_own(model: Any, alike: bool) -> None:
    drawn = set()
    before = torch.get_rng_state()
    for rank in range(3):
        loop = Loop(Any, Place(rank, 3, 0, True), model(), Any, Any, FitConfig(), Any, Any)
        loop.progress, loop.device, loop.replay, loop.ahead = Progress(), torch.device("cpu"), None, None
        share = Share(GraphBatch.from_graphs(GRAPHS[:2]), 0.5, 2, [0, 1])
        assert len(list(loop._prepared(iter([share])))) == 1
        drawn.add(float(torch.rand((), dtype=torch.float64)))
    torch.set_rng_state(before)
    assert len(drawn) == (1 if alike else 3)
