"""What holds for surfaces: their equations, their meshes, and edges that follow from the points."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.families.surfaces import (
    COEFFICIENTS,
    KINDS,
    SCALE,
    SHEAR,
    TRANSLATE,
    Surfaces,
    _edge_index,
    _ordered_pairs,
    _set_pairs,
)
from gln.families.surfaces import grid as grid_of
from gln.graphs import check_graph
from tests.conftest import assert_same_graph

PLAIN = {"scale": False, "translate": False, "rotate": False, "reflect": False, "shear": False}
AROUND = {
    "ellipsoid": {1},
    "hyperboloid": {0},
    "torus": {0, 1},
}  # the axes of the grid [rows, columns] that close


def plain(**changes: object) -> Surfaces:
    return Surfaces(**{**PLAIN, **changes})  # type: ignore[arg-type]


def grid(graph: Data) -> np.ndarray:
    """The points in the order of the grid, ``[m, m, 3]``."""
    m, pos = math.isqrt(graph.num_nodes), graph.pos.double().numpy()
    return (pos[np.argsort(graph.perm.numpy())] if "perm" in graph else pos).reshape(m, m, 3)


def surface_edges(graph: Data) -> torch.Tensor:
    """The true ``edge_index [2, 2e]`` of a surface, from its ``pos``, ``kind`` and ``perm`` alone."""
    kind, m = KINDS[int(graph.kind)], math.isqrt(graph.num_nodes)
    if "perm" not in graph:  # ordered
        return torch.from_numpy(_edge_index(_ordered_pairs(kind, m), np.arange(m * m)[None])[0])
    perm = graph.perm.numpy()[None]
    pairs = _set_pairs(kind, graph.pos.numpy()[np.argsort(perm)])
    return torch.from_numpy(_edge_index(pairs, perm)[0])


def edge_set(graph: Data) -> set[tuple[int, int]]:
    return set(map(tuple, graph.edge_index.T.tolist()))


def cells(kind: str, m: int) -> list[list[tuple[int, int]]]:
    """The corners of each cell in turn around it, with the seams of a closed axis joined."""
    rows, columns = (range(m if axis in AROUND.get(kind, ()) else m - 1) for axis in (0, 1))
    return [
        [(i, j), (i, (j + 1) % m), ((i + 1) % m, (j + 1) % m), ((i + 1) % m, j)]
        for i in rows
        for j in columns
    ]


@pytest.mark.parametrize("order", ["set", "ordered"])
def test_edges_are_canonical_and_can_be_recomputed(order: str) -> None:
    for graph in Surfaces(points=36, order=order).sample(12, seed=1):
        assert graph.kind.dim() == 0
        assert graph.pos.is_contiguous()
        assert_same_graph(check_graph(graph), graph)
        assert torch.equal(surface_edges(graph), graph.edge_index)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_walk_over_the_cells_finds_the_same_edges(kind: str) -> None:
    for graph in Surfaces(points=25, kind=kind).sample(4, seed=2):
        point, node = grid(graph), np.argsort(graph.perm.numpy()).reshape(5, 5)
        expected = set()
        for cell in cells(kind, 5):
            diagonals = sorted(
                [(cell[0], cell[2]), (cell[1], cell[3])], key=lambda d: math.dist(point[d[0]], point[d[1]])
            )
            for one, two in [*zip(cell, cell[1:] + cell[:1], strict=True), diagonals[0]]:
                expected |= {(int(node[one]), int(node[two])), (int(node[two]), int(node[one]))}
        assert edge_set(graph) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [3, 4, 7])
def test_the_mesh_has_the_topology_of_its_surface(kind: str, m: int) -> None:
    """A closed torus, a tube (open at both ends) or a patch: sides and one diagonal for every cell."""
    closed = len(AROUND.get(kind, ()))
    edges = {2: 3 * m * m, 1: 3 * m * m - 2 * m, 0: 3 * m * m - 4 * m + 1}[closed]
    least = {2: 4, 1: 3, 0: 2}[closed]  # a corner of the grid, if it meets no diagonal
    for graph in Surfaces(points=m * m, kind=kind).sample(4):
        assert graph.num_edges == 2 * edges
        assert graph.edge_index[0].bincount().min() >= least
    # Euler: faces are two for each cell, and torus and tube have V − E + F = 0, a patch has 1.
    assert m * m - edges + 2 * len(cells(kind, m)) == (0 if closed else 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("points", "count"), [(100, 300), (400, 90)])
def test_at_most_one_cell_in_a_hundred_is_nearly_tied(kind: str, points: int, count: int) -> None:
    m, close = math.isqrt(points), []
    index = np.array([[i * m + j for i, j in cell] for cell in cells(kind, m)])  # [c, 4]
    for graph in Surfaces(points=points, kind=kind).sample(count, seed=3):
        corner = grid(graph).reshape(-1, 3)[index]  # [c, 4, 3]
        one, two = (np.linalg.norm(corner[:, k] - corner[:, k + 2], axis=1) for k in (0, 1))
        close.append(abs(one - two) <= 0.002 * np.maximum(one, two))
    assert np.mean(close) <= 0.01


@pytest.mark.parametrize("points", [9, 100, 400])
def test_set_points_are_distinct(points: int) -> None:
    for graph in Surfaces(points=points).sample(30, seed=4):
        assert pdist(graph.pos.numpy()).min() > 1e-4


@pytest.mark.parametrize("points", [100, 400])
def test_ordered_has_one_adjacency_per_kind(points: int) -> None:
    """The reason for the order "set": here the edges can be known without looking at the points."""
    graphs = Surfaces(points=points, order="ordered").sample(60, seed=5)
    seen = {(int(graph.kind), graph.edge_index.numpy().tobytes()) for graph in graphs}
    assert len(seen) == len(KINDS)
    assert len({edges for _, edges in seen}) == 4  # three kinds triangulate the same square
    assert len({graph.pos.numpy().tobytes() for graph in graphs}) == 60


def test_ordered_repeats_points_at_seams_and_poles_and_set_does_not() -> None:
    distinct = {"torus": 9 * 9, "ellipsoid": 8 * 9 + 2, "hyperboloid": 10 * 9}
    for kind in KINDS:
        for order, expected in (("ordered", distinct.get(kind, 100)), ("set", 100)):
            pos = plain(kind=kind, order=order).sample(1)[0].pos
            assert len(np.unique(pos.numpy().round(4) + 0.0, axis=0)) == expected


def test_kinds_come_equally_often() -> None:
    for count in (6, 90, 1200):
        kinds = torch.stack([graph.kind for graph in Surfaces(points=9).sample(count)])
        assert kinds.bincount().tolist() == [count // 6] * 6
    assert {int(graph.kind) for graph in Surfaces(points=9, kind="saddle").sample(7)} == {
        KINDS.index("saddle")
    }


def fit(kind: str, pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the points ``[n, 3]`` are off the best surface of a kind, and its coefficients."""
    x, y, z = pos.T
    s, one = np.hypot(x, y), np.ones(len(pos))
    terms, right = {
        "ellipsoid": ([x**2, y**2, z**2], one),
        "hyperboloid": ([x**2, y**2, -(z**2)], one),
        "paraboloid": ([x**2, y**2], z),
        "saddle": ([-(x**2), y**2], z),
        "torus": ([2 * s, -one], s**2 + z**2),  # s² + z² = 2Rs − (R² − r²)
        "another": ([np.sin(s)], z),
    }[kind]
    matrix = np.stack(terms, axis=1)
    found = np.linalg.lstsq(matrix, right, rcond=None)[0]
    off = abs(matrix @ found - right) / (abs(matrix) @ abs(found) + abs(right)).max()
    if kind in ("ellipsoid", "hyperboloid"):
        found = found**-0.5
    elif kind == "torus":
        found[1] = math.sqrt(found[0] ** 2 - found[1])
    return off, found


