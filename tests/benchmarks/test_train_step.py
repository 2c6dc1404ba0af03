"""The benchmark of a training step, and its count of what a step cannot do without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import train_step as bench
from benchmarks.common import notes, table
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.models import GLN
from gln.training.losses import Loss
from tests.models.test_gln import batch_of

TINY = replace(bench.CPU, points=6, sets=2, model={"width": 8, "pair_width": 8, "steps": 2}, peer="small")


@pytest.mark.parametrize("settings", [{}, {"mixing": False}, {"in_channels": 1}, {"kernels": 2, "steps": 1}])
def test_the_products_are_those_that_torch_counts(settings: dict[str, Any]) -> None:
    model = GLN(**{"width": 8, "pair_width": 16, "steps": 2} | settings).eval()
    with FlopCounterMode(display=False) as counter:
        model(batch_of((5, 5, 5)))
    assert 2 * bench.forward_work(model.config, 3, 5).products == counter.get_total_flops()


def test_a_step_is_three_passes_and_the_optimiser() -> None:
    config = GLN(**TINY.model).config
    forward, step = bench.forward_work(config, 2, 6), bench.step_work(config, 2, 6)
    weights = sum(weight.numel() for weight in GLN(**config).parameters())
    assert step.products == 3 * forward.products
    assert step.numbers == 3 * forward.numbers + 7 * weights


def test_every_way_is_timed_beside_the_peer_and_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.torch.cuda, "is_available", lambda: False)
    row = bench.run(replace(TINY, repeats=1, square=64))
    assert [line["way"] for line in row["rows"]] == ["eager", "without fused kernel", "Set2Graph"]
    ours, _, peer = row["rows"]
    assert peer["ratio"] == 1
    assert ours["ratio"] == peer["seconds"] / ours["seconds"]
    assert ours["of_floor"] == ours["seconds"] / row["floor"]["seconds"] > 1
    assert row["floor"]["seconds"] == max(row["floor"]["matrix_seconds"], row["floor"]["copy_seconds"])
    assert len(table(row)) == 4
    assert notes(row)[0].startswith("Floor: ")


def test_steps_bring_the_loss_down() -> None:
    torch.manual_seed(0)
    graphs = parse_family("delaunay:points=8").sample(4, 0)
    model, batch = GLN(**TINY.model).eval(), GraphBatch.from_graphs(graphs)
    step, loss = bench.step_of(bench.Way(model), batch), Loss(edge="plain", psi1=5, every_step=True)
    before = loss(model(batch), batch).mean()
    for _ in range(10):
        step()
    assert loss(model(batch), batch).mean() < 0.97 * before


def test_a_mistake_is_one_sentence() -> None:
    with pytest.raises(GLNError, match="points=2"):
        bench.run(replace(TINY, points=2))
