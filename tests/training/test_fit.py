"""What a run does, leaves behind and says when it cannot go on."""

from __future__ import annotations

import csv
import errno
import json
import logging
import os
import signal
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation import EdgeScores
from gln.graphs import GraphBatch, make_graph
from gln.storage.models import load_model
from gln.storage.runs import read_checkpoint, restore_optimizer, write_checkpoint
from gln.training import FitConfig, Fresh, Interrupted, fit
from gln.training.loop import make_optimizer
from tests.training.test_data import Family, jitter
from tests.training.tiny import Tiny, TinyLoss, graphs, tiny

TRAIN, VAL = graphs(19), graphs(5, seed=1)
SETTINGS: dict[str, Any] = {
    "loss": TinyLoss(),
    "epochs": 3,
    "batch_size": 6,
    "lr": 0.05,
    "accelerator": "cpu",
    "progress": False,
    "checkpoint_minutes": 0,
}


def train(run: Path | None = None, model: Tiny | None = None, **settings: Any) -> tuple[Tiny, Any]:
    model = model or tiny()
    return model, fit(model, TRAIN, VAL, run=run, **SETTINGS | settings)


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    return all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiny, Any]:
    """The uninterrupted run that others must equal."""
    return train(tmp_path_factory.mktemp("whole") / "run")


def test_it_learns_and_leaves_the_model_at_its_best_epoch(whole: tuple[Tiny, Any]) -> None:
    model, result = whole
    losses = [row["train_loss"] for row in result.history]
    assert losses[-1] < losses[0]
    assert [row["epoch"] for row in result.history] == [1, 2, 3]
    assert result.best_iou == max(row["val_iou"] for row in result.history)
    best = [row for row in result.history if row["val_iou"] == result.best_iou]
    assert result.best_epoch == min(best, key=lambda row: row["val_loss"])["epoch"]
    assert f"{result.best_iou:.4f}" in str(result)
    # The stored threshold and weights reach the stored score on the validation graphs, through the public metric.
    metric, batch = EdgeScores(model.threshold), GraphBatch.from_graphs(VAL)
    with torch.no_grad():
        metric.update(model(batch).soft_adjacency(), batch.adj, batch.mask)
    assert not model.training
    assert float(metric.compute()["iou"]) == pytest.approx(result.best_iou, abs=1e-6)


def test_the_threshold_is_the_best_on_validation(whole: tuple[Tiny, Any]) -> None:
    model, result = whole
    batch = GraphBatch.from_graphs(VAL)
    with torch.no_grad():
        soft = model(batch).soft_adjacency()
    for threshold in (0.1, 0.3, 0.5, 0.7, 0.9):
        metric = EdgeScores(threshold)
        metric.update(soft, batch.adj, batch.mask)
        assert float(metric.compute()["iou"]) <= result.best_iou + 1e-6


def test_the_run_folder_holds_what_its_description_says(whole: tuple[Tiny, Any]) -> None:
    model, result = whole
    names = {entry.name for entry in result.run.iterdir()}
    files = {"config.json", "environment.json", "metrics.csv", "checkpoint.safetensors", "model.json"}
    assert names == files | {"model.safetensors", "tensorboard"}
    described = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text()
    assert all(f"`{name}" in described for name in names)
    config = json.loads((result.run / "config.json").read_text())
    assert config["fit"]["lr"] == 0.05
    assert config["model"] == {"name": "Tiny", "config": model.config}
    assert config["loss"] == {"name": "TinyLoss", "factor": 1.0}
    start = json.loads((result.run / "environment.json").read_text())["starts"][0]
    assert torch.__version__.startswith(
        start["versions"]["torch"]
    )  # which may lack the CUDA it was built for
    assert "commit" in start
    rows = list(csv.DictReader((result.run / "metrics.csv").open()))
    assert [float(row["val_iou"]) for row in rows] == [row["val_iou"] for row in result.history]
    assert list((result.run / "tensorboard").glob("events*"))
    loaded = load_model(result.run)
    assert same_weights(loaded, model)
    assert loaded.threshold == model.threshold


def test_same_seed_same_weights_and_the_callers_random_state_is_left_alone(whole: tuple[Tiny, Any]) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    again, result = train()
    assert torch.equal(torch.rand(3), expected)
    assert same_weights(again, whole[0])
    assert result.run is None
    other, _ = train(seed=1)
    assert not same_weights(other, whole[0])


def test_every_step_of_every_epoch_has_a_seed_of_its_own() -> None:
    seeds: list[int] = []

    def note(output: Any, batch: GraphBatch, model: Tiny) -> Tensor:
        if model.training:
            seeds.append(torch.initial_seed())
        return TinyLoss()(output, batch, model)

    train(loss=note)
    assert len(set(seeds)) == len(seeds) == 3 * 4
    train(loss=note)
    assert seeds[12:] == seeds[:12]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpus_random_state_is_left_alone_too() -> None:
    before = torch.cuda.get_rng_state()
    train(epochs=1, accelerator="gpu", devices=1)
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_an_interactive_session_is_told_that_no_other_process_can_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightning_fabric.connector._IS_INTERACTIVE", True)
    with pytest.raises(GLNError, match="2 devices in an interactive session"):
        train(tmp_path / "run", devices=2)
    assert not (tmp_path / "run").exists()


