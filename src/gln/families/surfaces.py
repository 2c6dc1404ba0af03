"""Meshes of six 3-D surfaces, under random affine maps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from gln.errors import GLNError
from gln.families.base import Family, Order, register
from gln.graphs.record import Graph
from gln.later import spatial, torch

Range = tuple[float, float]

KINDS = ("ellipsoid", "hyperboloid", "paraboloid", "saddle", "torus", "another")

# Everything random is uniform in its range. The parameters of a grid are u (its columns) and v (its rows).
COEFFICIENTS: dict[str, tuple[Range, ...]] = {  # released
    "ellipsoid": ((1, 10), (1, 10), (1, 10)),  # a, b, c
    "hyperboloid": ((1, 3), (1, 3), (2, 4)),  # a, b, c
    "paraboloid": ((1, 3), (1, 3), (3, 7)),  # a, b, c
    "saddle": ((0.5, 3), (0.5, 3), (3, 8)),  # a, b, h; random signs of a and b would vanish in the squares
    "torus": ((2.5, 5), (1, 2)),  # R, r
    "another": ((1, 6),),  # h
}
PATCH = 0.25  # released: on an m×m grid, paraboloid and saddle have x and y in ±m/4
ANOTHER_REACH = 10.0  # released: x and y in ±10
HYPERBOLOID_REACH: dict[Order, float] = {"ordered": 4.0, "set": 1.5}  # released, ours: u in ± that
TRANSLATE: Range = (0, 10)  # released
SCALE: dict[Order, Range] = {"ordered": (0, 10), "set": (0.5, 2)}  # released, ours: a factor for each axis
ANGLE: Range = (0, 6)  # released: radians about x, then y, then z, around the centroid
SHEAR: Range = (-0.5, 0.5)  # ours: all six off-diagonal entries; released has (.01, 2), switched off
JITTER = 0.15  # ours: u and v of every point move by up to this share of a step, either way
EQUAL = 1e-4  # ours: squared lengths that differ by a smaller share are equal, where a coin decides

PERIODIC = {"ellipsoid": "u", "hyperboloid": "v", "torus": "uv"}  # joined across the seam in the order "set"


@register("surfaces")
@dataclass(frozen=True, kw_only=True)
class Surfaces(Family):
    """The paper's 3-D surfaces: an m×m grid of points on each, its cells cut into triangles.

    ===========  ===========================  ========================  ==============================
    kind         surface (paper)              coefficients (released)   u; v (released)
    ===========  ===========================  ========================  ==============================
    ellipsoid    x²/a² + y²/b² + z²/c² = 1    a, b, c U(1, 10)          0 … 2π; 0 … π
    hyperboloid  x²/a² + y²/b² − z²/c² = 1    a, b U(1, 3), c U(2, 4)   ±4 (*set*, ours: ±1.5); 0 … 2π
    paraboloid   c (x²/a² + y²/b²) = z        a, b U(1, 3), c U(3, 7)   x, y in ±m/4
    saddle       h (y²/b² − x²/a²) = z        a, b U(.5, 3), h U(3, 8)  x, y in ±m/4
    torus        (√(x² + y²) − R)² + z² = r²  R U(2.5, 5), r U(1, 2)    0 … 2π; 0 … 2π
    another      h sin √(x² + y²) = z         h U(1, 6)                 x, y in ±10
    ===========  ===========================  ========================  ==============================

    The factor c, the factor h and the sign of the saddle are the released code's. Then, in this order:
    translate by U(0, 10) (released); scale each axis by U(0, 10) (released; *set*: U(.5, 2), ours); rotate
    around the centroid by U(0, 6) about x, y and z (released); reflect each axis or not (released); shear by
    six entries U(−.5, .5) (ours; only in *set*, because the released code has it switched off).

    ``order="ordered"`` is the released generator: points at seams and poles are repeated, and the edges are
    the Delaunay triangulation of the grid in (u, v), where rounding chooses the diagonals. **Every graph of
    a kind has the same edges.** Only its standardisation of ``pos`` over all graphs is left to the caller.

    ``order="set"`` makes the edges a function of the points: periodic parameters do not repeat their end and
    are joined across the seam; the ellipsoid stays a step away from its poles; u and v of every point move by
    U(−.15, .15) of a step (ours); each cell gets its shorter diagonal, measured between the stored points.

    Graphs carry ``kind`` (index in ``KINDS``) and, in *set*, ``perm [n]``: node i is point ``perm[i]`` of the
    grid, counted row by row.

    Args:
        points: a square number m², at least 9 (paper: 100 and 400).
        kind: one of ``KINDS``, or ``"all"`` to cycle through the six (paper: 200 of each).
        scale, translate, rotate, reflect, shear: False omits this map; all other draws stay the same.
        jitter: False leaves u and v on the plain grid. Without shear, cells then have two equal diagonals, of 100
            points a fifth of them and more; each gets one of them at random, which no model can know.
    """

    points: int = 100
    kind: str = "all"
    scale: bool = True
    translate: bool = True
    rotate: bool = True
    reflect: bool = True
    shear: bool = True
    jitter: bool = True

    orders = ("set", "ordered")
    paper_count = 1200
    choices: ClassVar = {"kind": ("all", *KINDS)}

    def __post_init__(self) -> None:
        super().__post_init__()
        square = "a square number of 9 or more, such as 100"
        self._keep_whole("points", 9, square)
        if math.isqrt(self.points) ** 2 != self.points:
            raise GLNError(f"surfaces got points={self.points}; expected {square}.")
        for name in ("scale", "translate", "rotate", "reflect", "shear", "jitter"):
            if not isinstance(getattr(self, name), bool):
                raise GLNError(f"surfaces got {name}={getattr(self, name)!r}; expected True or False.")

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        n, m, shuffled = self.points, math.isqrt(self.points), self.order == "set"
        kinds = np.resize(range(len(KINDS)) if self.kind == "all" else KINDS.index(self.kind), count)
        groups = [(KINDS[index], np.flatnonzero(kinds == index)) for index in np.unique(kinds)]
        shares = rng.random((3, count, 1, 1))  # how far into its range each coefficient lies
        jitter = rng.uniform(-JITTER, JITTER, (2, count, m, m)) * (shuffled and self.jitter)
        points = np.empty((count, n, 3))
        for kind, rows in groups:
            points[rows] = _surface(kind, m, self.order, shares[:, rows], jitter[:, rows])
        pos = self._transform(rng, points).astype(np.float32)  # [count, n, 3], in the order of the grid

        perm = self._node_orders(rng, count, n)  # [count, n]
        coin = None if self.jitter else rng.choice([-1.0, 1.0], (count, n))
        edges: dict[int, np.ndarray] = {}
        for kind, rows in groups:
            tossed = None if coin is None else coin[rows]
            pairs = _set_pairs(kind, pos[rows], tossed) if shuffled else _ordered_pairs(kind, m)
            edges.update(zip(rows.tolist(), _edge_index(pairs, perm[rows]), strict=True))
        pos = np.take_along_axis(pos, perm[:, :, None], axis=1)

        return [
            Graph(
                n,
                pos=torch.from_numpy(pos[row]),
                edge_index=torch.from_numpy(edges[row]),
                kind=torch.tensor(kinds[row]),
                perm=torch.from_numpy(perm[row]) if shuffled else None,
            )
            for row in range(count)
        ]

    def caption(self, graph: Graph) -> str:
        return f"{KINDS[int(graph.kind)]}: {super().caption(graph)}"

    def _transform(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Apply the random maps to ``[B, n, 3]``. All are drawn, so that omitting one does not change the others."""
        count = len(points)
        shift = rng.uniform(*TRANSLATE, (count, 1, 3)) * self.translate
        factor = rng.uniform(*SCALE[self.order], (count, 1, 3)) ** self.scale
        rotation = _rotation(rng.uniform(*ANGLE, (count, 3)) * self.rotate)  # [B, 3, 3]
        mirror = rng.choice([-1.0, 1.0], (count, 1, 3)) ** self.reflect
        shear = rng.uniform(*SHEAR, (count, 3, 3)) * (1 - np.eye(3)) * (self.shear and self.order == "set")

        points = (points + shift) * factor
        centre = points.mean(axis=1, keepdims=True)
        points = (points - centre) @ rotation.swapaxes(1, 2) + centre
        return (points * mirror) @ (np.eye(3) + shear)


