"""Points on closed and open surfaces of many forms, joined by the triangulation that surface and points define."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gln.errors import GLNError
from gln.families.base import Family, register
from gln.families.geodesic import Mesh, boundary, dual, flaw, flawed, refined
from gln.graphs.convert import components
from gln.graphs.record import Graph
from gln.later import spatial, torch
from gln.ops.loops import compiled

Field = Callable[[np.ndarray], np.ndarray]  # of places [m, 3] to values [m], below 0 inside of a body

KINDS = ("smooth", "sharp", "thin", "open")
TRIES = 40  # for one sample; a body may be too small, or its cells no discs
AGAIN = 3  # times that points are spread anew, denser where cells are no discs
FINE = 12  # vertices of the fine mesh for every point
COARSE, MOST_CELLS = 24, 128  # along a side of the cube in which a field is meshed, at first and at most
AWAY = 1e-3  # of a field, a value outside of a body
LONGEST = 2.2  # side of a fine mesh, over the root of the area of a vertex
SMALL_PART = 0.04  # of the triangles, below which a separate part is left out
EXTENT = 1.2  # of bodies around the origin, at most
DENSITY = 10.0  # times as dense as elsewhere, at most
STRETCH = 2.0  # times as far apart along one direction, at most
REGULAR = 6.0  # places for every point, at most, of which those far from each other are taken
NOISE = (0.01, 0.1)  # of the spacing, at most: of most noisy samples, and of some
SCALE = 100.0  # times larger or smaller, at most


@register("shapes")
@dataclass(frozen=True, kw_only=True)
class Shapes(Family):
    """Points on the surfaces of bodies, joined where their cells on the surface touch.

    ==========  ================================================================================
    kind        surface
    ==========  ================================================================================
    ``smooth``  blends of balls, ellipsoids, rings, bars and bent tubes, with holes and hollows
    ``sharp``   parts cut from and added to blocks, cylinders, prisms and balls, with sharp edges
    ``thin``    plates, perhaps bent and pierced, shells, and sheets close to one another
    ``open``    one of these, cut open
    ==========  ================================================================================

    The true triangles are those of :mod:`gln.families.geodesic`: they depend on the surface and the points, and on no
    mesh. A sample whose cells are no discs is drawn again. Points are spread evenly, at random or anything
    between, up to ten times as dense at some places and up to twice as far apart along one direction; half of the
    samples have noise across the surface. Every sample is turned at random, and scaled by up to 100 either way.

    Graphs carry ``kind`` (index in ``KINDS``), ``noise`` (its deviation, as a share of the spacing), ``closed`` and
    ``face [3, t]``, the triangles, as one walks around them from outside.

    Args:
        points: number of points, at least 30, or a range ``(low, high)`` within which sizes are drawn, small ones
            as often as large ones.
        kind: one of ``KINDS``, or ``"all"`` to cycle through them.
        noise: False leaves every point on its surface.
    """

    points: int | tuple[int, int] = (200, 2000)
    kind: str = "all"
    noise: bool = True

    block = len(KINDS)
    choices: ClassVar = {"kind": ("all", *KINDS)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep_range("points", 30, (200, 2000))
        if not isinstance(self.noise, bool):
            raise GLNError(f"shapes got noise={self.noise!r}; expected True or False.")

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        low, high = self.points if isinstance(self.points, tuple) else (self.points, self.points)
        graphs = []
        for number, own in enumerate(rng.spawn(count)):
            kind = KINDS[number % len(KINDS)] if self.kind == "all" else self.kind
            size = round(low * (high / low) ** own.random())
            sample = next(made for _ in range(TRIES) if not isinstance(made := attempt(own, kind, size), str))
            pos, noise = shaken(own, sample) if self.noise else (sample.points, 0.0)
            pos = turned(own, pos)
            order = own.permutation(size)  # node i is point order[i]
            node = np.argsort(order)
            ends = node[sample.edges]
            key = np.sort(np.concatenate([ends[:, 0] * size + ends[:, 1], ends[:, 1] * size + ends[:, 0]]))
            graphs.append(
                Graph(
                    size,
                    pos=torch.from_numpy(pos[order].astype(np.float32)),
                    edge_index=torch.from_numpy(np.stack(np.divmod(key, size))),
                    face=torch.from_numpy(np.ascontiguousarray(node[sample.triangles].T)),
                    kind=torch.tensor(KINDS.index(kind)),
                    noise=torch.tensor(noise, dtype=torch.float32),
                    closed=torch.tensor(boundary(sample.mesh) == 0),
                )
            )
        return graphs

    def caption(self, graph: Graph) -> str:
        return f"{KINDS[int(graph.kind)]}: {super().caption(graph)}"


@dataclass(frozen=True)
class Sample:
    """A surface, points on it, their edges ``[m, 2]`` and triangles ``[t, 3]``, and the spacing at each ``[n]``."""

    mesh: Mesh
    points: np.ndarray
    normals: np.ndarray
    spacing: np.ndarray
    edges: np.ndarray
    triangles: np.ndarray


def attempt(rng: np.random.Generator, kind: str, size: int) -> Sample | str:
    """A sample of so many points, or why it is none."""
    drawn = {"smooth": _smooth, "sharp": _sharp, "thin": _thin, "open": _open}[kind](rng, FINE * size)
    if isinstance(drawn, str):
        return drawn
    mesh = main_parts(drawn)
    edge = boundary(mesh)
    if edge < 0 or (edge > 0) != (kind == "open"):
        return "the surface is not what was asked for"
    density = np.ones(len(mesh.faces))
    for _ in range(AGAIN):
        points, face, spacing = spread_points(rng.spawn(1)[0], mesh, size, density)
        edges, triangles = dual(mesh, points, face)
        wrong = flaw(mesh, size, edges, triangles)
        if wrong is None:
            break
        bad = flawed(size, edges, triangles, closed=edge == 0)
        if not 0 < bad.sum() < 0.1 * size:
            return wrong
        gap = spatial.cKDTree(points[bad]).query(mesh.vertices[mesh.faces[:, 0]])[0]
        density[gap < 2.5 * spacing[bad].max()] *= 2
    else:
        return wrong or ""
    across = mesh.normals()[face]
    across /= np.linalg.norm(across, axis=1)[:, None]
    return Sample(mesh, points, across, spacing, edges, triangles)


def shaken(rng: np.random.Generator, sample: Sample) -> tuple[np.ndarray, float]:
    """The points with noise across the surface, and its deviation as a share of the spacing."""
    which, share, shift = rng.random(), rng.random(), rng.standard_normal(len(sample.points))
    noise = 0.0 if which < 0.5 else share * NOISE[which > 0.8]
    return sample.points + (noise * shift * sample.spacing)[:, None] * sample.normals, noise


def turned(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """The points turned and scaled at random, around the origin."""
    return points @ _rotation(rng).T * SCALE ** rng.uniform(-1, 1)


def spread_points(
    rng: np.random.Generator, mesh: Mesh, size: int, density: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points ``[n, 3]`` on a mesh, the triangle of each ``[n]``, and the spacing where it is ``[n]``.

    They are as dense as ``density [f]`` says, or more or less by what is drawn.
    Of more places than needed, drawn by density, those are taken that are far from all before: how many more decides
    how evenly the points are spread.
    """
    weight = mesh.areas()
    centre = mesh.vertices[mesh.faces].mean(1)
    strength = rng.choice([0.0, 1.0], p=[0.4, 0.6]) * rng.random() * np.log(DENSITY)
    density = density * np.exp(strength * _waves(rng, rng.uniform(1, 4))(centre))
    places = round(size * REGULAR ** rng.choice([0.0, rng.random(), 1.0], p=[0.2, 0.4, 0.4]))
    chosen = np.sort(rng.choice(len(weight), places, p=weight * density / (weight * density).sum()))
    corners = mesh.vertices[mesh.faces[chosen]]  # [p, 3, 3]
    one, two = np.sqrt(rng.random((places, 1))), rng.random((places, 1))
    points = (1 - one) * corners[:, 0] + one * (1 - two) * corners[:, 1] + one * two * corners[:, 2]
    spacing = np.sqrt(weight @ density / size / density)
    if places > size:
        stretch = STRETCH ** (rng.random() * (rng.random() < 0.3) * np.array([1, 0, 0]))
        seen = points * stretch @ _rotation(rng).T
        kept = np.empty(size, np.int64)
        compiled(_far_apart, exact=True)(np.ascontiguousarray(seen), spacing[chosen], kept)
        points, chosen = points[kept], chosen[kept]
    return points, chosen, spacing[chosen]


