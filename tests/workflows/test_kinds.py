"""Kinds of edges from files to a model and back: numbered alike, read as before, written with their names."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gln
from gln.errors import GLNError
from gln.graphs.check import make_graph
from gln.graphs.record import Graph
from gln.io import Item, ReadOptions, read_items
from gln.models.contract import kinds_of
from gln.workflows.answers import KnownEdges, completed
from gln.workflows.methods import comparable, kinds_in_words, options_for
from gln.workflows.training_data import number_alike
from tests.conftest import run

QUICK = [
    "--epochs",
    "1",
    "--accelerator",
    "cpu",
    "--no-progress",
    "--model",
    "GLN:width=8,pair_width=8,steps=1",
]
FLAGS = ["--types", "kind", "--weights", "cost", "--directed", "--node-types", "role"]


def write_tables(folder: Path, count: int = 8, nodes: int = 6) -> None:
    """Random points with typed, weighted, directed edges, and a role for every node."""
    rng = np.random.default_rng(0)
    rows, edges = ["graph,id,x,y,role"], ["graph,source,target,kind,cost"]
    for graph in range(count):
        for node, (x, y) in enumerate(rng.random((nodes, 2))):
            rows.append(f"g{graph},n{node},{x:.4f},{y:.4f},{('leaf', 'hub')[node % 2]}")
        for node in range(nodes - 1):
            edges.append(f"g{graph},n{node},n{node + 1},{('rail', 'road')[node % 2]},{1 + node / 2}")
    folder.mkdir()
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    (folder / "t.edges.csv").write_text("\n".join(edges) + "\n")


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open() as file:
        return list(csv.DictReader(file))


def test_from_a_table_with_kinds_to_a_table_with_kinds(here: Path, capsys: pytest.CaptureFixture) -> None:
    write_tables(here / "data")
    assert run("train", "data", "-o", "run", *QUICK, *FLAGS) == 0
    words = "2 types of edges (rail, road); weights; directions; 2 types of nodes (hub, leaf)"
    assert f"kinds       {words}" in capsys.readouterr().out
    facts = json.loads(Path("run/model.json").read_text())
    settings = ("edge_types", "edge_weights", "directed", "node_types")
    assert [facts["config"][name] for name in settings] == [2, True, True, 2]
    names = facts["training"]["names"]
    assert names == {"edge_type_names": ["rail", "road"], "node_type_names": ["hub", "leaf"]}

    # The columns are those of the run; nodes alone are enough.
    assert run("predict", "run", "data", "-o", "out.csv", "--threshold", "0") == 0
    assert "dice (F1)" in capsys.readouterr().out
    rows = rows_of("out.csv")
    assert len(rows) == 8 * 6 * 5  # every pair in both directions
    assert {row["type"] for row in rows} <= {"rail", "road"}
    assert {row["direction"] for row in rows} == {"forward"}
    assert all(float(row["weight"]) > 0 for row in rows)
    assert {row["type"] for row in rows_of("out.nodes.csv")} <= {"hub", "leaf"}
    Path("points.csv").write_text("x,y\n0,0\n1,0\n0,1\n")
    assert run("predict", "run", "points.csv", "-o", "alone.npz", "--view", "page.html") == 0
    model = gln.load("run")
    expected = gln.predict(model, np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float32))
    assert expected.edge_type_names == ["rail", "road"]
    with np.load("alone.npz") as found:
        assert found["edge_type"].tolist() == expected.edge_type.tolist()
        assert bool(found["directed"])

    for words in (["evaluate", "run", "--on", "data"], ["report", "run"]):
        assert run(*words) == 0
    assert run("view", "data", "--predicted", "out.csv", *FLAGS, "-o", "seen.html") == 0
    assert '"type_names":["rail","road"]' in Path("seen.html").read_text()


def test_known_edges_have_kinds(here: Path, capsys: Any) -> None:
    write_tables(here / "data", 4)
    assert run("train", "data", "-o", "run", *QUICK, *FLAGS) == 0
    Path("points.csv").write_text("id,x,y\na,0,0\nb,1,0\nc,0,1\n")
    Path("known.csv").write_text("source,target,kind,cost\nb,a,road,7\n")
    ask = ["predict", "run", "points.csv", "-o", "out.csv", "--threshold", "1", "--known"]
    assert run(*ask, "known.csv") == 0
    assert rows_of("out.csv") == [
        {"graph": "points.csv", "source": "b", "target": "a", "probability": "1", "type": "road"}
        | {"weight": "7.0", "direction": "forward"}
    ]
    for text, message in (
        ("source,target,kind,cost\nb,a,wire,7\n", "never seen in training"),
        ("source,target,cost\nb,a,7\n", "has no column type, which the model predicts"),
    ):
        Path("wrong.csv").write_text(text)
        assert run(*ask, "wrong.csv", "--force") != 0
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--weights", "cost"], "delaunay predicts no weights; leave out --weights"),
        (["--directed"], "delaunay predicts no directions; leave out --directed"),
    ],
)
def test_flags_for_what_a_model_does_not_predict_are_refused(
    words: list[str], message: str, here: Path, capsys: Any
) -> None:
    write_tables(here / "data", 3)
    assert run("predict", "delaunay", "data", "-o", "out.csv", *words) == 2
    assert message in capsys.readouterr().err
    assert run("predict", "delaunay", "data", "--x", "none", "-o", "out.csv") == 0
    assert "of the edges, kind, cost are not used" in capsys.readouterr().err


def test_a_model_without_kinds_says_so(here: Path, capsys: Any) -> None:
    write_tables(here / "data", 5)
    ask = ["train", "data", "-o", "run", *QUICK[:5], "--model", "PaperGLN:steps=1"]
    assert run(*ask, "--directed") == 2
    assert "predicts no directions; leave out --directed" in capsys.readouterr().err
    assert run(*ask, "--types", "kind") == 0
    assert "does not predict types of edges, so these are not used" in capsys.readouterr().err


def test_graphs_are_numbered_alike() -> None:
    graphs = [path(names=("b", "c")), path(names=("a", "c"))]
    number_alike(graphs)
    assert [graph.edge_type_names for graph in graphs] == [("a", "b", "c")] * 2
    assert [graph.edge_type.tolist() for graph in graphs] == [[1, 1, 2, 2], [0, 0, 2, 2]]
    graphs = [path(names=("-1", "1")), path(names=None)]  # charges: only one graph has a negative one
    number_alike(graphs)
    assert [graph.edge_type_names for graph in graphs] == [("-1", "0", "1")] * 2
    assert [graph.edge_type.tolist() for graph in graphs] == [[0, 0, 2, 2], [1, 1, 2, 2]]


def path(names: tuple[str, ...] | None) -> Graph:
    """Three nodes in a row, joined by an edge of either type."""
    graph = make_graph(pos=[[0, 0], [1, 0], [2, 1]], edges=[[0, 1], [1, 2]], edge_type=[0, 1])
    if names is not None:
        graph.edge_type_names = names
    return graph


def test_a_truth_is_compared_as_the_model_counts() -> None:
    model = gln.GLN(pos_channels=2, width=8, pair_width=8, steps=1, edge_types=2)
    assert comparable(model, path(None)).edge_type.tolist() == [0, 0, 1, 1]
    with pytest.raises(GLNError, match="given in words, but the model knows the numbers 0 to 1"):
        comparable(model, path(("a", "b")))
    model.training_facts = {"names": {"edge_type_names": ["b", "a"]}}
    assert comparable(model, path(("a", "b"))).edge_type.tolist() == [1, 1, 0, 0]
    for unknown in (path(("a", "c")), path(None)):
        with pytest.raises(GLNError, match="never seen in training"):
            comparable(model, unknown)
    plain = gln.GLN(pos_channels=2, width=8, pair_width=8, steps=1)
    assert set(comparable(plain, path(("a", "b"))).keys()) == {"pos", "edge_index", "num_nodes"}
    graph = path(("a", "b"))
    assert kinds_in_words(kinds_of(plain), [graph]) == ("", ["types of edges"])
    assert kinds_in_words(kinds_of(model), [graph]) == ("2 types of edges (a, b)", [])
    model.training_facts = {"names": {"edge_type_names": ["-1", "0", "1"]}}
    model.config["edge_types"] = 3
    assert comparable(model, path(None)).edge_type.tolist() == [1, 1, 2, 2]


def test_known_edges_are_added_with_their_kinds(tmp_path: Path) -> None:
    model = gln.GLN(pos_channels=2, width=8, pair_width=8, steps=1, edge_types=2)
    (tmp_path / "known.csv").write_text("source,target,type\n0,2,1\n")
    nodes = path(None)
    known = KnownEdges(tmp_path / "known.csv", ReadOptions(), 1, model)
    sure = known.of(Item("a", Path("a"), nodes, False, None))
    answer = completed(gln.graphs.as_graph(gln.predict(model, nodes, threshold=0.0)), sure)
    at = ((answer.edge_index[0] == 0) & (answer.edge_index[1] == 2)).nonzero().item()
    assert answer.edge_prob[at] == 1
    assert answer.edge_type[at] == 1
    assert answer.edge_type_prob[at].tolist() == [0, 1]
    assert answer.num_edges == 6


def test_options_follow_the_run(here: Path) -> None:
    write_tables(here / "data", 4)
    plain = ["--weights", "cost", "--threshold-weights", "1.2"]
    assert run("train", "data", "-o", "run", *QUICK, *plain) == 0
    options = options_for("run", ReadOptions())
    assert (options.weights, options.threshold_weights) == ("cost", 1.2)
    first = next(iter(read_items([Path("data/t.csv")], options)))
    assert first.graph.num_edges == 2 * 4  # the first edge is too light
    assert first.graph.edge_weight is None
