"""Two processes that share the batches learn what one process learns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from gln.errors import GLNError
from gln.training import fit, load
from tests.training.tiny import BrokenLoss, TinyLoss, graphs, tiny

# 9 graphs in batches of 4: the last batch has 1, so that the second process has none of it, nor of the one in val.
TRAIN, VAL = graphs(9), graphs(1, seed=1)
SETTINGS: dict[str, Any] = {"epochs": 3, "batch_size": 4, "lr": 0.05, "accelerator": "cpu", "progress": False}
TWO: dict[str, Any] = {"devices": 2, "strategy": "ddp_spawn"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK"):
        if name in os.environ:
            monkeypatch.delenv(name)


def test_two_processes_reach_the_loss_curve_of_one(tmp_path: Path) -> None:
    one, two = tiny(dropout=0.0), tiny(dropout=0.0)
    alone = fit(one, TRAIN, VAL, loss=TinyLoss(), run=tmp_path / "one", **SETTINGS)
    both = fit(two, TRAIN, VAL, loss=TinyLoss(), run=tmp_path / "two", **SETTINGS, **TWO)
    assert len(both.history) == 3
    for expected, row in zip(alone.history, both.history, strict=True):
        assert row["step"] == expected["step"]
        for name in ("train_loss", "val_loss", "val_iou", "threshold"):
            assert row[name] == pytest.approx(expected[name], abs=1e-5), name
    for expected, weight in zip(one.state_dict().values(), two.state_dict().values(), strict=True):
        assert torch.allclose(weight, expected, atol=1e-5)
    assert load(tmp_path / "two").threshold == two.threshold == both.threshold
    # A run may go on with another number of processes.
    more = fit(two, TRAIN, VAL, loss=TinyLoss(), run=tmp_path / "two", resume=True, **SETTINGS | {"epochs": 4})
    assert [row["epoch"] for row in more.history] == [1, 2, 3, 4]


def test_a_failure_in_one_process_is_one_sentence_from_all(tmp_path: Path) -> None:
    # Only the process that has the spoilt graph sees its loss; none may be left waiting.
    with pytest.raises(GLNError, match=r"^The loss is nan at step 1 \(epoch 1, batch 1: graphs"):
        fit(tiny(), TRAIN, VAL, loss=BrokenLoss(), run=tmp_path, **SETTINGS | {"batch_size": 2}, **TWO)
