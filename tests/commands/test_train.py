"""``gln train`` on a user's own files, and ``gln predict`` with what was learned."""

from __future__ import annotations

import json
import re
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gln
from gln.workflows.runs import command_of, read_run
from gln.workflows.train import is_first
from tests.conftest import run
from tests.training.processes import gln_in, join, start_two

QUICK = [
    "--epochs",
    "1",
    "--accelerator",
    "cpu",
    "--no-progress",
    "--model",
    "GLN:width=8,pair_width=8,steps=1",
]


def write_graphs(path: Path, count: int, points: int = 8) -> None:
    """Tables of nodes and edges of Delaunay triangulations."""
    nodes, edges = ["graph,x,y"], ["graph,source,target"]
    for number, graph in enumerate(gln.family("delaunay", points=points).sample(count)):
        nodes += [f"g{number},{x:.5f},{y:.5f}" for x, y in graph.pos.tolist()]
        edges += [f"g{number},{i},{j}" for i, j in graph.edge_index.T.tolist() if i < j]
    path.mkdir()
    (path / "nodes.csv").write_text("\n".join(nodes) + "\n")
    (path / "edges.csv").write_text("\n".join(edges) + "\n")


def test_train_on_files_prints_its_choices_and_predict_takes_the_run(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    write_graphs(here / "data", 12)
    assert run("train", "data", "-o", "run", "--recipe", "recipe.json", *QUICK) == 0
    out = capsys.readouterr().out
    assert "split       9 / 1 / 2 graphs" in out
    assert "candidates  all pairs" in out
    assert "model       GLN:width=8,pair_width=8,steps=1: width, pair_width, steps as asked" in out
    assert "batch size  20 graphs" in out
    assert "IoU ↑" in out

    assert json.loads(Path("recipe.json").read_text())["model"] == "GLN:width=8,pair_width=8,steps=1"
    again = ["train", "data", "-o", "again", "--from-recipe", "recipe.json", *QUICK[:5]]
    assert run(*again) == 0
    assert Path("run/model.safetensors").read_bytes() == Path("again/model.safetensors").read_bytes()
    assert run(*again, "--resume") == 0
    assert run("train", "data", "-o", "other", "--recipe", "recipe.json", *QUICK) == 2
    assert "recipe.json already exists" in capsys.readouterr().err.splitlines()[-1]

    assert run("evaluate", "run", "--on", "data") == 0
    captured = capsys.readouterr()
    assert "12 graphs, threshold" in captured.out
    assert "run was trained on some of these files" in captured.err
    assert run("evaluate", "delaunay", "--on", "data") == 0
    assert "trained on" not in capsys.readouterr().err

    assert run("predict", "run", "data", "-o", "out.csv") == 0
    captured = capsys.readouterr()
    assert "mean over 12 graphs" in captured.out
    assert "run was trained on some of these files" in captured.err


def test_features_of_any_size_are_scaled_in_the_model_and_that_is_said(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    write_graphs(here / "data", 12)
    nodes = Path("data/nodes.csv")
    rows = nodes.read_text().splitlines()
    weights = [f"{1000 * (number % 7)},{number % 2}" for number in range(1, len(rows))]
    nodes.write_text(
        "\n".join(f"{a},{b}" for a, b in zip(rows, ["weight,kind", *weights], strict=True)) + "\n"
    )
    words = ["train", "data", "-o", "run", "--pos", "x,y", "--x", "weight,kind", *QUICK]
    assert run(*words) == 0
    assert "features    columns of x scaled to mean 0 and deviation 1" in capsys.readouterr().out
    config = gln.load("run").config
    assert 2000 < config["x_mean"][0] < 4000
    assert (config["x_mean"][1], config["x_std"][1]) == (0, 1)
    assert run(*words, "--resume") == 0


def test_one_graph_is_trained_on_in_patches(here: Path, capsys: pytest.CaptureFixture) -> None:
    write_graphs(here / "data", 1, points=60)
    assert run("train", "data", "-o", "run", *QUICK) == 2
    assert "cannot be split" in capsys.readouterr().err.splitlines()[-1]
    assert not Path("run").exists()
    assert run("train", "data", "-o", "run", "--patches", "8", *QUICK) == 0
    out = capsys.readouterr().out
    assert "64 / 1 / 1 patches of up to 8 nodes, larger pieces and whole graphs" in out
    assert "too few to choose the best epoch" in out
    assert "directions  training graphs are turned and mirrored at random: 1 graph cannot show" in out
    kept = re.search(r"whole graphs: validation IoU [.0-9]+, threshold ([.0-9]+)", out)
    assert kept
    assert gln.load("run").threshold == pytest.approx(float(kept[1]))
    assert run("report", "run", "-o", "again.html") == 0
    assert Path("again.html").read_text() == Path("run/report.html").read_text()


def test_parts_may_be_named_and_the_command_of_the_report_repeats_the_run(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    for name, count in (("data", 5), ("val", 2), ("test", 3)):
        write_graphs(here / name, count)
    words = ["train", "data", "-o", "run", "--val", "val", "--test", "test", *QUICK]
    assert run(*words) == 0
    assert "5 / 2 / 3 graphs to train / validate / test" in capsys.readouterr().out
    again = shlex.split(command_of(read_run(Path("run"))) or "")[1:]
    assert run(*again) == 0
    assert Path("run/model.safetensors").read_bytes() == Path("run-again/model.safetensors").read_bytes()
    capsys.readouterr()
    inside = ["train", "data", "val", "-o", "inside", "--val", "val/nodes.csv", "--test", "test", *QUICK]
    assert run(*inside) == 0
    captured = capsys.readouterr()
    assert "5 / 2 / 3 graphs" in captured.out
    assert "1 of 2 files are not trained on" in captured.err
    assert Path("run/model.safetensors").read_bytes() == Path("inside/model.safetensors").read_bytes()
    assert run("train", "data", "-o", "all", "--test", "data", *QUICK) == 2
    assert "leave some to train on" in capsys.readouterr().err
    assert run("train", "data", "-o", "none", "--test", "none", *QUICK) == 0
    out = capsys.readouterr().out
    assert "4 / 1 / 0 graphs" in out
    assert "There are no test graphs" in out
    assert run("report", "none", "-o", "none.html") == 0
    assert "There are no test graphs" in Path("none.html").read_text()


def test_records_are_kept_apart_by_group_and_shared_ones_are_counted(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    rng = np.random.default_rng(0)
    values, kind = rng.random((40, 4)), rng.integers(3, size=40)
    nodes, edges = ["graph,id,patient,a,b,c,d"], ["graph,source,target"]
    for table in range(12):
        rows = rng.permutation(40)[:12]
        nodes += [f"t{table},r{i},p{i},{','.join(map(str, values[i]))}" for i in rows]
        edges += [f"t{table},r{i},r{j}" for i in rows for j in rows if i < j and kind[i] == kind[j]]
    Path("data").mkdir()
    Path("data/nodes.csv").write_text("\n".join(nodes) + "\n")
    Path("data/edges.csv").write_text("\n".join(edges) + "\n")
    assert run("train", "data", "-o", "run", *QUICK) == 0
    assert "test nodes are also in training" in capsys.readouterr().out
    assert run("train", "data", "-o", "apart", "--group", "patient", *QUICK) == 0
    out = capsys.readouterr().out
    assert "from different groups" in out
    assert "also in training" not in out
    assert run("report", "apart", "-o", "again.html") == 0
    assert Path("again.html").read_text() == Path("apart/report.html").read_text()


def test_a_skipped_file_is_named_and_the_exit_code_is_1(here: Path, capsys: pytest.CaptureFixture) -> None:
    write_graphs(here / "data", 6)
    (here / "bad.csv").write_text("")
    assert run("train", "data", "bad.csv", "-o", "run", *QUICK) == 1
    assert "skipped bad.csv" in capsys.readouterr().err


def test_evaluation_names_what_it_skips_and_what_the_model_cannot_read(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    write_graphs(here / "data", 3)
    (here / "data" / "bad.csv").write_text("x,y\n")
    assert run("evaluate", "delaunay", "--on", "data") == 1
    captured = capsys.readouterr()
    assert "3 graphs, threshold" in captured.out
    assert "Skipped 1:" in captured.out
    assert "skipped data/bad.csv: there are no rows" in captured.err
    assert run("evaluate", "figures", "--on", "data/nodes.csv") == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("gln: data/nodes.csv: it has no features (x), but the model was trained with 3")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["delauney:points=5"], "no file and no family 'delauney:points=5'"),
        (["delaunay", "surfaces"], "Got delaunay surfaces; expected one family, or files only"),
        (["delaunay", "--patches", "9"], "--patches, which is for files"),
        (["delaunay", "--recipe", "r.json"], "--recipe, which is for files"),
        (["data", "--recipe", "data/nodes.csv"], "expected a name that ends in .json"),
        (["delaunay", "--pos", "x,y"], "--pos, which is for files"),
        (["data", "--count", "9"], "--count, which is for families"),
        (["delaunay", "--test", "none"], "--test, which is for files"),
        (["data", "--val", "nowhere"], "no file and no family 'nowhere'"),
        (["data", "--group", "colour"], "there is no column or attribute 'colour'"),
        (["data", "--patches", "1"], "patches of 1 nodes"),
        (["data", "--patches", "0"], "patches of 0 nodes"),
        (["data", "--from-recipe", "r.json"], "r.json cannot be read"),
        (["data", "--from-recipe", "r.json", "--pos", "x"], "--pos, which is for choosing"),
        (["data", "--from-recipe", "r.json", "--model", "GLN"], "--model, which is for choosing"),
        (["data", "--model", "GNN", "--recipe", "new.json"], "no model 'GNN'"),
        (["data/nodes.csv", "--edges", "none.csv"], "none.csv"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_run_begins(
    here: Path, capsys: pytest.CaptureFixture, words: list[str], message: str
) -> None:
    write_graphs(here / "data", 4)
    assert run("train", *words, "-o", "run") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.splitlines()[-1].startswith("gln: ")
    assert [path.name for path in here.iterdir()] == ["data"]


def test_a_file_is_not_taken_for_a_run_folder(here: Path, capsys: pytest.CaptureFixture) -> None:
    Path("notes.txt").write_text("mine")
    assert run("train", "delaunay", "-o", "notes.txt") == 2
    assert capsys.readouterr().err == "gln: notes.txt is a file; give the name of a run folder.\n"
    assert Path("notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("rank", "machine", "machines", "first"),
    [(0, None, 1, True), (1, None, 1, False), (0, "1", 2, False), (0, "0", 2, True), (0, "1", 1, True)],
)
def test_only_the_first_process_speaks(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    rank: int,
    machine: str | None,
    machines: int,
    first: bool,
) -> None:
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.delenv("GROUP_RANK", raising=False)
    monkeypatch.delenv("NODE_RANK", raising=False)
    if machine is not None:
        monkeypatch.setenv("NODE_RANK", machine)
    assert is_first(machines) == first


def test_two_processes_print_and_write_once(here: Path) -> None:
    write_graphs(here / "data", 12)
    (here / "bad.csv").write_text("")
    words = [
        "train",
        "data",
        "bad.csv",
        "-o",
        "run",
        "--recipe",
        "recipe.json",
        "--view",
        "page.html",
        *QUICK,
    ]
    said = here / "said"  # by both
    both = start_two(partial(gln_in, here, *words, "--devices", "2", "--strategy", "ddp", said=said))
    assert join(both) == [1, 0]  # the first one speaks for both, of the skipped file too
    out, error = (said.with_suffix(kind).read_text() for kind in (".out", ".err"))
    for once in (
        "split  ",
        "12 graphs from files;",
        "IoU ↑  ",
        "Wrote run/report.html.",
        "Wrote page.html",
        "Skipped 1",
    ):
        assert out.count(once) == 1, out + error
    assert error.count("skipped bad.csv") == 1
    assert gln.load("run").training_facts["epoch"] == 1
    assert all(
        Path(name).exists() for name in ("run/data.json", "run/report.html", "page.html", "recipe.json")
    )
