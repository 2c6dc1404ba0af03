"""Labelled files become parts that do not leak into each other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import gln
from gln.errors import GLNError
from gln.graphs import check_graph, make_graph
from gln.io import ReadOptions, Skipped
from gln.workflows.training_data import divide, find_data, read_labelled


def numbered(nodes: int, first: int = 0) -> Data:
    graph = gln.family("delaunay", points=nodes).sample(1, seed=first)[0]
    pairs = graph.edge_index.T[graph.edge_index[0] < graph.edge_index[1]]
    return make_graph(graph.pos, torch.arange(first, first + nodes)[:, None], pairs)


def names(part: list[Data]) -> set[float]:
    return {name for graph in part for name in graph.x[:, 0].tolist()}


@pytest.mark.parametrize(
    "graphs",
    [[numbered(120)], [numbered(60), numbered(60, 60)], [numbered(30, n) for n in range(0, 180, 30)]],
)
def test_patches_of_different_parts_share_no_node(graphs: list[Data]) -> None:
    parts, reason = divide(graphs, patches=10, seed=0)
    train, val, test = map(names, parts)
    assert len(train) + len(val) + len(test) == len(train | val | test)
    assert all(check_graph(graph).num_nodes <= 10 for part in parts for graph in part)
    assert len(parts[0]) >= 64
    assert "patches of up to 10 nodes" in reason
    again, _ = divide(graphs, patches=10, seed=0)
    other, _ = divide(graphs, patches=10, seed=1)
    first = [torch.cat([graph.x for graph in some[0]]) for some in (parts, again, other)]
    assert torch.equal(first[0], first[1])
    assert first[0].shape != first[2].shape or not torch.equal(first[0], first[2])


def test_graphs_are_divided_as_gln_split_does() -> None:
    graphs = [numbered(5, n) for n in range(0, 60, 5)]
    parts, reason = divide(graphs, None, seed=4)
    for part, expected in zip(parts, gln.split(graphs, seed=4), strict=True):
        assert [graph.x[0, 0] for graph in part] == [graph.x[0, 0] for graph in expected]
    assert reason.startswith("9 / 1 / 2 graphs")


def test_one_graph_cannot_be_split_and_the_way_out_is_named() -> None:
    with pytest.raises(GLNError, match=r"one graph of 20 nodes, which cannot be split .* --patches"):
        divide([numbered(20)], None, 0)


def test_files_without_edges_are_left_out_by_name(tmp_path: Path) -> None:
    for folder in ("good", "bare"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "points.csv").write_text("x,y\n0,0\n1,0\n0,1\n")
    (tmp_path / "bare" / "points.csv").write_text("graph,x,y\na,0,0\nb,1,0\nb,0,1\n")
    (tmp_path / "good" / "edges.csv").write_text("source,target\n0,1\n")
    skipped: list[Skipped] = []
    paths = find_data([str(tmp_path)])
    (graph,) = read_labelled(paths, ReadOptions(), skipped.append, lambda text: None)
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
    assert [what.path.parent.name for what in skipped] == ["bare"]
    assert "--edges" in skipped[0].reason
    with pytest.raises(GLNError, match="no graph with true edges"):
        read_labelled([tmp_path / "bare" / "points.csv"], ReadOptions(), skipped.append, lambda text: None)
    with pytest.raises(GLNError, match="no file and no family 'delauney'"):
        find_data(["delauney"])


def test_graphs_of_different_kinds_are_not_trained_on_together(tmp_path: Path) -> None:
    for name, header, row in (("a", "x,y", "0,0"), ("b", "x,y,z", "0,0,0")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\n{row}\n")
        (tmp_path / f"{name}.edges.csv").write_text("source,target\n")
    with pytest.raises(GLNError, match=r"b\.csv has 3 values of pos per node, but a\.csv has 2"):
        read_labelled(find_data([str(tmp_path)]), ReadOptions(), print, lambda text: None)