def _parameter(kind: str, axis: str, m: int, order: Order) -> np.ndarray:
    """The values ``[m]`` of u or v on the grid."""
    low, high = 0.0, 2 * math.pi
    if kind in ("paraboloid", "saddle"):
        low, high = -PATCH * m, PATCH * m
    elif kind == "another":
        low, high = -ANOTHER_REACH, ANOTHER_REACH
    elif (kind, axis) == ("hyperboloid", "u"):
        low, high = -HYPERBOLOID_REACH[order], HYPERBOLOID_REACH[order]
    elif (kind, axis) == ("ellipsoid", "v"):
        high = math.pi
        if order == "set":  # a row at a pole would be one point, m times
            return np.linspace(low, high, m + 2)[1:-1]
    return np.linspace(low, high, m, endpoint=order == "ordered" or axis not in PERIODIC.get(kind, ""))


def _surface(kind: str, m: int, order: Order, shares: np.ndarray, jitter: np.ndarray) -> np.ndarray:
    """Points ``[B, n, 3]``, from ``shares [3, B, 1, 1]`` of ranges and ``jitter [2, B, m, m]`` in steps."""
    columns, rows = (_parameter(kind, axis, m, order) for axis in "uv")
    u = columns + jitter[0] * (columns[1] - columns[0])  # [B, m, m]
    v = rows[:, None] + jitter[1] * (rows[1] - rows[0])
    match kind, *(low + (high - low) * shares[i] for i, (low, high) in enumerate(COEFFICIENTS[kind])):
        case "ellipsoid", a, b, c:
            x, y, z = a * np.cos(u) * np.sin(v), b * np.sin(u) * np.sin(v), c * np.cos(v)
        case "hyperboloid", a, b, c:
            x, y, z = a * np.cosh(u) * np.cos(v), b * np.cosh(u) * np.sin(v), c * np.sinh(u)
        case "paraboloid", a, b, c:
            x, y, z = u, v, c * (u**2 / a**2 + v**2 / b**2)
        case "saddle", a, b, h:
            x, y, z = u, v, h * (v**2 / b**2 - u**2 / a**2)
        case "torus", R, r:
            x, y, z = (R + r * np.cos(v)) * np.cos(u), (R + r * np.cos(v)) * np.sin(u), r * np.sin(v)
        case "another", h:
            x, y, z = u, v, h * np.sin(np.hypot(u, v))
    return np.stack([x, y, z], axis=-1).reshape(-1, m * m, 3)


