"""Killed at any moment and resumed, a run ends as if nothing had happened."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from gln.errors import GLNError
from gln.families import family
from gln.models import GraphFlow
from gln.storage.runs import read_checkpoint
from gln.training import fit
from tests.training.processes import start
from tests.training.tiny import TinyLoss, graphs, tiny

EPOCHS = 60  # of five steps: 33 graphs in batches of 7; a quiet machine takes more than a second
STEPS = 5 * EPOCHS


def train(run: Path, seed: int) -> None:
    """The run to be killed: a checkpoint after every step, dropout, and first weights that must not matter."""
    settings: dict[str, Any] = {"accelerator": "cpu", "progress": False, "checkpoint_minutes": 0}
    settings |= {"epochs": EPOCHS, "batch_size": 7, "lr": 0.02, "loss": TinyLoss()}
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


def test_a_run_of_a_time_with_fewer_settings_goes_on(tmp_path: Path) -> None:
    """A setting that a model has got since has its default; another value would make it another run."""
    trees = family("tree", nodes=5).graphs(8)
    flow = {"width": 8, "pair_width": 8, "kernels": 2, "steps": 1}
    how: dict[str, Any] = {"run": tmp_path, "progress": False, "accelerator": "cpu"}
    fit(GraphFlow(**flow), trees, epochs=1, **how)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model"]["config"]["lateness"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(GLNError, match="lateness"):
        fit(GraphFlow(**flow, lateness=3.0), trees, epochs=2, resume=True, **how)
    assert len(fit(GraphFlow(**flow), trees, epochs=2, resume=True, **how).history) == 2
