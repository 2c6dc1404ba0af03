"""The triangulation that a surface and points on it define, whoever meshed the surface.

Its edges join points whose cells in the geodesic Voronoi diagram touch, its triangles are where three cells meet: what
the Delaunay triangulation is in the plane. Every point's distance spreads over a fine mesh of the surface, triangle by
triangle: from two of its corners, the point's place in the triangle's plane is known, as if the way to it were flat,
and so is the distance of the third corner. A corner keeps the distances of all points that could be the nearest
anywhere in the triangles around it. Over a triangle, the squares of two such distances differ by a linear function, so
that the cells are found inside of triangles, not to the nearest vertex: on flat ground the answer is exact.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from gln.graphs.triangles import beyond
from gln.ops.loops import compiled

LABELS = 16  # of how many points a vertex may keep the distance
FLAT = 1 - 1e-8  # the cosine between two triangles in one plane
CLOSE = 1 - 1e-5  # a way that is not shorter than by this factor is not followed again


class Mesh(NamedTuple):
    """A surface: ``vertices [v, 3]`` and the corners of its triangles ``faces [f, 3]``."""

    vertices: np.ndarray
    faces: np.ndarray

    def sides(self) -> np.ndarray:
        """The sides ``[3f, 2]`` of all triangles, as they are walked."""
        return np.concatenate([self.faces[:, [0, 1]], self.faces[:, [1, 2]], self.faces[:, [2, 0]]])

    def areas(self) -> np.ndarray:
        """Of every triangle ``[f]``."""
        return np.linalg.norm(self.normals(), axis=1) / 2

    def normals(self) -> np.ndarray:
        """At right angles to every triangle, as long as twice its area ``[f, 3]``."""
        a, b, c = (self.vertices[corner] for corner in self.faces.T)
        return np.cross(b - a, c - a)


def dual(mesh: Mesh, points: np.ndarray, face: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The edges ``[m, 2]`` and triangles ``[t, 3]`` over ``points [n, 3]``, of which each is in its ``face [n]``.

    Each edge has its smaller end first; triangles turn as those of the mesh do, which must be fine, as by
    :func:`refined`. Whether they are a triangulation is for :func:`flaw` to say.
    """
    vertices, faces = np.ascontiguousarray(mesh.vertices, float), np.ascontiguousarray(mesh.faces, np.int64)
    corner = faces.ravel()
    around = np.argsort(corner, kind="stable") // 3
    start = np.searchsorted(np.sort(corner), np.arange(len(vertices) + 1))
    label = np.full((len(vertices), LABELS), -1)
    distance = np.full((len(vertices), LABELS), np.inf)
    compiled(_spread, exact=True)(
        vertices, faces, start, around, np.ascontiguousarray(points, float), face, label, distance
    )
    triangles = np.empty((4 * len(points) + 64, 3), np.int64)
    pairs = np.empty((8 * len(faces), 2), np.int64)
    counts = np.zeros(2, np.int64)
    compiled(_cells, exact=True)(faces, label, distance, triangles, pairs, counts)
    triangles, pairs = triangles[: counts[0]], pairs[: counts[1]]
    sides = np.sort(np.concatenate([Mesh(points, triangles).sides(), pairs]), axis=1)
    key = np.unique(sides[:, 0] * len(points) + sides[:, 1])
    return np.stack(np.divmod(key, len(points)), axis=1), triangles


def flaw(mesh: Mesh, count: int, edges: np.ndarray, triangles: np.ndarray) -> str | None:
    """Why edges and triangles over ``count`` points are no triangulation of the surface; ``None`` if they are.

    Where every cell is a disc and two cells touch at most once, an edge has two triangles, or one or none where it ends
    at the boundary of an open surface, and the Euler number is that of the surface.
    """
    sides = Mesh(mesh.vertices, triangles).sides()
    walked = np.unique(sides @ [count, 1])
    if len(walked) < len(sides):
        return "an edge has several triangles on one side"
    border = boundary(mesh)
    if border == 0 and (
        len(sides) != 2 * len(edges) or len(np.unique(np.sort(sides, 1) @ [count, 1])) != len(edges)
    ):
        return "an edge has not two triangles"
    used = np.bincount(mesh.faces.ravel()) > 0
    ours = (3 * len(mesh.faces) + border) // 2  # a side at the border is one's own
    euler = used.sum() - ours + len(mesh.faces)
    if count - len(edges) + len(triangles) != euler:
        return "the Euler number is not that of the surface"
    return None


