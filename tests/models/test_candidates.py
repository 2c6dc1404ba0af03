"""Candidates by a k-d tree are those of the matrix of all distances."""

from __future__ import annotations

import pytest
import torch

from gln.models.candidates import Proposal, all_pairs, candidate_pairs, spatial_order

GRID = torch.cartesian_prod(torch.arange(5.0), torch.arange(4.0))  # most distances are equal to others
POINTS = {
    "grid": GRID[None],
    "random": torch.rand(1, 33, 3, generator=torch.Generator().manual_seed(0)),
    "few coincide": torch.cat([GRID, GRID[:2]])[None],
    "two": GRID[None, :2],
}


@pytest.mark.parametrize("points", POINTS.values(), ids=POINTS)
@pytest.mark.parametrize("nearest", [2, 3, 5, 40])
@pytest.mark.parametrize("rows", [1, 6, 1000])
def test_the_tree_sees_every_tie(
    points: torch.Tensor, nearest: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = torch.ones(points.shape[:2], dtype=torch.bool)
    expected = candidate_pairs(points, mask, nearest, listed=True)
    monkeypatch.setattr("gln.models.candidates.TREE_NODES", 0)
    monkeypatch.setattr("gln.models.candidates.TREE_ROWS", rows)
    got = candidate_pairs(points, mask, nearest, listed=True)
    assert got.ends.equal(expected.ends)


def test_as_many_candidates_as_nodes_are_all_pairs_however_the_graphs_are_padded() -> None:
    points = torch.rand(4, 9, 2, generator=torch.Generator().manual_seed(2))
    mask = torch.arange(9) < torch.tensor([[9], [1], [2], [6]])
    sizes = mask.sum(1)
    for nearest in (sizes, sizes + 3):
        assert candidate_pairs(points, mask, nearest).mask.equal(all_pairs(mask).mask)


def test_few_candidates_of_a_small_set_are_the_nearest_by_sorting() -> None:
    points = torch.rand(2, 9, 2, generator=torch.Generator().manual_seed(3))
    mask = torch.arange(9) < torch.tensor([[9], [5]])
    got = candidate_pairs(points, mask, torch.tensor([3, 1])).mask
    for graph, nearest in enumerate((3, 1)):
        size = int(mask[graph].sum())
        distance = torch.cdist(points[graph, :size], points[graph, :size]).fill_diagonal_(torch.inf)
        expected = torch.zeros(9, 9, dtype=torch.bool)
        for node in range(size):
            expected[node, distance[node].argsort()[:nearest]] = True
        assert got[graph].equal(expected | expected.T)


def test_the_tree_takes_positions_in_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.rand(2, 20, 2, generator=torch.Generator().manual_seed(4)).bfloat16()
    mask = torch.arange(20) < torch.tensor([[20], [7]])
    expected = candidate_pairs(points, mask, 4, listed=True)
    monkeypatch.setattr("gln.models.candidates.TREE_NODES", 0)
    got = candidate_pairs(points, mask, 4, listed=True)
    assert got.ends.equal(expected.ends)


def test_a_proposal_does_not_see_the_unit_of_length_of_a_large_set() -> None:
    torch.manual_seed(0)
    propose = Proposal(0, 2, width=4, count=1)
    where, mask = torch.rand(1, 8000, 2), torch.ones(1, 8000, dtype=torch.bool)
    for unit in (2.0**-46, 2.0**59):
        for got, expected in zip(
            propose._ends(unit * where, where[..., :0], mask),
            propose._ends(where, where[..., :0], mask),
            strict=True,
        ):
            assert got.equal(expected)


@pytest.mark.parametrize("workspace", [1, 100, 10**6])
def test_proposals_are_the_same_a_few_rows_at_a_time(workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gln.models.candidates.WORKSPACE", workspace)
    torch.manual_seed(0)
    propose, where = Proposal(0, 2, width=4, count=2), torch.rand(1, 40, 2)
    x, mask = where[..., :0], torch.ones(1, 40, dtype=torch.bool)
    assert propose.best_of_set(where, x, mask).equal(propose.best(propose(where, x, mask), mask))


@pytest.mark.parametrize("axes", [1, 2, 3, 4, 6])
def test_a_part_has_the_order_of_the_whole(axes: int) -> None:
    """And neighbours are near in it; some points coincide, and some coordinates are 0 of either sign."""
    points = torch.randn(2, 600, axes, generator=torch.Generator().manual_seed(axes))
    points[:, :20] = points[:, 20:40]
    points[:, ::9, 0] *= 0
    whole = spatial_order(points)
    assert torch.equal(whole.sort().values, torch.arange(1200))
    part = torch.arange(0, 600, 7)
    first = whole[:600]
    assert torch.equal(first[torch.isin(first, part)], part[spatial_order(points[:1, part])])
    apart = [
        torch.linalg.vector_norm(rows.diff(dim=0), dim=1).mean() for rows in (points[0, first], points[0])
    ]
    assert apart[0] < 0.7 * apart[1]
