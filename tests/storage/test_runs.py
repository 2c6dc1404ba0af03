"""Checkpoint files: exact, whole, and unable to run anything."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch

from gln.errors import GLNError
from gln.storage.models import load_weights, read_tensors, write_tensors
from gln.storage.runs import read_checkpoint, restore_optimizer, write_checkpoint
from tests.training.tiny import Payload, Tiny, tiny


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A checkpoint of a model that took three steps."""
    model = tiny()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        sum(parameter.square().sum() for parameter in model.parameters()).backward()  # type: ignore[union-attr]
        optimizer.step()
    progress = {"epoch": 2, "loss_sum": 0.1 + 0.2, "best": 1 / 3, "history": [{"epoch": 1}]}
    best = tiny(seed=1).state_dict()
    write_checkpoint(tmp_path / "c.safetensors", model.state_dict(), best, optimizer, progress)
    return tmp_path / "c.safetensors"


def test_a_checkpoint_is_read_back_to_the_bit(path: Path, tmp_path: Path) -> None:
    first = read_checkpoint(path)
    model = Tiny()
    load_weights(model, first.weights, path)
    optimizer = torch.optim.AdamW(model.parameters())
    restore_optimizer(optimizer, first.optimizer, path)
    again = tmp_path / "again.safetensors"
    write_checkpoint(again, model.state_dict(), first.best, optimizer, first.progress)
    assert again.read_bytes() == path.read_bytes()
    assert first.progress["loss_sum"] == 0.1 + 0.2
    assert first.optimizer[0]["step"] == 3
    assert all(torch.equal(first.best[key], value) for key, value in tiny(seed=1).state_dict().items())


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(GLNError, match=r"truncated or of another kind"):
        read_checkpoint(path)


def test_a_foreign_checkpoint_is_refused(path: Path) -> None:
    path.write_bytes(safetensors.torch.save({"a": torch.zeros(2)}))
    with pytest.raises(GLNError, match="gln did not write"):
        read_checkpoint(path)
    write_tensors(path, {}, {"format": "gln model 1"})
    with pytest.raises(GLNError, match="is not a 'gln checkpoint 2'"):
        read_checkpoint(path)
    write_tensors(path, {}, {"format": "gln checkpoint 3"})
    with pytest.raises(GLNError, match=r"'gln checkpoint 3', newer than this gln.*; update gln"):
        read_checkpoint(path)
    write_tensors(path, {}, {"format": "gln checkpoint 1"})
    with pytest.raises(GLNError, match="there is no progress"):
        read_checkpoint(path)


@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_a_pickle_in_place_of_a_checkpoint_does_not_run(path: Path, tmp_path: Path, how: str) -> None:
    payload = Payload(tmp_path / "owned")
    if how == "pickle":
        path.write_bytes(pickle.dumps(payload))
    else:
        torch.save({"weights": payload}, path)
    with pytest.raises(GLNError, match="of another kind"):
        read_checkpoint(path)
    assert not (tmp_path / "owned").exists()
    pickle.loads(pickle.dumps(payload))  # it would have
    assert (tmp_path / "owned").exists()


def test_weights_that_do_not_fit_are_named_with_both_shapes(path: Path) -> None:
    weights = read_checkpoint(path).weights
    with pytest.raises(GLNError, match=r"layer.0.bias is \[8\] in the file, \[5\] in the model"):
        load_weights(Tiny(width=5), weights, path)
    with pytest.raises(GLNError, match=r"scale is absent in the file, \[2\] in the model"):
        load_weights(Tiny(), {name: value for name, value in weights.items() if name != "scale"}, path)


def test_tied_weights_are_kept(tmp_path: Path) -> None:
    shared = torch.ones(3)
    write_tensors(tmp_path / "t", {"a": shared, "b": shared, "c": shared[1:]}, {"note": "é"})
    tensors, facts = read_tensors(tmp_path / "t")
    assert {name: len(value) for name, value in tensors.items()} == {"a": 3, "b": 3, "c": 2}
    assert facts == {"note": "é"}


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match="cannot be read"):
        read_tensors(tmp_path / "nothing")
