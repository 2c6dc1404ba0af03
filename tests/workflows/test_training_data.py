"""Labelled files become parts that do not leak into each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gln
from gln.errors import GLNError
from gln.graphs import check_graph, make_graph
from gln.io import ReadOptions, Skipped
from gln.workflows.divide import divide
from gln.workflows.training_data import find_data, read_labelled


def numbered(nodes: int, first: int = 0) -> Data:
    graph = gln.family("delaunay", points=nodes).sample(1, seed=first)[0]
    pairs = graph.edge_index.T[graph.edge_index[0] < graph.edge_index[1]]
    return make_graph(graph.pos, torch.arange(first, first + nodes)[:, None], pairs)


def names(part: list[Data]) -> set[float]:
    return {name for graph in part for name in graph.x[:, 0].tolist()}


@pytest.mark.parametrize(
    "graphs",
    [[numbered(120)], [numbered(90), numbered(90, 90)], [numbered(30, n) for n in range(0, 360, 30)]],
)
def test_patches_of_different_parts_share_no_node(graphs: list[Data]) -> None:
    parts = divide(graphs, patches=10, seed=0)
    train, val = names(parts.train), names(parts.val)
    test = {name for graph in parts.test for name in judged_names(graph)}
    assert len(train) + len(val) + len(test) == len(train | val | test)
    assert all(check_graph(graph).num_nodes <= 10 for graph in parts.train)
    assert len(parts.train) >= 64
    assert "patches of up to 10 nodes" in parts.how
    again, other = (divide(graphs, patches=10, seed=seed) for seed in (0, 1))
    first = [torch.cat([graph.x for graph in some.train]) for some in (parts, again, other)]
    assert torch.equal(first[0], first[1])
    assert first[0].shape != first[2].shape or not torch.equal(first[0], first[2])


def judged_names(graph: Data) -> set[float]:
    judged = graph.get("judged")
    return names([graph]) if judged is None else set(graph.x[judged > 0, 0].tolist())


def test_areas_have_fair_shares_and_no_edge_leads_from_one_part_to_another() -> None:
    whole = numbered(400)
    parts = divide([whole], patches=20, seed=3)
    train, val = names(parts.train), names(parts.val)
    (test,) = parts.test
    held_out = judged_names(test)
    assert 0.1 < len(held_out) / 400 < 0.3
    assert len(val) / 400 > 0.06
    assert len(train) > 0.4 * 400
    part_of = {**dict.fromkeys(train, 0), **dict.fromkeys(val, 1), **dict.fromkeys(held_out, 2)}
    for i, j in whole.edge_index.T.tolist():
        assert len({part_of.get(i), part_of.get(j)} - {None}) <= 1
    assert test.num_edges == whole.num_edges  # it is predicted as a whole


def table(rows: int, kinds: int = 3, seed: int = 0) -> Data:
    """Records of a few kinds; equal kinds are joined."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(kinds, size=rows)
    same = np.argwhere(np.triu(kind[:, None] == kind, 1))
    x = np.column_stack([np.arange(rows), kind, rng.random((rows, 3))])
    return make_graph(x=x, edges=same)


def test_rows_of_a_table_are_drawn_at_random_and_only_test_rows_are_judged() -> None:
    parts = divide([table(100)], patches=20, seed=0)
    assert "rows drawn at random" in parts.how
    (test,) = parts.test
    held_out = names(parts.train) & judged_names(test) | names(parts.val) & judged_names(test)
    assert not held_out
    assert test.num_nodes == 100
    assert len(judged_names(test)) == 20
    assert int(test.judged.max()) == 1
    kinds = [len(set(graph.x[:, 1].tolist())) for graph in parts.train]
    assert min(kinds) == 3  # near rows would mostly be of one kind
    for (whole,), part in ((parts.whole, parts.train), (parts.whole_val, parts.val)):
        assert judged_names(whole) == names(part)
        assert whole.num_nodes == 100


