"""A set worked on by blocks has the answer of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from gln.compiling import can_compile
from gln.graphs import GraphBatch, make_graph
from gln.models import gln as gln_module
from gln.models.flat import FlatPairs
from gln.models.gln import GLN
from gln.models.output import StructureOutput
from gln.models.streaming import Before, score_set
from tests.models.test_gln import batch_of, model_of

NODES = 40


@pytest.fixture(autouse=True)
def every_set_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gln.models.gln.SMALL", 0)
    monkeypatch.setattr("gln.models.candidates.DENSE_NODES", 0)


def whole(model: GLN, batch: GraphBatch, **options: Any) -> StructureOutput:
    """With gradients, so in the padded form."""
    assert torch.is_grad_enabled()
    return model(batch, **options)


def matrix(scored: tuple[Tensor, Tensor, Tensor], nodes: int) -> Tensor:
    source, target, score = scored
    soft = score.new_zeros(nodes, nodes)
    soft[source, target] = score.sigmoid()
    return soft


VARIANTS: list[dict[str, Any]] = [
    {},
    {"mixing": False},
    {"feedback": False},
    {"shared": True},
    {"pos_channels": 0},
    {"index_channels": 4},
]
SETTINGS = [
    *VARIANTS,
    {"x_mean": [0.5], "x_std": [2.0]},
    {"proposals": 3},
]


@pytest.mark.parametrize("block", [1, 50, 10**6])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_blocks_of_any_size_give_the_answer_of_the_whole(block: int, settings: dict[str, Any]) -> None:
    model, batch = model_of(candidates=5, **settings), batch_of((NODES,))
    expected = whole(model, batch).probabilities()[0]
    scored = score_set(model, batch, block=block)
    assert len(scored.score) == (expected > 0).sum()
    torch.testing.assert_close(matrix(scored, NODES), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("workspace", [1, 100, 10**6])
def test_proposals_are_the_same_a_few_rows_at_a_time(workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gln.models.proposal.WORKSPACE", workspace)
    propose, batch = model_of(proposals=2).propose, batch_of((NODES,))
    expected = propose.best(propose(batch.pos, batch.x, batch.mask), batch.mask)
    ends = propose.best_of_set(batch.pos[0], batch.x[0])
    assert ends.equal(torch.stack([expected.source, expected.target]))


@pytest.mark.parametrize("block", [30, None])
def test_known_edges_are_candidates_and_where_the_recurrence_starts(block: int | None) -> None:
    model, batch = model_of(candidates=3), batch_of((NODES,))
    distance = torch.cdist(batch.pos[0], batch.pos[0])
    ends = torch.stack([torch.arange(NODES), distance.argmax(1)])  # as far as can be
    known = torch.cat([ends, ends.flip(0)], dim=1).unique(dim=1)
    initial = torch.zeros(NODES, NODES, dtype=torch.float64)
    initial[known[0], known[1]] = 1
    expected = whole(model, batch, initial=initial, steps=2).probabilities()[0]
    soft = matrix(score_set(model, batch, known, steps=2, block=block), NODES)
    assert (soft[known[0], known[1]] > 0).all()
    torch.testing.assert_close(soft, expected, rtol=0, atol=1e-9)


def test_fewer_candidates_can_be_asked_for() -> None:
    model, batch = model_of(candidates=9), batch_of((NODES,))
    expected = whole(model, batch, candidates=3).probabilities()[0]
    torch.testing.assert_close(
        matrix(score_set(model, batch, candidates=3), NODES), expected, rtol=0, atol=1e-9
    )
    assert (whole(model_of(candidates=3), batch).probabilities()[0] == expected).all()


def test_without_gradients_a_padded_batch_has_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = model_of(candidates=4), batch_of((1, 12, 2, 30))
    known = (torch.rand(batch.adj.shape, generator=torch.Generator().manual_seed(0)) < 0.05).double()
    known = known + known.mT
    calls = []
    stream = gln_module.stream_padded
    monkeypatch.setattr("gln.models.streaming.BLOCK", {"cpu": 30})
    monkeypatch.setattr(gln_module, "stream_padded", lambda *given: calls.append(1) or stream(*given))
    for initial in (None, known):
        expected = whole(model, batch, initial=initial)
        assert not calls
        with torch.no_grad():
            got = model(batch, initial=initial)
        assert calls == [1] * can_compile()
        calls.clear()
        for step in range(3):
            assert (got.probabilities(step) - expected.probabilities(step)).abs().max() < 1e-9
            assert (got.states[step] - expected.states[step])[batch.mask].abs().max() < 1e-9


def test_lonely_and_coinciding_nodes_have_an_answer() -> None:
    model = model_of(candidates=4)
    alone = batch_of((1,))
    assert len(score_set(model, alone).score) == 0
    one_place = replace(batch_of((9,)), pos=torch.ones(1, 9, 2).double())
    torch.testing.assert_close(
        matrix(score_set(model, one_place, block=20), 9), whole(model, one_place).probabilities()[0]
    )


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.bfloat16, 0.05)])
def test_lower_precision_stays_near(dtype: torch.dtype, close: float) -> None:
    model, batch = model_of(candidates=5).to(dtype), batch_of((NODES,))
    expected = whole(model, batch).probabilities()[0]
    assert (matrix(score_set(model, batch, block=60), NODES) - expected).abs().max() < close


def test_every_node_is_ticked_off_once_a_step() -> None:
    ticks: list[int] = []
    score_set(model_of(), batch_of((NODES,)), steps=2, block=50, tick=ticks.append)
    assert sum(ticks) == 2 * NODES
    assert len(ticks) > 4


def test_what_was_overwritten_is_kept_as_long_as_it_is_needed_and_no_longer() -> None:
    """A chain: each block is paired with the next alone."""
    ends = torch.arange(30)
    pairs = FlatPairs.from_ends(ends[:-1].numpy(), ends[1:].numpy(), 30)
    e = torch.arange(len(pairs.target), dtype=torch.float64)[:, None]
    original, everything = e.clone(), torch.arange(len(pairs.target))
    blocks = list(pairs.blocks(6))
    before = Before(e, blocks)
    for place, block in enumerate(blocks):
        near = block.neighbourhood(torch.full((30,), -1)).position
        assert before.at(near).equal(original[near])
        before.keep(place)
        e[block.own] = -1
        assert len(before.kept) <= 1
    assert not before.kept
    assert before.at(everything).equal(e)


@pytest.mark.parametrize("device", ["cpu"] + ["cuda"] * torch.cuda.is_available())
def test_a_large_set_in_float32_equals_the_whole(device: str) -> None:
    torch.manual_seed(0)
    model = GLN(pos_channels=3, width=16, pair_width=16, steps=2, candidates=8).eval()
    batch = GraphBatch.from_graphs([make_graph(pos=torch.rand(500, 3))])
    expected = whole(model, batch).probabilities()[0]
    scored = score_set(model.to(device), batch.to(device), block=1000)
    close = 1e-6 if device == "cpu" else 1e-4
    assert (matrix(scored, 500).cpu() - expected).abs().max() < close
