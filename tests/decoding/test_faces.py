"""Faces from edges: whatever the chances, an oriented manifold; of true edges, the true triangles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull, cKDTree

from gln.decoding.faces import describe, find_faces
from gln.graphs.triangles import half_edges

SURE = 0.999


def ball(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points on a ball, and the triangles of their convex hull."""
    points = np.random.default_rng(seed).standard_normal((count, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    return points, ConvexHull(points).simplices


def edges_of(triangles: np.ndarray) -> np.ndarray:
    return np.unique(np.sort(half_edges(triangles), axis=1), axis=0)


def as_set(triangles: np.ndarray) -> set[tuple[int, ...]]:
    return set(map(tuple, np.sort(triangles, axis=1).tolist()))


def check_manifold(faces: np.ndarray) -> None:
    """Sides run once in each direction at most, and the faces at a point hang together by their sides."""
    halves = half_edges(faces)
    assert len(np.unique(halves, axis=0)) == len(halves)
    for point in np.unique(faces):
        around = [set(face) - {point} for face in faces.tolist() if point in face]
        fan = around.pop()
        while joined := [rim for rim in around if rim & fan]:
            fan |= joined[0]
            around.remove(joined[0])
        assert not around


def test_true_edges_of_a_ball_give_its_convex_hull_seen_from_outside() -> None:
    points, triangles = ball(200)
    edges = edges_of(triangles)
    faces = find_faces(points, edges, np.full(len(edges), SURE))
    assert as_set(faces) == as_set(triangles)
    a, b, c = points[faces.T]
    assert (np.einsum("ij,ij->i", np.cross(b - a, c - a), a) > 0).all()
    facts = describe(len(points), faces)
    assert (facts.watertight, facts.euler, facts.pieces, facts.unused) == (True, 2, 1, 0)


def test_edges_that_are_lacking_leave_no_hole_unless_the_surface_is_open() -> None:
    points, triangles = ball(300)
    edges = edges_of(triangles[points[triangles].mean(1)[:, 2] < 0.7])
    chances = np.full(len(edges), SURE)
    assert describe(300, find_faces(points, edges, chances)).watertight
    kept = find_faces(points, edges, chances, open=True)
    assert describe(300, kept).loops == 1
    assert as_set(kept) <= as_set(triangles)


def test_a_triangle_is_closed_even_where_it_folds() -> None:
    """A narrow spike: no face across its foot is flat enough for the strict rules."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0.5, 0.02, 0], [0.5, 0.01, 3.0]])
    edges = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])
    faces = find_faces(points, edges, np.full(6, SURE))
    assert describe(4, faces).watertight


@pytest.mark.parametrize("seed", range(3))
def test_a_closed_surface_is_watertight_even_where_faces_are_in_the_way_of_filling_its_holes(
    seed: int,
) -> None:
    points, triangles = ball(150, seed)
    pairs = np.stack(np.triu_indices(150, 1), axis=1)
    pairs = pairs[np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1) < 0.5]
    true = np.isin(pairs @ [150, 1], edges_of(triangles) @ [150, 1])
    score = np.where(true, 2, -3) + 2 * np.random.default_rng(seed).standard_normal(len(pairs))
    assert describe(150, find_faces(points, pairs, 1 / (1 + np.exp(-score)))).watertight


@pytest.mark.parametrize("seed", range(4))
def test_any_chances_give_an_oriented_manifold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = ball(80, seed)[0] * [1, 1, 0.3] if seed % 2 else rng.random((80, 3))
    near = cKDTree(points).query(points, 13)[1][:, 1:]
    pairs = np.unique(np.sort(np.stack([np.repeat(np.arange(80), 12), near.ravel()], 1), axis=1), axis=0)
    faces = find_faces(points, pairs, rng.random(len(pairs)))
    assert len(faces)
    check_manifold(faces)


def test_without_any_edge_there_is_no_face() -> None:
    faces = find_faces(ball(10)[0], np.empty((0, 2), np.int64), np.empty(0))
    assert faces.shape == (0, 3)
    assert not describe(10, faces).watertight
