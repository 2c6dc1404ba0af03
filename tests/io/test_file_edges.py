"""Types, weights and directions of edges and types of nodes: read as chosen, named if not, written and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs.check import check_graph
from gln.io import Item, open_writer, read_items
from tests.conftest import assert_same_graph, graphs
from tests.io.samples import put, read_one

NODES = "id,x,y,role\na,0,0,leaf\nb,1,0,hub\nc,0,1,leaf\n"
EDGES = "source,target,type,weight\na,b,near,2\nb,c,far,0.5\nc,c,far,1\n"
quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def table(folder: Path, edges: str = EDGES, nodes: str = NODES) -> Path:
    put(folder, "t.edges.csv", edges)
    return put(folder, "t.csv", nodes)


def kinds(graph: Any) -> list[tuple[Any, ...]]:
    """Source, target, type and weight of every edge that is listed once."""
    once = graph.listed_once()
    columns = [graph.edge_index[0], graph.edge_index[1], graph.edge_type, graph.edge_weight]
    return list(zip(*(column[once].tolist() for column in columns), strict=True))


def test_words_become_numbers_in_sorted_order_and_numbers_stay(tmp_path: Path) -> None:
    graph = read_one(table(tmp_path), types="type", weights="weight", node_types="role").graph
    assert kinds(graph) == [(0, 1, 1, 2.0), (1, 2, 0, 0.5)]
    assert graph.edge_type_names == ("far", "near")
    assert graph.node_type.tolist() == [1, 0, 1]
    assert graph.node_type_names == ("hub", "leaf")
    table(tmp_path, EDGES.replace("near", "4").replace("far", "2.0"))
    graph = read_one(tmp_path / "t.csv", types="type", weights="weight").graph
    assert [edge[2] for edge in kinds(graph)] == [4, 2]
    assert "edge_type_names" not in graph
    table(tmp_path, EDGES.replace("near", "1").replace("far", "-1"))
    graph = read_one(tmp_path / "t.csv", types="type", weights="weight").graph
    assert [graph.edge_type_names[edge[2]] for edge in kinds(graph)] == ["1", "-1"]


def test_what_is_not_asked_for_is_named_once_and_the_graph_is_plain(tmp_path: Path) -> None:
    said: list[str] = []
    (item,) = read_items([table(tmp_path)], say=said.append)
    assert set(item.graph.keys()) == {"pos", "edge_index", "num_nodes"}
    assert said == [
        "t.csv: pos = x, y; id = id; not used: role; edges from *.edges.csv",
        "t.csv: of the edges, type, weight are not used; see --types, --weights and --directed",
        "t.csv: edges from a node to itself are dropped",
    ]


def test_a_threshold_makes_a_plain_graph_of_a_weighted_one(tmp_path: Path) -> None:
    path = table(tmp_path, EDGES.replace("0.5", "-7"))
    graph = read_one(path, threshold_weights=1.0).graph
    assert graph.edges_once().tolist() == [[0, 1]]
    assert graph.edge_weight is None
    with pytest.raises(GLNError, match="its edges have no 'weight', which --threshold-weights needs"):
        read_one(table(tmp_path, "source,target\na,b\n"), threshold_weights=1.0)


def test_directions_are_those_of_the_rows_or_of_their_column(tmp_path: Path) -> None:
    path = table(tmp_path, "source,target\nb,a\na,b\nc,a\n")
    assert read_one(path, directed=True).graph.edges_once().tolist() == [[0, 1], [1, 0], [2, 0]]
    assert read_one(path).graph.edges_once().tolist() == [[0, 1], [0, 2]]
    path = table(tmp_path, "source,target,direction\nb,a,backward\nc,a,both\n")
    graph = read_one(path, directed=True).graph
    assert graph.directed
    assert graph.edges_once().tolist() == [[0, 1], [0, 2], [2, 0]]


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        (
            "a,b,1.5,1",
            {"types": "type"},
            r"edges\.csv, row 2: the type is '1.5'; expected a word, or a whole number",
        ),
        ("a,b,,1", {"types": "type"}, "the type is missing"),
        ("a,b,1,0", {"weights": "weight"}, r"row 2: the weight is '0'; expected a positive number"),
        ("a,b,1,nan", {"weights": "weight"}, "the weight is 'nan'"),
        ("a,b,1,1", {"types": "order"}, "its edges have no 'order', which --types needs; they have 'type'"),
        ("a,b,1,1\nb,a,2,1", {"types": "type"}, "row 3: this edge was listed before with another type"),
        ("a,b,1,1\nb,a,1,2", {"weights": "weight"}, "row 3: this edge was listed before with another weight"),
        ("a,b,1,1", {"node_types": "rank"}, "there is no column or attribute 'rank'"),
    ],
)
def test_a_mistake_gets_one_sentence(
    edges: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(GLNError, match=message):
        read_one(table(tmp_path, f"source,target,type,weight\n{edges}\n"), **options)


def test_what_may_be_missing_is_not_required(tmp_path: Path) -> None:
    path = table(tmp_path, "source,target\na,b\n")
    graph = read_one(path, types="type", weights="weight", node_types="rank", kinds_if_there=True).graph
    assert set(graph.keys()) == {"pos", "edge_index", "num_nodes"}


SDF = (
    b"a\n\n\n  3  2  0  0  0  0            999 V2000\n"
    b"    0.0000    0.0000    0.0000 C   0  0\n    1.2000    0.0000    0.0000 O   0  5\n"
    b"   -1.0000    0.0000    0.0000 N   0  3\n  1  2  2  0\n  1  3  1  0\n"
)


def test_an_sdf_gives_orders_and_charges(tmp_path: Path) -> None:
    options = {"types": "order", "node_types": "charge"}
    graph = read_one(put(tmp_path, "a.sdf", SDF + b"M  END\n$$$$\n"), **options).graph
    assert graph.edge_type_names == ("single", "double", "triple", "aromatic")
    assert graph.edge_type.tolist() == [1, 0, 1, 0]
    assert [graph.node_type_names[number] for number in graph.node_type] == ["0", "-1", "+1"]
    graph = read_one(put(tmp_path, "b.sdf", SDF + b"M  CHG  1   2  -2\nM  END\n$$$$\n"), **options).graph
    assert [graph.node_type_names[number] for number in graph.node_type] == ["0", "-2", "0"]
    said: list[str] = []
    list(read_items([tmp_path / "a.sdf"], say=said.append))
    assert said[1:] == [
        "a.sdf: of the nodes, charge is not used; see --node-types",
        "a.sdf: of the edges, order is not used; see --types, --weights and --directed",
    ]
    with pytest.raises(GLNError, match="its edges have no direction; leave out --directed"):
        read_one(tmp_path / "a.sdf", directed=True)


def test_a_network_gives_its_attributes(tmp_path: Path) -> None:
    content = {
        "directed": True,
        "nodes": [{"id": "a", "pos": [0, 0], "role": "in"}, {"id": "b", "pos": [1, 0], "role": "out"}],
        "edges": [{"source": "b", "target": "a", "kind": "wire", "weight": 3}],
    }
    path = put(tmp_path, "a.json", json.dumps(content))
    graph = read_one(path, types="kind", weights="weight", directed=True, node_types="role").graph
    assert kinds(graph) == [(1, 0, 0, 3.0)]
    assert (graph.edge_type_names, graph.node_type_names) == (("wire",), ("in", "out"))
    said: list[str] = []
    (item,) = read_items([path], say=said.append)
    assert not item.graph.directed
    assert said[1].startswith("a.json: of the edges, kind, weight, their directions are not used")


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".graphml"])
@pytest.mark.parametrize("directed", [False, True])
@quiet
@given(data=graphs(pos_width=3, kinds=True, directed=True), both=graphs(pos_width=3, kinds=True))
def test_a_prediction_is_read_back(
    suffix: str, directed: bool, data: Data, both: Data, tmp_path: Path
) -> None:
    graph = check_graph(data if directed else both)
    if not graph.num_edges:
        return
    path, nodes = tmp_path / f"out{suffix}", Item("a.csv", tmp_path / "a.csv", graph, False, None)
    graph.edge_type_names = ("=1", "b", "c, d", "é")
    graph.node_type_names = ("p", "q", "r", "s")
    write(path, nodes)
    options: dict[str, Any] = {"directed": directed}
    if suffix == ".npz":
        again = read_one(
            path, **options, types="edge_type", weights="edge_weight", node_types="node_type"
        ).graph
    elif suffix == ".graphml":
        options["pos"] = ("pos0", "pos1", "pos2")
        again = read_one(path, **options, types="type", weights="weight", node_types="type").graph
    else:
        rows = [line.split(",")[2] for line in (tmp_path / "out.nodes.csv").read_text().splitlines()]
        table = np.column_stack([graph.pos.numpy().astype(object), rows[1:]])
        text = "x,y,z,type\n" + "\n".join(",".join(map(str, row)) for row in table)
        put(tmp_path, "a.csv", text)
        options["edges"] = path
        again = read_one(
            tmp_path / "a.csv", **options, types="type", weights="weight", node_types="type"
        ).graph
    assert_same_graph(in_words(again), in_words(graph))


def write(path: Path, *items: Item) -> None:
    """Write the graphs of the items as if they were predicted."""
    with open_writer(path, force=True) as writer:
        for item in items:
            answer = item.graph.clone()
            answer.edge_prob = torch.ones(answer.num_edges)
            writer.add(item, answer)


def in_words(graph: Any) -> Any:
    """The graph with the names of all types in its types' places: which numbers stand for them does not matter."""
    graph = graph.clone()
    for name in ("edge_type", "node_type"):
        words = [graph[f"{name}_names"][number] for number in graph[name].tolist()]
        graph[f"{name}_names"] = words
        graph[name] = torch.zeros(len(words))
    return graph


def test_answers_of_other_kinds_need_files_of_their_own(tmp_path: Path) -> None:
    plain = Item("a", Path("a"), read_one(table(tmp_path)).graph, False, None)
    typed = Item("b", Path("b"), read_one(table(tmp_path), types="type").graph, False, None)
    for suffix, message in ((".csv", "has the columns"), (".npz", "other kinds")):
        with pytest.raises(GLNError, match=message):
            write(tmp_path / f"o{suffix}", plain, typed)
        assert not (tmp_path / f"o{suffix}").exists()
