"""The triangulation that a surface and points define, for any mesh of the surface."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from gln.families.geodesic import Mesh, dual, refined

FINE = 0.3  # of the spacing of the points, the longest edge of the mesh on which their distances spread
NEAR = 16  # triangles whose centre is near a point, among which the nearest is searched


def truth(mesh: Mesh, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The edges ``[m, 2]`` and triangles ``[t, 3]`` over ``points [n, 3]``, or over where they are nearest to ``mesh``.

    Each edge has its smaller end first; triangles turn as those of the mesh do. Whether they are a triangulation is
    for :func:`flaw` to say.
    """
    spacing = np.sqrt(2 / 3**0.5 * mesh.areas().sum() / len(points))
    mesh = refined(mesh, FINE * spacing)
    feet, face = nearest_on(mesh, points)
    return dual(mesh, feet, face)


def nearest_on(mesh: Mesh, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest place ``[n, 3]`` to every point on a mesh of small triangles, and its triangle ``[n]``."""
    centre = mesh.vertices[mesh.faces].mean(1)
    _, near = cKDTree(centre).query(points, k=min(NEAR, len(centre)))
    near = near.reshape(len(points), -1)
    place = _nearest_in(mesh.vertices[mesh.faces[near]], points[:, None])  # [n, k, 3]
    best = np.linalg.norm(place - points[:, None], axis=2).argmin(1)
    rows = np.arange(len(points))
    return place[rows, best], near[rows, best]


def _nearest_in(corners: np.ndarray, point: np.ndarray) -> np.ndarray:
    """The nearest places ``[..., 3]`` in triangles ``[..., 3, 3]``: inside of one, or on one of its sides."""
    a, b, c = (corners[..., i, :] for i in range(3))
    normal = np.cross(b - a, c - a)
    square = np.maximum((normal**2).sum(-1), 1e-300)
    share = [(np.cross(q - p, point - p) * normal).sum(-1) / square for p, q in ((b, c), (c, a), (a, b))]
    best = sum(weight[..., None] * corner for weight, corner in zip(share, (a, b, c), strict=True))
    gap = np.where(
        np.minimum(np.minimum(*share[:2]), share[2]) >= 0, np.linalg.norm(best - point, axis=-1), np.inf
    )
    for p, q in ((a, b), (b, c), (c, a)):
        way = q - p
        along = ((point - p) * way).sum(-1) / np.maximum((way**2).sum(-1), 1e-300)
        place = p + along.clip(0, 1)[..., None] * way
        far = np.linalg.norm(place - point, axis=-1)
        best, gap = np.where((far < gap)[..., None], place, best), np.minimum(far, gap)
    return best
