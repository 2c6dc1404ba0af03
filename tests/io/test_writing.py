"""Written files are read back; a file appears whole or not at all."""

from __future__ import annotations

import csv
import errno
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs import make_graph
from gln.io import WRITABLE, Item, open_writer, read_items
from tests.conftest import assert_same_graph, graphs
from tests.io.samples import once, put, read_all, read_one

quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def item(graph: Data, name: str = "a.csv", ids: tuple[str, ...] | None = None) -> Item:
    return Item(name, Path(name), graph, False, ids)


def answer(graph: Data) -> Data:
    """The graph as a prediction, with a probability for each edge that says which it is."""
    low, high = graph.edge_index.sort(dim=0).values
    return Data(edge_index=graph.edge_index, edge_prob=(1 + low + 10 * high) / 128, num_nodes=graph.num_nodes)


TRIANGLE = make_graph(pos=[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], edges=[[0, 1], [0, 2], [1, 2]])


def write(path: Path, *items: Item, force: bool = False) -> None:
    with open_writer(path, force=force) as writer:
        for each in items:
            writer.add(each, answer(each.graph))


@pytest.mark.parametrize("suffix", [suffix for suffix in WRITABLE if suffix != ".parquet"])
@quiet
@given(graph=graphs(pos_width=3))
def test_one_graph_is_read_back(suffix: str, graph: Data, tmp_path: Path) -> None:
    path = tmp_path / f"out{suffix}"
    write(path, item(graph), force=True)
    if suffix == ".csv":
        np.savetxt(tmp_path / "a.csv", graph.pos.numpy(), delimiter=",")
        again = read_one(tmp_path / "a.csv", edges=path)
    else:
        again = read_one(path)
    if suffix == ".obj" and not graph.num_edges:  # an OBJ cannot say that it has no lines
        assert not again.labelled
        graph = graph.clone()
        del graph.edge_index
    assert_same_graph(again.graph, graph)
    assert sorted(os.listdir(tmp_path)) == sorted({path.name, *(["a.csv"] if suffix == ".csv" else [])})


@pytest.mark.parametrize("suffix", [".npz", ".graphml", ".ply"])
def test_predictions_are_not_taken_for_the_truth(suffix: str, tmp_path: Path) -> None:
    path, said = tmp_path / f"out{suffix}", []
    write(path, item(TRIANGLE))
    (again,) = read_items([path], say=said.append)
    assert not again.labelled
    assert again.graph.num_edges == 6
    assert any("predictions, not the truth" in text for text in said)


def test_names_with_line_breaks_stay_in_their_cells(tmp_path: Path) -> None:
    path, names = tmp_path / "out.csv", ("a\nb", "c\rd", 'e"f', "g,h")
    write(path, item(TRIANGLE, "x\ny", names))
    rows = list(csv.reader(path.open(newline="")))
    assert {row[0] for row in rows[1:]} == {"x\ny"}
    assert {name for row in rows[1:] for name in row[1:3]} == set(names[:3])


