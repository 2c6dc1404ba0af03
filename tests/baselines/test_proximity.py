"""Proximity graphs against loops over all pairs and all third nodes, on grids too."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.spatial import Delaunay

from gln.baselines import neighbours as proximity
from gln.baselines.neighbours import SPOILS, pairs_by_distance, pairs_by_rank, unspoilt


def sets() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    grid = np.array(list(product(range(4), range(3))), dtype=float)
    return {
        "one": rng.random((1, 2)),
        "two": rng.random((2, 2)),
        "line": rng.random((9, 1)),
        "plane": rng.random((30, 2)),
        "space": rng.random((25, 3)),
        "five dimensions": rng.random((15, 5)),
        "grid": grid,
        "grid in space": np.array(list(product(range(3), repeat=3)), dtype=float),
        "grid with a node twice": np.concatenate([grid, grid[3:4], grid[3:5]]),
        "many integers": rng.integers(0, 5, (40, 2)).astype(float),
        "all in one place": np.zeros((6, 2)),
    }


def square(points: np.ndarray) -> np.ndarray:
    return np.square(points[:, None] - points[None]).sum(-1)


def edges_where(points: np.ndarray, rule) -> set[tuple[int, int]]:  # type: ignore[no-untyped-def]
    return {pair for pair in combinations(range(len(points)), 2) if rule(*pair)}


def as_set(pairs: np.ndarray) -> set[tuple[int, int]]:
    found = [tuple(pair) for pair in pairs.tolist()]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.parametrize("name", sets())
class TestAgainstLoops:
    def test_gabriel(self, name: str) -> None:
        points = sets()[name]
        d, n = square(points), range(len(points))

        def empty(i: int, j: int) -> bool:
            inside = [k for k in n if k not in (i, j) and d[i, k] + d[j, k] <= d[i, j]]
            return all(d[i, k] == 0 or d[j, k] == 0 for k in inside)

        assert as_set(unspoilt(points, SPOILS["gabriel"])) == edges_where(points, empty)

    def test_relative_neighbours(self, name: str) -> None:
        points = sets()[name]
        d, n = square(points), range(len(points))

        def empty(i: int, j: int) -> bool:
            return not any(max(d[i, k], d[j, k]) < d[i, j] for k in n if k not in (i, j))

        assert as_set(unspoilt(points, SPOILS["rng"])) == edges_where(points, empty)

    def test_relative_neighbours_are_gabriel_neighbours(self, name: str) -> None:
        points = sets()[name]
        assert as_set(unspoilt(points, SPOILS["rng"])) <= as_set(unspoilt(points, SPOILS["gabriel"]))

    @pytest.mark.parametrize("mutual", [False, True])
    def test_nearest(self, name: str, mutual: bool) -> None:
        points = sets()[name]
        d = square(points)
        for most in (1, 3, 50):
            pairs, ranks = pairs_by_rank(points, most, mutual)
            for k in {1, 2, most} - {0}:
                if k > most:
                    continue
                # Of node i, the k-th smallest squared distance to another.
                others = [np.sort(np.delete(d[i], i)) for i in range(len(points))]
                reach = [row[min(k, len(row)) - 1] if len(row) else 0 for row in others]
                both = all if mutual else any
                expected = edges_where(
                    points, lambda i, j, reach=reach, both=both: both(d[i, j] <= reach[end] for end in (i, j))
                )
                assert as_set(pairs[ranks <= k]) == expected, (most, k)

    def test_radius(self, name: str) -> None:
        points = sets()[name]
        d = np.sqrt(square(points))
        for radius in (0.0, 0.3, 1.0, np.sqrt(2), 9.0):
            pairs, distance = pairs_by_distance(points, radius)
            assert as_set(pairs) == edges_where(points, lambda i, j, radius=radius: d[i, j] <= radius)
            np.testing.assert_array_equal(distance, d[pairs[:, 0], pairs[:, 1]])


def test_gabriel_neighbours_are_delaunay_neighbours() -> None:
    points = np.random.default_rng(1).random((200, 2))
    triangles = Delaunay(points).simplices
    sides = {tuple(sorted(pair)) for triangle in triangles.tolist() for pair in combinations(triangle, 2)}
    assert as_set(unspoilt(points, SPOILS["gabriel"])) < sides


def test_a_grid_is_its_own_gabriel_graph() -> None:
    points = sets()["grid"]
    assert as_set(unspoilt(points, SPOILS["gabriel"])) == edges_where(
        points, lambda i, j: square(points)[i, j] == 1
    )


def test_the_size_of_the_tables_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(2).random((40, 2))
    expected = as_set(unspoilt(points, SPOILS["gabriel"]))
    monkeypatch.setattr(proximity, "CELLS", 100)
    assert as_set(unspoilt(points, SPOILS["gabriel"])) == expected
