"""``gln predict`` as a user meets it."""

from __future__ import annotations

import csv
import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gln
from tests.conftest import run
from tests.training.processes import gln_in, join, start


def write_points(path: Path, rows: int, columns: str = "x,y") -> Path:
    values = np.random.default_rng(rows).random((rows, len(columns.split(","))))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, values, fmt="%.5f", delimiter=",", header=columns, comments="")
    return path


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open() as file:
        return list(csv.DictReader(file))


def test_one_file_is_predicted_as_the_python_api_does(here: Path, capsys: pytest.CaptureFixture) -> None:
    points = write_points(here / "points.csv", 20)
    assert run("predict", "delaunay", "points.csv", "-o", "edges.csv") == 0
    captured = capsys.readouterr()
    answer = gln.predict(gln.load("delaunay"), np.loadtxt(points, delimiter=",", skiprows=1))
    assert captured.out == f"Wrote edges.csv: {answer.num_edges // 2} edges in 1 graph.\n"
    assert "pos = x, y" in captured.err
    expected = {(i, j) for i, j in answer.edge_index.T.tolist() if i < j}
    assert {(int(row["source"]), int(row["target"])) for row in rows_of("edges.csv")} == expected


def test_threshold_and_top_k_choose_among_the_pairs(here: Path) -> None:
    write_points(here / "p.csv", 12)
    counts = []
    for number, words in enumerate(
        (["--threshold", "0"], ["--threshold", "0", "--top-k", "2"], ["--top-k", "2"])
    ):
        assert run("predict", "delaunay", "p.csv", "-o", f"e{number}.csv", *words) == 0
        counts.append(len(rows_of(f"e{number}.csv")))
    assert counts[0] == 12 * 11 // 2
    assert counts[0] > counts[1] >= counts[2] >= 12


def test_bad_files_are_named_the_rest_goes_on_and_the_exit_code_is_1(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    write_points(here / "in" / "a.csv", 5)
    write_points(here / "in" / "b.csv", 6, "x,y,z")
    (here / "in" / "c.csv").write_text("")
    write_points(here / "in" / "d.csv", 7)
    assert run("predict", "delaunay", "in", "-o", "out.csv") == 1
    captured = capsys.readouterr()
    assert "skipped in/b.csv: it has 3 positions" in captured.err
    assert "skipped in/c.csv" in captured.err
    assert "Skipped 2:" in captured.out
    assert list(dict.fromkeys(row["graph"] for row in rows_of("out.csv"))) == ["a.csv", "d.csv"]


def test_labelled_files_get_scores(here: Path, capsys: pytest.CaptureFixture) -> None:
    write_points(here / "a" / "points.csv", 8)
    write_points(here / "b" / "points.csv", 9)
    (here / "a" / "edges.csv").write_text("source,target\n0,1\n")
    assert run("predict", "delaunay", "a", "b", "-o", "out.csv") == 0
    out = capsys.readouterr().out
    assert "mean over 1 graph that came with true edges" in out
    for word in ("dice (F1) ↑", "precision ↑", "recall ↑", "IoU ↑"):
        assert word in out
    assert "1 nearest" in out  # a shipped model has no rules of its own
    assert "suit the first graph scored here best" in out


def test_known_edges_are_completed(here: Path) -> None:
    write_points(here / "p.csv", 12)
    (here / "known.csv").write_text("source,target\n0,5\n")
    words = ["predict", "delaunay", "p.csv", "-o", "out.csv", "--known", "known.csv", "--threshold", "1"]
    assert run(*words) == 0
    assert [(row["source"], row["target"], row["probability"]) for row in rows_of("out.csv")] == [
        ("0", "5", "1")
    ]


def test_known_edges_may_lie_in_the_folder_beside_the_true_ones(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    write_points(here / "in" / "scan#3.csv", 12)
    (here / "in" / "scan#3.edges.csv").write_text("source,target\n0,1\n")
    (here / "in" / "known.csv").write_text("source,target\n0,5\n")
    words = ["predict", "delaunay", "in", "-o", "out.csv", "--known", "in/known.csv", "--threshold", "1"]
    assert run(*words, "--view", "page.html") == 0  # the page too counts one file of nodes
    assert [(row["graph"], row["source"], row["target"]) for row in rows_of("out.csv")] == [
        ("scan#3.csv", "0", "5")
    ]
    assert "edges from *.edges.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere", "p.csv", "-o", "o.csv"], "no folder 'nowhere'"),
        (["delaunay", "-o", "o.csv"], "no files"),
        (["delaunay", "q.csv", "-o", "o.csv"], "q.csv"),
        (["delaunay", "p.csv", "-o", "o.txt"], "o.txt"),
        (["delaunay", "p.csv", "-o", "nowhere/o.csv"], "nowhere"),
        (["delaunay", "p.csv", "-o", "old.csv"], "old.csv already exists"),
        (["delaunay", "p.csv", "-o", "o.csv", "--threshold", "2"], "threshold=2"),
        (["delaunay", "p.csv", "-o", "o.csv", "--top-k", "0"], "top_k=0"),
        (["delaunay", "p.csv", "-o", "o.csv", "--batch-size", "0"], "batch_size=0"),
        (["delaunay", "p.csv", "-o", "o.csv", "--steps", "0"], "steps=0"),
        (["delaunay", "p.csv", "-o", "o.csv", "--device", "toaster"], "'toaster'"),
        (["delaunay", "p.csv", "-o", "o.csv", "--known", "q.csv"], "q.csv"),
        (["delaunay", "p.csv", "-o", "o.csv", "--image-size", "0"], "image_size=0"),
        (["delaunay", "wide.csv", "-o", "o.csv"], "3 positions"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    here: Path, capsys: pytest.CaptureFixture, words: list[str], message: str
) -> None:
    write_points(here / "p.csv", 5)
    write_points(here / "wide.csv", 5, "x,y,z")
    (here / "old.csv").write_text("mine")
    before = sorted(here.iterdir())
    assert run("predict", *words) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("gln: ")
    assert message in last
    assert sorted(here.iterdir()) == before
    assert (here / "old.csv").read_text() == "mine"