def _far_apart(places: np.ndarray, unit: np.ndarray, kept: np.ndarray) -> None:
    """Of ``places [p, 3]``, one after another that is the farthest from those before, in units of its own."""
    nearest = np.full(len(places), np.inf)
    now = 0
    for number in range(len(kept)):
        kept[number] = now
        x, y, z = places[now]
        best = -1.0
        for i in range(len(places)):
            square = (places[i, 0] - x) ** 2 + (places[i, 1] - y) ** 2 + (places[i, 2] - z) ** 2
            nearest[i] = min(nearest[i], square / unit[i] ** 2)
            if nearest[i] > best:
                best, now = nearest[i], i


# Bodies.


def _smooth(rng: np.random.Generator, vertices: int) -> Mesh | str:
    return mesh_of(_blend(rng), vertices)


def _blend(rng: np.random.Generator) -> Field:
    """A few bodies that flow into each other, some of them taken away."""
    if rng.random() < 0.12:
        return Blend(_pieces(rng, np.zeros((1, 3)), 0.8, 0.8))
    if rng.random() < 0.2:
        return Blend(_tube(rng))
    count = rng.integers(2, 8)
    pieces = _pieces(rng, rng.uniform(-0.55, 0.55, (count, 3)), 0.2, 0.5)
    pieces["soft"] = rng.uniform(0.02, 0.2)
    pieces["hollow"][1:] = rng.random(count - 1) < 0.3
    return Blend(pieces)