@quiet
@given(first=graphs(pos_width=2, x_width=1), second=graphs(pos_width=2, x_width=1))
def test_an_archive_holds_a_batch_and_is_read_back(first: Data, second: Data, tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    write(path, item(first, "one"), item(second, "two"), force=True)
    items, bad = read_all(path)
    assert not bad
    for actual, expected in zip(items, (first, second), strict=True):
        assert_same_graph(actual.graph, expected)
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["names"].tolist() == ["one", "two"]
        assert arrays["edge_prob"].tolist() == [
            *answer(first).edge_prob.tolist(),
            *answer(second).edge_prob.tolist(),
        ]
        assert arrays["batch"].tolist() == [0] * first.num_nodes + [1] * second.num_nodes


def test_a_table_has_each_edge_once_by_the_users_ids(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write(path, item(TRIANGLE, "t.csv#1", ("a", "b,c", "é", "d")), item(TRIANGLE, "t.csv#2"))
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["graph", "source", "target", "probability"],
        ["t.csv#1", "a", "b,c", "0.0859375"],
        ["t.csv#1", "a", "é", "0.164062"],
        ["t.csv#1", "b,c", "é", "0.171875"],
        ["t.csv#2", "0", "1", "0.0859375"],
        ["t.csv#2", "0", "2", "0.164062"],
        ["t.csv#2", "1", "2", "0.171875"],
    ]


def test_a_table_of_many_graphs_is_the_truth_of_the_tables_it_came_from(tmp_path: Path) -> None:
    nodes = put(
        tmp_path, "t.csv", "graph,id,x,y\n" + "".join(f"{g},{i},{i},0\n" for g in "ab" for i in "123")
    )
    other = put(tmp_path, "u.csv", "x,y\n0,0\n1,0\n")
    items = list(read_items([nodes, other]))
    edges = [
        make_graph(num_nodes=3, edges=[[0, 2]]),
        make_graph(num_nodes=3),
        make_graph(num_nodes=2, edges=[[0, 1]]),
    ]
    with open_writer(tmp_path / "out.csv") as writer:
        for each, graph in zip(items, edges, strict=True):
            writer.add(each, answer(graph))
    again, bad = read_all(nodes, other, edges=tmp_path / "out.csv")
    assert not bad
    assert [once(each) for each in again] == [[[0, 2]], [], [[0, 1]]]


def test_graphml_carries_ids_and_probabilities(tmp_path: Path) -> None:
    write(tmp_path / "out.graphml", item(TRIANGLE, ids=("a", "b<", "ü", "d")))
    network = nx.read_graphml(tmp_path / "out.graphml")
    assert list(network) == ["a", "b<", "ü", "d"]
    assert network.edges["a", "b<"]["probability"] == 11 / 128
    assert network.nodes["d"] == {"pos0": 0.0, "pos1": 0.0, "pos2": 1.0}
    with pytest.raises(GLNError, match="characters that XML cannot hold"):
        write(tmp_path / "bad.graphml", item(TRIANGLE, ids=("a", "b", "\x00", "d")))


def test_ply_is_a_line_set_that_trimesh_can_read(tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh")
    write(tmp_path / "out.ply", item(TRIANGLE))
    lines = trimesh.load_path(tmp_path / "out.ply")
    assert np.array_equal(lines.vertices, TRIANGLE.pos.numpy())
    joined = {tuple(sorted(pair)) for pair in lines.vertex_nodes.tolist()}
    assert joined == {(0, 1), (0, 2), (1, 2)}


@pytest.mark.parametrize("suffix", [".graphml", ".obj", ".ply"])
def test_several_graphs_become_several_files(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"out{suffix}"
    names = ["t.csv#1", "../../x", "t.csv/1"]
    write(path, *(item(TRIANGLE, name) for name in names))
    expected = [f"out-..-..-x{suffix}", f"out-t.csv-1-2{suffix}", f"out-t.csv-1{suffix}"]
    assert sorted(os.listdir(tmp_path)) == expected
    for name in expected:
        assert_same_graph(read_one(tmp_path / name).graph, TRIANGLE)
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in expected}
    with pytest.raises(GLNError, match=r"exists; choose another name"):
        write(path, *(item(TRIANGLE, name) for name in ["new", *names]))
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in sorted(os.listdir(tmp_path))} == before


@pytest.mark.parametrize("suffix", WRITABLE)
@pytest.mark.parametrize("error", [GLNError, KeyboardInterrupt])
def test_an_error_in_the_block_leaves_nothing(
    suffix: str, error: type[BaseException], tmp_path: Path
) -> None:
    def fail(path: Path, force: bool) -> None:
        with open_writer(path, force=force) as writer:
            writer.add(item(TRIANGLE), answer(TRIANGLE))
            assert not path.exists() or path.read_bytes() == b"old"
            raise error("stop")

    with pytest.raises(error, match="stop"):
        fail(tmp_path / f"out{suffix}", False)
    assert os.listdir(tmp_path) == []
    old = put(tmp_path, f"old{suffix}", b"old")
    with pytest.raises(error, match="stop"):
        fail(old, True)
    assert os.listdir(tmp_path) == [old.name]
    assert old.read_bytes() == b"old"


@pytest.mark.parametrize("suffix", WRITABLE)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_nothing_and_names_the_file(
    suffix: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "hidden.part")

    monkeypatch.setattr(os, call, full)
    path = tmp_path / f"out{suffix}"
    with pytest.raises(OSError, match="No space left") as caught:
        write(path, item(TRIANGLE))
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("suffix", WRITABLE)
def test_a_disk_that_fills_up_while_writing(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fdopen

    def fdopen(handle: int, mode: str) -> object:
        os.dup2(os.open("/dev/full", os.O_WRONLY), handle)
        return real(handle, mode)

    monkeypatch.setattr(os, "fdopen", fdopen)
    path = tmp_path / f"out{suffix}"
    with pytest.raises(OSError, match="No space left") as caught:
        write(path, item(TRIANGLE))
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", WRITABLE)
def test_what_cannot_be_written_is_refused_before_any_work(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = put(tmp_path, f"there{suffix}", b"old")
    (tmp_path / f"folder{suffix}").mkdir()
    for path, message in [
        (there, "exists; choose another name, or replace it with --force"),
        (tmp_path / f"folder{suffix}", "is a folder"),
        (tmp_path / "nowhere" / f"a{suffix}", "does not exist; create it first"),
        (tmp_path / "a.docx", r"ends in \.csv, \.npz"),
    ]:
        with pytest.raises(GLNError, match=message), open_writer(path):
            pytest.fail("the block must not begin")
    write(there, item(TRIANGLE), force=True)
    assert there.read_bytes() != b"old"

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", "hidden.part")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(PermissionError) as caught, open_writer(tmp_path / f"b{suffix}"):
        pytest.fail("the block must not begin")
    assert caught.value.filename == str(tmp_path / f"b{suffix}")


def test_graphs_that_a_format_cannot_hold_are_refused(tmp_path: Path) -> None:
    flat = make_graph(pos=torch.zeros(2, 2))
    wide = make_graph(pos=torch.zeros(2, 4))
    bare = make_graph(x=torch.zeros(2, 1))
    with pytest.raises(GLNError, match=r"an \.npz needs equal ones"):
        write(tmp_path / "out.npz", item(flat), item(wide, "b.csv"))
    for graph in (wide, bare):
        with pytest.raises(GLNError, match=r"but \.obj and \.ply hold 1 to 3"):
            write(tmp_path / "out.ply", item(graph))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_no_answers_at_all_are_an_empty_file(suffix: str, tmp_path: Path) -> None:
    write(tmp_path / f"out{suffix}")
    assert os.listdir(tmp_path) == [f"out{suffix}"]


def test_the_file_is_an_ordinary_one(tmp_path: Path) -> None:
    write(tmp_path / "out.csv", item(TRIANGLE))
    (tmp_path / "other").touch()
    assert (tmp_path / "out.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_table_written_in_pieces_is_the_same_and_names_need_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = item(TRIANGLE, 'a "b",\nc', ids=("plain", "with, comma", 'with "quotes"', "two\nlines"))
    write(tmp_path / "whole.csv", named, item(TRIANGLE))
    monkeypatch.setattr("gln.io.writing.AT_ONCE", 2)
    write(tmp_path / "pieces.csv", named, item(TRIANGLE))
    assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "pieces.csv").read_bytes()
    with (tmp_path / "whole.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["graph", "source", "target", "probability"]
    assert named.ids is not None
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert [row[:3] for row in rows[1:4]] == [[named.name, named.ids[a], named.ids[b]] for a, b in pairs]
    assert [row[:3] for row in rows[4:]] == [["a.csv", str(a), str(b)] for a, b in pairs]


def test_the_users_own_name_of_a_graph_is_written_where_one_file_is_read(tmp_path: Path) -> None:
    rows = "graph,x,y\nfirst,0,0\nfirst,1,1\nsecond,0,1\nsecond,1,0\n"
    (tmp_path / "a.csv").write_text(rows)
    (tmp_path / "b.csv").write_text(rows)
    one, _ = read_items([tmp_path / "a.csv"])
    assert (one.name, one.label) == ("a.csv#first", "first")
    assert [each.label for each in read_items([tmp_path / "a.csv", tmp_path / "b.csv"])] == [
        "a.csv#first",
        "a.csv#second",
        "b.csv#first",
        "b.csv#second",
    ]
    one.graph.edge_index = torch.tensor([[0, 1], [1, 0]])
    write(tmp_path / "out.csv", one)
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("first,0,1,")


def clustered(path: Path, numbers: list[int], *items: Item) -> None:
    with open_writer(path, clustered=True) as writer:
        for each in items:
            answer = each.graph.clone()
            answer["cluster"] = torch.tensor(numbers)
            writer.add(each, answer)


def test_clusters_are_written_by_the_users_ids(tmp_path: Path) -> None:
    clustered(tmp_path / "c.csv", [0, 1, 0, 2], item(TRIANGLE, "t", ("a", "b,c", "é", "d")))
    with (tmp_path / "c.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["graph", "node", "cluster"],
            *(["t", node, number] for node, number in zip(("a", "b,c", "é", "d"), "0102", strict=True)),
        ]


def test_a_picture_of_regions_is_read_back_as_labels(tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (5, 7, 3), dtype=np.uint8)).save(
        tmp_path / "a.png"
    )
    (pixels,) = read_items([tmp_path / "a.png"])
    region = torch.arange(35) // 3  # twelve, not in the order of their colours
    clustered(tmp_path / "a.labels.png", region.tolist(), pixels)
    (again,) = read_items([tmp_path / "a.png"])
    pairs = torch.combinations(torch.arange(35)).T
    assert torch.equal(
        region[pairs[0]] == region[pairs[1]], again.graph.region[pairs[0]] == again.graph.region[pairs[1]]
    )


def test_clusters_that_are_no_picture_and_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match="not an image"):
        clustered(tmp_path / "c.png", [0, 0, 0, 0], item(TRIANGLE))
    with pytest.raises(GLNError, match=r"\.csv or \.png"), open_writer(tmp_path / "c.ply", clustered=True):
        pass
