"""Network files, against networkx, and what XML and JSON can do to a reader."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs import to_networkx
from gln.io import ReadOptions, read_items
from tests.conftest import assert_same_graph, graphs
from tests.io.samples import EDGES, GEXF, GML, GRAPHML, JSON, POS, little_memory, once, put, read_one


@pytest.mark.parametrize(
    ("name", "data", "width"), [("a.graphml", GRAPHML, 2), ("a.gexf", GEXF, 3), ("a.json", JSON, 3)]
)
def test_nodes_edges_and_ids(name: str, data: bytes, width: int, tmp_path: Path) -> None:
    item = read_one(put(tmp_path, name, data))
    assert item.ids == ("a", "b", "c", "d")
    assert item.labelled
    assert once(item) == EDGES
    assert torch.equal(item.graph.pos[:3], torch.from_numpy(POS[:3, :width]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs(x_width=2))
def test_what_networkx_writes_as_json_is_read_back(graph: Data, tmp_path: Path) -> None:
    data = json.dumps(nx.node_link_data(to_networkx(graph)))
    item = read_one(put(tmp_path, "a.json", data))
    assert item.ids == tuple(str(node) for node in range(graph.num_nodes))
    assert_same_graph(item.graph, graph)


@pytest.mark.parametrize("suffix", ["graphml", "gexf"])
@pytest.mark.parametrize("directed", [False, True])
def test_what_networkx_writes_as_xml_is_read_back(suffix: str, directed: bool, tmp_path: Path) -> None:
    network = nx.path_graph(4, nx.DiGraph if directed else nx.Graph)
    for node in network:
        network.nodes[node].update(x=node * 0.5, y=1.0, age=node + 1, name=f"n{node}")
    network.remove_edge(1, 2)
    path = tmp_path / f"a.{suffix}"
    {"graphml": nx.write_graphml, "gexf": nx.write_gexf}[suffix](network, path)
    said: list[str] = []
    (item,) = read_items([path], say=said.append)
    assert item.graph.pos.tolist() == [[0, 1], [0.5, 1], [1, 1], [1.5, 1]]
    assert item.graph.x.tolist() == [[1], [2], [3], [4]]
    assert once(item) == [[0, 1], [2, 3]]
    assert any("pos = x, y; x = age" in line for line in said)
    assert any("directed" in line for line in said) == directed


@pytest.mark.parametrize("suffix", ["graphml", "gexf", "gml"])
def test_a_network_may_have_nothing_but_edges(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    {"graphml": nx.write_graphml, "gexf": nx.write_gexf, "gml": nx.write_gml}[suffix](nx.path_graph(3), path)
    item = read_one(path)
    assert (item.graph.num_nodes, item.graph.widths, once(item)) == (3, (0, 0), [[0, 1], [1, 2]])


def test_a_default_of_graphml_is_the_value_of_nodes_that_name_none(tmp_path: Path) -> None:
    key = b'<key id="d0" for="node" attr.name="x" attr.type="double"'
    data = GRAPHML.replace(key + b"/>", key + b"><default>7</default></key>")
    item = read_one(put(tmp_path, "a.graphml", data.replace(b'<data key="d0">2</data>', b"")))
    assert item.graph.pos.tolist() == [[0, 0], [1, 0], [0, 1], [7, 2]]


def test_flags_overrule_lists_too_and_what_is_not_used_is_said(tmp_path: Path) -> None:
    rows = [{"id": 1, "pos": [0, 0], "x": [5], "age": 3}, {"id": 2, "pos": [1, 0], "x": [6], "age": 4}]
    path = put(tmp_path, "a.json", json.dumps({"nodes": rows}))
    item = read_one(path)
    assert (item.graph.pos.tolist(), item.graph.x.tolist()) == ([[0, 0], [1, 0]], [[5], [6]])
    assert "x" not in read_one(path, x=()).graph
    said: list[str] = []
    (item,) = read_items([path], ReadOptions(x=("age",)), say=said.append)
    assert (item.graph.pos.tolist(), item.graph.x.tolist()) == ([[0, 0], [1, 0]], [[3], [4]])
    assert said == ["a.json: pos = pos; x = age; not used: x"]


def test_attributes_are_chosen_by_name(tmp_path: Path) -> None:
    nodes = [{"id": 1, "u": 1, "v": 2, "x": 0}, {"id": 2, "u": 3, "v": 4, "x": 0}]
    path = put(tmp_path, "a.json", json.dumps({"nodes": nodes}))
    item = read_one(path, pos=("v", "u"), x=(), graph="frame")  # graph is a column of tables
    assert item.graph.pos.tolist() == [[2, 1], [4, 3]]
    assert item.ids == ("1", "2")
    assert not item.labelled
    with pytest.raises(GLNError, match="no column or attribute 'w'; there are 'u', 'v', 'x'"):
        read_one(path, pos=("w",))


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "lol">%s]>
<graphml><graph edgedefault="undirected"><node id="&i;"/></graph></graphml>""" % b"".join(
    b'<!ENTITY %c "%s">' % (this, b"&%c;" % before * 10)
    for before, this in zip(b"abcdefgh", b"bcdefghi", strict=True)
)
OUTSIDE = GRAPHML.replace(b"<graphml", b'<!DOCTYPE graphml SYSTEM "file:///etc/passwd"><graphml')