PIECE = np.dtype(
    [
        ("kind", "i8"),
        ("at", "f8", 3),
        ("turn", "f8", (3, 3)),
        ("size", "f8", 4),
        ("soft", "f8"),
        ("hollow", "?"),
    ]
)


def _pieces(rng: np.random.Generator, at: np.ndarray, low: float, high: float) -> np.ndarray:
    """A ball, an ellipsoid, a ring, a bar or a rounded block at each place ``[k, 3]``."""
    pieces = np.zeros(len(at), PIECE)
    for piece, place in zip(pieces, at, strict=True):
        size = rng.uniform(low, high)
        piece["kind"], piece["at"], piece["turn"] = rng.integers(5), place, _rotation(rng)
        piece["size"] = [size, *(size * rng.uniform(0.35, 1, 3))]
    return pieces


def _tube(rng: np.random.Generator) -> np.ndarray:
    """A tube along a random curve, perhaps closed, of changing radius: bars from knot to knot."""
    closed, knots = rng.random() < 0.4, 24
    t = np.linspace(0, 1, knots)[:, None]
    turns = 2 * np.pi if closed else np.pi
    waves = [(rng.standard_normal(3) / k, rng.uniform(0, 2 * np.pi, 3)) for k in (1, 2, 3)]
    path = np.sum([size * np.sin(k * turns * t + phase) for k, (size, phase) in enumerate(waves, 1)], 0)
    path = (path - path.mean(0)) * (0.75 / np.abs(path - path.mean(0)).max())
    radius = rng.uniform(0.06, 0.22) * (1 + 0.4 * rng.random() * np.sin(2 * np.pi * t[:, 0] + rng.random()))
    pieces = np.zeros(knots - 1, PIECE)
    pieces["kind"], pieces["at"], pieces["soft"] = 5, path[:-1], 0.02
    pieces["turn"][:, 0] = path[1:] - path[:-1]
    pieces["size"][:, 0], pieces["size"][:, 1] = radius[:-1], radius[1:]
    return pieces


class Blend:
    """The field of bodies ``[k]``, one after the other joined to those before or taken away from them, rounded."""

    def __init__(self, pieces: np.ndarray) -> None:
        self.pieces = pieces

    def __call__(self, places: np.ndarray) -> np.ndarray:
        value = np.empty(len(places))
        columns = [np.ascontiguousarray(self.pieces[name]) for name in PIECE.names or ()]
        compiled(_evaluate, exact=True)(np.ascontiguousarray(places, float), *columns, value)
        return value


