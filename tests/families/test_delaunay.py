"""What holds for Delaunay triangulations of random points."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull

from gln.errors import GLNError
from gln.families.delaunay import Delaunay, delaunay_edges
from gln.graphs import check_graph
from tests.conftest import assert_same_graph


@pytest.mark.parametrize("points", [3, 4, 50, (3, 30)])
def test_edges_are_canonical_and_can_be_recomputed(points: int | tuple[int, int]) -> None:
    for graph in Delaunay(points=points).sample(35, seed=1):
        assert graph.pos.is_contiguous()
        assert_same_graph(check_graph(graph), graph)
        assert torch.equal(delaunay_edges(graph.pos), graph.edge_index)


def test_joined_are_the_corners_of_circles_that_hold_no_other_point() -> None:
    """The definition, by brute force over all triples of points."""
    for graph in Delaunay(points=(4, 9)).sample(20, seed=2):
        point = graph.pos.double().numpy()
        expected = set()
        for triple in combinations(range(len(point)), 3):
            a, b, c = point[list(triple)]
            # The centre is as far from a as from b and from c: two linear equations.
            centre = np.linalg.solve(2 * np.array([b - a, c - a]), [b @ b - a @ a, c @ c - a @ a])
            others = np.delete(point, triple, axis=0)
            if (np.linalg.norm(others - centre, axis=1) > np.linalg.norm(a - centre)).all():
                expected |= {(i, j) for i in triple for j in triple if i != j}
        assert set(map(tuple, graph.edge_index.T.tolist())) == expected


def test_euler_counts_the_edges() -> None:
    """3n − 3 − h edges over n points of which h lie on the hull."""
    for graph in Delaunay(points=(5, 60)).sample(40, seed=3):
        hull = len(ConvexHull(graph.pos.numpy()).vertices)
        assert graph.num_edges == 2 * (3 * graph.num_nodes - 3 - hull)


def test_points_are_uniform_in_the_unit_square() -> None:
    pos = torch.cat([graph.pos for graph in Delaunay(points=50).sample(120, seed=4)])  # 6000 points
    assert pos.dtype == torch.float32
    assert pos.min() >= 0
    assert pos.max() < 1
    cell = (pos * 4).long()
    share = torch.bincount(cell[:, 0] * 4 + cell[:, 1], minlength=16) / len(pos)
    assert (share - 1 / 16).abs().max() < 0.016  # five standard deviations


def test_sizes_fill_their_range_both_ends_included() -> None:
    sizes = torch.tensor([graph.num_nodes for graph in Delaunay(points=(5, 8)).sample(400, seed=5)])
    counts = sizes.bincount()
    assert counts[:5].sum() == 0
    assert len(counts) == 9
    assert (counts[5:] - 100).abs().max() < 44  # five standard deviations


def test_a_point_met_twice_has_edges_once() -> None:
    """Qhull leaves the second one out: it becomes a node without edges, and the rest is as without it."""
    pos = Delaunay(points=12).sample(1)[0].pos
    twice = delaunay_edges(torch.cat([pos, pos[:1]]))
    degree = twice[0].bincount(minlength=13)
    assert sorted([int(degree[0]), int(degree[12])])[0] == 0
    assert twice.shape == delaunay_edges(pos).shape


def test_a_range_survives_json() -> None:
    assert Delaunay(points=[20, 80]) == Delaunay(points=(20, 80))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "points", [2, 0, 50.0, (2, 9), (9, 5), (5,), (5, 6, 7), (5, 6.0), "50", True, (True, 5)]
)
def test_impossible_sizes_are_refused(points: object) -> None:
    with pytest.raises(GLNError, match="expected a whole number of at least 3"):
        Delaunay(points=points)  # type: ignore[arg-type]


@pytest.mark.parametrize("pos", [[[0, 0], [1, 1], [2, 2]], [[0, 0], [1, 0]], np.eye(4, 3), [0, 1, 2]])
def test_only_points_that_span_a_plane_are_triangulated(pos: list) -> None:
    with pytest.raises(GLNError, match=r"expected \[n, 2\], not all on one line"):
        delaunay_edges(torch.tensor(pos, dtype=torch.float32))
