"""What the benchmark of meshes measures with."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.mesh import by_length, describe_any, sampled, sharp_points
from recipes.mesh_files import Mesh
from tests.decoding.test_faces import ball

CORNERS = np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 1) for z in (0.0, 1)])
SIDES = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
CUBE = Mesh(CORNERS, np.array([side for a, b, c, d in SIDES for side in ((a, b, c), (a, c, d))]))


def test_sharp_points_lie_on_the_edges_of_a_cube_and_not_on_the_diagonals_of_its_sides() -> None:
    at = np.isclose(sharp_points(CUBE) % 1, 0)
    assert (at.sum(1) >= 2).all()


def test_a_cube_is_watertight_and_without_a_side_it_is_not() -> None:
    assert describe_any(CUBE) == {"manifold": 1.0, "watertight": True, "faces": 12}
    assert not describe_any(Mesh(CORNERS, CUBE.faces[1:]))["watertight"]


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_samples_lie_as_far_from_the_surface_as_was_asked_for(noise: float) -> None:
    where = sampled(CUBE, 4000, noise)
    outside = np.maximum(np.abs(where - 0.5) - 0.5, 0).max(1)
    inside = np.maximum(0.5 - np.abs(where - 0.5).max(1), 0)
    far = np.sqrt((outside**2 + inside**2).mean())
    assert far == pytest.approx(noise * np.sqrt(6 / 4000), rel=0.15, abs=1e-12)


def test_a_ball_is_closed_by_lengths_alone() -> None:
    points, _ = ball(300)
    assert describe_any(Mesh(*by_length(points, False)))["watertight"]
