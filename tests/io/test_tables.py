"""Tables of nodes, with their edges beside them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from gln.errors import GLNError
from gln.io import ReadOptions, Skipped, read_items
from tests.io.samples import CSV, EDGES, POS, once, put, read_all, read_one

MANY = "frame,node,x,y\n" + "".join(f"{graph},n{i},{i},{i * i}\n" for graph in "abc" for i in range(3))


def test_columns_are_guessed_and_the_guess_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    path = put(tmp_path, "t.csv", "name,Y,frame,X,speed,ID\nu,1,7,0,5,a\nv,3,7,2,6,b\n")
    (item,) = read_items([path], say=said.append)
    assert said == ["t.csv: pos = X, Y; x = speed; graph = frame; id = ID; not used: name"]
    assert item.name == "t.csv#7"
    assert item.ids == ("a", "b")
    assert not item.labelled
    assert item.graph.pos.tolist() == [[0, 1], [2, 3]]
    assert item.graph.x.tolist() == [[5], [6]]


def test_flags_overrule_guesses(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", "x,y,u,v,who,set\n0,1,2,3,a,8\n4,5,6,7,b,9\n")
    first, second = read_items([path], ReadOptions(pos=("v", "u"), x=(), graph="set", id="who"))
    assert (first.name, second.name) == ("t.csv#8", "t.csv#9")
    assert first.graph.pos.tolist() == [[3, 2]]
    assert "x" not in first.graph
    assert second.ids == ("b",)


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_separators_line_ends_and_byte_order_marks(
    separator: str, end: str, mark: str, tmp_path: Path
) -> None:
    rows = [["x", "y", "a name"], ["0", "-1.5e0", "äö"], ["1", "2", ""]]
    quoted = [separator.join(f'"{cell}"' for cell in row) for row in rows]
    item = read_one(put(tmp_path, "t.csv", mark + end.join(quoted) + end), id="a name")
    assert item.graph.pos.tolist() == [[0, -1.5], [1, 2]]
    assert item.ids == ("äö", "")


def test_a_table_of_numbers_alone_is_positions(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    np.savetxt(path, POS, delimiter=",")
    assert torch.equal(read_one(path).graph.pos, torch.from_numpy(POS))
    assert read_one(path, x=("3",)).graph.x.tolist() == POS[:, 2:].tolist()


def test_the_header_that_numpy_writes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    np.savetxt(path, POS, delimiter=",", header="x,y,z")
    assert torch.equal(read_one(path).graph.pos, torch.from_numpy(POS))


def test_a_number_of_digits_and_underscores_is_a_name(tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "t.csv", "x,tag\n1,1_0\n2,2_0\n"))
    assert item.graph.pos.tolist() == [[1], [2]]
    assert "x" not in item.graph


def test_without_a_header_it_is_said_that_row_1_is_a_node(tmp_path: Path) -> None:
    said: list[str] = []
    (item,) = read_items([put(tmp_path, "t.csv", "0,1\n0.5,0.5\n")], say=said.append)
    assert item.graph.num_nodes == 2
    assert said == ["t.csv: no header, so row 1 is a node; pos = 1, 2"]


def test_without_positions_every_number_is_a_feature(tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "t.csv", "age,height\n1,2\n3,4\n"))
    assert "pos" not in item.graph
    assert item.graph.x.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("x,y\n0,1\n2,abc\n", "row 3: y is 'abc'; expected a number"),
        ("x,y\n0,1\n\n2,\n", "row 4: y is ''; expected a number"),
        ("x,y\n0,1\n2,nan\n", "row 3: y is nan"),
        ("x,y\noops,1\n2,3\n", "row 2: x is 'oops'; expected a number"),
        ("x,y,z\n0,,1\n2,,3\n", "row 2: y is ''; expected a number"),
        ("x,y\n0,1\n-inf,2\n", "row 3: x is -inf"),
        ("x,y\n0,1\n2\n", "row 3 has 1 cells; expected 2"),
        ('x,y\n0,"1\n2,3\n', "row 2 is not readable as CSV"),
        ("id,x\na,1\nb,2\na,3\n", "row 4: the node id 'a' was already used in row 2"),
        ("x,,y\n1,2,3\n", "column 2 has no name"),
        ("x,x\n1,2\n", "two columns are called 'x'"),
        ("x,y\n", "no rows below the header"),
        ("name,place\nu,v\n", "no numeric positions or features"),
        ("x,y\n0,1\n\xff".encode("latin-1"), "row 3 is not UTF-8"),
        ("x" * 2**21, "row 1 is longer"),
        ("x;y\n0;1\n0,5;1,2\n", "row 3: '0,5' has a decimal comma"),
        ("n;x\n1;0,5\n", "row 2: '0,5' has a decimal comma; write numbers with a point, '0.5'"),
        ("0,5;1,2;3,4\n0,6;1,3;7,8\n", "row 1: '0,5' has a decimal comma"),
        ("graph,x\na,1\nb,2\na,3\n", "row 4: graph 'a' already appeared above"),
        ("source,target\n0,1\n", "this is a table of edges"),
        ("1,2\nu,v\n", "row 2: 1 is 'u'; expected a number"),
    ],
)
def test_a_bad_table_names_the_row(table: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(GLNError, match=message) as caught:
        list(read_items([put(tmp_path, "t.csv", table)]))
    assert "t.csv: " in str(caught.value)


@pytest.mark.parametrize("option", ["graph", "id", "pos", "x"])
def test_a_missing_column_is_named(option: str, tmp_path: Path) -> None:
    value = "depth" if option in ("graph", "id") else ("depth",)
    with pytest.raises(
        GLNError, match="no column or attribute 'depth'; there are 'id', 'x', 'y', 'z', 'heat'"
    ):
        read_one(put(tmp_path, "t.csv", CSV), **{option: value})


def test_edges_beside_a_table_are_its_truth(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", CSV)
    put(tmp_path, "t.edges.csv", "to,from,kind\nb,a,1\na,c,1\nc,a,2\nb,c,1\n")
    items, bad = read_all(path, tmp_path / "t.edges.csv")  # as a folder would give them
    assert not bad
    assert [once(item) for item in items] == [EDGES]
    assert items[0].labelled


def test_edges_may_count_the_nodes_and_have_no_header(tmp_path: Path) -> None:
    path = put(tmp_path, "points.csv", "x,y\n0,0\n1,0\n0,1\n2,2\n")
    edges = put(tmp_path, "edges.csv", "0,1\n2,0\n1,2\n")
    assert once(read_one(path)) == EDGES
    edges.write_text("source,target\n")
    assert once(read_one(path)) == []
    assert read_one(path).labelled


def test_predictions_beside_a_table_are_not_taken_for_the_truth(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", CSV)
    edges = put(tmp_path, "edges.csv", "graph,source,target,probability\nt.csv,a,b,0.9\n")
    said: list[str] = []
    (item,) = read_items([path], say=said.append)
    assert not item.labelled
    assert any("predictions" in line for line in said)
    assert once(read_one(path, edges=edges)) == [[0, 1]]


def test_a_graph_whose_edges_go_by_another_name_is_not_given_out_without_them(tmp_path: Path) -> None:
    put(tmp_path, "edges.csv", "graph,source,target\n1,a,b\n")
    items, bad = read_all(put(tmp_path, "t.csv", CSV))
    assert not items
    assert ["row 2: graph '1' is not in the node table" in skipped.reason for skipped in bad] == [True]


def test_edges_of_many_graphs_come_in_any_order_of_graphs(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", MANY)
    put(tmp_path, "t.edges.csv", "frame,source,target\nc,n2,n0\na,n0,n1\na,n1,n2\n")
    items, bad = read_all(path)
    assert not bad
    assert {item.name: once(item) for item in items} == {
        "t.csv#a": [[0, 1], [1, 2]],
        "t.csv#b": [],
        "t.csv#c": [[0, 2]],
    }


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("frame,source,target\na,n0,n1\nb,n0,q\n", r"t\.edges\.csv, row 3: 'q' is not a node of graph 'b'"),
        ("frame,source,target\nzzz,n0,n1\n", r"t\.edges\.csv, row 2: graph 'zzz' is not in the node table"),
        (
            "frame,source,target\na,n0,n1\nb,n0,n1\na,n1,n2\n",
            r"t\.edges\.csv: row 4: graph 'a' already appeared above",
        ),
        ("source,target\nn0,n1\n", r"t\.edges\.csv has no graph column"),
        ("a,b\nn0,n1\n", "expected the columns source and target"),
        ("source,target\nn0\n", r"t\.edges\.csv: row 2 has 1 cells"),
        ("", r"t\.edges\.csv: the table is empty"),
    ],
)
def test_bad_edges_name_file_and_row(edges: str, message: str, tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", MANY)
    put(tmp_path, "t.edges.csv", edges)
    with pytest.raises(GLNError, match=message):
        list(read_items([path]))


def test_a_missing_table_of_edges_is_named(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match=r"none\.csv: cannot be read \(No such file"):
        read_one(put(tmp_path, "t.csv", CSV), edges=tmp_path / "none.csv")


def test_a_bad_graph_is_skipped_and_the_next_ones_are_read(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", MANY.replace("b,n1,1", "b,n1,oops"))
    items, bad = read_all(path)
    assert [item.name for item in items] == ["t.csv#a", "t.csv#c"]
    assert [item.graph.num_nodes for item in items] == [3, 3]
    assert [str(skipped) for skipped in bad] == [f"{path}: graph b: row 6: x is 'oops'; expected a number."]


def test_the_edges_of_a_bad_graph_belong_to_it_all_the_same(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", MANY.replace("b,n1,1", "b,n1,oops"))
    put(tmp_path, "t.edges.csv", "graph,source,target\na,n0,n1\nb,n0,n1\n")
    items, bad = read_all(path)
    assert [item.part for item in items] == ["a", "c"]
    assert ["oops" in skipped.reason for skipped in bad] == [True]


def test_a_broken_row_ends_the_file_but_not_what_came_before(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", "graph,x\n" + "a,1\n" * 200 + "b,3\nb\nc,4\n")
    items, bad = read_all(path)
    assert [item.name for item in items] == ["t.csv#a"]
    assert ["row 203 has 1 cells" in skipped.reason for skipped in bad] == [True]


def test_only_one_graph_is_held(tmp_path: Path) -> None:
    """Graphs are given out before the rest of the file is read: what follows them may even be broken."""
    path = put(
        tmp_path,
        "t.csv",
        "graph,x\n" + "".join(f"{g},{i}\n" for g in range(1000) for i in range(20)) + "bad\n",
    )
    items: Iterator = read_items([path])
    assert [next(items).name for _ in range(999)][-1] == "t.csv#998"


def test_no_graph_is_given_out_of_a_table_in_which_its_rows_are_apart(tmp_path: Path) -> None:
    bad: list[Skipped] = []
    path = put(tmp_path, "t.csv", "graph,x\na,1\nb,2\na,3\nb,4\n")
    assert list(read_items([path], on_bad=bad.append)) == []
    assert "sort the table by graph" in bad[0].reason


@pytest.mark.parametrize("text", [",x,y\n7,1,2\n8,3,4\n", "x,y,\n1,2,\n3,4,\n"])
def test_a_column_without_a_name_at_either_end_is_not_used(tmp_path: Path, text: str) -> None:
    said: list[str] = []
    (item,) = read_items([put(tmp_path, "t.csv", text)], say=said.append)
    assert item.graph.pos.tolist() == [[1, 2], [3, 4]]
    assert item.graph.get("x") is None
    assert said == ["t.csv: pos = x, y; not used: (no name)"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=3),
            st.floats(-1e6, 1e6, width=32).map(lambda number: number if abs(number) > 1e-6 else 0.0),
        ),
        min_size=1,
        max_size=12,
        unique_by=lambda row: (row[0], row[1].strip()),
    )
)
def test_what_the_csv_module_writes_is_read_back(rows: list[tuple[int, str, float]], tmp_path: Path) -> None:
    rows.sort(key=lambda row: row[0])
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("graph", "id", "pos0"), *rows])
    items = list(read_items([path], ReadOptions()))
    read = [
        (item.name.partition("#")[2], name, value)
        for item in items
        for name, (value,) in zip(item.ids or (), item.graph.pos.tolist(), strict=True)
    ]
    assert read == [(str(graph), name.strip(), float(np.float32(value))) for graph, name, value in rows]