def test_records_of_one_group_are_in_one_part() -> None:
    graphs = [table(30, seed=seed) for seed in range(12)]
    for graph in graphs:  # the same 30 records in every table
        graph.group = [f"r{int(name)}" for name in graph.x[:, 0]]
    parts = divide(graphs, None, seed=0)
    train, val, test = map(names, parts)
    assert len(train) + len(val) + len(test) == len(train | val | test)
    assert len(train | val | test) == 30
    assert "different groups" in parts.how
    for number, graph in enumerate(graphs):
        graph.group = [str(number // 4)] * 30
    sizes = [len(part) for part in divide(graphs, None, seed=0)]
    assert sizes == [4, 4, 4]


def test_nodes_that_are_in_training_and_in_test_are_counted() -> None:
    graphs = [table(20, seed=5) for _ in range(12)]
    (remark,) = (words for words in divide(graphs, None, seed=0).remarks if "in training" in words)
    assert remark.startswith("40 of 40 test nodes are also in training")
    different = [make_graph(x=graph.x + number, edges=[[0, 1]]) for number, graph in enumerate(graphs)]
    assert not any("in training" in words for words in divide(different, None, seed=0).remarks)
    for graph in different:
        graph.ids = [f"r{row}" for row in range(20)]
    assert any("in training" in words for words in divide(different, None, seed=0).remarks)
    points = [numbered(20, 20 * number) for number in range(12)]
    assert not any("in training" in words for words in divide(points, None, seed=0).remarks)


def test_validation_that_is_too_small_to_choose_by_is_said() -> None:
    assert any("too few to choose" in words for words in divide([numbered(60)], 8, 0).remarks)
    assert not divide([numbered(2000)], 50, 0).remarks


@pytest.mark.parametrize(("count", "left"), [(3, 1), (4, 2), (5, None)])
def test_few_graphs_left_to_train_on_are_said(count: int, left: int | None) -> None:
    remarks = divide([numbered(30, 30 * number) for number in range(count)], None, 0).remarks
    assert any(f"of {count} graphs, {left} " in words for words in remarks) == (left is not None)


def test_parts_may_be_given() -> None:
    graphs, val, test = [numbered(30)], [numbered(20, 30)], [numbered(25, 50)]
    parts = divide(graphs, None, 0, val, test)
    assert [len(part) for part in parts] == [1, 1, 1]
    assert names(parts.test) == names(test)
    parts = divide([numbered(30, n) for n in range(0, 300, 30)], None, 0, test=[])
    assert [len(part) for part in parts] == [9, 1, 0]
    parts = divide(graphs, 8, 0, val, test)
    assert names(parts.train) == names(graphs)
    assert names(parts.val) == names(val)


def test_patches_of_tables_are_samples_however_the_parts_are_chosen() -> None:
    one, others = table(120), [table(120, seed=seed) for seed in range(1, 12)]
    for graphs, held in (([one], [[others[0]], [others[1]]]), (others, [])):
        assert "samples of up to 20 nodes" in divide(graphs, 20, 0, *held).how


def test_graphs_are_divided_as_gln_split_does() -> None:
    graphs = [numbered(5, n) for n in range(0, 60, 5)]
    parts = divide(graphs, None, seed=4)
    for part, expected in zip(parts, gln.split(graphs, seed=4), strict=True):
        assert [graph.x[0, 0] for graph in part] == [graph.x[0, 0] for graph in expected]
    assert parts.how.startswith("9 / 1 / 2 graphs")


def test_one_graph_cannot_be_split_and_the_way_out_is_named() -> None:
    with pytest.raises(GLNError, match=r"one graph of 20 nodes, which cannot be split .* --patches"):
        divide([numbered(20)], None, 0)
    with pytest.raises(GLNError, match="too few for 8 areas"):
        divide([numbered(9)], 4, 0)


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