def _rotation(angles: np.ndarray) -> np.ndarray:
    """Rotation matrices ``[B, 3, 3]`` about x, then y, then z, by ``angles [B, 3]``."""
    (sx, sy, sz), (cx, cy, cz) = np.sin(angles).T, np.cos(angles).T
    rows = [
        [cy * cz, sx * sy * cz - cx * sz, cx * sy * cz + sx * sz],
        [cy * sz, sx * sy * sz + cx * cz, cx * sy * sz - sx * cz],
        [-sy, sx * cy, cx * cy],
    ]
    return np.array(rows).transpose(2, 0, 1)


@cache
def grid(kind: str, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Sides ``[s, 2]`` and cells ``[c, 4]`` (corner, right, below, across), joined at the seams."""
    corner = np.arange(m * m).reshape(m, m)
    right, below, across = (np.roll(corner, by, axis=(0, 1)) for by in ((0, -1), (-1, 0), (-1, -1)))
    column, row = corner % m, corner // m
    has_right = (column < m - 1) | ("u" in PERIODIC.get(kind, ""))
    has_below = (row < m - 1) | ("v" in PERIODIC.get(kind, ""))
    sides = [np.stack([corner, right], -1)[has_right], np.stack([corner, below], -1)[has_below]]
    return np.concatenate(sides), np.stack([corner, right, below, across], -1)[has_right & has_below]


def _set_pairs(kind: str, pos: np.ndarray, coin: np.ndarray | None = None) -> np.ndarray:
    """Edges ``[B, e, 2]`` over a grid ``pos [B, n, 3]``: all sides, and the shorter diagonal of each cell.

    Where both are equally long, ``coin [B, n]`` of 1 and −1 chooses; without one, rounding does.
    """
    sides, cells = grid(kind, math.isqrt(pos.shape[1]))
    corner, right, below, across = (pos[:, end].astype(np.float64) for end in cells.T)  # [B, c, 3]
    favour = 1 if coin is None else 1 + EQUAL * coin[:, : len(cells)]
    falling = ((corner - across) ** 2).sum(-1) * favour <= ((right - below) ** 2).sum(-1)  # [B, c]
    diagonals = np.where(falling[:, :, None], cells[:, [0, 3]], cells[:, [1, 2]])
    return np.concatenate([np.broadcast_to(sides, (len(pos), *sides.shape)), diagonals], axis=1)


@cache
def _ordered_pairs(kind: str, m: int) -> np.ndarray:
    """Edges ``[1, e, 2]`` of the released grid's Delaunay triangulation, computed once, so ties fall one way."""
    grid = np.meshgrid(*(_parameter(kind, axis, m, "ordered") for axis in "uv"))
    triangles = spatial.Delaunay(np.stack(grid, axis=-1).reshape(-1, 2)).simplices
    sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    return np.unique(np.sort(sides, axis=1), axis=0)[None]


def _edge_index(pairs: np.ndarray, perm: np.ndarray) -> np.ndarray:
    """Sorted ``[B, 2, 2e]`` over nodes, from edges ``[B or 1, e, 2]`` over the grid and ``perm [B, n]``."""
    count, n = perm.shape
    node = np.argsort(perm, axis=1)  # [B, n]: the node of each point of the grid
    one, two = (node[np.arange(count)[:, None], pairs[:, :, end]] for end in (0, 1))  # [B, e]
    key = np.sort(np.concatenate([one * n + two, two * n + one], axis=1), axis=1)  # [B, 2e]
    return np.stack(np.divmod(key, n), axis=1)
