"""Names, cells and files that are meant to hurt: escaped, refused in a sentence, or read in linear time."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from gln.errors import GLNError, escaped
from gln.files import Staged, remove_unfinished
from gln.graphs.record import Graph
from gln.io import EdgeTable, find_files, open_writer, read_items
from gln.io.csvfile import MOST_COLUMNS, harmless, plain
from gln.registry import read_value
from tests.io.samples import npy, put, read_all, read_one

RISKY = ["=1+1", "+a", "-a", "@a", "'=a", "''-a", "-5", "+1e3", "a=b", "'a", "", "-1_0", "-", "'"]


def answer(nodes: int = 2) -> Graph:
    return Graph(nodes, edge_index=torch.tensor([[0, 1], [1, 0]]), edge_prob=torch.ones(2))


@pytest.mark.parametrize("text", RISKY)
def test_no_cell_is_a_formula_and_all_come_back(text: str) -> None:
    cell = harmless(text)
    assert plain(cell) == text
    if cell[:1] in ("=", "+", "-", "@"):
        float(cell)


def test_ids_are_written_for_a_spreadsheet_and_read_back(tmp_path: Path) -> None:
    nodes = [{"id": text or "none", "x": place, "y": 0} for place, text in enumerate(RISKY)]
    item = read_one(put(tmp_path, "=a.json", json.dumps({"nodes": nodes, "edges": []})))
    output = tmp_path / "edges.csv"
    with open_writer(output) as writer:
        pairs = torch.tensor([[n, n + 1] for n in range(len(nodes) - 1)]).T
        both = torch.cat([pairs, pairs.flip(0)], dim=1)
        writer.add(item, Graph(len(nodes), edge_index=both, edge_prob=torch.ones(both.shape[1])))
    assert "\n'=a.json," in output.read_text()
    assert item.ids is not None
    number = {name: place for place, name in enumerate(item.ids)}
    assert EdgeTable(output).edges((None, "=a.json"), number).pairs.tolist() == pairs.T.tolist()


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".graphml"])
def test_what_is_not_unicode_is_escaped_and_everything_is_written(suffix: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    name = os.fsencode(tmp_path / "in") + b"/a\xff.csv"
    with open(name, "wb") as file:
        file.write(b"x,y\n0,0\n1,1\n")
    links = {"nodes": [{"id": "\ud800", "x": 0, "y": 0}, {"id": "b", "x": 1, "y": 0}]}
    put(tmp_path, "in/b.json", json.dumps(links))
    with open_writer(tmp_path / f"out{suffix}") as writer:
        for item in read_items(find_files([tmp_path / "in"])):
            item.name.encode()
            writer.add(item, answer())
    written = b"".join(path.read_bytes() for path in tmp_path.glob(f"out*{suffix}"))
    assert suffix != ".csv" or (b"a\\udcff.csv" in written and b"\\ud800" in written)


def test_control_characters_are_shown_escaped(tmp_path: Path) -> None:
    said: list[str] = []
    path = put(tmp_path, "a\x1b[2J.csv", "x,y,\x1b]0;hi\x07\n0,0,1\n1,1,2\n")
    list(read_items([path], say=said.append))
    _, bad = read_all(put(tmp_path, "b\x1b[2J\n.csv", "x\n"))
    for text in (*said, *map(str, bad)):
        assert text.isprintable()
    assert escaped("é\x1b\n\u202e\udcff") == "é\\x1b\\n\\u202e\\udcff"


@pytest.mark.parametrize("count", [MOST_COLUMNS, MOST_COLUMNS + 1, 149_000])
def test_very_wide_tables(count: int, tmp_path: Path) -> None:
    head = ",".join(f"{number:x}q" for number in range(count))
    path = put(tmp_path, "a.csv", f"{head}\n{','.join(['1'] * count)}\n{','.join(['2'] * count)}\n")
    start = time.process_time()
    items, bad = read_all(path)
    assert time.process_time() - start < 5
    assert len(items) == (count == MOST_COLUMNS)
    assert all(len(str(one)) < 500 for one in bad)


def test_many_tiny_graphs_take_linear_time(tmp_path: Path) -> None:
    def seconds(count: int, name: str, data: str) -> float:
        path = put(tmp_path, name, data)
        start = time.process_time()
        items, bad = read_all(path)
        assert len(items) + len(bad) == count
        return (time.process_time() - start) / count

    for name, make in (
        ("a.csv", lambda count: "graph,x,y\n" + "".join(f"{n},0,0\n{n},1,1\n" for n in range(count))),
        ("a.xyz", lambda count: "0\n\n" * count),
    ):
        seconds(100, name, make(100))
        assert seconds(4000, name, make(4000)) < 4 * seconds(500, name, make(500)) + 1e-4


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "x,y\n1_0,0\n1,1\n"),
        ("a.obj", "v 1_0 0 0\n"),
        ("a.off", "OFF\n1 0 0\n1_0 0 0\n"),
        ("a.xyz", "1\n\nH 1_0 0 0\n"),
        (
            "a.ply",
            "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nend_header\n1_0 0\n",
        ),
    ],
)
def test_a_number_has_no_underscore(name: str, text: str, tmp_path: Path) -> None:
    items, bad = read_all(put(tmp_path, name, text))
    assert not items
    assert "1_0" in str(bad[0])
    assert read_value("1_0") == "1_0"


def test_arrays_that_nobody_saves_are_refused(tmp_path: Path) -> None:
    shape = "(" + "1," * 65 + ")"
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(8)
    _, bad = read_all(put(tmp_path, "a.npy", data))
    assert "65 axes" in str(bad[0])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("pos.npy", npy(np.zeros((2, 2))))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("pos.npy", npy(np.zeros((2, 2))))
    _, bad = read_all(put(tmp_path, "a.npz", file.getvalue()))
    assert "two arrays of one name" in str(bad[0])


def test_a_pattern_follows_no_links_in_circles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.csv", "d/b.csv", "d/e/c.csv", "d/.hidden/x.csv"):
        put(tmp_path, name, "x,y\n0,0\n")
    for name, target in (("self", "."), ("d/up", ".."), ("d/e/top", "../..")):
        (tmp_path / name).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    for pattern, expected in {
        "**": {"a.csv", "d/b.csv", "d/e/c.csv"},
        "d/**": {"d/b.csv", "d/e/c.csv"},
        "**/*.csv": {"a.csv", "d/b.csv", "d/e/c.csv"},
        "**/e/*.csv": {"d/e/c.csv"},
        "**/**/c.csv": {"d/e/c.csv"},
    }.items():
        found = {os.path.realpath(path) for path in find_files([pattern])}
        assert found == {str(tmp_path / name) for name in expected}


@pytest.mark.parametrize("kind", ["pipe", "circle", "device"])
def test_outputs_that_are_no_files_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("o.csv" if kind == "circle" else "/dev/null")
    with pytest.raises(GLNError, match="is a pipe, a device or a link"), open_writer(path, force=True):
        pass


def test_a_pipe_is_no_table_of_edges(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "e.csv")
    with pytest.raises(OSError, match="not a regular file"):
        EdgeTable(tmp_path / "e.csv")


def test_what_a_killed_process_left_is_removed_but_not_what_another_writes(tmp_path: Path) -> None:
    code = "import sys, time; from pathlib import Path; from gln.files import Staged; "
    code += "staged = Staged(Path(sys.argv[1])); staged.write(b'half'); print('there', flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "o.csv")], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        remove_unfinished(tmp_path, "o.csv.")
        assert len(list(tmp_path.glob(".o.csv.*.part"))) == 1
        child.send_signal(signal.SIGKILL)
    with open_writer(tmp_path / "other.csv"):
        pass
    assert len(list(tmp_path.glob(".o.csv.*.part"))) == 1
    with open_writer(tmp_path / "o.csv"):
        pass
    assert not list(tmp_path.glob(".*.part"))
    with Staged(tmp_path / "o.csv"):
        remove_unfinished(tmp_path)
        assert len(list(tmp_path.glob(".o.csv.*.part"))) == 1