@pytest.mark.parametrize("suffix", ["graphml", "gexf"])
@pytest.mark.parametrize(
    "data",
    [
        LAUGHS,
        OUTSIDE,
        LAUGHS.decode().replace('version="1.0"', 'version="1.0" encoding="utf-16"').encode("utf-16"),
    ],
)
def test_entities_are_never_expanded(suffix: str, data: bytes, tmp_path: Path) -> None:
    path = put(tmp_path, f"a.{suffix}", data)
    with little_memory(), pytest.raises(GLNError, match="declares a DOCTYPE or entities"):
        list(read_items([path]))


def nodes(*rows: dict, **more: object) -> bytes:
    return json.dumps({"nodes": list(rows), **more}).encode()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.graphml", b"<graphml>" + b"<a>" * 100_000, "nested more than 50 deep"),
        ("a.graphml", GRAPHML.replace(b"</graph>", b""), "not a readable GraphML file"),
        (
            "a.graphml",
            GRAPHML.replace(b"</graphml>", b"<graph edgedefault='directed'/></graphml>"),
            "holds 2 graphs",
        ),
        (
            "a.graphml",
            GRAPHML.replace(b'target="a"', b'target="q"'),
            "the edge 'c' to 'q' joins a node that is not in the list of nodes",
        ),
        ("a.graphml", GRAPHML.replace(b'node id="d"', b'node id="b"'), "two nodes have the id 'b'"),
        ("a.gexf", GEXF.replace(b'node id="d"', b'node id="b"'), "two nodes have the id 'b'"),
        ("a.gexf", GEXF.replace(b'source="a"', b'source="q"'), "joins a node that is not in the list"),
        ("a.graphml", GRAPHML.replace(b'<data key="d0">2', b'<data key="d0">NaN'), "x of node 'd' is 'nan'"),
        (
            "a.graphml",
            GRAPHML.replace(b'<data key="d0">2</data>', b""),
            "x of node 'd' is missing; expected a finite number",
        ),
        (
            "a.graphml",
            GRAPHML.replace(b'<data key="d0">2', b'<data key="d0">two'),
            "not a readable GraphML file",
        ),
        ("a.graphml", b"<graphml><graph edgedefault='undirected'/></graphml>", "no nodes"),
        (
            "a.graphml",
            b"<graphml><graph edgedefault='undirected'><node id='a'/></graph></graphml>",
            "its nodes have no attributes",
        ),
        ("a.json", b"[" * 100_000, "not a readable JSON file"),
        (
            "a.json",
            b'{"nodes": [' + b'{"id": ' + b"[" * 900 + b"]" * 900 + b"}]}",
            "a node's id is a list",
        ),
        ("a.json", b"[1, 2]", "expected node-link JSON"),
        ("a.json", nodes({"id": 1, "pos": [0]}, {"id": "1", "pos": [1]}), "two nodes have the id '1'"),
        (
            "a.json",
            nodes({"id": 1, "pos": [0]}, edges=[{"source": 1, "target": 2}]),
            "'1' to '2' joins a node that is not",
        ),
        ("a.json", nodes({"id": 1, "pos": [0]}, edges=[{"source": 1}]), "a node's id is missing"),
        ("a.json", nodes({"id": 1, "pos": [0]}, edges=7), "edges is not a list"),
        (
            "a.json",
            nodes({"id": 1, "pos": [0, 1]}, {"id": 2, "pos": [0]}),
            "pos of node '2' has 1 values; expected 2",
        ),
        ("a.json", nodes({"id": 1, "pos": ["up"]}), "pos of node '1' is 'up'; expected a finite number"),
        ("a.json", nodes({"id": 1, "pos": [1e999]}), "pos of node '1' is 'inf'"),
        ("a.json", nodes({"id": 1, "pos": [10**400]}), "expected a finite number"),
        ("a.json", nodes({"id": 1, "pos": []}), "have no positions or features"),
        ("a.json", nodes({"id": 1, "label": "one"}), "no numeric positions or features"),
        ("a.json", nodes({"id": 1, "x": 0, "y": 0}, {"id": 2, "x": 1, "y": "up"}), "y of node '2' is 'up'"),
        (
            "a.json",
            nodes({"id": 1, "x": 0, "y": None}, {"id": 2, "x": 1, "y": 2}),
            "y of node '1' is missing",
        ),
        ("a.json", nodes(), "no nodes"),
    ],
)
def test_a_bad_network_names_the_node_or_edge(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, data)
    with pytest.raises(GLNError, match=message) as caught:
        list(read_items([path]))
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value)) < 400


def test_gml_has_its_labels_and_its_layout(tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "a.gml", GML))
    assert item.ids == ("a", "b", "c", "d")
    assert item.graph.pos.tolist() == [[0, 0], [1, 0], [0, 1], [2, 2]]
    assert once(item) == EDGES