def _evaluate(places, kind, at, turn, size, soft, hollow, value):  # type: ignore[no-untyped-def]
    """The field ``[m]`` of the bodies at ``places [m, 3]``."""
    for row in range(len(places)):
        found = 0.0
        for k in range(len(kind)):
            dx, dy, dz = places[row, 0] - at[k, 0], places[row, 1] - at[k, 1], places[row, 2] - at[k, 2]
            x = turn[k, 0, 0] * dx + turn[k, 0, 1] * dy + turn[k, 0, 2] * dz
            y = turn[k, 1, 0] * dx + turn[k, 1, 1] * dy + turn[k, 1, 2] * dz
            z = turn[k, 2, 0] * dx + turn[k, 2, 1] * dy + turn[k, 2, 2] * dz
            s, a, b, c = size[k]
            if kind[k] == 0:
                new = np.sqrt(x * x + y * y + z * z) - s
            elif kind[k] == 1:
                new = (np.sqrt((x / a) ** 2 + (y / b) ** 2 + (z / c) ** 2) - 1) * min(a, b, c)
            elif kind[k] == 2:
                ring = np.sqrt(x * x + y * y) - (s - 0.4 * a)
                new = np.sqrt(ring * ring + z * z) - 0.4 * a
            elif kind[k] == 3:
                z -= min(max(z, -s), s)
                new = np.sqrt(x * x + y * y + z * z) - 0.5 * a
            elif kind[k] == 4:
                x, y, z = max(abs(x) - 0.8 * a, 0.0), max(abs(y) - 0.8 * b, 0.0), max(abs(z) - 0.8 * c, 0.0)
                new = np.sqrt(x * x + y * y + z * z) - 0.2 * min(a, b, c)
            else:  # a bar from a knot along turn[k, 0], whose radius changes from s to a
                wx, wy, wz = turn[k, 0]
                along = min(max(x / max(wx * wx + wy * wy + wz * wz, 1e-9), 0.0), 1.0)
                dx, dy, dz = dx - along * wx, dy - along * wy, dz - along * wz
                new = np.sqrt(dx * dx + dy * dy + dz * dz) - (s + (a - s) * along)
            if k == 0:
                found = new
                continue
            sign = -1.0 if hollow[k] else 1.0
            near = max(soft[k] - abs(sign * found - new), 0.0)
            found = sign * (min(sign * found, new) - near * near / (4 * max(soft[k], 1e-9)))
        value[row] = found


def _thin(rng: np.random.Generator, vertices: int) -> Mesh | str:
    if rng.random() < 0.4:
        return _shell(rng, vertices)
    length, width, gap = rng.uniform(0.4, 1), rng.uniform(0.4, 1), rng.uniform(0.02, 0.15)
    thick = gap * rng.uniform(0.3, 1.5)
    solid = _solids()
    plate = solid.Manifold.cube([2 * length, 2 * width, thick], True)
    for _ in range(rng.integers(0, 4)):
        plate = plate - _cutter(rng, rng.uniform(0.1, 0.35)).translate([*rng.uniform(-0.8, 0.8, 2), 0])
    for number in range(rng.integers(0, 3)):
        plate = plate + solid.Manifold.cube([2 * length, 2 * width, thick], True).translate(
            [*rng.uniform(-0.3, 0.3, 2), (number + 1) * (thick + gap)]
        )
    mesh = mesh_of_solid(plate, vertices)
    return mesh if isinstance(mesh, str) or rng.random() < 0.5 else bent(rng, mesh)


def bent(rng: np.random.Generator, mesh: Mesh) -> Mesh:
    """The mesh rolled around an axis, of which a radius away lengths stay as they are."""
    radius = rng.uniform(0.5, 2)
    x, y, z = mesh.vertices.T
    angle = x / radius
    rolled = np.stack([(radius + z) * np.sin(angle), y, (radius + z) * np.cos(angle)], 1)
    return Mesh(rolled, mesh.faces)


def _shell(rng: np.random.Generator, vertices: int) -> Mesh | str:
    """The thickened surface of a body, cut so that one can look inside."""
    inner, thick, way, at = _blend(rng), rng.uniform(0.02, 0.08), _rotation(rng)[0], rng.uniform(-0.1, 0.4)
    return mesh_of(lambda p: np.maximum(np.abs(inner(p)) - thick, p @ way - at), vertices)


def _sharp(rng: np.random.Generator, vertices: int) -> Mesh | str:
    """A block and what is added, cut away or kept of it, mostly along its axes."""
    body = _block(rng)
    for _ in range(rng.integers(1, 6)):
        part = _block(rng) if rng.random() < 0.5 else _cutter(rng, rng.uniform(0.1, 0.4))
        if rng.random() < 0.3:
            part = part.rotate(rng.uniform(0, 360, 3))
        elif rng.random() < 0.6:
            part = part.rotate(90 * rng.integers(0, 4, 3))
        part = part.translate(rng.uniform(-0.5, 0.5, 3))
        body = [body + part, body - part, body ^ part][rng.choice(3, p=[0.4, 0.5, 0.1])]
    mesh = mesh_of_solid(body, vertices)
    return mesh if isinstance(mesh, str) or rng.random() < 0.85 else bent(rng, mesh)


