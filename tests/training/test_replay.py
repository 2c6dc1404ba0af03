"""Recorded steps: batches made on the device are the batches, and training by replay is training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import GraphBatch, as_graphs
from gln.graphs.batch import JoinedGraphs, counts_of
from gln.graphs.record import Graph
from gln.inference.predict import predict
from gln.models import GLN, PaperGLN, Set2Graph
from gln.models.contract import Replayable
from gln.ops import replay as replaying
from gln.ops.replay import padded_size
from gln.training import fit
from gln.training.config import FitConfig
from gln.training.data import Feed, RandomRotation, Shares, global_batches
from gln.training.losses import Loss

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GRAPHS = parse_family("delaunay:points=10-23").sample(50, 0)
VAL = parse_family("delaunay:points=10-23").sample(8, 1)


@pytest.mark.parametrize("augment", [None, RandomRotation()])
def test_batches_made_on_the_device_are_those_of_the_host_with_more_padding(augment):
    graphs = as_graphs(GRAPHS, "train")
    batches = global_batches([graph.num_nodes for graph in graphs], 8, 3, 2)
    shares = Shares(graphs, batches, 0, 1, augment, 3, 2)
    there = replace(shares, resident=JoinedGraphs.of(graphs, ()))
    found = [there[n] for n in range(len(there))]
    assert len(found) == len(batches)
    for expected, share in zip((shares[n] for n in range(len(shares))), found, strict=True):
        assert (share.weight, share.total, share.numbers) == (
            expected.weight,
            expected.total,
            expected.numbers,
        )
        for one, two in zip(share.batch.to_graphs(), expected.batch.to_graphs(), strict=True):
            assert torch.equal(one.edge_index, two.edge_index)
            torch.testing.assert_close(one.pos, two.pos)
    sizes = {share.batch.mask.shape[1] for share in found}
    assert sizes <= {padded_size(n, False) for n in range(10, 24)} | {23}


def test_graphs_on_the_device_keep_kinds_directions_and_loners():
    rng = np.random.default_rng(0)
    graphs = []
    for n in (3, 1, 6, 4):
        edges = torch.tensor(rng.random((n, n)) < 0.4).fill_diagonal_(False).nonzero().T
        kinds = {"edge_type": torch.arange(edges.shape[1]) % 3, "edge_weight": torch.rand(edges.shape[1])}
        graphs.append(
            Graph(n, x=torch.rand(n, 2), edge_index=edges, node_type=torch.arange(n), directed=True, **kinds)
        )
    there, numbers = JoinedGraphs.of(graphs), np.array([2, 1, 0])
    expected = GraphBatch.from_graphs([graphs[number] for number in numbers], nodes=8)
    for name, value in vars(there.batch(numbers, 8)).items():
        other = getattr(expected, name)
        assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other, name


def test_joined_graphs_are_the_graphs():
    rng, graphs = np.random.default_rng(0), []
    for n in (3, 1, 6, 4):
        edges = torch.tensor(np.triu(rng.random((n, n)) < 0.5, 1)).nonzero().T
        edges = torch.cat([edges, edges.flip(0)], dim=1)
        kinds = {"edge_type": torch.arange(edges.shape[1]) % 3, "node_type": torch.arange(n)}
        graphs.append(Graph(n, pos=torch.rand(n, 2), edge_index=edges, **kinds))
    rows = {name: torch.cat([graph[name] for graph in graphs]) for name in ("pos", "node_type")}
    entries = {"edge_type": torch.cat([graph.edge_type for graph in graphs])}
    ends = torch.cat([graph.edge_index for graph in graphs], dim=1)
    joined = JoinedGraphs(*counts_of(graphs), rows, entries, ends)
    assert len(joined) == 4
    for one, two in zip(graphs, joined[:], strict=True):
        assert one.num_nodes == two.num_nodes
        assert all(torch.equal(value, two[name]) for name, value in vars(one).items() if name != "num_nodes")
    numbers = np.array([2, 1, 3, 0])
    expected = JoinedGraphs.of(graphs).batch(numbers, 8)
    for name, value in vars(JoinedGraphs.of(joined).batch(numbers, 8)).items():
        other = getattr(expected, name)
        assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other, name
    feed = Feed(lambda epoch: joined, VAL, None, FitConfig(batch_size=2), checked=True)
    assert feed.graphs(1) is joined
    assert feed.train_loader(joined, 1, 0)[1] == 2


def test_padded_sizes_are_few_and_near():
    sizes = [padded_size(n, False) for n in range(1, 1000)]
    assert all(n <= size < 1.25 * n for n, size in enumerate(sizes, 1) if n > 7)
    assert len({size for size in sizes if size > 500}) <= 9
    assert sizes == [padded_size(size, False) for size in sizes]  # a padded size is padded to itself
    assert padded_size(50, alike=True) == 50


def test_what_is_drawn_for_a_step_is_what_forward_draws():
    model, batch = GLN(width=8, pair_width=8, kernels=2, steps=1).train(), GraphBatch.from_graphs(VAL)
    for seed in range(6):  # all pairs, and candidates
        torch.manual_seed(seed)
        expected = model(batch)
        torch.manual_seed(seed)
        found = model(batch, **model.draw(batch))
        assert torch.equal(found.mask, expected.mask)
        assert torch.equal(found.logits[-1], expected.logits[-1])


def test_a_list_is_padded_to_few_lengths_which_changes_no_score():
    model = GLN(width=8, pair_width=8, kernels=2, steps=2, candidates=8).train()
    batch = GraphBatch.from_graphs(parse_family("delaunay:points=130").sample(2, 0))
    for seed in range(3):
        torch.manual_seed(seed)
        expected = model(batch)
        torch.manual_seed(seed)
        drawn = model.draw(batch)
        assert drawn["ends"].shape[1] > drawn["start"][-1]
        found = model(batch, **drawn)
        assert torch.equal(found.target(batch.adj).sum(), expected.target(batch.adj).sum())
        assert torch.allclose(found.probabilities(), expected.probabilities(), atol=1e-5)
        losses, gradients = [], []
        for output in (found, expected):
            model.zero_grad()
            losses.append(Loss()(output.full_precision(), batch).mean())
            losses[-1].backward()
            gradients.append(torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None]))
        assert torch.allclose(*losses)
        assert torch.allclose(*gradients, atol=1e-5)


def test_what_cannot_be_replayed_says_so():
    assert all(
        isinstance(model, Replayable) for model in (GLN(), Set2Graph(), PaperGLN(nodes=4, in_channels=2))
    )
    assert GLN(proposals=2).draw(GraphBatch.from_graphs(VAL)) is None
    with pytest.raises(GLNError, match="expects exactly 4"):
        PaperGLN(nodes=4, in_channels=2).draw(GraphBatch.from_graphs(VAL))


def small() -> GLN:
    torch.manual_seed(0)
    return GLN(width=32, pair_width=32, kernels=2, steps=2)


def trained(run: Path | None = None, **settings):
    model = small()
    usual = {"epochs": 4, "batch_size": 8, "progress": False, "augment": RandomRotation()}
    result = fit(model, GRAPHS, VAL, run=run, **usual | settings)
    return model, result


def count_replays(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    replays = []
    replay = torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: (replays.append(1), replay(graph)))
    return replays


@needs_gpu
@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_training_by_replay_is_training(monkeypatch, precision):
    replays = count_replays(monkeypatch)
    replayed, one = trained(precision=precision)
    assert replays
    monkeypatch.setattr(replaying, "MOST", 0)
    launched, two = trained(precision=precision)
    for a, b in zip(replayed.parameters(), launched.parameters(), strict=True):
        assert torch.equal(a, b)
    assert [row["train_loss"] for row in one.history] == [row["train_loss"] for row in two.history]


@needs_gpu
def test_a_resumed_run_goes_on_as_if_nothing_had_happened(tmp_path):
    alike = {
        "schedule": "constant",
        "warmup": 0.0,
    }  # with which an epoch does not depend on how many there are
    trained(tmp_path / "again", epochs=2, **alike)
    resumed, _ = trained(tmp_path / "again", epochs=4, resume=True, **alike)
    whole, _ = trained(tmp_path / "whole", epochs=4, **alike)
    for a, b in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(a, b)


@needs_gpu
def test_a_broken_number_in_a_replayed_step_ends_the_run_with_its_graphs(monkeypatch):
    replays = count_replays(monkeypatch)
    broken = [graph.clone() for graph in GRAPHS]
    for graph in broken:
        graph.pos[0] = torch.nan
    with pytest.raises(GLNError, match=r"epoch 5, batch 1: .* check these graphs"):
        fit(
            small(),
            lambda epoch: GRAPHS if epoch < 4 else broken,
            VAL,
            epochs=9,
            batch_size=8,
            progress=False,
        )
    assert replays


@needs_gpu
@pytest.mark.parametrize("model", [Set2Graph(size="small"), PaperGLN(nodes=12, in_channels=2)])
def test_other_models_are_replayed_too(monkeypatch, model):
    replays = count_replays(monkeypatch)
    graphs = parse_family("delaunay:points=12").sample(32, 0)
    result = fit(model, graphs, graphs[:4], epochs=3, batch_size=8, progress=False, loss=Loss(edge="plain"))
    assert len(replays) == 3 * 4 - replaying.WARM
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]


@needs_gpu
@pytest.mark.parametrize("lengths", ["local", "absolute", "fine"])
def test_steps_are_recorded_however_a_model_reads_lengths(monkeypatch, lengths):
    replays = count_replays(monkeypatch)
    model = GLN(width=32, pair_width=32, kernels=2, steps=2, lengths=lengths)
    fit(model, GRAPHS, VAL, epochs=3, batch_size=8, progress=False)
    assert replays


@needs_gpu
def test_a_loss_of_ones_own_is_not_recorded(monkeypatch):
    replays, steps = count_replays(monkeypatch), []

    def loss(output, batch, model):
        steps.append(1)  # decided on the host
        return Loss()(output, batch)

    fit(
        GLN(width=32, pair_width=32, kernels=2, steps=2),
        GRAPHS,
        VAL,
        epochs=3,
        batch_size=8,
        progress=False,
        loss=loss,
    )
    assert not replays
    assert len(steps) == 3 * 7 + 3


@needs_gpu
def test_prediction_by_replay_is_prediction(monkeypatch):
    replays = count_replays(monkeypatch)
    model = small().cuda()
    sets = [
        graph
        for points in ("9-12", "130-135")
        for graph in parse_family(f"delaunay:points={points}").sample(40, 3)
    ]
    replayed = predict(model, sets, batch_size=8)
    assert replays
    monkeypatch.setattr(replaying, "MOST", 0)
    launched = predict(model, sets, batch_size=8)
    for a, b in zip(replayed, launched, strict=True):
        assert torch.equal(a.edge_index, b.edge_index)
        assert torch.equal(a.edge_prob, b.edge_prob)
    model.trains_in_bfloat16 = False
    exact = predict(model, sets, threshold=0.0)
    half = predict(small().cuda(), sets, threshold=0.0)
    for a, b in zip(exact, half, strict=True):
        assert torch.allclose(a.edge_prob, b.edge_prob, atol=0.03)
