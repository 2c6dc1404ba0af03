"""Two processes that share the batches learn what one process learns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gln.errors import GLNError
from gln.models import GLN
from gln.storage.runs import read_checkpoint
from gln.training import fit, loop
from tests.training.processes import join, start_two
from tests.training.tiny import BrokenLoss, TinyLoss, WatchedLoss, graphs, tiny

# 9 graphs in batches of 4: the last batch has 1, of which the second process has none, as of the one in val.
TRAIN, VAL = graphs(9), graphs(1, seed=1)
SETTINGS: dict[str, Any] = {"epochs": 3, "batch_size": 4, "lr": 0.05, "accelerator": "cpu", "progress": False}


# Large enough that GLN, while it trains, draws fewer candidates than all.
LARGER = graphs(9, sizes=(11, 24))


def train(run: Path, processes: int, kind: str = "tiny", **settings: Any) -> None:
    if processes > 1:
        settings |= {"devices": processes, "strategy": "ddp"}
    if kind == "gln":
        torch.manual_seed(0)
        model, data = GLN(width=8, pair_width=8, kernels=2, steps=2), LARGER
    else:
        model, data = tiny(dropout=0.0), TRAIN
    fit(model, data, VAL, run=run, **{"loss": TinyLoss()} | SETTINGS | settings)


@pytest.mark.parametrize("kind", ["tiny", "gln"])
def test_two_processes_reach_the_loss_curve_of_one(tmp_path: Path, kind: str) -> None:
    two = start_two(train, tmp_path / "two", 2, kind)
    train(tmp_path / "one", 1, kind)
    assert join(two) == [0, 0]
    one, both = (read_checkpoint(tmp_path / name / "checkpoint.safetensors") for name in ("one", "two"))
    assert len(both.progress["history"]) == 3
    for expected, row in zip(one.progress["history"], both.progress["history"], strict=True):
        assert row["step"] == expected["step"]
        for name in ("train_loss", "val_loss", "val_iou", "threshold"):
            assert row[name] == pytest.approx(expected[name], abs=1e-5), name
    for name, weight in one.weights.items():
        assert torch.allclose(both.weights[name], weight, atol=1e-5), name
    # A run may go on with another number of processes.
    train(tmp_path / "two", 1, kind, resume=True, epochs=4)
    longer = read_checkpoint(tmp_path / "two" / "checkpoint.safetensors").progress
    assert [row["epoch"] for row in longer["history"]] == [1, 2, 3, 4]


def fail(run: Path) -> None:
    try:
        train(run, 2, loss=BrokenLoss(), batch_size=2)
    except GLNError as error:
        (run / f"error-{os.environ['LOCAL_RANK']}").write_text(str(error))


def test_a_failure_in_one_process_is_one_sentence_from_all(tmp_path: Path) -> None:
    # Only the second process sees a loss that is not a number; none may be left waiting.
    assert join(start_two(fail, tmp_path)) == [0, 0]
    for rank in (0, 1):
        message = (tmp_path / f"error-{rank}").read_text()
        assert message.startswith("The loss is nan at step 1 (epoch 1, batch 1: graphs ")
        assert "\n" not in message


def watched(run: Path, dies: int | None, **settings: Any) -> None:
    """A run of two processes that checkpoints every step; what ends it early is kept in words."""
    run.mkdir(exist_ok=True)
    loss = WatchedLoss(folder=run, dies=dies)
    try:
        train(run, 2, loss=loss, checkpoint_minutes=0, resume=True, **settings)
    except GLNError as error:
        (run / "error").write_text(str(error))


LOST = "Another process of this run was lost; resume from the last checkpoint in {run} with --resume (resume=True)."


def test_a_killed_process_ends_the_run_in_one_sentence_and_resumed_it_ends_as_if_undisturbed(
    tmp_path: Path,
) -> None:
    names = ("whole", "started", "commanded")
    whole, started, commanded = (tmp_path / name for name in names)
    # Call 7 of the second process is in the middle of the second epoch.
    processes = [start_two(watched, whole, None), start_two(watched, started, 7)]
    code = "import sys; from tests.training.test_ddp import Path, watched; "
    code += "watched(Path(sys.argv[1]), 7)"
    command = [sys.executable, "-c", code, str(commanded)]
    root = Path(__file__).parents[2]
    killed = subprocess.run(command, cwd=root, timeout=120, capture_output=True, text=True, check=True)
    assert "Traceback" not in killed.stderr
    assert [join(pair) for pair in processes] == [[0, 0], [0, -signal.SIGKILL]]
    assert not (whole / "error").exists()
    for run in (started, commanded):
        assert (run / "killed").exists()
        assert (run / "error").read_text() == LOST.format(run=run)
        assert read_checkpoint(run / "checkpoint.safetensors").progress["epoch"] == 1
    processes = [start_two(watched, run, 7) for run in (started, commanded)]
    expected = read_checkpoint(whole / "checkpoint.safetensors")
    for pair, run in zip(processes, (started, commanded), strict=True):
        assert join(pair) == [0, 0]
        resumed = read_checkpoint(run / "checkpoint.safetensors")
        for before, after in ((expected.weights, resumed.weights), (expected.best, resumed.best)):
            assert all(torch.equal(before[name], after[name]) for name in before | after)
        assert resumed.progress["step"] == expected.progress["step"] == 9
        assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    # Both processes of the undisturbed run computed with the same weights, at every call.
    seen = [(whole / f"seen-{rank}").read_text().splitlines() for rank in (0, 1)]
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 9 + 1  # first weights, and new ones after every step


def blind(run: Path) -> None:
    """The second process does not see the files of the first, as on a machine with a disk of its own."""
    exists, loop.SHARED = Path.exists, 0.1
    Path.exists = lambda self: exists(self) and os.environ.get("LOCAL_RANK", "0") == "0"  # type: ignore[method-assign]
    try:
        train(run, 2)
    except GLNError as error:
        (run / "error").write_text(str(error))


def test_processes_that_do_not_share_the_run_folder_are_refused(tmp_path: Path) -> None:
    assert join(start_two(blind, tmp_path)) == [0, 0]
    assert "do not see the same files" in (tmp_path / "error").read_text()