def _block(rng: np.random.Generator) -> Any:
    """A block, a cylinder or cone, a prism or a ball."""
    solid = _solids()
    a, b, c = rng.uniform(0.25, 0.9, 3)
    match rng.integers(4):
        case 0:
            return solid.Manifold.cube([2 * a, 2 * b, 2 * c], True)
        case 1:
            return solid.Manifold.cylinder(2 * c, a, a * rng.choice([1, rng.random()]), 48, True)
        case 2:
            corners = rng.integers(3, 9)
            angle = np.sort(rng.random(corners)) * 2 * np.pi
            reach = rng.uniform(0.4, 1, corners)
            outline = np.stack([reach * np.cos(angle), reach * np.sin(angle)], 1)
            return solid.Manifold.extrude(solid.CrossSection([outline]), c).translate([0, 0, -c / 2])
        case _:
            return solid.Manifold.sphere(0.7 * a, 48)


def _cutter(rng: np.random.Generator, size: float) -> Any:
    """What makes a hole or a slot through everything along z."""
    solid = _solids()
    if rng.random() < 0.6:
        return solid.Manifold.cylinder(4, size, size, 32, True)
    return solid.Manifold.cube([2 * size, 2 * size * rng.uniform(0.3, 1), 4], True).rotate(
        [0, 0, rng.uniform(0, 90)]
    )


def _open(rng: np.random.Generator, vertices: int) -> Mesh | str:
    """A closed surface of which what is on one side of a smooth border is taken away."""
    drawn = [_smooth, _sharp, _thin][rng.choice(3, p=[0.55, 0.3, 0.15])](rng, 2 * vertices)
    if isinstance(drawn, str):
        return drawn
    centre = drawn.vertices[drawn.faces].mean(1)
    height = centre @ _rotation(rng)[0] + 0.4 * rng.random() * _waves(rng, rng.uniform(1, 4))(centre)
    return Mesh(drawn.vertices, drawn.faces[height <= np.quantile(height, rng.uniform(0.35, 0.8))])


# From fields and solids to meshes.


def mesh_of(field: Field, vertices: int) -> Mesh | str:
    """The surface of a field with about as many vertices: one in every cell that it crosses, pulled onto it."""
    place, _ = _netted(field, COARSE, np.zeros(3), EXTENT)
    if len(place) < 30:
        return "the body is too small"
    low, high = place.min(0), place.max(0)
    reach = (high - low).max() / 2 + 3 * EXTENT / COARSE
    step = 2 * EXTENT / COARSE * np.sqrt(len(place) / vertices)
    cells = round(2 * reach / step)
    if cells > MOST_CELLS:
        return "the body is too small"
    place, faces = _netted(field, cells, (low + high) / 2, reach)
    ends = np.sort(Mesh(place, faces).sides(), 1)
    one, two = np.unique(ends, axis=0).T
    degree = np.bincount(np.concatenate([one, two]), minlength=len(place))[:, None]
    for _ in range(4):  # towards the middle of its neighbours, and back to the surface
        each = zip(place[one].T, place[two].T, strict=True)
        total = [np.bincount(one, q, len(place)) + np.bincount(two, p, len(place)) for p, q in each]
        place = (place + np.stack(total, 1) / degree) / 2
        place = _pulled(field, place, 0.1 * step, step)
    return Mesh(place, faces)


def _pulled(field: Field, place: np.ndarray, gap: float, most: float) -> np.ndarray:
    """A step of Newton's method towards where the field is 0, of a limited length."""
    shifts = np.concatenate([np.zeros((1, 3)), gap * np.eye(3)])
    value = field((place + shifts[:, None]).reshape(-1, 3)).reshape(4, -1)
    slope = (value[1:] - value[0]).T / gap
    step = (value[0] / np.maximum((slope**2).sum(1), 1e-4))[:, None] * slope
    length = np.linalg.norm(step, axis=1, keepdims=True)
    return place - step * np.minimum(1, most / np.maximum(length, 1e-12))


