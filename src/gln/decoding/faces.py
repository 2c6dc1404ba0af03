"""The surface that a predicted graph stands for: triangles, of which every edge has at most two.

A model says of every pair of points how likely it is an edge. Three pairs that join three points are a triangle; how
likely it is a face follows from its edges and from their other triangles, as an edge has two faces. From the likeliest
on, a triangle becomes a face if the surface stays an oriented manifold that neither folds nor covers itself
(:func:`gln.decoding.umbrellas.grow`). What is then left open are loops of edges with one face. Each is filled with the
triangles that cost least together, found by dynamic programming over the parts of the loop.

At last, sides give way to the other diagonal of the two faces beside them, so that the surface bends less. Points at
random leave narrow triangles, whose normals point anywhere: which of the two diagonals of four points is an edge says
little about where these points are, and much about how the surface between them runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gln.decoding.umbrellas import close, dot, grow, list_triangles, normal_of, normals, settle, surface
from gln.graphs.convert import components
from gln.graphs.triangles import beyond, half_edges
from gln.ops.loops import compiled

LEAST = 0.02  # edges less likely than this are not considered, nor
UNLIKELY = 0.01  # triangles
ROUNDS = 20  # of weighing the triangles of an edge against one another
FOLD = -0.99  # the least cosine between the normals of neighbours
FLAT = 0.95  # the cosine above which faces may overlap
LOOSE = -2.0, 2.0  # the same where nothing else closes a hole
SMALL = 8  # edges of a hole that is also closed on an open surface
LARGEST = 1500  # edges of a hole that can be filled
CRUMB = 12  # faces of a piece that is left out if it is open
BEND, AREA = 3.0, 0.5  # what it costs to fill a hole with faces that bend, and with large ones; in nats
TRIES = 4  # rounds of filling holes
TURN = 32.0  # what a radian between the normals of two faces costs, in nats: chosen on the family shapes


def find_faces(points: np.ndarray, pairs: np.ndarray, chances: np.ndarray, open: bool = False) -> np.ndarray:
    """The faces ``[f, 3]`` of the likeliest surface, seen from outside counterclockwise.

    Whatever the chances, it is an oriented manifold: an edge has one or two faces, and those of a point are one fan.

    Args:
        points: ``[n, 3]``.
        pairs: two points each ``[m, 2]``, every pair once.
        chances: how likely each is an edge ``[m]``.
        open: keep boundaries, and close only small holes.
    """
    where = points - points.mean(0)
    where /= np.abs(where).max() + 1e-300
    chosen = chances >= LEAST
    low, high = np.sort(pairs[chosen].astype(np.int64), axis=1).T.reshape(2, -1)
    key, first = np.unique(low * len(points) + high, return_index=True)
    # The likely pairs, each with its smaller point first, sorted.
    pairs, chances = np.stack(np.divmod(key, len(points)), axis=1), chances[chosen][first].astype(np.float64)
    corners, sides, likely = likely_triangles(where, pairs, chances)
    order = np.flatnonzero(likely > UNLIKELY)
    order = order[np.argsort(-likely[order], kind="stable")]
    faces = without_crumbs(_grown(where, corners[order], FOLD, FLAT, sides=sides[order]))
    rounds = [(TRIES, FOLD, FLAT)] if open else [(TRIES, FOLD, FLAT), (2, *LOOSE)]

    def closed(faces: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """With what fills holes, and the loops that are left."""
        loops = loops_of(faces)
        for tries, fold, flat in rounds:
            for _ in range(tries):
                filled = _fill(where, faces, loops, pairs, chances, SMALL if open else LARGEST, fold)
                if not len(filled):
                    break
                faces = _grown(where, np.concatenate([faces, filled]), fold, flat, sure=len(faces))
                loops = loops_of(faces)
        return faces, loops

    best, fewest = faces, loops = closed(faces)
    for _ in range(0 if open else TRIES):
        if not fewest:
            break
        faces, loops = closed(_grown(where, _widened(faces, loops), *LOOSE))
        if sum(map(len, loops)) < sum(map(len, fewest)):
            best, fewest = faces, loops
    return outward(where, straightened(where, best, pairs, chances))


def likely_triangles(
    points: np.ndarray, pairs: np.ndarray, chances: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All triangles of sorted pairs: their corners and pairs, both ``[t, 3]``, and how likely they are ``[t]``."""
    start = np.searchsorted(pairs[:, 0], np.arange(len(points) + 1))
    end = np.ascontiguousarray(pairs[:, 1])
    none = np.empty((0, 3), np.int32)
    corners = np.empty((list_triangles(start, end, none, none), 3), np.int32)
    sides = np.empty_like(corners)
    list_triangles(start, end, corners, sides)
    likely = chances[sides].prod(1)
    settle(sides, chances, likely, ROUNDS)
    return corners, sides, likely


