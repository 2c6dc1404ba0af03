"""Listed pairs, and a set worked on by blocks: the answer of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from gln.graphs import GraphBatch, make_graph
from gln.models import pairs as pairs_module
from gln.models.candidates import candidate_pairs
from gln.models.gln import GLN
from gln.models.pairs import ListedPairs
from tests.models.test_gln import batch_of, model_of

NODES = 40
VARIANTS: list[dict[str, Any]] = [
    {},
    {"mixing": False},
    {"feedback": False},
    {"shared": True},
    {"pos_channels": 0},
    {"index_channels": 4},
    {"x_mean": [0.5], "x_std": [2.0]},
    {"proposals": 3},
]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every set is large."""
    monkeypatch.setattr("gln.models.candidates.SMALL", 0)
    monkeypatch.setattr("gln.models.candidates.DENSE_NODES", 0)


def matrix(scored: tuple[Tensor, Tensor, Tensor], nodes: int = NODES) -> Tensor:
    source, target, score = scored[:3]
    soft = score.new_zeros(nodes, nodes)
    soft[source, target] = score.sigmoid()
    return soft


def test_pairs_in_any_order_and_repeated_become_one_symmetric_list() -> None:
    ends = torch.tensor([[3, 0, 1, 0, 2], [0, 3, 0, 1, 2]])
    pairs = ListedPairs.from_ends(ends, (1, 5))
    assert pairs.ends.T.tolist() == [[0, 1], [0, 3], [1, 0], [3, 0]]
    assert pairs.start.tolist() == [0, 2, 3, 3, 4, 4]
    order = torch.tensor([4, 3, 2, 1, 0])
    other = ListedPairs.from_ends(ends, (1, 5), order)
    assert other.ends.T.tolist() == [[1, 4], [3, 4], [4, 1], [4, 3]]
    for one, two in ((pairs.mask, other.mask), (pairs.candidates, other.candidates)):
        assert one.equal(two)
    values = torch.rand(1, 5, 2)
    assert other.to_batch(other.from_batch(values)).equal(values)


def test_every_pair_finds_its_reverse_and_its_place() -> None:
    points = torch.rand(3, 20, 2, generator=torch.Generator().manual_seed(1))
    mask = torch.arange(20) < torch.tensor([[20], [1], [7]])
    pairs = candidate_pairs(points, mask, 4, listed=True)
    assert isinstance(pairs, ListedPairs)
    assert pairs.reverse(pairs.ends[0]).equal(pairs.ends[1])
    order = torch.randperm(pairs.ends.shape[1])
    assert pairs.places(pairs.ends[:, order]).equal(order)


