"""Stacked trainings: each is the training that gln.fit does with batches of one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gln
from gln.graphs import GraphBatch, as_graphs
from gln.models import PaperGLN
from gln.storage.runs import read_checkpoint
from gln.training.losses import Loss
from reproduction.stack import Shelf, Stack

EPOCHS, LR = 2, 1e-3
TRAIN, TEST = 5, 3


def shelf(seed: int, starts: bool = False) -> tuple[list, Shelf]:
    graphs = gln.family("community", size=3, order="ordered").sample(TRAIN + TEST, seed)
    batch = GraphBatch.from_graphs(as_graphs(graphs, "graphs"))
    drawn = torch.rand(batch.adj.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    return graphs, Shelf(batch.features, batch.adj, TRAIN, drawn if starts else None)


def networks(count: int, **options: object) -> list[PaperGLN]:
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        made.append(PaperGLN(6, 2, steps=2, width=4, **options))  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("options", "loss"),
    [({}, Loss()), ({"shared": True, "symmetric": False}, Loss(edge="literal", regulariser=0.05))],
    ids=["usual", "other readings"],
)
def test_each_training_is_that_of_fit(options: dict, loss: Loss, tmp_path: Path) -> None:
    shelves = [shelf(seed) for seed in (0, 1)]
    seeds = [3, 4]
    stack = Stack(networks(2, **options), [one for _, one in shelves], seeds, loss, LR, compiled=False)
    assert stack.run([EPOCHS], lambda *_: None)
    for number, model in enumerate(networks(2, **options)):
        graphs = shelves[number][0]
        gln.fit(
            model, graphs[:TRAIN], graphs[TRAIN:], run=tmp_path / str(number), loss=loss, optimizer="adam", lr=LR,
            schedule="constant", warmup=0.0, weight_decay=0.0, clip=None, batch_size=1, epochs=EPOCHS,
            seed=seeds[number], progress=False,
        )  # fmt: skip
        last = read_checkpoint(tmp_path / str(number) / "checkpoint.safetensors").weights
        for name, weight in last.items():
            torch.testing.assert_close(stack.weights[f"net.{name}"][number], weight, rtol=1e-4, atol=1e-6)
        model.load_state_dict(last)
        made = gln.predict(model.cpu(), graphs[TRAIN:], threshold=0.5)
        expected = GraphBatch.from_graphs(as_graphs(made, "made")).adj
        i, j = torch.triu_indices(6, 6, offset=1)
        assert torch.equal(stack.predictions()[number], expected[:, i, j])
        scores = model(GraphBatch.from_graphs(as_graphs(graphs[TRAIN : TRAIN + 1], "graphs"))).logits[-1][0]
        found = torch.tensor(stack.curve[-1]["singular"][number], dtype=torch.float64)
        torch.testing.assert_close(found, torch.linalg.svdvals(scores.double())[:3], rtol=1e-3, atol=1e-5)


def test_without_a_compiler_it_runs_operation_by_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(traced: object) -> object:
        def call(*inputs: object) -> object:
            raise RuntimeError("no compiler here")

        return call

    monkeypatch.setattr(torch, "compile", refuse)
    found = []
    for compiled in (True, False):
        stack = Stack(networks(2), [shelf(0)[1]] * 2, [0, 1], Loss(), LR, compiled=compiled)
        stack.run([EPOCHS], lambda *_: None)
        found.append(stack.state())
    for name, value in found[0].items():
        assert torch.equal(value, found[1][name])


def test_starts_are_each_graphs_own() -> None:
    """With A⁰ = the identity for every graph, as if the network's own were used."""
    (_, given), (_, own) = shelf(0, starts=True), shelf(0)
    identity = Shelf(own.features, own.adj, TRAIN, torch.eye(6, dtype=torch.bool).expand_as(own.adj))
    results = []
    for one in (own, identity, given):
        stack = Stack(networks(1), [one], [0], Loss(), LR, compiled=False)
        stack.run([1], lambda *_: None)
        results.append(stack.weights["net.M.0"])
    torch.testing.assert_close(results[0], results[1])
    assert not torch.allclose(results[0], results[2])


def test_a_stopped_stack_goes_on_where_it_was() -> None:
    _, one = shelf(0)
    whole, first, second = (Stack(networks(1), [one], [0], Loss(), LR, compiled=False) for _ in range(3))
    seen: list[int] = []
    assert whole.run([1, 3], lambda epoch, _: seen.append(epoch))
    assert seen == [1, 3]
    assert not first.run([1, 3], lambda *_: None, late=lambda: first.epoch == 2)
    second.resume(first.state(), first.epoch, first.seconds, first.curve)
    assert second.run([1, 3], lambda *_: None)
    for name, weight in whole.weights.items():
        torch.testing.assert_close(second.weights[name], weight)
    assert [point["epoch"] for point in second.curve] == [1, 3]