def _grown(
    points: np.ndarray,
    triangles: np.ndarray,
    fold: float,
    flat: float,
    sure: int = 0,
    sides: np.ndarray | None = None,
) -> np.ndarray:
    """The faces among ``triangles [t, 3]``, the first of which are preferred; neighbours run the same way round.

    The first so many are ``sure``: they are a manifold already. ``sides [t, 3]`` numbers the edges 01, 12 and 02 of
    triangles whose corners ascend.
    """
    corners = np.sort(triangles, axis=1).astype(np.int32)
    if sides is None:
        key = corners[:, [0, 1, 0]] * np.int64(len(points)) + corners[:, [1, 2, 2]]
        sides = np.unique(key, return_inverse=True)[1].reshape(-1, 3).astype(np.int32)
    s = surface(points, corners, sides)
    chosen, turn = np.zeros((2, len(corners)), bool)
    grow(s, sure, fold, flat, chosen, turn)
    corners[turn] = corners[turn][:, [0, 2, 1]]
    return corners[chosen].astype(np.int64)


def boundary(faces: np.ndarray) -> np.ndarray:
    """Which of the :func:`half_edges` have no other face beside them: bool ``[3f]``."""
    return beyond(faces).ravel() < 0


def loops_of(faces: np.ndarray) -> list[np.ndarray]:
    """The boundary loops of a manifold, each as rows of :func:`half_edges`, in the order in which they run."""
    rows = np.flatnonzero(boundary(faces))
    starts, ends = half_edges(faces)[rows].T
    leaves = dict(zip(starts.tolist(), zip(rows.tolist(), ends.tolist(), strict=True), strict=True))
    found = []
    while leaves:
        at, loop = next(iter(leaves)), []
        while at in leaves:
            row, at = leaves.pop(at)
            loop.append(row)
        found.append(np.array(loop))
    return found


def pieces(across: np.ndarray) -> np.ndarray:
    """The number of the connected piece of every face ``[f]``, from what is :func:`beyond` its sides."""
    beside = across.ravel() >= 0
    pairs = np.stack([np.flatnonzero(beside), across.ravel()[beside]], axis=1) // 3
    return components(pairs, len(across))


def without_crumbs(faces: np.ndarray) -> np.ndarray:
    """Without open pieces of few faces, unless they are all there is."""
    across = beyond(faces)
    piece = pieces(across)
    size = np.bincount(piece)
    is_open = np.bincount(piece[(across < 0).any(1)], minlength=len(size)) > 0
    stays = ~is_open | (size >= min(CRUMB, size.max(initial=0)))
    return faces[stays[piece]]


