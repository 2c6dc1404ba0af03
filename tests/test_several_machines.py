"""The commands of docs/several-machines.md, in two processes on a CPU, and a prediction of which one is killed."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gln
from gln.workflows import predict_files
from gln.workflows.parts import PartsFolder, name_of
from tests.commands.test_cli import run
from tests.commands.test_predict import slow_down
from tests.training.processes import gln_in, join, start_two

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


def in_one_process(words: list[str], output: str) -> list[str]:
    """The same without what is for several."""
    words = [output if word == "edges.csv" else word for word in words]
    start = words.index("--devices")
    return [word for word in words[:start] + words[start + 4 :] if word != "--resume"]


def test_the_torchrun_commands_of_the_page(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, predict = map(small, commands("torchrun --nproc-per-node 2"))
    trained = subprocess.run(train, capture_output=True, text=True, timeout=120)
    assert trained.returncode == 0, trained.stderr
    assert gln.load("runs/two").training_facts["epoch"] == 1
    words, said = predict[predict.index("predict") :], here / "said"
    # torchrun itself starts the training above; here, what it tells its processes is enough, and takes no seconds.
    both = start_two(partial(gln_in, here, *words, said=said), torchrun=True)
    assert 1 in join(both)  # for a file that is skipped
    out = said.with_suffix(".out").read_text()
    assert out.count("Wrote edges.csv") == 1
    assert "Skipped 1:" in out
    assert run(monkeypatch, *in_one_process(words, "one.csv")) == 1
    assert Path("edges.csv").read_bytes() == Path("one.csv").read_bytes()
    assert not Path("edges.csv.parts").exists()


def test_a_killed_process_is_said_and_resume_gives_the_same_bytes(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    first, again = (["predict", "delaunay", *small(line)[3:]] for line in commands("gln predict"))
    code = f"{inspect.getsource(slow_down)}\nslow_down()\nfrom gln.commands.cli import main\nmain()"
    command = [sys.executable, "-c", code, *first]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        parts = here / "edges.csv.parts"
        while not list(parts.glob("*/000000-000001.part")) and process.poll() is None:  # of the second
            time.sleep(0.02)
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        out, error = process.communicate(timeout=60)
    assert process.returncode == 2  # as in training; 1 is an output from which something was skipped
    assert out == ""
    assert error.splitlines()[-1] == (
        "gln: another process of this prediction was lost; edges.csv.parts holds what is done: "
        "repeat the command with --resume."
    )
    assert "Traceback" not in error
    assert not Path("edges.csv").exists()

    monkeypatch.setattr(predict_files, "WINDOW", 16)
    assert run(monkeypatch, *in_one_process(first, "one.csv")) == 1
    expected = capsys.readouterr()
    kept = {path.name for path in parts.glob("*/[0-9]*.part")}
    written: list[str] = []
    write = PartsFolder.write
    monkeypatch.setattr(
        PartsFolder, "write", lambda *words: (written.append(name_of(words[1])), write(*words))
    )
    assert run(monkeypatch, *in_one_process(again, "edges.csv"), "--resume") == 1
    assert capsys.readouterr().out == expected.out.replace("one.csv", "edges.csv")
    assert Path("edges.csv").read_bytes() == Path("one.csv").read_bytes()
    assert kept
    assert written
    assert not kept & set(written)  # what was answered is not answered again
    assert not parts.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "0"], "devices=0"),
        (["--num-nodes", "0"], "num_nodes=0"),
        (["--strategy", "fsdp"], "strategy='fsdp'"),
        (["--devices", "2", "--num-nodes", "2"], "NODE_RANK"),
        (["--devices", "2", "--device", "cuda:1"], "'cuda:1'"),
        (["--resume", "-o", "o.txt"], "o.txt"),
        (["--resume", "-o", "old.csv"], "old.csv already exists"),
        (["--resume", "-o", "nowhere/o.csv"], "nowhere"),
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
    for name in ("p.csv", "old.csv"):
        Path(name).write_text("x,y\n1,2\n")
    words = words if "-o" in words else [*words, "-o", "o.csv"]
    assert run(monkeypatch, "predict", "delaunay", "p.csv", *words) == 2
    error = capsys.readouterr().err
    assert error.startswith("gln: ")
    assert message in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.csv", "p.csv"]