def flawed(count: int, edges: np.ndarray, triangles: np.ndarray, closed: bool) -> np.ndarray:
    """Which of ``count`` points are at an edge that has more than two triangles or, if ``closed``, fewer: ``[n]``."""
    sides = np.sort(Mesh(np.empty((count, 3)), triangles).sides(), 1)
    key, times = np.unique(np.concatenate([edges, sides]) @ [count, 1], return_counts=True)
    wrong = (times > 3) | (closed & (times < 3))
    return np.bincount(np.concatenate(np.divmod(key[wrong], count)), minlength=count) > 0


def boundary(mesh: Mesh) -> int:
    """How many sides have one triangle; -1 if one has more than two triangles, or two that turn differently."""
    sides = mesh.sides()
    if len(np.unique(sides @ [len(mesh.vertices), 1])) < len(sides):
        return -1
    return int((beyond(mesh.faces) < 0).sum())


def refined(mesh: Mesh, longest: float) -> Mesh:
    """The same surface with sides of at most that length: longer ones are halved, again and again.

    On flat ground, two triangles are cut along the other diagonal of both where that makes them less narrow.
    """
    vertices, faces = np.ascontiguousarray(mesh.vertices, float), np.array(mesh.faces, np.int64)
    while True:
        compiled(_turn_sides, exact=True)(vertices, faces, beyond(faces))
        ends = np.sort(Mesh(vertices, faces).sides(), axis=1)
        key, of = np.unique(ends[:, 0] * len(vertices) + ends[:, 1], return_inverse=True)
        one, two = np.divmod(key, len(vertices))
        long = np.linalg.norm(vertices[one] - vertices[two], axis=1) > longest
        if not long.any():
            return Mesh(vertices, faces)
        middle = np.where(long, len(vertices) - 1 + np.cumsum(long), -1)[of].reshape(3, -1).T  # [f, 3]
        vertices = np.concatenate([vertices, (vertices[one[long]] + vertices[two[long]]) / 2])
        faces = _split(vertices, faces, middle)


