"""Nodes in Parquet, Arrow and LAS files are read as from any other file, and edges are written as to any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.graphs import make_graph
from gln.io import Item, ReadOptions, open_writer, read_items
from gln.io.streams import open_stream
from tests.io.samples import GOOD, read_one

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(0)
SIZES = (3, 1, 5, 4)
SETS = [RNG.random((size, 3)) for size in SIZES]


def columns() -> dict[str, Any]:
    x, y, z = np.concatenate(SETS).T
    return {"set": np.repeat([f"s{n}" for n in range(len(SIZES))], SIZES), "x": x, "y": y, "heat": z}


def save(path: Path, table: Any, rows: int | None = None) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    else:
        feather.write_feather(table, str(path))
    return path


def read(path: Path, **options: Any) -> tuple[list[Item], list[str]]:
    said: list[str] = []
    return list(read_items([path], ReadOptions(**options), say=said.append)), said


def same(items: list[Item], sets: list[np.ndarray]) -> None:
    assert len(items) == len(sets)
    for item, rows in zip(items, sets, strict=True):
        np.testing.assert_array_equal(item.graph.pos.numpy(), rows[:, :2].astype(np.float32))
        np.testing.assert_array_equal(item.graph.x.numpy(), rows[:, 2:].astype(np.float32))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
@pytest.mark.parametrize("rows", [2, 100])  # of a group: sets may cross its end
def test_rows_with_a_column_for_the_set(tmp_path: Path, suffix: str, rows: int) -> None:
    items, said = read(save(tmp_path / f"p{suffix}", pa.table(columns()), rows))
    same(items, SETS)
    assert [item.part for item in items] == ["s0", "s1", "s2", "s3"]
    assert said == [f"p{suffix}: pos = x, y; x = heat; graph = set"]


@pytest.mark.parametrize("rows", [1, 3])
def test_sets_that_cross_batches_are_whole(
    tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gln.io.streams.AT_ONCE", rows)
    monkeypatch.setattr("gln.io.streams.Rows.batches.__defaults__", (rows,))
    same(read(save(tmp_path / "p.parquet", pa.table(columns())))[0], SETS)


def test_one_set_per_file_with_ids(tmp_path: Path) -> None:
    table = pa.table(
        {"id": [f"n{n}" for n in range(5)], "x": SETS[2][:, 0], "y": SETS[2][:, 1], "heat": SETS[2][:, 2]}
    )
    ((item,), _) = read(save(tmp_path / "p.parquet", table))
    same([item], [SETS[2]])
    assert list(item.ids or ()) == [f"n{n}" for n in range(5)]
    assert item.part is None


def test_types_of_nodes_are_read(tmp_path: Path) -> None:
    table = pa.table({"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 2.0], "kind": ["wall", "door", "wall"]})
    item = read_one(save(tmp_path / "p.parquet", table), node_types="kind")
    assert item.graph.node_type.tolist() == [1, 0, 1]
    assert item.graph.node_type_names == ("door", "wall")


@pytest.mark.parametrize("whole", [False, True])
def test_lists_hold_a_set_per_row(tmp_path: Path, whole: bool) -> None:
    names = [f"s{n}" for n in range(4)]
    if whole:
        lists = {
            "pos": [rows[:, :2].tolist() for rows in SETS],
            "features": [rows[:, 2:].tolist() for rows in SETS],
        }
    else:
        lists = {name: [rows[:, n].tolist() for rows in SETS] for n, name in enumerate(("x", "y", "heat"))}
    edges = {"source": [[0], [], [0, 1], []], "target": [[1], [], [4, 2], []]}
    items, said = read(save(tmp_path / "p.parquet", pa.table({"set": names, **lists, **edges})))
    same(items, SETS)
    assert [item.graph.num_edges // 2 for item in items] == [1, 0, 2, 0]
    assert all(item.labelled for item in items)
    assert said[0].startswith("p.parquet: a set per row: pos = ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": [None, *[0.5] * 12]}, "row 0 .*x is empty"),
        ({"y": [0.5] * 12 + [np.inf]}, "row 12 .*y is inf"),
        ({"set": ["a", "b", "a", *["c"] * 10]}, "'a' begins again; sort the rows by set"),
    ],
)
def test_bad_values_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = save(tmp_path / "p.parquet", pa.table(columns() | change))
    bad: list[Any] = []
    list(read_items([path], on_bad=bad.append))
    assert len(bad) == 1
    with pytest.raises(GLNError, match=message):
        raise GLNError(bad[0].reason)


def test_what_is_no_parquet_is_one_sentence(tmp_path: Path) -> None:
    for suffix in (".parquet", ".arrow", ".las"):
        path = tmp_path / f"a{suffix}"
        for data in (b"", b"PAR1", b"hello" * 100):
            path.write_bytes(data)
            with pytest.raises(GLNError, match="not a readable"):
                read(path)


def test_edges_are_written_with_types_and_weights_where_there_are_any(tmp_path: Path) -> None:
    graph = make_graph(pos=SETS[2][:, :2], edges=[[0, 1], [1, 4]])
    item = Item("a", Path("a.csv"), graph, False, ids=["10", "20", "30", "40", "50"])
    prob = torch.tensor([0.5, 0.5, 0.75, 0.75])
    answer = graph.with_edges(graph.edge_index, edge_prob=prob, edge_type=torch.tensor([2, 2, 1, 1]))
    with open_writer(tmp_path / "out.parquet") as writer:
        writer.add(item, answer)
        writer.add(item, answer)
    rows = [{"graph": "a", "source": 10, "target": 20, "probability": 0.5, "type": 2}]
    rows += [{"graph": "a", "source": 20, "target": 50, "probability": 0.75, "type": 1}]
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == rows * 2


def test_streams_give_the_rows_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laspy = pytest.importorskip("laspy")
    monkeypatch.setattr("gln.io.streams.AT_ONCE", 4)
    points = np.round(RNG.random((13, 3)) * 1000) / 1000 + 7
    np.save(tmp_path / "p.npy", points)
    x, y, z = points.T
    save(tmp_path / "p.parquet", pa.table({"x": x, "y": y, "z": z}))
    cloud = laspy.create()
    cloud.header.scales, cloud.x, cloud.y, cloud.z = [0.001] * 3, x, y, z
    paths = [tmp_path / name for name in ("p.npy", "p.parquet", "p.las", "p.laz")]
    for path in paths[2:]:
        cloud.write(path)
    for path in paths:
        stream = open_stream(path, ReadOptions(), lambda text: None)
        assert stream is not None
        assert (stream.count, stream.widths) == (13, (3, 0))
        np.testing.assert_allclose(np.concatenate([pos for pos, _ in stream.chunks()]), points, atol=1e-9)
        ((item,), _) = read(path)
        np.testing.assert_allclose(item.graph.pos.numpy(), points, atol=1e-6)
    save(tmp_path / "sets.parquet", pa.table(columns()))
    assert open_stream(tmp_path / "sets.parquet", ReadOptions(), lambda text: None) is None


def test_a_table_of_chunks_that_claims_too_many_is_refused(tmp_path: Path) -> None:
    """The decoder of LAZ makes room for as many as it claims, and ends the process where there is none."""
    data = bytearray(GOOD[".laz"])
    start = int.from_bytes(data[96:100], "little")
    table = int.from_bytes(data[start : start + 8], "little")
    data[table + 4 : table + 8] = b"\xff\xff\xff\xff"
    path = tmp_path / "cloud.laz"
    path.write_bytes(data)
    with pytest.raises(GLNError, match="its header is broken"):
        read(path)


def test_a_file_without_the_rows_it_claims_is_refused() -> None:
    from gln.io.streams import _joined

    with pytest.raises(GLNError, match="no rows, although it says"):
        _joined([])
