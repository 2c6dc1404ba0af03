"""Settings: the schedule, their names, and that reading them is instant."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from gln.errors import GLNError
from gln.training.config import FitConfig


def test_the_cosine_rises_over_the_warm_up_and_falls_to_nothing() -> None:
    config = FitConfig(epochs=10, warmup=0.25, lr=0.1)
    rates = [config.lr_at(epoch, batch, 4) for epoch in range(10) for batch in range(4)]
    top = rates.index(max(rates))
    assert top in (9, 10)  # 2.5 epochs of 4 batches
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert 0 < rates[-1] < 1e-3 * config.lr
    assert max(rates) <= config.lr


def test_constant_is_constant_after_the_warm_up() -> None:
    config = FitConfig(epochs=2, schedule="constant", warmup=0.5, lr=0.1)
    rates = [config.lr_at(epoch, batch, 5) for epoch in range(2) for batch in range(5)]
    assert set(rates[5:]) == {0.1}
    assert rates[0] == pytest.approx(0.01)


def test_no_warm_up_and_only_warm_up_are_fine() -> None:
    assert FitConfig(warmup=0, schedule="constant").lr_at(0, 0, 1) == FitConfig().lr
    assert FitConfig(epochs=1, warmup=1, lr=1.0).lr_at(0, 0, 1) == 0.5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"epochs": "20"}, "epochs='20'; expected a whole number"),
        ({"batch_size": 2.5}, "batch_size=2.5; expected a whole number"),
        ({"seed": 0.5}, "seed=0.5; expected a whole number"),
        ({"lr": "fast"}, "lr='fast'; expected a number"),
        ({"lr": float("nan")}, "lr=nan"),
        ({"warmup": 5.0}, "share of all epochs"),
        ({"clip": -1.0}, "clip=-1"),
        ({"clip": 0}, "None means never to clip"),
        ({"optimizer": "sgd"}, "adamw, adam"),
        ({"precision": "16"}, "32, bf16"),
        ({"strategy": "fsdp"}, "ddp"),
        ({"strategy": "ddp_spawn"}, "choose from auto, ddp, ddp_find_unused_parameters_true"),
        ({"seed": -1}, "seed=-1; expected a whole number from 0"),
        ({"seed": 2**32}, "seed=4294967296; expected a whole number from 0 to 4294967295"),
        ({"learning_rate": 1.0}, "no setting 'learning_rate'; choose from epochs"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(GLNError, match=words):
        FitConfig().changed(**settings)


def test_numbers_of_numpy_are_as_good() -> None:
    config = FitConfig(epochs=np.int64(3), lr=np.float32(0.5))  # type: ignore[arg-type]
    assert config == FitConfig(epochs=3, lr=0.5)
    assert type(config.epochs) is int
    assert type(config.lr) is float


def test_settings_load_without_torch() -> None:
    code = "import sys, gln.training; gln.training.FitConfig(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