@pytest.mark.parametrize("words", [["in"], ["in/*.csv"]])
def test_the_output_of_last_time_is_not_among_the_input(
    here: Path, capsys: pytest.CaptureFixture, words: list[str]
) -> None:
    write_points(here / "in" / "a.csv", 5)
    command = ["predict", "delaunay", *words, "-o", "in/out.csv", "--threshold", "0"]
    assert run(*command) == 0
    first = Path("in/out.csv").read_text()
    assert run(*command, "--force") == 0
    assert "Skipped" not in capsys.readouterr().out
    assert Path("in/out.csv").read_text() == first

    Path("in/a.csv").unlink()
    assert run(*command, "--force") == 2
    assert "nothing to read besides in/out.csv" in capsys.readouterr().err
    assert Path("in/out.csv").read_text() == first


def test_a_file_is_not_both_input_and_output(here: Path, capsys: pytest.CaptureFixture) -> None:
    points = write_points(here / "a.csv", 5)
    before = points.read_text()
    assert run("predict", "delaunay", "a.csv", "-o", "./a.csv", "--force") == 2
    assert "both input and output" in capsys.readouterr().err
    assert points.read_text() == before


def slow_down() -> None:
    """From now on, a prediction has windows of 16 sets and stops a while at each."""
    import time

    from gln.workflows import predict_files as predicting

    predicting.WINDOW, answer = 16, predicting.answer_window
    predicting.answer_window = lambda *words: (time.sleep(0.2), answer(*words))[1]


def slowly(folder: Path, *words: str, said: Path) -> None:
    slow_down()
    gln_in(folder, *words, said=said)


@pytest.mark.parametrize(("kind", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_a_polite_kill_leave_no_partial_file(
    here: Path, kind: signal.Signals, status: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for number in range(200):
        write_points(here / "in" / f"{number}.csv", 5)
    said = tmp_path_factory.mktemp("said") / "gln"
    words = ["predict", "delaunay", "in", "-o", "out.csv", "--device", "cpu"]
    process = start(partial(slowly, here, *words, said=said))
    while not list(here.glob(".out.csv*")) and process.is_alive():
        time.sleep(0.05)
    time.sleep(0.3)  # some graphs are written by now, and others not
    os.kill(process.pid, kind)
    assert join([process]) == [status]
    error = said.with_suffix(".err").read_text()
    assert "Traceback" not in error
    assert (error.splitlines()[-1:] == ["gln: interrupted."]) == (kind == signal.SIGINT)
    assert [path.name for path in here.iterdir()] == ["in"]


def test_clusters_are_written_as_python_finds_them(here: Path, capsys: pytest.CaptureFixture) -> None:
    points = write_points(here / "points.csv", 30)
    words = ["predict", "delaunay", "points.csv", "--threshold", "0.5"]
    assert run(*words, "-o", "clusters.csv", "--clusters", "louvain") == 0
    answer = gln.predict(gln.load("delaunay"), np.loadtxt(points, delimiter=",", skiprows=1), threshold=0.5)
    found = gln.clusters(answer, "louvain")
    assert [int(row["cluster"]) for row in rows_of("clusters.csv")] == found.tolist()
    assert capsys.readouterr().out == f"Wrote clusters.csv: {int(found.max()) + 1} clusters in 1 graph.\n"
    assert run(*words, "-o", "regions.png") == 2
    assert "is not an image" in capsys.readouterr().err


def test_files_of_several_graphs_are_named(here: Path, capsys: pytest.CaptureFixture) -> None:
    for name in ("a", "b"):
        write_points(here / f"{name}.csv", 5)
    assert run("predict", "delaunay", "a.csv", "b.csv", "-o", "edges.ply") == 0
    assert capsys.readouterr().out.startswith("Wrote edges-*.ply: ")
    assert len(list(here.glob("edges-*.ply"))) == 2