@pytest.mark.parametrize("order", ["set", "ordered"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_transformations_points_obey_the_equation(kind: str, order: str) -> None:
    low, high = np.array(COEFFICIENTS[kind]).T
    if kind in ("paraboloid", "saddle"):  # the points tell c/a² and c/b²
        low, high = low[2] / high[:2] ** 2, high[2] / low[:2] ** 2
    for graph in plain(kind=kind, order=order).sample(10, seed=6):
        off, found = fit(kind, graph.pos.double().numpy())
        assert off.max() < 1e-5
        assert (found >= low * 0.999).all()
        assert (found <= high * 1.001).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_grid_has_one_diagonal_in_every_cell_and_a_coin_decides_between_equal_ones(kind: str) -> None:
    family = Surfaces(points=100, kind=kind, jitter=False, shear=False)
    falling = []
    for graph in family.graphs(60, seed=3):
        corners = grid_of(kind, 10)[1]
        joined = np.zeros((100, 100), dtype=bool)
        joined[tuple(graph.perm.numpy()[graph.edge_index.numpy()])] = True
        one, other = joined[corners[:, 0], corners[:, 3]], joined[corners[:, 1], corners[:, 2]]
        assert (one ^ other).all()
        points = grid(graph).reshape(100, 3)
        long, short = (
            ((points[corners[:, a]] - points[corners[:, b]]) ** 2).sum(-1) for a, b in ((0, 3), (1, 2))
        )
        equal = np.abs(long - short) < 5e-5 * long
        assert equal.mean() > 0.1
        falling.append(one[equal].mean())
    assert 0.4 < np.mean(falling) < 0.6


@pytest.mark.parametrize("kind", KINDS)
def test_set_parameters_lie_within_15_percent_of_a_step_of_the_grid(kind: str) -> None:
    m, turn = 10, np.arange(10) * 2 * np.pi / 10
    columns, rows = {
        "ellipsoid": (turn, np.arange(1, m + 1) * np.pi / (m + 1)),  # off the poles
        "hyperboloid": (np.linspace(-1.5, 1.5, m), turn),
        "torus": (turn, turn),
        "another": (np.linspace(-10, 10, m), np.linspace(-10, 10, m)),
    }.get(kind, (np.linspace(-m / 4, m / 4, m), np.linspace(-m / 4, m / 4, m)))
    moves = []
    for graph in plain(kind=kind).sample(10, seed=7):
        x, y, z = grid(graph).transpose(2, 0, 1)
        _, found = fit(kind, graph.pos.double().numpy())
        u, v = {
            "ellipsoid": lambda x, y, z, a, b, c: (np.arctan2(y / b, x / a), np.arccos(z / c)),
            "hyperboloid": lambda x, y, z, a, b, c: (np.arcsinh(z / c), np.arctan2(y / b, x / a)),
            "torus": lambda x, y, z, R, r: (np.arctan2(y, x), np.arctan2(z, np.hypot(x, y) - R)),
        }.get(kind, lambda x, y, *_: (x, y))(x, y, z, *found)
        for off, step in ((u - columns, columns[1] - columns[0]), (v - rows[:, None], rows[1] - rows[0])):
            moves.append(abs((off + np.pi) % (2 * np.pi) - np.pi) / step)  # 0 and 2π are one angle
    assert 0.148 < np.max(moves) < 0.1501
    assert np.mean(moves) == pytest.approx(0.075, abs=0.004)


@pytest.mark.parametrize("order", ["set", "ordered"])
class TestEachTransformationAlone:
    def pairs(self, order: str, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Points ``[m, m, 3]`` of twelve graphs without and with one transformation, all else equal."""
        before, after = (plain(order=order, points=49, **on).sample(12, seed=7) for on in ({}, {name: True}))
        return [(grid(one), grid(two)) for one, two in zip(before, after, strict=True)]

    def test_translate(self, order: str) -> None:
        for before, after in self.pairs(order, "translate"):
            shift = (after - before).reshape(-1, 3)
            np.testing.assert_allclose(shift, np.tile(shift[0], (49, 1)), atol=1e-4)
            assert (shift[0] >= TRANSLATE[0]).all()
            assert (shift[0] <= TRANSLATE[1]).all()

    def test_scale(self, order: str) -> None:
        factors = np.array([(abs(b).max((0, 1)) / abs(a).max((0, 1))) for a, b in self.pairs(order, "scale")])
        for (before, after), factor in zip(self.pairs(order, "scale"), factors, strict=True):
            np.testing.assert_allclose(after, before * factor, rtol=1e-5, atol=1e-4)
        low, high = SCALE[order]  # type: ignore[index]
        assert low <= factors.min() < factors.max() <= high * 1.001

    def test_rotate(self, order: str) -> None:
        for before, after in self.pairs(order, "rotate"):
            a, b = (points.reshape(-1, 3) - points.mean((0, 1)) for points in (before, after))
            np.testing.assert_allclose(
                after.mean((0, 1)), before.mean((0, 1)), atol=1e-3
            )  # around the centroid
            turn = np.linalg.lstsq(a, b, rcond=None)[0]
            np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-3)
            assert np.linalg.det(turn) == pytest.approx(1, abs=1e-3)  # not a reflection
            assert abs(turn - np.eye(3)).max() > 0.01

    def test_reflect(self, order: str) -> None:
        signs = []
        for before, after in self.pairs(order, "reflect"):
            np.testing.assert_allclose(abs(after), abs(before), atol=1e-4)
            signs.append(np.sign((before * after).sum((0, 1))))
        assert len(np.unique(signs, axis=0)) > 3

    def test_shear(self, order: str) -> None:
        """Never in *ordered*: the released code has it switched off."""
        for before, after in self.pairs(order, "shear"):
            shear = np.linalg.lstsq(before.reshape(-1, 3), after.reshape(-1, 3), rcond=None)[0]
            np.testing.assert_allclose(np.diag(shear), 1, atol=1e-3)
            off = shear[~np.eye(3, dtype=bool)]
            assert (abs(off) <= SHEAR[1] + 1e-3).all()
            assert (abs(off).max() > 0.05) == (order == "set")


def test_the_nodes_of_set_graphs_are_shuffled_each_in_its_own_way() -> None:
    perms = torch.stack([graph.perm for graph in Surfaces(points=25).sample(20, seed=8)])
    assert torch.equal(perms.sort(dim=1).values, torch.arange(25).expand(20, 25))
    assert len(perms.unique(dim=0)) == 20


@pytest.mark.parametrize("points", [4, 99, 0, -100, 100.0, (9, 16)])
def test_points_must_be_a_square(points: object) -> None:
    with pytest.raises(GLNError, match="expected a square number"):
        Surfaces(points=points)  # type: ignore[arg-type]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(GLNError, match="choose from all, ellipsoid"):
        Surfaces(kind="sphere")


@pytest.mark.parametrize("switch", ["scale", "translate", "rotate", "reflect", "shear"])
def test_a_switch_is_true_or_false(switch: str) -> None:
    for bad in ("False", 2, None):
        with pytest.raises(GLNError, match=f"{switch}=.*; expected True or False"):
            Surfaces(**{switch: bad})
