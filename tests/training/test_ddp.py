"""Two processes that share the batches learn what one process learns."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from gln.errors import GLNError
from gln.models import GLN
from gln.training import FitConfig, fit
from gln.training.checkpoint import read_checkpoint
from gln.training.feed import Feed
from gln.training.learner import Learner
from gln.training.run import RunFolder
from tests.training.processes import start
from tests.training.tiny import BrokenLoss, TinyLoss, graphs, tiny

# 9 graphs in batches of 4: the last batch has 1, of which the second process has none, as of the one in val.
TRAIN, VAL = graphs(9), graphs(1, seed=1)
SETTINGS: dict[str, Any] = {"epochs": 3, "batch_size": 4, "lr": 0.05, "accelerator": "cpu", "progress": False}


# Large enough that GLN, while it trains, draws fewer candidates than all.
LARGER = graphs(9, sizes=(11, 24))


def train(run: Path, processes: int, kind: str = "tiny", **settings: Any) -> None:
    if processes > 1:
        settings |= {"devices": processes, "strategy": "ddp_fork"}
    if kind == "gln":
        torch.manual_seed(0)
        model, data = GLN(width=8, pair_width=8, kernels=2, steps=2), LARGER
    else:
        model, data = tiny(dropout=0.0), TRAIN
    fit(model, data, VAL, run=run, **{"loss": TinyLoss()} | SETTINGS | settings)


@pytest.mark.parametrize("kind", ["tiny", "gln"])
def test_two_processes_reach_the_loss_curve_of_one(tmp_path: Path, kind: str) -> None:
    two = start(train, tmp_path / "two", 2, kind)
    train(tmp_path / "one", 1, kind)
    two.join()
    assert two.exitcode == 0
    one, both = (read_checkpoint(tmp_path / name / "checkpoint.safetensors") for name in ("one", "two"))
    assert len(both.progress.history) == 3
    for expected, row in zip(one.progress.history, both.progress.history, strict=True):
        assert row["step"] == expected["step"]
        for name in ("train_loss", "val_loss", "val_iou", "threshold"):
            assert row[name] == pytest.approx(expected[name], abs=1e-5), name
    for name, weight in one.weights.items():
        assert torch.allclose(both.weights[name], weight, atol=1e-5), name
    # A run may go on with another number of processes.
    train(tmp_path / "two", 1, kind, resume=True, epochs=4)
    longer = read_checkpoint(tmp_path / "two" / "checkpoint.safetensors").progress
    assert [row["epoch"] for row in longer.history] == [1, 2, 3, 4]


def fail(run: Path) -> None:
    try:
        train(run, 2, loss=BrokenLoss(), batch_size=2)
    except GLNError as error:
        (run / "error").write_text(str(error))


def test_a_failure_in_one_process_is_one_sentence_from_all(tmp_path: Path) -> None:
    # Only the second process sees a loss that is not a number; none may be left waiting.
    process = start(fail, tmp_path)
    process.join(60)
    assert process.exitcode == 0
    message = (tmp_path / "error").read_text()
    assert message.startswith("The loss is nan at step 1 (epoch 1, batch 1: graphs ")
    assert "\n" not in message


def test_a_learner_can_be_sent_to_another_process(tmp_path: Path) -> None:
    config = FitConfig()
    learner = Learner(tiny(), TinyLoss(), Feed(TRAIN, VAL, None, config), config, RunFolder(tmp_path), None)
    sent = pickle.loads(pickle.dumps(learner))
    assert sent.ledger.progress is sent.progress