def _turn_sides(vertices, faces, beyond):  # type: ignore[no-untyped-def]
    """Replace sides between triangles in one plane until no corner is within another triangle's circle."""
    stack = [3 * f + i for f in range(len(faces)) for i in range(3)]
    while len(stack):
        side = stack.pop()
        f, i = side // 3, side % 3
        other = beyond[f, i]
        if other < 0:
            continue
        g, j = other // 3, other % 3
        a, b, c, d = faces[f, i], faces[f, (i + 1) % 3], faces[f, (i + 2) % 3], faces[g, (j + 2) % 3]
        ca, cb = vertices[a] - vertices[c], vertices[b] - vertices[c]
        da, db = vertices[a] - vertices[d], vertices[b] - vertices[d]
        one = np.array(
            [ca[1] * cb[2] - ca[2] * cb[1], ca[2] * cb[0] - ca[0] * cb[2], ca[0] * cb[1] - ca[1] * cb[0]]
        )
        two = np.array(
            [db[1] * da[2] - db[2] * da[1], db[2] * da[0] - db[0] * da[2], db[0] * da[1] - db[1] * da[0]]
        )
        left, right = np.sqrt((one**2).sum()), np.sqrt((two**2).sum())
        flat = (one * two).sum() > FLAT * left * right
        if not flat or (ca * cb).sum() * right + (da * db).sum() * left > -1e-9 * left * right:
            continue
        # a, b, c and b, a, d become a, d, c and b, c, d.
        outer = beyond[f, (i + 1) % 3], beyond[f, (i + 2) % 3], beyond[g, (j + 1) % 3], beyond[g, (j + 2) % 3]
        faces[f, 0], faces[f, 1], faces[f, 2] = a, d, c
        faces[g, 0], faces[g, 1], faces[g, 2] = b, c, d
        beyond[f, 1], beyond[g, 1] = 3 * g + 1, 3 * f + 1
        for own, across in zip((3 * g, 3 * f + 2, 3 * f, 3 * g + 2), outer):  # noqa: B905, compiled
            beyond[own // 3, own % 3] = across
            if across >= 0:
                beyond[across // 3, across % 3] = own
            stack.append(own)


def _split(vertices: np.ndarray, faces: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Cut every triangle at the middles of its sides (corner to next corner), where there is one."""
    count = (middle >= 0).sum(1)
    parts = [faces[count == 0]]
    # Turn each so that its first side is cut, and with two cuts so that the last is not.
    first = np.where(count == 2, (np.argmin(middle, axis=1) + 1) % 3, np.argmax(middle >= 0, axis=1))
    turn = (first[:, None] + np.arange(3)) % 3
    (a, b, c), (ab, bc, ca) = np.take_along_axis(faces, turn, 1).T, np.take_along_axis(middle, turn, 1).T
    one, two, three = count == 1, count == 2, count == 3
    parts += [np.stack(t, 1)[one] for t in ((a, ab, c), (ab, b, c))]
    parts += [np.stack(t, 1)[three] for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
    left, right = (np.linalg.norm(vertices[p] - vertices[q], axis=1) for p, q in ((ab, c), (a, bc)))
    short = left < right
    parts.append(np.stack([ab, b, bc], 1)[two])
    parts += [np.stack(t, 1)[two & short] for t in ((a, ab, c), (ab, bc, c))]
    parts += [np.stack(t, 1)[two & ~short] for t in ((a, ab, bc), (a, bc, c))]
    return np.concatenate(parts)


def _spread(vertices, faces, start, around, points, face, label, distance):  # type: ignore[no-untyped-def]
    """Fill ``label [v, k]`` and ``distance [v, k]`` with the nearest points of every vertex, the nearest first."""
    count = np.zeros(len(vertices), np.int64)
    reach = np.zeros(len(vertices))  # the longest side at a vertex
    for f in range(len(faces)):
        for i in range(3):
            one, two = faces[f, i], faces[f, (i + 1) % 3]
            length = np.sqrt(((vertices[one] - vertices[two]) ** 2).sum())
            reach[one], reach[two] = max(reach[one], length), max(reach[two], length)
    heap = [(0.0, 0, 0)]
    heap.clear()
    for s in range(len(points)):
        for i in range(3):
            v = faces[face[s], i]
            heapq.heappush(heap, (np.sqrt(((vertices[v] - points[s]) ** 2).sum()), v, s))
    while len(heap):
        d, v, s = heapq.heappop(heap)
        if count[v] and d > distance[v, 0] + 2 * reach[v]:
            continue  # elsewhere in the triangles around, too, it is not the nearest
        slot = 0
        while slot < count[v] and label[v, slot] != s:
            slot += 1
        if slot == label.shape[1] or d >= distance[v, slot] * CLOSE:
            continue
        count[v] = max(count[v], slot + 1)
        if d < distance[v, 0]:  # the first is the nearest
            label[v, slot], distance[v, slot] = label[v, 0], distance[v, 0]
            slot = 0
        label[v, slot], distance[v, slot] = s, d
        for at in range(start[v], start[v + 1]):
            f = around[at]
            i = 0 if faces[f, 0] == v else 1 if faces[f, 1] == v else 2
            for turn in range(1, 3):
                u, t = faces[f, (i + turn) % 3], faces[f, (i + 3 - turn) % 3]
                x = long = far = 0.0
                for axis in range(3):
                    side, way = vertices[u, axis] - vertices[v, axis], vertices[t, axis] - vertices[v, axis]
                    long += side * side
                    far += way * way
                    x += side * way
                new = d + np.sqrt(far)
                other = -1.0
                for j in range(count[u]):
                    if label[u, j] == s:
                        other = distance[u, j]
                if other >= 0 and long > 0:
                    long = np.sqrt(long)
                    x /= long  # t in the plane of the triangle, in which v is at 0 and u at (long, 0)
                    y = np.sqrt(max(far - x * x, 0.0))
                    sx = (d * d - other * other + long * long) / (2 * long)
                    sy = -np.sqrt(max(d * d - sx * sx, 0.0))
                    cross = sx * y - x * sy  # the way to t crosses the side at this over y − sy
                    if 0 <= cross <= long * (y - sy):
                        new = np.sqrt((x - sx) ** 2 + (y - sy) ** 2)
                if count[t] and new > distance[t, 0] + 2 * reach[t]:
                    continue
                slot = 0
                while slot < count[t] and label[t, slot] != s:
                    slot += 1
                if slot < label.shape[1] and new < distance[t, slot] * CLOSE:
                    heapq.heappush(heap, (new, t, s))


def _cells(faces, label, distance, triangles, pairs, counts):  # type: ignore[no-untyped-def]
    """Where three cells meet inside of a triangle of the mesh, and which cells meet on its sides."""
    most = label.shape[1]
    common = np.empty(most, np.int64)
    square = np.empty((most, 3))
    for f in range(len(faces)):
        # The points that all three corners know, and their squared distances.
        size = 0
        for i in range(most):
            s = label[faces[f, 0], i]
            if s < 0:
                break
            found = 0
            for corner in range(1, 3):
                v = faces[f, corner]
                for j in range(most):
                    if label[v, j] == s:
                        square[size, corner] = distance[v, j] ** 2
                        found += 1
                        break
            if found == 2:
                square[size, 0] = distance[faces[f, 0], i] ** 2
                common[size] = s
                size += 1
        if size < 2:
            continue
        first = square[:size, 0].argmin()
        if first == square[:size, 1].argmin() and first == square[:size, 2].argmin():
            continue
        for corner in range(3):  # along a side, from cell to cell
            p, q = corner, (corner + 1) % 3
            now, last = int(square[:size, p].argmin()), int(square[:size, q].argmin())
            begin = 0.0
            while now != last:
                best, then = 2.0, last
                for s in range(size):
                    fall = (square[now, q] - square[now, p]) - (square[s, q] - square[s, p])
                    if s != now and fall > 0:
                        at = (square[s, p] - square[now, p]) / fall
                        if begin <= at < best:
                            best, then = at, s
                pairs[counts[1], 0], pairs[counts[1], 1] = common[now], common[then]
                counts[1] += 1
                if best > 1 or counts[1] == len(pairs):
                    break
                now, begin = then, best
        for a in range(size):
            for b in range(a + 1, size):
                for c in range(b + 1, size):
                    # Where all three are equal, in coordinates of the corners: 1 − y − z, y, z.
                    by, bz = square[b, 1] - square[b, 0], square[b, 2] - square[b, 0]
                    by -= square[a, 1] - square[a, 0]
                    bz -= square[a, 2] - square[a, 0]
                    cy, cz = square[c, 1] - square[c, 0], square[c, 2] - square[c, 0]
                    cy -= square[a, 1] - square[a, 0]
                    cz -= square[a, 2] - square[a, 0]
                    turn = by * cz - bz * cy
                    if turn == 0:
                        continue
                    b0, c0 = square[a, 0] - square[b, 0], square[a, 0] - square[c, 0]
                    y, z = (b0 * cz - bz * c0) / turn, (by * c0 - b0 * cy) / turn
                    if y < 0 or z < 0 or y + z >= 1:
                        continue
                    level = square[a, 0] * (1 - y - z) + square[a, 1] * y + square[a, 2] * z
                    lowest = True
                    for s in range(size):
                        if s not in (a, b, c):
                            lowest &= (
                                square[s, 0] * (1 - y - z) + square[s, 1] * y + square[s, 2] * z >= level
                            )
                    if lowest and counts[0] < len(triangles):
                        row = counts[0]
                        triangles[row, 0] = common[a]
                        triangles[row, 1] = common[b if turn > 0 else c]
                        triangles[row, 2] = common[c if turn > 0 else b]
                        counts[0] += 1
