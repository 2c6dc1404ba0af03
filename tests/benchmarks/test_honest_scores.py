"""The benchmark of honest scores, on generated data of the same shapes, small."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import honest_scores as bench
from benchmarks.honest_scores import Shape
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs.record import Graph


def blobs(seed: int) -> tuple[list[Graph], list[Graph]]:
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=120)
    centres = rng.normal(size=(3, 6)) * 2
    return bench.records(centres[kind] + rng.normal(size=(120, 6)), kind, seed)


def flat_meshes(count: int) -> bench.Draw:
    def draw(seed: int) -> tuple[list[Graph], list[Graph]]:
        graphs = parse_family("delaunay:points=150").graphs(count + 2, seed=seed)
        return graphs[:count], graphs[count:]

    return draw


def cliques(seed: int) -> tuple[list[Graph], list[Graph]]:
    graphs = parse_family("community:size=8").graphs(14, seed=seed)
    return graphs[:10], graphs[10:]


SHAPES = {
    "table": Shape(blobs, patches=20, epochs=6),
    "one mesh": Shape(flat_meshes(1), patches=15, epochs=6),
    "three meshes": Shape(flat_meshes(3), patches=15, epochs=4),
    "communities": Shape(cliques, epochs=6),
}


@pytest.mark.parametrize("name", SHAPES)
def test_printed_scores_are_near_those_on_data_kept_apart(name: str) -> None:
    (row,) = bench.run(seeds=2, shapes={name: SHAPES[name]})["rows"]
    assert row["data"] == name
    assert abs(row["gap"]) < 0.15  # two small trainings; a leak or a wrong part is far beyond
    for one in row["tries"]:
        assert one["interval"][0] <= one["printed"] <= one["interval"][1]
        assert 0 < one["rule"] <= 1
        assert 0 < one["kept_rule"] <= 1


def test_nothing_to_do_is_refused() -> None:
    for wrong in ({"seeds": 0}, {"only": ("nothing",)}):
        with pytest.raises(GLNError, match="expected at least 1"):
            bench.run(**wrong)