def test_it_is_quiet(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    lightning = logging.getLogger("lightning_fabric")
    lightning.addHandler(caplog.handler)
    level = lightning.level
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(epochs=1)
    lightning.removeHandler(caplog.handler)
    assert lightning.level == level
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
    assert not [str(warning.message) for warning in caught if "lightning" in warning.filename]
    train(epochs=1, progress=True)
    assert "epoch 1/1" in capfd.readouterr().err


def test_workers_change_nothing(whole: tuple[Tiny, Any]) -> None:
    assert same_weights(train(num_workers=1)[0], whole[0])


def test_fresh_graphs_noise_and_bfloat16_train(tmp_path: Path) -> None:
    settings = SETTINGS | {"precision": "bf16", "optimizer": "adam", "augment": jitter, "clip": None}
    result = fit(tiny(), Fresh(Family(), 10), VAL, run=tmp_path, **settings)
    assert [row["step"] for row in result.history] == [2, 4, 6]
    config = json.loads((tmp_path / "config.json").read_text())
    assert "count=10" in config["data"]["train"]["recipe"]


def test_a_recipe_is_checked() -> None:
    with pytest.raises(GLNError, match=r"train\(0\) is empty"):
        fit(tiny(), lambda epoch: [], VAL, **SETTINGS)


def test_early_stopping_waits_for_patience_and_survives_a_resume(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"lr": 0.0, "patience": 2, "epochs": 50}  # nothing ever improves
    _, result = train(tmp_path, **settings)
    assert len(result.history) == 3
    assert result.best_epoch == 1
    _, again = train(tmp_path, resume=True, **settings)
    assert again.history == result.history


def test_a_finished_run_can_be_made_longer_but_not_shorter(tmp_path: Path) -> None:
    train(tmp_path)
    _, longer = train(tmp_path, resume=True, epochs=4)
    assert [row["epoch"] for row in longer.history] == [1, 2, 3, 4]
    with pytest.raises(GLNError, match="epochs=4, now it is 3"):
        train(tmp_path, resume=True, epochs=3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "already holds a run"),
        ({"resume": True, "lr": 0.1}, r"fit.lr=0.05, now it is 0.1"),
        ({"resume": True, "model": tiny(width=5)}, r"model.config.width=8, now it is 5"),
        ({"resume": True, "loss": TinyLoss(2.0)}, r"loss.factor=1.0, now it is 2.0"),
        ({"resume": True, "augment": jitter}, r"augment=None, now it is {'name': 'jitter'}"),
    ],
)
def test_another_run_is_not_mixed_in(whole: tuple[Tiny, Any], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(GLNError, match=words):
        train(whole[1].run, **settings)


def test_other_graphs_are_not_mixed_in(whole: tuple[Tiny, Any]) -> None:
    with pytest.raises(GLNError, match="val graphs differ"):
        fit(tiny(), TRAIN, VAL[1:], run=whole[1].run, resume=True, **SETTINGS)


def test_mistakes_are_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match="without a run folder"):
        train(resume=True)
    with pytest.raises(GLNError, match="config dict"):
        fit(torch.nn.Linear(1, 1), TRAIN, VAL, **SETTINGS)
    with pytest.raises(GLNError, match="train is empty"):
        fit(tiny(), [], VAL, **SETTINGS)
    with pytest.raises(GLNError, match="pos differs between the graphs"):
        fit(tiny(), [TRAIN[0], make_graph(pos=[[0.0, 0.0, 0.0]])], VAL, **SETTINGS)
    with pytest.raises(GLNError, match="need a shared folder"):
        train(devices=2, strategy="ddp")
    with pytest.raises(GLNError, match="accelerator='abacus'"):
        train(accelerator="abacus")
    assert not list(tmp_path.iterdir())


@dataclass
class At:
    """Does something in the loss of one step; the 19 graphs make steps of 6, 6, 6 and 1, and 5 validation graphs 1."""

    step: int
    act: Any
    calls: Iterator[int] = field(default_factory=lambda: iter(range(1, 1000)))

    def __call__(self, output: Any, batch: GraphBatch, model: Tiny) -> Tensor:
        losses = TinyLoss()(output, batch, model)
        if not model.training:
            return losses
        return self.act(losses) if next(self.calls) == self.step else losses