def _fill(
    points: np.ndarray,
    faces: np.ndarray,
    loops: list[np.ndarray],
    pairs: np.ndarray,
    chances: np.ndarray,
    most: int,
    fold: float,
) -> np.ndarray:
    """Triangles that close the holes of at most so many edges."""
    count, halves = len(points), half_edges(faces)
    used = np.unique(np.sort(halves[_among(halves, loops)], axis=1) @ [count, 1])
    known = pairs @ [count, 1]
    filled = [np.empty((0, 3), np.int64)]
    for loop in loops:
        if len(loop) > most:
            continue
        loop = loop[::-1]  # a hole runs against its surroundings
        nodes = halves[loop, 1]
        where = points[nodes]
        key = np.minimum.outer(nodes, nodes) * count + np.maximum.outer(nodes, nodes)
        place, listed = _places(known, key)
        cost = np.full(key.shape, -np.log(LEAST))
        cost[listed] = -np.log(chances[place[listed]])
        cost[_places(used, key)[1]] = np.inf
        found = np.empty((len(nodes) - 2, 3), np.int64)
        edge = np.linalg.norm(where - np.roll(where, 1, axis=0), axis=1).mean()
        if close(where, normals(points, faces[loop // 3]), cost, fold, BEND, AREA / edge**2, found):
            filled.append(nodes[found])
    return np.concatenate(filled)


def _widened(faces: np.ndarray, loops: list[np.ndarray]) -> np.ndarray:
    """Without the faces whose sides join two points of one hole across it: where they are in the way of its filling."""
    count, halves = int(faces.max(initial=0)) + 1, half_edges(faces)
    rows = _among(halves, loops)
    key = np.sort(halves[rows], axis=1) @ [count, 1]
    stays = np.ones(len(faces), bool)
    for loop in loops:
        if len(loop) > LARGEST:
            continue
        nodes = np.sort(halves[loop, 0])
        across = (nodes[:, None] * count + nodes)[np.triu_indices(len(nodes), 1)]
        sides = np.sort(halves[loop], axis=1) @ [count, 1]
        in_way = np.isin(key, np.setdiff1d(across, sides))
        stays[rows[in_way] // 3] = False
    return faces[stays]


def _among(halves: np.ndarray, loops: list[np.ndarray]) -> np.ndarray:
    """The rows of ``halves`` that join two points of loops."""
    on_loop = np.zeros(int(halves.max(initial=0)) + 1, bool)
    for loop in loops:
        on_loop[halves[loop]] = True
    return np.flatnonzero(on_loop[halves].all(1))


def _places(ascending: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where values are among ascending ones, and whether they are there."""
    place = np.searchsorted(ascending, values)
    there = place < len(ascending)
    there[there] = ascending[place[there]] == values[there]
    return place, there


def outward(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """The same faces, each piece turned so that its normals lead out of what it encloses."""
    piece = pieces(beyond(faces))
    a, b, c = points[faces.T]
    volume = np.bincount(piece, np.einsum("ij,ij->i", np.cross(a, b), c))
    inward = volume < 0
    return np.where(inward[piece][:, None], faces[:, ::-1], faces)


def straightened(
    points: np.ndarray, faces: np.ndarray, pairs: np.ndarray, chances: np.ndarray, least: float = LEAST
) -> np.ndarray:
    """The faces ``[f, 3]`` of an oriented manifold, with other diagonals where these bend it less.

    A diagonal is replaced where that lowers the sum of all angles between neighbours, unless its likelihood says
    otherwise by more than that. The faces stay a manifold, oriented as before, with the same boundaries.

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
    _turn(np.ascontiguousarray(points), faces, across, start, target, known, np.log(least), TURN)
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


@dataclass(frozen=True)
class MeshFacts:
    """What a mesh is, as :func:`describe` finds it.

    ==============  ============================================================================
    ``faces``       how many
    ``watertight``  whether every edge has two faces
    ``manifold``    the share of edges with one or two faces
    ``pieces``      how many connected parts
    ``loops``       how many boundary loops
    ``euler``       points − edges + faces, over the points that have a face: 2 for a sphere
    ``unused``      points without a face
    ==============  ============================================================================
    """

    faces: int
    watertight: bool
    manifold: float
    pieces: int
    loops: int
    euler: int
    unused: int

    def __str__(self) -> str:
        holes = "watertight" if self.watertight else f"{self.loops} boundary loop{'s' * (self.loops != 1)}"
        return (
            f"{self.faces:,} faces, {holes}, {self.pieces} piece{'s' * (self.pieces != 1)}, "
            f"Euler number {self.euler}"
        )


def describe(count: int, faces: np.ndarray) -> MeshFacts:
    """What the mesh of ``faces [f, 3]`` over ``count`` points is."""
    halves = np.sort(half_edges(faces), axis=1)
    _, at = np.unique(halves @ [count, 1], return_counts=True)
    used = len(np.unique(faces))
    open_loops = len(loops_of(faces))
    return MeshFacts(
        faces=len(faces),
        watertight=len(faces) > 0 and bool((at == 2).all()),
        manifold=float((at <= 2).mean()) if len(at) else 1.0,
        pieces=int(pieces(beyond(faces)).max(initial=-1)) + 1,
        loops=open_loops,
        euler=used - len(at) + len(faces),
        unused=count - used,
    )
