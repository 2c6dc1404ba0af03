"""The truth of surfaces: the triangulation that surface and points define."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.spatial import ConvexHull, Delaunay

from gln.errors import GLNError
from gln.families import family
from gln.families.geodesic import Mesh, boundary, flaw, refined
from gln.families.shapes import KINDS, TRIES, attempt, turned
from tests.families.surface import truth


def pairs(triangles: np.ndarray) -> set[tuple[int, int]]:
    sides = np.sort(
        np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1
    )
    return set(map(tuple, sides.tolist()))


def ball(longest: float) -> Mesh:
    """An octahedron, halved again and again and blown up."""
    corners = np.concatenate([np.eye(3), -np.eye(3)])
    mesh = Mesh(corners, ConvexHull(corners).simplices.astype(np.int64))
    back = (mesh.normals() * corners[mesh.faces].mean(1)).sum(1) < 0
    mesh = Mesh(corners, np.where(back[:, None], mesh.faces[:, ::-1], mesh.faces))
    length = 1.4
    while length > longest:
        length /= 1.5
        mesh = refined(mesh, length)
        mesh = Mesh(mesh.vertices / np.linalg.norm(mesh.vertices, axis=1)[:, None], mesh.faces)
    return mesh


def random_directions(seed: int, count: int) -> np.ndarray:
    points = np.random.default_rng(seed).standard_normal((count, 3))
    return points / np.linalg.norm(points, axis=1)[:, None]


def made(kind: str, seed: int, size: int = 150):
    for number in range(TRIES):
        sample = attempt(np.random.default_rng([seed, number]), kind, size)
        if not isinstance(sample, str):
            return sample
    raise AssertionError(sample)


def test_on_a_ball_it_is_the_convex_hull() -> None:
    mesh, points = ball(0.08), random_directions(0, 200)
    edges, triangles = truth(mesh, points)
    assert set(map(tuple, edges.tolist())) == pairs(ConvexHull(points).simplices)
    assert flaw(mesh, len(points), edges, triangles) is None
    outside = (Mesh(points, triangles).normals() * points[triangles[:, 0]]).sum(1)
    assert (outside > 0).all()


def test_inside_of_a_plate_it_is_the_delaunay_triangulation() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((200, 2))
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    plate = Mesh(corners, np.array([[0, 1, 2], [0, 2, 3]]))
    edges, triangles = truth(plate, np.column_stack([points, np.zeros(200)]))
    expected = Delaunay(points).simplices
    a, b, c = (points[corner] for corner in expected.T)
    matrix = 2 * np.stack([b - a, c - a], axis=1)
    centre = np.linalg.solve(
        matrix, np.stack([(b**2 - a**2).sum(1), (c**2 - a**2).sum(1)], axis=1)[..., None]
    )
    inside = ((centre > 0) & (centre < 1)).all((1, 2))  # where three cells meet on the plate
    assert set(map(tuple, np.sort(triangles, axis=1).tolist())) == set(
        map(tuple, np.sort(expected[inside], axis=1).tolist())
    )
    assert pairs(triangles) <= set(map(tuple, edges.tolist())) <= pairs(expected)


def test_across_an_edge_it_is_that_of_the_unfolded_surface() -> None:
    points = np.random.default_rng(2).random((150, 2)) * [2, 1]
    corners = np.array([[0.0, 0], [1, 0], [2, 0], [2, 1], [1, 1], [0, 1]])
    faces = np.array([[0, 1, 4], [0, 4, 5], [1, 2, 3], [1, 3, 4]])

    def folded(flat: np.ndarray) -> np.ndarray:
        return np.stack([np.minimum(flat[:, 0], 1), flat[:, 1], np.maximum(flat[:, 0] - 1, 0)], axis=1)

    flat = [np.column_stack([values, np.zeros(len(values))]) for values in (corners, points)]
    one = truth(Mesh(flat[0], faces), flat[1])
    two = truth(Mesh(folded(corners), faces), folded(points))
    assert pairs(one[1]) == pairs(two[1])


@pytest.mark.parametrize("kind", KINDS)
def test_every_sample_is_a_triangulation_of_its_surface(kind: str) -> None:
    for seed in range(3):
        sample = made(kind, seed)
        sides = Mesh(sample.points, sample.triangles).sides()
        walked, times = np.unique(sides, axis=0, return_counts=True)
        assert (times == 1).all()
        assert (boundary(sample.mesh) > 0) == (kind == "open")
        if kind != "open":
            assert {(b, a) for a, b in sides.tolist()} == set(map(tuple, walked.tolist()))
        mesh = sample.mesh
        euler = len(mesh.vertices) - len(pairs(mesh.faces)) + len(mesh.faces)
        assert len(sample.points) - len(sample.edges) + len(sample.triangles) == euler


def test_turning_scaling_and_reordering_change_nothing() -> None:
    sample = made("smooth", 5)
    order = np.random.default_rng(3).permutation(len(sample.points))
    moved = Mesh(turned(np.random.default_rng(4), sample.mesh.vertices), sample.mesh.faces)
    edges, _ = truth(moved, turned(np.random.default_rng(4), sample.points)[order])
    expected, _ = truth(sample.mesh, sample.points)
    assert set(map(tuple, np.sort(order[edges], axis=1).tolist())) == set(map(tuple, expected.tolist()))
    # The family's own mesh is less fine, which hardly matters.
    assert len(set(map(tuple, expected.tolist())) - set(map(tuple, sample.edges.tolist()))) < 0.02 * len(
        edges
    )


def test_graphs_carry_what_is_known_of_them() -> None:
    graphs = family("shapes", points=(80, 160)).graphs(8, seed=1)
    assert [int(graph.kind) for graph in graphs] == [0, 1, 2, 3] * 2
    assert all(
        80 <= graph.num_nodes <= 160 and bool(graph.closed) == (int(graph.kind) < 3) for graph in graphs
    )
    assert all(
        pairs(graph.face.T.numpy()) <= set(map(tuple, graph.edge_index.T.tolist())) for graph in graphs
    )
    assert any(float(graph.noise) > 0 for graph in graphs)
    assert not any(float(graph.noise) for graph in family("shapes", points=80, noise=False).graphs(4))


@pytest.mark.parametrize("points", [20, (300, 200), (40, 50, 60), "many"])
def test_sizes_that_cannot_be_are_refused(points: object) -> None:
    with pytest.raises(GLNError, match=r"shapes got points=.*expected a whole number of at least 30"):
        family("shapes", points=points)


def test_without_manifold3d_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "manifold3d", None)
    with pytest.raises(GLNError, match="pip install"):
        family("shapes", points=60, kind="sharp").graphs(1)
