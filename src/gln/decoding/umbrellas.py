"""Loops over triangles that keep a surface an oriented manifold, compiled by numba.

A triangle is a row of ``corners [t, 3]``, three points in ascending order, and of ``sides [t, 3]``, the numbers of its
edges 01, 12 and 02. The faces at a point form fans around it; on a manifold it is one, open or closed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gln.ops.loops import compiled

NONE = -1
MARGIN = 0.05  # directions that differ by so little do not cover one another


class Surface(NamedTuple):
    """Triangles, of which some are faces."""

    points: np.ndarray  # [n, 3]
    corners: np.ndarray  # [t, 3]
    sides: np.ndarray  # [t, 3]
    unit: np.ndarray  # [t, 3], normals
    beside: np.ndarray  # [m, 2], the faces at every edge, or -1
    around: np.ndarray  # the faces at every point: around[room[i] : room[i] + at[i]]
    room: np.ndarray  # [n]
    at: np.ndarray  # [n], how many faces a point has,
    edges: np.ndarray  # [n], and how many edges that a face has
    parent: np.ndarray  # [t], faces that are connected, by a tree,
    odd: np.ndarray  # [t], and whether one is turned the other way than its parent


def surface(points: np.ndarray, corners: np.ndarray, sides: np.ndarray) -> Surface:
    """Triangles, none of which is a face yet."""
    room = np.cumsum(np.bincount(corners.ravel(), minlength=len(points)))
    room = np.concatenate([[0], room[:-1]]).astype(np.int64)
    return Surface(
        points, corners, sides, normals(points, corners),
        beside=np.full((int(sides.max(initial=-1)) + 1, 2), NONE, np.int32),
        around=np.empty(corners.size, np.int32),
        room=room,
        at=np.zeros(len(points), np.int32),
        edges=np.zeros(len(points), np.int32),
        parent=np.arange(len(corners), dtype=np.int32),
        odd=np.zeros(len(corners), np.bool_),
    )  # fmt: skip


# The loops over triangles compute number by number: numba makes an array of every product of arrays.


@compiled
def dot(p, q):  # type: ignore[no-untyped-def]
    return p[0] * q[0] + p[1] * q[1] + p[2] * q[2]


@compiled
def _way(points, a, b):  # type: ignore[no-untyped-def]
    """From one point to another."""
    return points[b, 0] - points[a, 0], points[b, 1] - points[a, 1], points[b, 2] - points[a, 2]


@compiled
def normal_of(points, a, b, c, unit):  # type: ignore[no-untyped-def]
    """Write the normal of a triangle, and return its area."""
    p, q = _way(points, a, b), _way(points, a, c)
    unit[0] = p[1] * q[2] - p[2] * q[1]
    unit[1] = p[2] * q[0] - p[0] * q[2]
    unit[2] = p[0] * q[1] - p[1] * q[0]
    size = np.sqrt(dot(unit, unit))
    for k in range(3):
        unit[k] /= size + 1e-300
    return size / 2


@compiled
def normals(points, corners):  # type: ignore[no-untyped-def]
    """Those of triangles ``[t, 3]``."""
    unit = np.empty((len(corners), 3))
    for t in range(len(corners)):
        normal_of(points, corners[t, 0], corners[t, 1], corners[t, 2], unit[t])
    return unit


@compiled
def list_triangles(start, target, corners, sides):  # type: ignore[no-untyped-def]
    """Count the triangles of a graph, and write as many as there is room for.

    The neighbours of ``u`` that have a greater number are ``target[start[u] : start[u + 1]]``, ascending.
    """
    count = 0
    for u in range(len(start) - 1):
        for uv in range(start[u], start[u + 1]):
            v = target[uv]
            uw, vw = uv + 1, start[v]
            while uw < start[u + 1] and vw < start[v + 1]:
                if target[uw] < target[vw]:
                    uw += 1
                elif target[uw] > target[vw]:
                    vw += 1
                else:
                    if count < len(corners):
                        corners[count, 0], corners[count, 1], corners[count, 2] = u, v, target[uw]
                        sides[count, 0], sides[count, 1], sides[count, 2] = uv, vw, uw
                    count += 1
                    uw += 1
                    vw += 1
    return count


@compiled
def settle(sides, chances, likely, rounds):  # type: ignore[no-untyped-def]
    """Let the triangles at an edge add up to two faces, as far as the edge is likely: iterative scaling.

    What is too much at one edge is taken from those triangles that the other edges can do without.
    """
    total, factor = np.empty_like(chances), np.empty_like(chances)
    for _ in range(rounds):
        total[:] = 1e-9
        for t in range(len(sides)):
            for k in range(3):
                total[sides[t, k]] += likely[t]
        for edge in range(len(chances)):
            factor[edge] = min(2 * chances[edge] / total[edge], 1.5)
        for t in range(len(sides)):
            all_three = factor[sides[t, 0]] * factor[sides[t, 1]] * factor[sides[t, 2]]
            likely[t] = min(likely[t] * all_three ** (1 / 3), 1.0)


@compiled
def _root(s, t):  # type: ignore[no-untyped-def]
    """The first of the faces that ``t`` is connected with, and whether it is turned against it; shortens the path."""
    root, turned = t, False
    while s.parent[root] != root:
        turned ^= s.odd[root]
        root = s.parent[root]
    left = turned
    while t != root:
        above, before = s.parent[t], s.odd[t]
        s.parent[t], s.odd[t] = root, left
        left ^= before
        t = above
    return root, turned


@compiled
def _next_side(s, face, point, side):  # type: ignore[no-untyped-def]
    """Of a face with a side at a point, the other side there."""
    for k in range(3):
        other = s.sides[face, k]
        if other != side and (s.corners[face, k] == point or s.corners[face, (k + 1) % 3] == point):
            return other
    return side


@compiled
def _fan_end(s, point, side):  # type: ignore[no-untyped-def]
    """Walk around a point from the first edge of a fan: its last edge, and how many faces it has."""
    face, count = s.beside[side, 0], 0
    while True:
        count += 1
        side = _next_side(s, face, point, side)
        if s.beside[side, 1] == NONE:
            return side, count
        face = s.beside[side, 0] + s.beside[side, 1] - face


@compiled
def _volume(p, q, m):  # type: ignore[no-untyped-def]
    """That of the block with these sides, below 0 if they turn the other way."""
    return (
        m[0] * (p[1] * q[2] - p[2] * q[1])
        + m[1] * (p[2] * q[0] - p[0] * q[2])
        + m[2] * (p[0] * q[1] - p[1] * q[0])
    )


@compiled
def _between(p, q, x, m):  # type: ignore[no-untyped-def]
    """Whether the direction ``x`` lies between ``p`` and ``q``, seen along ``m``."""
    sign = 1 if _volume(p, q, m) >= 0 else -1
    return sign * _volume(p, x, m) > MARGIN and sign * _volume(x, q, m) > MARGIN


@compiled
def _scaled(p):  # type: ignore[no-untyped-def]
    """The direction of a vector."""
    size = np.sqrt(dot(p, p)) + 1e-300
    return p[0] / size, p[1] / size, p[2] / size


@compiled
def _directions(s, t, point):  # type: ignore[no-untyped-def]
    """Of a triangle at one of its points: the directions of both sides, and the one between them."""
    a, b, c = s.corners[t]
    p = _scaled(_way(s.points, point, b if a == point else a))
    q = _scaled(_way(s.points, point, b if c == point else c))
    return p, q, _scaled((p[0] + q[0], p[1] + q[1], p[2] + q[2]))


@compiled
def _overlaps(s, t, point, flat):  # type: ignore[no-untyped-def]
    """Whether a triangle covers a face that shares only this point with it, seen along their normals."""
    mine = s.unit[t]
    ours = _directions(s, t, point)
    for place in range(s.room[point], s.room[point] + s.at[point]):
        face = s.around[place]
        unit = s.unit[face]
        along = dot(mine, unit)
        if abs(along) < flat:
            continue
        shared = 0
        for k in range(3):
            for other in range(3):
                shared += s.corners[t, k] == s.corners[face, other]
        if shared > 1:
            continue
        theirs = _directions(s, face, point)
        way = 1 if along > 0 else -1
        m = _scaled((mine[0] + way * unit[0], mine[1] + way * unit[1], mine[2] + way * unit[2]))
        for row in range(3):
            if _between(theirs[0], theirs[1], ours[row], m) or _between(ours[0], ours[1], theirs[row], m):
                return True
    return False


@compiled
def _fits(s, t, fold, flat):  # type: ignore[no-untyped-def]
    """Whether the surface stays an oriented manifold, neither folded nor covering itself, with the triangle ``t``.

    A point may have several fans for the time being.
    """
    for k in range(3):
        if s.beside[s.sides[t, k], 1] != NONE:
            return False
        point = s.corners[t, k]
        if s.at[point] > 0 and s.edges[point] == s.at[point]:  # its fan is closed
            return False
    roots, turns, count = np.empty(3, np.int64), np.empty(3, np.bool_), 0
    for k in range(3):
        face = s.beside[s.sides[t, k], 0]
        if face == NONE:
            continue
        # Sides 01 and 12 are stored as they run, 02 against it.
        same = (k == 2) == (s.sides[face, 2] == s.sides[t, k])
        along = dot(s.unit[t], s.unit[face])
        if (-along if same else along) < fold:
            return False
        root, turned = _root(s, face)
        roots[count], turns[count] = root, turned ^ same
        for before in range(count):
            if roots[before] == root and turns[before] != turns[count]:
                return False
        count += 1
    for k in range(3):
        point, first, last = s.corners[t, k], s.sides[t, k], s.sides[t, (k + 2) % 3]
        if s.beside[first, 0] != NONE and s.beside[last, 0] != NONE:
            end, faces = _fan_end(s, point, first)
            if end == last and faces != s.at[point]:
                return False
        if flat < 1 and s.at[point] > 0 and _overlaps(s, t, point, flat):
            return False
    return True


@compiled
def _add(s, t):  # type: ignore[no-untyped-def]
    for k in range(3):
        point, side = s.corners[t, k], s.sides[t, k]
        s.around[s.room[point] + s.at[point]] = t
        s.at[point] += 1
        face = s.beside[side, 0]
        if face == NONE:
            s.beside[side, 0] = t
            s.edges[point] += 1
            s.edges[s.corners[t, (k + 1) % 3]] += 1
            continue
        s.beside[side, 1] = t
        same = (k == 2) == (s.sides[face, 2] == side)
        root, turned = _root(s, face)
        own, mine = _root(s, t)
        if root != own:
            s.parent[own], s.odd[own] = root, turned ^ mine ^ same


@compiled
def _remove(s, t):  # type: ignore[no-untyped-def]
    for k in range(3):
        point, side = s.corners[t, k], s.sides[t, k]
        for place in range(s.room[point], s.room[point] + s.at[point]):
            if s.around[place] == t:
                s.around[place] = s.around[s.room[point] + s.at[point] - 1]
                break
        s.at[point] -= 1
        if s.beside[side, 0] == t:
            s.beside[side, 0] = s.beside[side, 1]
        s.beside[side, 1] = NONE
        if s.beside[side, 0] == NONE:
            s.edges[point] -= 1
            s.edges[s.corners[t, (k + 1) % 3]] -= 1


@compiled
def grow(s, sure, fold, flat, chosen, turn):  # type: ignore[no-untyped-def]
    """Make every triangle a face that fits, one after another; in the end every point keeps only its largest fan.

    Of the first so many it is ``sure`` that they fit. What is ``chosen`` is to ``turn`` where neighbours disagree.
    """
    for t in range(len(s.corners)):
        if t < sure or _fits(s, t, fold, flat):
            _add(s, t)
            chosen[t] = True
    todo = [-1]
    for point in range(len(s.at)):
        if s.edges[point] - s.at[point] > 1:
            todo.append(point)
    while len(todo) > 1:
        point = todo.pop()
        while s.edges[point] - s.at[point] > 1:
            # The first edges of all fans, of which the shortest goes.
            least, begin = 1 << 60, NONE
            for place in range(s.room[point], s.room[point] + s.at[point]):
                face = s.around[place]
                for k in range(3):
                    side = s.sides[face, k]
                    if s.beside[side, 1] == NONE and (
                        s.corners[face, k] == point or s.corners[face, (k + 1) % 3] == point
                    ):
                        _, faces = _fan_end(s, point, side)
                        if faces < least:
                            least, begin = faces, side
            side = begin
            while True:
                face = s.beside[side, 0]
                side = _next_side(s, face, point, side)
                _remove(s, face)
                chosen[face] = False
                for k in range(3):
                    if s.corners[face, k] != point:
                        todo.append(s.corners[face, k])
                if s.beside[side, 0] == NONE:
                    break
    for t in range(len(chosen)):
        if chosen[t]:
            turn[t] = _root(s, t)[1]


@compiled
def close(points, outer, chords, fold, bend, area, found):  # type: ignore[no-untyped-def]
    """The best triangles that fill a hole; whether there are any.

    Every part of the loop ``points [k, 3]`` is filled with the triangle on its chord that costs least with what is left
    on both of its sides.

    Args:
        outer: the normals of the faces beyond each edge of the loop ``[k, 3]``.
        chords: what an edge between two points of the loop costs ``[k, k]``; infinite if it is forbidden.
        fold: the least cosine of the angle between the normals of neighbours.
        bend: what this angle costs, and ``area`` the area of a triangle.
        found: the triangles, as places in the loop ``[k - 2, 3]``.
    """
    count = len(points)
    cost, apex = np.zeros((count, count)), np.zeros((count, count), np.int64)
    normal = np.zeros((count, count, 3))
    unit, best_unit = np.empty(3), np.empty(3)
    for length in range(2, count):
        for i in range(count - length):
            j = i + length
            best = np.inf
            chord = 0.0 if length == count - 1 else chords[i, j]
            if chord < np.inf:
                for m in range(i + 1, j):
                    total = chord + cost[i, m] + cost[m, j]
                    if total >= best:
                        continue
                    total += area * normal_of(points, i, m, j, unit)
                    left = dot(unit, outer[i] if m == i + 1 else normal[i, m])
                    right = dot(unit, outer[m] if j == m + 1 else normal[m, j])
                    last = dot(unit, outer[count - 1]) if length == count - 1 else 1.0
                    if left < fold or right < fold or last < fold:
                        continue
                    total += bend * (3 - left - right - last)
                    if total < best:
                        best = total
                        apex[i, j] = m
                        best_unit[:] = unit
            cost[i, j] = best
            if best < np.inf:
                normal[i, j] = best_unit
    if cost[0, count - 1] == np.inf:
        return False
    todo, number = [(0, count - 1)], 0
    while len(todo) > 0:
        i, j = todo.pop()
        m = apex[i, j]
        found[number, 0], found[number, 1], found[number, 2] = i, m, j
        number += 1
        if m > i + 1:
            todo.append((i, m))
        if j > m + 1:
            todo.append((m, j))
    return True
