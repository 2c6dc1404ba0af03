"""Killed at any moment and resumed, a run ends as if nothing had happened."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import torch

from gln.storage.runs import read_checkpoint
from gln.training import fit
from tests.training.processes import start
from tests.training.tiny import TinyLoss, graphs, tiny

STEPS = 12 * 5  # 12 epochs of 33 graphs in batches of 7


def train(run: Path, seed: int) -> None:
    """The run to be killed: a checkpoint after every step, dropout, and first weights that must not matter."""
    settings: dict[str, Any] = {"accelerator": "cpu", "progress": False, "checkpoint_minutes": 0}
    settings |= {"epochs": 12, "batch_size": 7, "lr": 0.02, "loss": TinyLoss()}
    fit(tiny(seed), graphs(33), graphs(5, seed=1), run=run, resume=True, **settings)


def test_a_killed_run_ends_with_bitwise_the_same_weights(tmp_path: Path) -> None:
    whole = start(train, tmp_path / "whole", 0)
    victim, path = tmp_path / "victim", tmp_path / "victim" / "checkpoint.safetensors"
    killed = []
    while len(killed) < 4:
        done = read_checkpoint(path).progress["step"] if path.exists() else 0
        before = path.read_bytes() if path.exists() else b""
        process = start(train, victim, len(killed))
        while process.is_alive() and (not path.exists() or path.read_bytes() == before):
            time.sleep(0.005)
        time.sleep(0.3 * random.random())
        process.kill()  # SIGKILL
        process.join()
        step = read_checkpoint(path).progress["step"]
        killed.append(step)
        assert step >= done
        assert not (process.exitcode and process.exitcode > 0)
        if step == STEPS:
            break
    process = start(train, victim, 9)
    process.join()
    whole.join()
    assert process.exitcode == whole.exitcode == 0
    assert any(0 < step < STEPS for step in killed), killed

    one, other = read_checkpoint(tmp_path / "whole" / "checkpoint.safetensors"), read_checkpoint(path)
    assert other.progress["step"] == STEPS
    for first, second in ((one.weights, other.weights), (one.best, other.best)):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first), killed
    assert _timeless(one.progress["history"]) == _timeless(other.progress["history"]), killed
    assert (victim / "model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    assert not list(victim.glob(".*")), "what killed writes left is cleared away"


def _timeless(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in history]