def _netted(field: Field, cells: int, middle: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """A vertex ``[v, 3]`` in every cell of a cube that the surface crosses, joined across the sides it crosses."""
    axis = np.linspace(-reach, reach, cells + 1)
    value = field(np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3) + middle)
    value = value.reshape(cells + 1, cells + 1, cells + 1)
    for along in range(3):
        border = value.swapaxes(0, along)
        border[[0, -1]] = np.maximum(border[[0, -1]], AWAY)  # the body ends here
    compiled(_untouching, exact=True)(value)
    quads, crossings = [], []
    for along in range(3):
        low, high = (value.transpose(np.roll(range(3), -along))[part] for part in (slice(-1), slice(1, None)))
        where = np.nonzero((low < 0) != (high < 0))
        low, high = low[where], high[where]
        crossings.append(np.roll([where[0] + low / (low - high), *where[1:]], along, axis=0).T)
        around = []
        for right, up in ((0, 0), (-1, 0), (-1, -1), (0, -1)):
            cell = np.roll([where[0], where[1] + right, where[2] + up], along, axis=0)
            around.append((cell[0] * cells + cell[1]) * cells + cell[2])
        quad = np.stack(around, 1)
        quads.append(np.where((low < 0)[:, None], quad, quad[:, ::-1]))
    used, quad = np.unique(np.concatenate(quads), return_inverse=True)
    quad = quad.reshape(-1, 4)
    count = np.bincount(quad.ravel(), minlength=len(used))
    at = np.concatenate(crossings).repeat(4, axis=0)
    place = np.stack([np.bincount(quad.ravel(), column, len(used)) / count for column in at.T], 1)
    place = middle - reach + place * (axis[1] - axis[0])
    a, b, c, d = (place[corner] for corner in quad.T)
    short = (np.linalg.norm(a - c, axis=1) < np.linalg.norm(b - d, axis=1))[:, None]
    one = np.where(short, quad[:, [0, 1, 2]], quad[:, [0, 1, 3]])
    two = np.where(short, quad[:, [0, 2, 3]], quad[:, [1, 2, 3]])
    return place, np.concatenate([one, two])


def _untouching(value):  # type: ignore[no-untyped-def]
    """Take away places ``[m, m, m]`` of the body that touch others of it across a corner only."""
    cells = len(value) - 1
    changed = True
    while changed:
        changed = False
        for i in range(cells + 1):
            for j in range(cells):
                for k in range(cells):
                    for along in range(3):
                        if along == 0:
                            at = ((i, j, k), (i, j, k + 1), (i, j + 1, k + 1), (i, j + 1, k))
                        elif along == 1:
                            at = ((j, i, k), (j, i, k + 1), (j + 1, i, k + 1), (j + 1, i, k))
                        else:
                            at = ((j, k, i), (j, k + 1, i), (j + 1, k + 1, i), (j + 1, k, i))
                        a, b, c, d = value[at[0]] < 0, value[at[1]] < 0, value[at[2]] < 0, value[at[3]] < 0
                        if a == c and b == d and a != b:
                            one, two = (at[0], at[2]) if a else (at[1], at[3])
                            value[one if value[one] > value[two] else two] = AWAY
                            changed = True


def mesh_of_solid(solid: Any, vertices: int) -> Mesh | str:
    """The surface of a solid with about as many vertices."""
    area = solid.surface_area()
    if area < 0.3:
        return "the body is too small"
    found = solid.to_mesh64()
    mesh = Mesh(np.asarray(found.vert_properties)[:, :3], np.asarray(found.tri_verts).astype(np.int64))
    return refined(mesh, LONGEST * float(np.sqrt(area / vertices)))


def main_parts(mesh: Mesh) -> Mesh:
    """Without parts of few triangles, and without vertices of none."""
    part = components(mesh.sides(), len(mesh.vertices))[mesh.faces[:, 0]]
    faces = mesh.faces[np.bincount(part)[part] >= SMALL_PART * len(mesh.faces)]
    kept, faces = np.unique(faces, return_inverse=True)
    return Mesh(mesh.vertices[kept], faces.reshape(-1, 3))


def _waves(rng: np.random.Generator, frequency: float) -> Field:
    """A smooth random function of a place, between −1 and 1."""
    ways, phase = rng.standard_normal((3, 3)) * frequency, rng.uniform(0, 2 * np.pi, 3)
    return lambda p: np.sin(p @ ways.T + phase).mean(1)


def _rotation(rng: np.random.Generator) -> np.ndarray:
    """Uniform over all rotations ``[3, 3]``."""
    matrix, upper = np.linalg.qr(rng.standard_normal((3, 3)))
    matrix = matrix * np.sign(np.diagonal(upper))
    return matrix * np.sign(np.linalg.det(matrix))


def _solids() -> Any:
    try:
        import manifold3d
    except ImportError:
        raise GLNError(
            "Bodies with sharp edges need the package manifold3d; pip install 'gln[shapes]'."
        ) from None
    return manifold3d
