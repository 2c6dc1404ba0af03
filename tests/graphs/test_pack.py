"""What is packed or saved comes back, and nothing else is read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import load_graphs, make_graph, pack, save_graphs, unpack
from tests.conftest import assert_same_graph


def test_saved_graphs_are_loaded(tmp_path: Path) -> None:
    graphs = parse_family("surfaces:points=9").sample(4)
    save_graphs(graphs, tmp_path / "new" / "a.safetensors")
    for actual, expected in zip(load_graphs(tmp_path / "new" / "a.safetensors"), graphs, strict=True):
        assert_same_graph(actual, expected)


def test_a_file_without_graphs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(GLNError, match="Cannot read"):
        load_graphs(path)
    path.write_bytes(b"PK no")
    with pytest.raises(GLNError, match="not a file of graphs"):
        load_graphs(path)
    for tensors in (
        {"weight": torch.zeros(3)},
        {
            "graph.num_nodes": torch.tensor([2]),
            "graph.num_edges": torch.tensor([0]),
            "node.x": torch.ones(3, 1),
        },
    ):
        save_file(tensors, path)
        with pytest.raises(GLNError, match="not a file of graphs"):
            load_graphs(path)
    with pytest.raises(GLNError, match="no graphs"):
        save_graphs([], path)


def test_one_graph_does_not_hold_the_memory_of_all() -> None:
    graph = unpack(pack(parse_family("surfaces:points=9").sample(4)))[1]
    for name in ("pos", "perm", "edge_index", "kind"):
        assert graph[name].untyped_storage().nbytes() == graph[name].nbytes, name


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"y": torch.tensor([3.0])}, r"y has shape \[1\]; expected a row for each of the graph's 2 nodes"),
        ({"edge_label": torch.ones(3)}, "edge_label has shape .* 2 columns of edge_index"),
        ({"name": "a"}, "name is a str"),
    ],
)
def test_what_would_not_come_back_is_refused_before_it_is_written(attribute: dict, message: str) -> None:
    plain = make_graph([[0.0], [1.0]], edges=[[0, 1]])
    more = Data(**vars(plain), **attribute)
    with pytest.raises(GLNError, match=message):
        pack([more, more])
    for some in ([plain, more], [more, plain]):
        with pytest.raises(GLNError, match=next(iter(attribute))):
            pack(some)
