"""Sides of faces replaced by the other diagonal of the two faces beside them, so that a surface bends less.

Points at random leave narrow triangles, whose normals point anywhere: which of the two diagonals of four points is an
edge says little about where these points are, and much about how the surface between them runs. A diagonal is replaced
where that lowers the sum of all angles between neighbours, unless its likelihood says otherwise by more than that. The
faces stay a manifold, oriented as before, with the same boundaries.
"""

from __future__ import annotations

import numpy as np

from gln.decoding.umbrellas import dot, normal_of
from gln.graphs.triangles import beyond
from gln.ops.loops import compiled

BEND = 32.0  # what a radian between the normals of two faces costs, in nats: chosen on the family shapes


def straightened(
    points: np.ndarray, faces: np.ndarray, pairs: np.ndarray, chances: np.ndarray, least: float
) -> np.ndarray:
    """The faces ``[f, 3]`` of an oriented manifold, with other diagonals where these bend it less.

    Args:
        points: ``[n, 3]``.
        faces: what to start from.
        pairs: those of which a chance is known, sorted, each with its smaller point first ``[m, 2]``.
        chances: how likely each is an edge ``[m]``; any other pair is as likely as ``least``.
    """
    start = np.searchsorted(pairs[:, 0], np.arange(len(points) + 1))
    faces = np.array(faces, np.int64)
    across = beyond(faces)
    target, known = np.ascontiguousarray(pairs[:, 1]), np.log(chances)
    _turn(np.ascontiguousarray(points), faces, across, start, target, known, np.log(least), BEND)
    return faces


@compiled
def _turn(points, faces, across, start, target, known, least, bend):  # type: ignore[no-untyped-def]
    """Turn sides, each of which lowers the cost, until none does.

    A side is ``3 · face + corner``, from a corner to the next; ``across [f, 3]`` is the same side of the neighbour, or
    -1. Known are the log-chances of ``(i, target[start[i] : start[i + 1]])``.
    """
    todo = [3 * f + i for f in range(len(faces)) for i in range(3) if across[f, i] > 3 * f + i]
    old, new, around = np.empty((2, 3)), np.empty((2, 3)), np.empty(3)
    while len(todo) > 0:
        side = todo.pop()
        f, i = side // 3, side % 3
        if across[f, i] < 0:
            continue
        g, j = across[f, i] // 3, across[f, i] % 3
        a, b, c, d = faces[f, i], faces[f, (i + 1) % 3], faces[f, (i + 2) % 3], faces[g, (j + 2) % 3]
        normal_of(points, a, b, c, old[0])
        normal_of(points, b, a, d, old[1])
        normal_of(points, a, d, c, new[0])
        normal_of(points, b, c, d, new[1])
        gain = bend * (_angle(old[0], old[1]) - _angle(new[0], new[1]))
        gain += _known(c, d, start, target, known, least) - _known(a, b, start, target, known, least)
        # Sides b c, c a, a d, d b.
        rim = across[f, (i + 1) % 3], across[f, (i + 2) % 3], across[g, (j + 1) % 3], across[g, (j + 2) % 3]
        for k in range(4):
            if rim[k] >= 0:
                face = rim[k] // 3
                normal_of(points, faces[face, 0], faces[face, 1], faces[face, 2], around)
                gain += bend * (_angle(old[k // 2], around) - _angle(new[0 if 0 < k < 3 else 1], around))
        if gain < 1e-6 or _joined(faces, across, 3 * f + (i + 2) % 3, d):
            continue
        faces[f, 0], faces[f, 1], faces[f, 2] = a, d, c
        faces[g, 0], faces[g, 1], faces[g, 2] = b, c, d
        across[f, 1], across[g, 1] = 3 * g + 1, 3 * f + 1
        places = 3 * g, 3 * f + 2, 3 * f, 3 * g + 2
        for k in range(4):
            across[places[k] // 3, places[k] % 3] = rim[k]
            if rim[k] >= 0:
                across[rim[k] // 3, rim[k] % 3] = places[k]
                for corner in range(3):
                    todo.append(3 * (rim[k] // 3) + corner)


@compiled
def _angle(one, two):  # type: ignore[no-untyped-def]
    return np.arccos(min(max(dot(one, two), -1.0), 1.0))


@compiled
def _known(one, two, start, target, known, least):  # type: ignore[no-untyped-def]
    """The log-chance of a pair."""
    low, high = min(one, two), max(one, two)
    place = start[low] + np.searchsorted(target[start[low] : start[low + 1]], high)
    return known[place] if place < start[low + 1] and target[place] == high else least


@compiled
def _joined(faces, across, first, point):  # type: ignore[no-untyped-def]
    """Whether the corner at which a side begins has an edge to a point already."""
    for way in range(2):  # around the corner, and from a boundary the other way
        side = first
        while side >= 0:
            f, i = side // 3, side % 3
            if faces[f, (i + 1) % 3] == point or faces[f, (i + 2) % 3] == point:
                return True
            if way == 0:
                side = across[f, (i + 2) % 3]
            elif across[f, i] >= 0:
                side = across[f, i] // 3 * 3 + (across[f, i] + 1) % 3
            else:
                side = -1
            if side == first:
                return False
    return False
