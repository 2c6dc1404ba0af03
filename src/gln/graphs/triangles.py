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
    halves, count = half_edges(faces), int(faces.max(initial=0)) + 1
    key, back = halves @ [count, 1], halves @ [1, count]
    order = np.argsort(key)
    place = order[np.searchsorted(key, back, sorter=order).clip(max=len(key) - 1)]
    return np.where(key[place] == back, place, -1).reshape(-1, 3)
