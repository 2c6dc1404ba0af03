"""Laws that hold for every format: a good file is read, a bad one gets one sentence, and nothing else happens."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.graphs import check_graph
from gln.io import READABLE, ReadOptions, find_files, open_writer, read_items, reading
from gln.io.reading import node_files
from tests.io.samples import CSV, GOOD, OBJ, POS, once, put, read_all, read_one


def test_every_readable_format_has_a_good_file_here() -> None:
    assert set(GOOD) == set(READABLE)


@pytest.mark.parametrize("suffix", READABLE)
def test_a_good_file_gives_checked_graphs(suffix: str, tmp_path: Path) -> None:
    path = put(tmp_path, f"good{suffix.upper()}", GOOD[suffix])
    items = list(read_items([path]))
    assert items
    for item in items:
        assert item.path == path
        assert item.graph.pos.dtype == torch.float32
        assert item.labelled == ("edge_index" in item.graph)
        again = check_graph(item.graph)
        assert torch.equal(again.pos, item.graph.pos)
        if item.labelled:
            assert torch.equal(again.edge_index, item.graph.edge_index)
        assert item.ids is None or len(item.ids) == item.graph.num_nodes
    assert len({item.name for item in items}) == len(items)


BAD = [
    (suffix, what)
    for suffix in READABLE
    for what in ("empty", "blank", "missing", "forbidden", "folder", "huge")
]
# A table or an OBJ that is cut off between two rows is whole.
BAD += [(suffix, "cut") for suffix in READABLE if suffix not in (".csv", ".tsv", ".txt", ".obj")]


@pytest.mark.parametrize(("suffix", "what"), BAD)
def test_a_bad_file_gets_one_sentence_that_names_it(
    suffix: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"bad{suffix}"
    good = GOOD[suffix]
    if what == "folder":
        path.mkdir()
    elif what == "huge":
        path.write_bytes(b"\n")
        os.truncate(path, 2**33)  # takes no room on the disk
    elif what != "missing":
        path.write_bytes({"empty": b"", "blank": b" \n\n", "cut": good[: len(good) * 2 // 5]}.get(what, good))
    if what == "forbidden":
        real = open

        def refuse(file: object, *args: object, **kwargs: object) -> object:
            if str(file) == str(path):
                raise PermissionError(13, "Permission denied", str(file))
            return real(file, *args, **kwargs)  # type: ignore[call-overload]

        monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(GLNError) as caught:
        list(read_items([path]))
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    assert "\n" not in message
    _, bad = read_all(path)
    assert [skipped.path for skipped in bad][-1:] == [path]
    assert str(bad[0]) == message


def test_a_table_of_edges_goes_with_tables_of_nodes(tmp_path: Path) -> None:
    path = put(tmp_path, "a.xyz", b"1\n\nC 0 0 0\n")
    with pytest.raises(GLNError, match="--edges goes with tables of nodes"):
        list(read_items([path], ReadOptions(edges=put(tmp_path, "e.csv", b"source,target\n0,0\n"))))


def test_an_unknown_suffix_names_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match=r"'\.docx' is not supported; readable are \.csv"):
        list(read_items([put(tmp_path, "a.docx", b"PK")]))


def test_a_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    paths = [put(tmp_path, "a.csv", CSV), put(tmp_path, "b.off", b"OFF\n"), put(tmp_path, "c.obj", OBJ)]
    items, bad = read_all(*paths)
    assert [item.name for item in items] == ["a.csv", "c.obj"]
    assert [skipped.path.name for skipped in bad] == ["b.off"]


def test_reading_is_lazy(tmp_path: Path) -> None:
    paths = [put(tmp_path, "a.csv", CSV), tmp_path / "missing.csv"]
    items = read_items(paths)
    assert next(items).name == "a.csv"
    with pytest.raises(GLNError, match=r"missing\.csv"):
        next(items)


def test_files_of_one_name_in_two_folders_have_two_names(tmp_path: Path) -> None:
    paths = [put(tmp_path, f"{folder}/a.csv", CSV) for folder in ("one", "two")]
    assert [item.name for item in read_items(paths)] == ["one/a.csv", "two/a.csv"]
    assert [item.name for item in read_items([*paths[:1], *paths[:1]])] == ["a.csv"]


def test_a_guess_is_said_once_for_all_files_that_share_it(tmp_path: Path) -> None:
    paths = [put(tmp_path, f"{name}.csv", CSV) for name in "abc"] + [put(tmp_path, "d.csv", b"x,y\n0,1\n")]
    said: list[str] = []
    list(read_items(paths, say=said.append))
    assert said == ["a.csv: pos = x, y, z; x = heat; id = id", "d.csv: pos = x, y"]
    for name in "abc":
        put(tmp_path, f"{name}.edges.csv", "source,target\na,b\n")
    said.clear()
    list(read_items(paths[:3], say=said.append))
    assert said == ["a.csv: pos = x, y, z; x = heat; id = id; edges from *.edges.csv"]


def test_too_many_nodes_are_refused(tmp_path: Path) -> None:
    for suffix, data in GOOD.items():
        path = put(tmp_path, f"a{suffix}", data)
        with pytest.raises(GLNError, match="at most 1 are read"):
            list(read_items([path], ReadOptions(max_nodes=1)))


def test_find_files_takes_files_folders_and_patterns(tmp_path: Path) -> None:
    names = ["a.csv", "b.txt", "sub/c.PLY", "sub/.hidden.csv", ".git/d.csv", "sub/deeper/e.npz"]
    paths = {name: put(tmp_path, name, b"") for name in names}
    everything = [paths["a.csv"], paths["sub/c.PLY"], paths["sub/deeper/e.npz"]]
    assert find_files([tmp_path]) == everything
    assert find_files([str(tmp_path / "**" / "*"), tmp_path / "a.csv"]) == everything
    assert find_files([tmp_path / "s*"]) == everything[1:]
    assert find_files([tmp_path / "b.txt"]) == [paths["b.txt"]]  # named in full: reading it says why not


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("no.csv", "does not exist"),
        ("*.csv", "No readable file matches"),
        ("empty", "holds no readable file"),
    ],
)
def test_find_files_says_what_it_did_not_find(pattern: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(GLNError, match=message):
        find_files([tmp_path / pattern])
    with pytest.raises(GLNError, match="Got no files"):
        find_files([])


def test_a_folder_that_may_not_be_looked_into_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.csv", CSV)
    put(tmp_path, "locked/b.csv", CSV)
    scan = os.scandir

    def refuse(path: str) -> object:  # root, who may run the tests, is never refused
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="locked"):
        find_files([tmp_path])


def test_a_file_named_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    path = put(tmp_path, "a[1].csv", CSV)
    assert find_files([path]) == [path]
    assert torch.equal(read_one(path).graph.pos, torch.from_numpy(POS))


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".graphml", ".obj", ".ply"])
def test_large_coordinates_are_centred_and_written_as_they_were(suffix: str, tmp_path: Path) -> None:
    metres = np.random.default_rng(0).random((6, 3)) * 100 + [447_123.25, 5_412_345.5, 120]
    np.save(tmp_path / "utm.npy", metres)
    said: list[str] = []
    (item,) = read_items([tmp_path / "utm.npy"], say=said.append)
    assert "positions are centred on" in said[-1]
    between = np.linalg.norm(metres[:, None] - metres, axis=-1)
    pos = item.graph.pos.double().numpy()
    assert np.allclose(np.linalg.norm(pos[:, None] - pos, axis=-1), between, atol=1e-4)
    answer = item.graph.with_edges(torch.tensor([[0, 1], [1, 0]]), edge_prob=torch.ones(2))
    with open_writer(tmp_path / f"out{suffix}") as writer:
        writer.add(item, answer)
    if suffix != ".csv":  # which holds no positions
        (again,) = read_items([tmp_path / f"out{suffix}"])
        assert np.allclose(again.rows()["pos"], metres, atol=1e-4)


def test_a_text_file_of_points_is_read_where_it_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "points.txt", b"0 0 0\n1 0 0\n")
    put(tmp_path, "points.csv", CSV)
    assert find_files([tmp_path]) == [tmp_path / "points.csv"]
    assert read_one(path).graph.pos.tolist() == [[0, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize("name", ["p.edges", "p.edgelist"])
def test_an_edge_list_gives_the_edges_of_the_nodes_beside_it(name: str, tmp_path: Path) -> None:
    nodes = put(tmp_path, "p.csv", b"x,y\n0,0\n1,0\n0,1\n")
    put(tmp_path, name, b"0 1\n1 2\n")
    assert once(read_one(nodes)) == [[0, 1], [1, 2]]
    assert node_files([nodes, tmp_path / name], ReadOptions()) == [nodes]


@pytest.mark.parametrize("suffix", READABLE)
def test_a_look_at_a_file_sees_what_reading_it_gives(suffix: str, tmp_path: Path) -> None:
    path = put(tmp_path, f"good{suffix}", GOOD[suffix])

    def seen(look: bool) -> list[tuple]:
        items = reading.read_all([path], ReadOptions(), look=look)
        return [(item.name, item.graph.widths, item.graph.num_nodes, item.labelled) for item in items]  # type: ignore[union-attr]

    assert seen(look=True) == seen(look=False)


def test_files_are_refused_at_a_glance_only_if_none_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = put(tmp_path, "good.csv", CSV), put(tmp_path, "bad.csv", b"x,y\n1,what\n")

    def reasons(*paths: Path, unfit: str | None = None) -> list[str]:
        return [str(what) for what in reading.reasons_against(paths, ReadOptions(), lambda item: unfit)]

    assert reasons(good) == reasons(bad, good) == []
    assert len(reasons(bad)) == 1
    assert reasons(good, unfit="it does not fit.") == [f"{good}: it does not fit."]
    monkeypatch.setattr(reading, "GLANCE", 5)  # a large file is left to those who read it anyway
    assert reasons(bad) == []
