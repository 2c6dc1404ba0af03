"""Sides of the triangles of a surface, each walked as its triangle turns."""

from __future__ import annotations

import numpy as np


def half_edges(faces: np.ndarray) -> np.ndarray:
    """The sides of faces as they run ``[3f, 2]``; those of a face follow one another."""
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)


def beyond(faces: np.ndarray) -> np.ndarray:
    """Of every side of triangles ``[f, 3]`` the same side of its neighbour, ``3 · triangle + side``; -1 without.

    Side 0 is that from corner 0 to corner 1.
    """
    one, two = half_edges(faces.astype(np.int64)).T
    key = 2 * (np.minimum(one, two) * (int(faces.max(initial=0)) + 1) + np.maximum(one, two)) + (one > two)
    order = np.argsort(key)
    key = key[order]
    first = np.flatnonzero(key[:-1] ^ 1 == key[1:])  # the two ways along an edge follow one another
    across = np.full(len(key), -1)
    across[order[first]], across[order[first + 1]] = order[first + 1], order[first]
    return across.reshape(-1, 3)
