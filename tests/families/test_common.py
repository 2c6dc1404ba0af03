"""Laws that every registered family obeys. A new family needs an entry in SMALL."""

from __future__ import annotations

import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.families import FAMILIES, Family, family, parse_family, register
from gln.families.base import BLOCK
from gln.graphs import check_graph, make_graph
from tests.conftest import assert_same_graph

# Small members of every registered family, in every order it offers.
SMALL = {
    "community": ["community:size=5", "community:size=4,communities=4,order=ordered"],
    "surfaces": ["surfaces:points=16", "surfaces:points=25,kind=torus,order=ordered"],
    "figures": ["figures:side=6", "figures:side=8,objects=3,neighbours=8", "figures:side=5,order=ordered"],
    "delaunay": ["delaunay:points=12", "delaunay:points=5-9"],
    "nearest": ["nearest:points=9", "nearest:points=12,colours=1"],
    "particles": ["particles:count=3", "particles:count=4,kind=charged", "particles:kind=kuramoto"],
    "roads": ["roads:points=8"],
    "shapes": ["shapes:points=60"],
    "planar": ["planar:nodes=12"],
    "tree": ["tree:nodes=9"],
    "sbm": ["sbm"],
}
BARE = {"planar", "tree", "sbm"}  # nodes without points
MEMBERS = [spec for specs in SMALL.values() for spec in specs]


def test_every_registered_family_is_tested_in_every_order() -> None:
    assert set(SMALL) == set(FAMILIES), "add small members of the new family to SMALL"
    for name, specs in SMALL.items():
        assert {parse_family(spec).order for spec in specs} == set(FAMILIES[name].orders)
        assert FAMILIES[name].summary().endswith(".")


@pytest.mark.parametrize("spec", MEMBERS)
class TestEveryFamily:
    def test_graphs_are_canonical_and_carry_points(self, spec: str) -> None:
        for graph in parse_family(spec).sample(8, seed=1):
            assert_same_graph(check_graph(graph), graph)
            rows = graph.x if graph.pos is None else graph.pos
            assert parse_family(spec).name in BARE or rows.shape[0] == graph.num_nodes
        assert graph.num_edges > 0

    def test_fewer_graphs_are_the_first_of_more(self, spec: str) -> None:
        member = parse_family(spec)
        more = member.sample(BLOCK + 3, seed=2)
        for count in (1, 5, BLOCK, BLOCK + 2):
            for actual, expected in zip(member.sample(count, seed=2), more, strict=False):
                assert_same_graph(actual, expected)

    def test_graphs_and_seeds_differ(self, spec: str) -> None:
        member = parse_family(spec)
        graphs = member.sample(4, seed=3) + member.sample(4, seed=4)
        names = ("edge_index",) if member.name in BARE else ("pos", "x")
        drawn = {
            b"".join(graph[name].numpy().tobytes() for name in names if graph.get(name) is not None)
            for graph in graphs
        }
        assert len(drawn) == 8

    def test_set_members_have_distinct_points(self, spec: str) -> None:
        member = parse_family(spec)
        if member.order == "set" and member.name not in BARE:
            for graph in member.sample(6, seed=5):
                rows = graph.x if graph.pos is None else graph.pos
                assert len(rows.unique(dim=0)) == graph.num_nodes

    def test_the_short_form_and_the_spec_give_the_family_back(self, spec: str) -> None:
        member = parse_family(spec)
        assert parse_family(str(member)) == member
        assert family(**member.spec()) == member

    def test_the_cache_gives_the_same_graphs(self, spec: str, tmp_path: Path) -> None:
        member = parse_family(spec)
        for _ in range(2):
            for actual, expected in zip(
                member.sample(3, 6, cache=tmp_path), member.sample(3, 6), strict=True
            ):
                assert_same_graph(actual, expected)


SCRIPT = """
import hashlib, sys
from gln.families import parse_family
from gln.graphs import pack

def main():
    state = hashlib.sha256()
    for spec in sys.argv[2:]:
        packed = pack(parse_family(spec).sample(40, seed=7, workers=int(sys.argv[1])))
        for name in sorted(packed):
            state.update(name.encode() + packed[name].numpy().tobytes())
    print(state.hexdigest())

if __name__ == "__main__":
    main()
"""


def test_another_process_with_other_workers_draws_the_same_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    script = tmp_path / "draw.py"
    script.write_text(SCRIPT)
    two_workers = [sys.executable, script, "2", *MEMBERS]
    there = subprocess.run(two_workers, check=True, capture_output=True, text=True).stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [str(script), "1", *MEMBERS])
        runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out == there


@pytest.mark.parametrize("name", ["community", "figures"])
def test_set_and_ordered_hold_the_same_kind_of_graph_in_another_order(name: str) -> None:
    shuffled, kept = family(name).sample(3, 0), family(name, order="ordered").sample(3, 0)
    assert all(a.num_nodes == b.num_nodes for a, b in zip(shuffled, kept, strict=True))
    orders = {"community": "community", "figures": "region"}
    assert any(not torch.equal(a[orders[name]], b[orders[name]]) for a, b in zip(shuffled, kept, strict=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere", "no family 'nowhere'"),
        ("surfaces:sides=3", "no parameter 'sides'"),
        ("surfaces:points", "expected name=value"),
        ("delaunay:order=ordered", "order='ordered'; choose from set"),
    ],
)
def test_a_mistyped_family_gets_one_sentence(text: str, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        parse_family(text)


@pytest.mark.parametrize(
    "bad",
    [{"count": 0}, {"count": 2.0}, {"count": True}, {"count": 3, "seed": -1}, {"count": 3, "workers": 0}],
)
def test_impossible_samples_are_refused(bad: dict) -> None:
    with pytest.raises(GLNError, match=r"sample got .*; expected a whole number"):
        family("delaunay").sample(**bad)


def test_a_new_family_needs_one_decorator_and_one_method() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Path3(Family):
        """Three points in a row."""

        def draw(self, rng: np.random.Generator, count: int) -> list[Data]:
            return [make_graph(pos=rng.random((3, 2)), edges=[[0, 1], [1, 2]]) for _ in range(count)]

    with pytest.raises(GLNError, match="already registered"):
        register("delaunay")(Path3)
    Path3.name = "path"  # not registered, so that the other tests do not meet it
    assert [graph.num_edges for graph in Path3().sample(3)] == [4, 4, 4]


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("community", "size", 5),
        ("surfaces", "points", 16),
        ("figures", "side", 6),
        ("delaunay", "points", 7),
        ("nearest", "colours", 2),
        ("particles", "count", 3),
        ("roads", "points", 5),
        ("shapes", "points", 50),
        ("planar", "nodes", 5),
        ("tree", "nodes", 5),
    ],
)
def test_whole_numbers_may_be_numpys_but_not_true(name: str, parameter: str, value: int) -> None:
    member = family(name, **{parameter: np.int64(value)})
    assert member == family(name, **{parameter: value})
    assert type(getattr(member, parameter)) is int
    with pytest.raises(GLNError, match=f"{parameter}=True"):
        family(name, **{parameter: True})


def test_workers_without_a_guarded_script_get_one_sentence(tmp_path: Path) -> None:
    script = tmp_path / "draw.py"
    script.write_text("from gln.families import Delaunay\nDelaunay(points=5).sample(90, workers=2)\n")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "GLNError" in run.stderr
    assert "put the call under if __name__ == '__main__' or use workers=1." in run.stderr