@pytest.mark.parametrize("step", [1, 6, 12])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_names_its_step_and_batch(tmp_path: Path, step: int, value: float) -> None:
    batch = (step - 1) % 4 + 1
    words = rf"loss is {value} at step {step} \(epoch {(step + 3) // 4}, batch {batch}: graphs \d+"
    with pytest.raises(GLNError, match=words):
        train(tmp_path, loss=At(step, lambda losses: losses * value))
    kept = read_checkpoint(tmp_path / "checkpoint.safetensors")
    assert kept.progress["step"] < step
    assert all(weight.isfinite().all() for weight in kept.weights.values())


def test_the_best_epoch_outlives_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    constant: dict[str, Any] = {"schedule": "constant", "warmup": 0}
    expected, _ = train(epochs=1, **constant)
    spoil = At(6, lambda losses: losses * float("nan"))
    with pytest.raises(GLNError, match="step 6"):
        train(tmp_path, loss=spoil, checkpoint_minutes=60, **constant)
    assert same_weights(load_model(tmp_path), expected)


def test_a_gradient_that_is_not_finite_is_told_too(tmp_path: Path) -> None:
    def root(losses: Tensor) -> Tensor:
        return losses + (losses * 0).sqrt()  # the loss is finite, its gradient 0/0

    with pytest.raises(GLNError, match="gradient norm is nan at step 2"):
        train(tmp_path, loss=At(2, root))


@pytest.mark.parametrize("step", [2, 4, 5])
def test_ctrl_c_keeps_everything_and_says_how_to_go_on(
    tmp_path: Path, whole: tuple[Tiny, Any], step: int
) -> None:
    def interrupt(losses: Tensor) -> Tensor:
        os.kill(os.getpid(), signal.SIGINT)
        return losses

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match=rf"resume it from {tmp_path} with --resume"):
        train(tmp_path, loss=_named(At(step, interrupt)), checkpoint_minutes=60)
    assert signal.getsignal(signal.SIGINT) is before
    assert read_checkpoint(tmp_path / "checkpoint.safetensors").progress["step"] in (step, step + 1)
    resumed, result = train(tmp_path, model=tiny(seed=9), resume=True)
    assert same_weights(resumed, whole[0])
    assert _without_time(result.history) == _without_time(whole[1].history)


def test_ctrl_c_twice_obeys_at_once(tmp_path: Path) -> None:
    def interrupt(losses: Tensor) -> Tensor:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1.1)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not reached")

    with pytest.raises(Interrupted, match=r"resume it from .* with --resume"):
        train(tmp_path, loss=_named(At(3, interrupt)))
    assert read_checkpoint(tmp_path / "checkpoint.safetensors").progress["step"] < 3


def test_a_full_disk_keeps_the_last_checkpoint(
    tmp_path: Path, whole: tuple[Tiny, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gln.storage import models

    real, left = models.write_atomically, iter(range(5))

    def write(path: Path, data: bytes) -> None:
        if path.name == "checkpoint.safetensors" and next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr(models, "write_atomically", write)
    with pytest.raises(GLNError, match=r"disk is full: .* free some space and resume"):
        train(tmp_path)
    monkeypatch.undo()
    assert 0 < read_checkpoint(tmp_path / "checkpoint.safetensors").progress["step"] < 12
    assert same_weights(train(tmp_path, resume=True)[0], whole[0])


def test_a_spoilt_checkpoint_is_one_sentence_on_resume(tmp_path: Path) -> None:
    train(tmp_path, epochs=1)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(GLNError, match=r"checkpoint\.safetensors is not a complete safetensors file"):
        train(tmp_path, epochs=1, resume=True)


def test_a_trained_model_without_its_checkpoint_is_not_trained_over(tmp_path: Path) -> None:
    train(tmp_path, epochs=1)
    (tmp_path / "checkpoint.safetensors").unlink()
    before = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(GLNError, match="holds a trained model but no checkpoint"):
        train(tmp_path, epochs=1, resume=True)
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_the_kind_of_device_decides_on_fused_steps_not_the_one_that_a_run_began_on(tmp_path: Path) -> None:
    model = tiny()
    begun = torch.optim.AdamW(model.parameters(), fused=True)  # as on a GPU
    sum(parameter.square().sum() for parameter in model.parameters()).backward()  # type: ignore[union-attr]
    begun.step()
    write_checkpoint(tmp_path / "c.safetensors", model.state_dict(), model.state_dict(), begun, {"step": 1})
    here, path = make_optimizer(model, FitConfig()), tmp_path / "c.safetensors"
    restore_optimizer(here, read_checkpoint(path).optimizer, path)
    assert begun.param_groups[0]["fused"] is True
    assert here.param_groups[0]["fused"] is False
    for parameter in model.parameters():
        for name, value in begun.state[parameter].items():
            assert here.state[parameter][name].equal(value)


def _named(loss: At) -> Any:
    """Under the name of the plain loss, which a run compares when it is resumed."""

    @dataclass(frozen=True)
    class TinyLoss:
        factor: float = 1.0

        def __call__(self, *args: Any) -> Tensor:
            return loss(*args)

    return TinyLoss()


def _without_time(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in history]