@pytest.mark.parametrize("size", [1, 17, 10**6])
def test_blocks_give_what_all_pairs_give(size: int) -> None:
    points, mask = torch.rand(1, 23, 2), torch.ones(1, 23, dtype=torch.bool)
    everything = candidate_pairs(points, mask, 4, listed=False)
    listed = candidate_pairs(points, mask, 4, listed=True)
    blocks, held = listed.blocks(size), everything.mask[0]
    node, pair = (
        torch.randn(23, 2, 3).double(),
        torch.randn(1, 23, 23, 2).double() * everything.mask[..., None],
    )
    flat = pair[0][held]
    for name in ("source", "target"):
        expected = getattr(everything, name)(node[None].flatten(2)).expand(1, 23, 23, -1)[0][held]
        assert torch.cat([getattr(block, name)(node.flatten(1)) for block in blocks]).equal(expected)
    sums = torch.cat([block.aggregate(block.pairs(flat), node) for block in blocks])
    torch.testing.assert_close(sums, everything.aggregate(pair, node[None])[0])
    torch.testing.assert_close(listed.total(flat[:, 0]), everything.total(pair[..., 0])[0])
    rows = torch.cat([block.by_row(block.pairs(flat[:, 0]), 0) for block in blocks])
    torch.testing.assert_close(rows.sum(1), pair[0, ..., 0].sum(1))
    most = int(listed.start.diff().max())
    assert all(block.shape[0] <= max(size, most) for block in blocks)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("block", [1, 50, 10**6])
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_blocks_of_any_size_give_the_answer_of_the_whole(block: int, settings: dict[str, Any]) -> None:
    model, batch = model_of(candidates=5, **settings), batch_of((NODES,))
    expected = model(batch).probabilities()[0]
    scored = model.score_set(batch, block=block)
    assert len(scored.score) == (expected > 0).sum()
    torch.testing.assert_close(matrix(scored), expected, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("block", [30, None])
def test_known_edges_are_candidates_and_where_the_recurrence_starts(block: int | None) -> None:
    model, batch = model_of(candidates=3), batch_of((NODES,))
    distance = torch.cdist(batch.pos[0], batch.pos[0])
    ends = torch.stack([torch.arange(NODES), distance.argmax(1)])  # as far as can be
    known = torch.cat([ends, ends.flip(0)], dim=1).unique(dim=1)
    initial = torch.zeros(NODES, NODES, dtype=torch.float64)
    initial[known[0], known[1]] = 1
    expected = model(batch, initial=initial, steps=2).probabilities()[0]
    soft = matrix(model.score_set(batch, known, steps=2, block=block))
    assert (soft[known[0], known[1]] > 0).all()
    torch.testing.assert_close(soft, expected, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("large")
def test_fewer_candidates_can_be_asked_for() -> None:
    model, batch = model_of(candidates=9), batch_of((NODES,))
    expected = model(batch, candidates=3).probabilities()[0]
    torch.testing.assert_close(matrix(model.score_set(batch, candidates=3)), expected, rtol=0, atol=1e-9)
    assert (model_of(candidates=3)(batch).probabilities()[0] == expected).all()


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("settings", [*VARIANTS, {"kernels": 1}], ids=str)
def test_without_gradients_a_batch_is_worked_on_by_blocks_with_the_same_answer(
    listed: bool, settings: dict[str, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if listed:
        request.getfixturevalue("large")
    model, batch = model_of(candidates=4, **settings), batch_of((1, 12, 2, 30))
    known = (torch.rand(batch.adj.shape, generator=torch.Generator().manual_seed(0)) < 0.05).double()
    monkeypatch.setattr(pairs_module, "BLOCK", {"cpu": 30 if listed else 2000})
    for initial in (None, known + known.mT):
        expected = model(batch, initial=initial)
        with torch.no_grad():
            got = model(batch, initial=initial)
        assert got.mask.equal(expected.mask)
        for step in range(3):
            assert (got.probabilities(step) - expected.probabilities(step)).abs().max() < 1e-9
            assert (got.states[step] - expected.states[step])[batch.mask].abs().max() < 1e-9


@pytest.mark.usefixtures("large")
def test_lonely_and_coinciding_nodes_have_an_answer() -> None:
    model = model_of(candidates=4)
    assert len(model.score_set(batch_of((1,))).score) == 0
    one_place = replace(batch_of((9,)), pos=torch.ones(1, 9, 2).double())
    expected = model(one_place).probabilities()[0]
    torch.testing.assert_close(matrix(model.score_set(one_place, block=20), 9), expected)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.bfloat16, 0.05)])
def test_lower_precision_stays_near(dtype: torch.dtype, close: float) -> None:
    model, batch = model_of(candidates=5).to(dtype), batch_of((NODES,))
    expected = model(batch).probabilities()[0]
    assert (matrix(model.score_set(batch, block=60)) - expected).abs().max() < close


def test_every_node_is_ticked_off_once_a_step() -> None:
    ticks: list[int] = []
    model_of().score_set(batch_of((NODES,)), steps=2, block=50, tick=ticks.append)
    assert sum(ticks) == 2 * NODES
    assert len(ticks) > 4


def test_what_was_replaced_is_kept_as_long_as_it_is_needed_and_no_longer() -> None:
    """A chain: each block is paired with the next alone."""
    ends = torch.stack([torch.arange(29), torch.arange(1, 30)])
    pairs = ListedPairs.from_ends(ends, (1, 30))
    blocks = pairs.blocks(6)
    state = torch.arange(pairs.ends.shape[1])[:, None]
    before: list[Tensor | None] = [block.pairs(state) for block in blocks]
    for number, block in enumerate(blocks):
        around = block.around(before, number)
        assert around[slice(*block.near.own)].equal(block.pairs(state))
        kept = [n for n, held in enumerate(before[: number + 1]) if held is not None]
        assert kept == [number] * (number + 1 < len(blocks))
    assert before == [None] * len(blocks)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("device", ["cpu"] + ["cuda"] * torch.cuda.is_available())
def test_a_large_set_in_float32_equals_the_whole(device: str) -> None:
    torch.manual_seed(0)
    model = GLN(pos_channels=3, width=16, pair_width=16, steps=2, candidates=8).eval()
    batch = GraphBatch.from_graphs([make_graph(pos=torch.rand(500, 3))])
    expected = model(batch).probabilities()[0]
    scored = model.to(device).score_set(batch.to(device), block=1000)
    close = 1e-6 if device == "cpu" else 1e-4
    assert (matrix(scored, 500).cpu() - expected).abs().max() < close
