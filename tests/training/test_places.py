"""Which of several processes this is, as torchrun, Slurm or nobody says."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gln.errors import GLNError
from gln.storage.runs import RunFolder
from gln.training import fit, processes
from gln.training.processes import (
    PARENT,
    OtherProcesses,
    Place,
    check_alone,
    find_place,
    give_way,
    is_first,
    is_orphan,
    with_others,
)
from tests.training.processes import start
from tests.training.tiny import TinyLoss, graphs, tiny

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "5",
    "LOCAL_RANK": "1",
    "GROUP_RANK": "1",
    "WORLD_SIZE": "8",
}
SLURM = {"SLURM_NTASKS": "8", "SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_NODEID": "1"}
SLURM |= {"SLURM_NTASKS_PER_NODE": "4", "SLURM_NNODES": "2", "SLURM_JOB_NAME": "edges"}


@pytest.fixture(autouse=True)
def _nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {*TORCHRUN, *SLURM, "NODE_RANK", PARENT}:
        monkeypatch.delenv(name, raising=False)


def say(monkeypatch: pytest.MonkeyPatch, words: dict[str, str]) -> None:
    for name, value in words.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (TORCHRUN, Place(5, 8, 1, True)),
        (SLURM, Place(6, 8, 2, True)),
        (SLURM | TORCHRUN, Place(5, 8, 1, True)),  # torchrun within Slurm
        (
            {"NODE_RANK": "1", "LOCAL_RANK": "3"},
            Place(7, 8, 3, True),
        ),  # a process that another one of ours started
        ({"NODE_RANK": "1"}, Place(4, 8, 0, False)),  # one command on each machine
    ],
)
def test_the_place_is_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, str], place: Place
) -> None:
    say(monkeypatch, words)
    assert find_place(4, 2) == place
    if place.local:
        with pytest.raises(GLNError, match="of several"):
            check_alone()
    assert not is_first(2)


@pytest.mark.parametrize(
    ("words", "devices", "machines", "message"),
    [
        (TORCHRUN, 4, 1, "4 devices on 1 machines, but 8 processes were started"),
        (SLURM, 2, 2, "8 processes were started"),
        (SLURM | {"SLURM_NTASKS_PER_NODE": ""}, 4, 2, "--ntasks-per-node"),
        ({}, 2, 2, "which one this is"),
        ({"NODE_RANK": "2"}, 2, 2, "NODE_RANK=2"),
        ({"LOCAL_RANK": "2"}, 2, 1, "LOCAL_RANK=2"),
    ],
)
def test_what_does_not_add_up_is_refused(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, str], devices: int, machines: int, message: str
) -> None:
    say(monkeypatch, {name: value for name, value in words.items() if value})
    with pytest.raises(GLNError, match=message):
        find_place(devices, machines)


def test_a_single_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    check_alone()
    assert is_first(1)
    assert find_place(1, 1) == Place(0, 1, 0, False)
    # The script of a Slurm job, outside srun, is its first task whatever else was asked for.
    say(monkeypatch, {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_NAME": "edges"})
    check_alone()


def test_processes_that_would_each_train_for_themselves_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    say(monkeypatch, TORCHRUN)
    settings: dict[str, Any] = {"accelerator": "cpu", "progress": False, "loss": TinyLoss()}
    for more, message in (({}, "process 5 of several"), ({"devices": 2, "strategy": "ddp"}, "8 processes")):
        with pytest.raises(GLNError, match=message):
            fit(tiny(), graphs(2), graphs(1), run=tmp_path / "run", **settings | more)
    assert not (tmp_path / "run").exists()


def stuck() -> None:
    processes.GRACE = 0.1
    processes._watch(lambda: True, threading.Event(), "lost.", None)


def test_a_process_whose_partner_is_gone_does_not_wait_for_ever() -> None:
    process = start(stuck)
    process.join(30)
    assert process.exitcode == 2


def left_alone() -> None:
    """A run whose other process has nothing to do, as when its script came through a pipe that is read up."""
    processes.GRACE = 0.1
    sys.orig_argv[1:] = ["-c", "pass"]
    with with_others(Place(0, 2, 0, started=False), 2, RunFolder(Path("run"))):
        time.sleep(30)


def test_a_partner_that_ends_without_an_error_is_lost_too() -> None:
    process = start(left_alone)
    process.join(30)
    assert process.exitcode == 2


@pytest.mark.parametrize("code", ["pass", "exit(2)", "import os; os.abort()"])
def test_another_process_has_ended(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", code])
    others = OtherProcesses(2)
    others.processes[0].wait(30)
    assert not others.complete()


def test_the_first_process_speaks_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.3)
    waits = []
    for parent in (None, os.getppid(), os.getpid()):  # nobody of ours, one that lives, one that is gone
        if parent is not None:
            monkeypatch.setenv(PARENT, str(parent))
        since = time.monotonic()
        give_way()
        waits.append(time.monotonic() - since >= 0.3)
    assert waits == [False, True, False]


def test_an_orphan_finds_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_orphan()
    monkeypatch.setenv(PARENT, str(os.getppid()))
    assert not is_orphan()
    monkeypatch.setenv(PARENT, str(os.getpid()))
    assert is_orphan()
