"""The commands of docs/several-machines.md, in two processes on a CPU, and a prediction that is killed."""

from __future__ import annotations

import inspect
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gln
from gln.workflows import predict_files
from tests.commands.test_predict import slow_down
from tests.conftest import run

PAGE = (Path(__file__).parents[1] / "docs" / "several-machines.md").read_text()
SMALL = {
    "train": "--accelerator cpu --count 24 --epochs 1 --model GLN:width=8,pair_width=8,steps=1 --no-progress",
    "predict": "--device cpu --threshold 0.3",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """300 tables of a few points: a window for each of two processes."""
    rng = np.random.default_rng(0)
    (tmp_path / "points").mkdir()
    for number in range(300):
        rows = rng.random((int(rng.integers(3, 7)), 2))
        text = "x,y\n" + "".join(f"{x:.4f},{y:.4f}\n" for x, y in rows)
        (tmp_path / "points" / f"{number:03d}.csv").write_text(text if number != 99 else "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(start: str) -> list[str]:
    """The lines of the page that begin with ``start``."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith(start)]


def small(line: str) -> list[str]:
    """A command of the page on fewer points and with a smaller model."""
    kind = "train" if " train " in line else "predict"
    words = shlex.split(f"{line} {SMALL[kind]}".replace("train delaunay ", "train delaunay:points=5 "))
    return [str(Path(sys.executable).with_name(words[0])), *words[1:]]


def test_the_commands_of_the_page_on_one_machine(here: Path) -> None:
    train, *_ = map(small, commands("torchrun --nproc-per-node 2"))
    trained = subprocess.run(train, capture_output=True, text=True, timeout=120)
    assert trained.returncode == 0, trained.stderr
    assert gln.load("runs/two").training_facts["epoch"] == 1
    file, folder = (small(line)[1:] for line in commands("gln predict runs/two points/")[:2])
    assert run(*file) == 1  # for a file that is skipped
    at = file.index("--devices")
    one = ["one.csv" if word == "edges.csv" else word for word in file[:at] + file[at + 2 :]]
    assert run(*one) == 1
    assert Path("edges.csv").read_bytes() == Path("one.csv").read_bytes()
    assert run(*folder) == 1
    assert "99.csv" in Path("edges/_rejects.csv").read_text()


def test_a_command_that_is_killed_is_repeated_and_computes_the_rest(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["predict", "delaunay-small", "points/", "-o", "edges", "--device", "cpu"]
    code = f"{inspect.getsource(slow_down)}\nslow_down()\nfrom gln.commands.cli import main\nmain()"
    with subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.DEVNULL) as process:
        while not Path("edges/000002.parquet").exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    before = {path: path.stat().st_mtime_ns for path in Path("edges").glob("*.parquet")}
    assert 2 < len(before) < 19
    monkeypatch.setattr(predict_files, "WINDOW", 16)
    assert run(*words) == 1
    assert len(list(Path("edges").glob("*.parquet"))) == 19
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    assert not list(Path("edges").glob(".*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "0"], "devices=0"),
        (["--devices", "2", "--device", "cuda:1"], "'cuda:1'"),
        (["--address", "here:1"], "--engine ray"),
        (["-o", "nowhere/edges/"], "nowhere"),
        (["-o", "full"], "holds something else"),
        (["-o", "edges", "--clusters", "auto"], "clusters are written to"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text("x,y\n1,2\n")
    Path("full").mkdir()
    Path("full/mine").write_text("")
    words = words if "-o" in words else [*words, "-o", "o.csv"]
    assert run("predict", "delaunay-small", "p.csv", *words) == 2
    error = capsys.readouterr().err
    assert error.startswith("gln: ")
    assert message in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "p.csv"]
    assert {path.name for path in Path("full").iterdir()} <= {"mine", "_lock"}


def test_one_of_several_processes_is_told_to_start_once(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for name, value in {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "1",
        "TORCHELASTIC_RUN_ID": "none",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GROUP_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert run("predict", "delaunay-small", "points/", "-o", "e.csv", "--devices", "2") == 2
    assert "start the command once" in capsys.readouterr().err
