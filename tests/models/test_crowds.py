"""Where too many nodes coincide, their order does not matter, identical ones are one, and the cost is bounded."""

from __future__ import annotations

import time

import pytest
import torch

from gln import GLN
from gln.graphs import GraphBatch
from gln.graphs.record import Graph
from gln.inference.predict import predict_graphs
from gln.models.candidates import choose_pairs, find_crowds
from gln.models.pairs import expanded

K, FEW = 2, 4
RANDOM = torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
HERE, THERE = torch.zeros(1, 2), torch.full((1, 2), 0.5)
NOTHING = torch.empty(2, 0, dtype=torch.long)


# Positions and features; the nodes from 12 on, or all, are at one place or at two.
CROWDS: dict[str, tuple[torch.Tensor, torch.Tensor]] = {
    "all alike": (HERE.repeat(9, 1), torch.zeros(9, 1)),
    "some alike": (torch.cat([RANDOM[:12], HERE.repeat(9, 1)]), torch.zeros(21, 1)),
    "all different": (torch.cat([RANDOM[:12], HERE.repeat(9, 1)]), torch.arange(21.0)[:, None] % 10),
    "alike by threes": (torch.cat([RANDOM[:12], HERE.repeat(21, 1)]), (torch.arange(33.0)[:, None] // 3)),
    "two crowds": (torch.cat([RANDOM[:12], HERE.repeat(7, 1), THERE.repeat(6, 1)]), torch.zeros(25, 1)),
    "zeros of both signs": (
        torch.cat([RANDOM[:12], HERE.repeat(4, 1), -HERE.repeat(4, 1)]),
        torch.zeros(20, 1),
    ),
    "no crowd": (torch.cat([RANDOM[:12], HERE.repeat(FEW, 1)]), torch.zeros(16, 1)),
}


@pytest.fixture(autouse=True)
def small_crowds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gln.models.candidates.FEW", FEW)
    monkeypatch.setattr("gln.models.candidates.DENSE_NODES", 0)


def make(proposals: int = 0, **more: int) -> GLN:
    torch.manual_seed(0)
    model = GLN(
        in_channels=1, width=8, pair_width=8, kernels=2, steps=2, candidates=K, proposals=proposals, **more
    )
    return model.double().eval()


def batch_of(pos: torch.Tensor, x: torch.Tensor) -> GraphBatch:
    return GraphBatch.from_graphs([Graph(len(pos), pos=pos, x=x)], edges=False)


def scores(model: GLN, pos: torch.Tensor, x: torch.Tensor, known: torch.Tensor = NOTHING) -> torch.Tensor:
    """Probabilities ``[n, n]``, −1 where a pair is not scored; both ways of scoring a set give the same."""
    initial = torch.zeros(len(pos), len(pos))
    initial[known[0], known[1]] = 1
    with torch.no_grad():
        output = model(batch_of(pos, x), initial=initial, candidates=K)
        source, target, score = model.score_set(batch_of(pos, x), known, candidates=K)[:3]
    found = torch.full((len(pos), len(pos)), -1.0, dtype=score.dtype)
    found[source, target] = score.sigmoid()
    assert torch.allclose(output.probabilities()[0], found.clamp(min=0), atol=1e-12)
    return found


@pytest.mark.parametrize("name", CROWDS)
@pytest.mark.parametrize("nodes", [0, 10**6], ids=["tree", "matrix"])
@pytest.mark.parametrize("proposals", [0, 1])
def test_the_order_of_the_nodes_does_not_matter(
    name: str, nodes: int, proposals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gln.models.candidates.TREE_NODES", nodes)
    (pos, x), model = CROWDS[name], make(proposals)
    known = torch.tensor([[len(pos) - 1, 0], [0, len(pos) - 1]])
    for edges in (NOTHING, known):
        expected = scores(model, pos, x, edges)
        for seed in range(3):
            order = torch.randperm(len(pos), generator=torch.Generator().manual_seed(seed))
            got = scores(model, pos[order], x[order], order.argsort()[edges])
            assert torch.allclose(got, expected[order][:, order], atol=1e-12)


@pytest.mark.parametrize("name", ["some alike", "zeros of both signs"])
def test_identical_nodes_have_the_edges_of_a_single_one(name: str) -> None:
    (pos, x), model = CROWDS[name], make()
    got, single = scores(model, pos, x), scores(model, pos[:13], x[:13])
    assert (single[12] >= 0).any()
    for node in range(12, len(pos)):
        assert torch.allclose(got[node, :12], single[12, :12], atol=1e-12)
    assert (got[12:, 12:] == -1).all()
    assert torch.allclose(got[:12, :12], single[:12, :12], atol=1e-12)


def test_coinciding_nodes_with_different_features_have_scores_of_their_own() -> None:
    pos, x = HERE.repeat(12, 1), torch.arange(12.0)[:, None].square()
    got = scores(make(), pos, x)
    assert ((got >= 0).sum(1) >= K).all()
    assert len(got[got >= 0].unique()) > 12


def test_a_node_with_known_edges_is_told_from_its_likes() -> None:
    pos, x = CROWDS["some alike"]
    known = torch.tensor([[0, 15], [15, 0]])
    got = scores(make(), pos, x, known)
    assert (got[15] >= 0).nonzero().flatten().tolist() == [0]
    others = [node for node in range(12, 21) if node != 15]
    assert torch.allclose(got[others], got[12].expand(8, -1), atol=1e-12)


@pytest.mark.parametrize("name", CROWDS)
def test_a_node_has_few_candidates(name: str) -> None:
    pos, x = (rows.repeat(20, 1) if name.startswith("all") else rows for rows in CROWDS[name])
    model = make()
    where, _, read = model.inputs(
        batch_of(pos, x + torch.arange(len(x))[:, None] * (name == "all different"))
    )
    mask = torch.ones(1, len(pos), dtype=torch.bool)
    pairs = choose_pairs(model, where, read, mask, candidates=K)
    assert pairs.longest <= 8 * max(2 * K, FEW)


def test_graphs_of_a_batch_do_not_disturb_one_another() -> None:
    model = make()
    graphs = [Graph(len(pos), pos=pos, x=x) for pos, x in CROWDS.values()]
    together = model(GraphBatch.from_graphs(graphs, edges=False), candidates=K).probabilities()
    for number, (pos, x) in enumerate(CROWDS.values()):
        alone = model(batch_of(pos, x), candidates=K).probabilities()[0]
        assert torch.allclose(together[number, : len(pos), : len(pos)], alone, atol=1e-12)


def test_pairs_of_many_copies_with_many_copies_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    stands = torch.tensor([0, 0, 0, 3, 3, 5])
    ends = torch.tensor([[0, 0], [3, 5]])
    pairs = {tuple(sorted(pair)) for pair in expanded(ends, stands).T.tolist()}
    assert pairs == {(a, b) for a in (0, 1, 2) for b in (3, 4, 5)}
    monkeypatch.setattr("gln.models.pairs.MOST_COPIES", 5)
    pairs = {tuple(sorted(pair)) for pair in expanded(ends, stands).T.tolist()}
    assert pairs == {(0, 5), (1, 5), (2, 5)}


@pytest.mark.parametrize("kind", ["identical", "different features", "two places"])
def test_a_hundred_thousand_coinciding_points_take_seconds(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    count = 20_000 if kind == "different features" else 100_000  # only these are scored one by one
    pos, x = torch.ones(count, 2), torch.zeros(count, 1)
    if kind == "different features":
        x = torch.rand(count, 1, generator=torch.Generator().manual_seed(0))
    if kind == "two places":
        pos[::2] = 0
    model = GLN(in_channels=1, width=8, pair_width=8, kernels=1, steps=1, candidates=8)
    start = time.monotonic()
    (answer,) = predict_graphs(model, [Graph(count, pos=pos, x=x)])
    assert answer.num_nodes == count
    assert time.monotonic() - start < 20


def test_ordinary_sets_have_no_crowds() -> None:
    mask = torch.ones(1, 40, dtype=torch.bool)
    assert find_crowds(RANDOM[None], RANDOM[None, :, :0], mask, torch.tensor([K]), NOTHING) is None
    grid = torch.cartesian_prod(torch.arange(5.0), torch.arange(8.0))[None]
    assert find_crowds(grid, grid[..., :0], mask, torch.tensor([K]), NOTHING) is None
