"""Other diagonals: the same surface with less bend, and a manifold as before."""

from __future__ import annotations

import numpy as np
import pytest

from gln.decoding.faces import boundary, describe, straightened
from gln.graphs.triangles import half_edges
from tests.decoding.test_faces import ball, check_manifold, edges_of


def bend(points: np.ndarray, faces: np.ndarray) -> float:
    """The sum of all angles between the normals of neighbours."""
    a, b, c = points[faces.T]
    normals = np.cross(b - a, c - a)
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    halves = half_edges(faces)
    beside = {(one, two): row // 3 for row, (one, two) in enumerate(halves.tolist())}
    both = [(face, beside[two, one]) for (one, two), face in beside.items() if (two, one) in beside]
    one, two = normals[np.array(both).T]
    return float(np.arccos((one * two).sum(1).clip(-1, 1)).sum() / 2)


def lump(count: int, seed: int, open: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points of a ball that is pressed to a block, with the triangles of the ball; perhaps without a cap."""
    points, triangles = ball(count, seed)
    a, b, c = points[triangles.T]
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), a) < 0
    triangles = np.where(inward[:, None], triangles[:, ::-1], triangles)
    if open:
        triangles = triangles[points[triangles].mean(1)[:, 2] < 0.6]
    return points / np.abs(points).max(1, keepdims=True), triangles


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("open", [False, True])
def test_a_surface_bends_less_and_is_otherwise_as_before(seed: int, open: bool) -> None:
    points, faces = lump(200, seed, open)
    edges = edges_of(faces)
    found = straightened(points, faces, edges, np.full(len(edges), 0.5), 0.5)
    check_manifold(found)
    assert bend(points, found) < 0.9 * bend(points, faces)
    assert describe(200, found) == describe(200, faces)
    rims = [half_edges(some)[boundary(some)] for some in (faces, found)]
    assert {*map(tuple, rims[0].tolist())} == {*map(tuple, rims[1].tolist())}


def test_edges_that_are_far_likelier_than_others_stay() -> None:
    points, faces = lump(100, 0, open=False)
    edges = edges_of(faces)
    found = straightened(points, faces, edges, np.ones(len(edges)), 1e-300)
    assert np.array_equal(found, faces)


def test_a_tetrahedron_has_no_other_diagonals() -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.3, 0.3, 0.01]])
    faces = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])
    found = straightened(points, faces, np.empty((0, 2), np.int64), np.empty(0), 0.02)
    assert np.array_equal(found, faces)
