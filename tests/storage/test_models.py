"""Saved models: whole, honest, and unable to run anything."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gln import GLN, PaperGLN
from gln.errors import GLNError
from gln.models.set2graph import Set2Graph
from gln.storage import models as saved
from gln.storage.models import load_model, save, shipped
from tests.training.tiny import Payload, tiny


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = tiny(width=4)
    model.threshold = 0.3
    return save(model, tmp_path / "deep" / "model")


def change(folder: Path, **facts: Any) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def test_a_model_comes_back_whole(folder: Path) -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    model = load_model(folder)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.config == {"channels": 2, "width": 4, "dropout": 0.1}
    assert model.threshold == 0.3
    assert not model.training
    assert all(map(torch.equal, model.state_dict().values(), tiny(width=4).state_dict().values()))
    for path in (str(folder), folder / "model.json", folder / "model.safetensors"):
        assert load_model(path).threshold == 0.3


def test_what_is_saved_again_is_the_same(folder: Path, tmp_path: Path) -> None:
    save(load_model(folder), tmp_path)
    assert json.loads((tmp_path / "model.json").read_text()) == json.loads(
        (folder / "model.json").read_text()
    )


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
def test_a_pickle_in_place_of_a_model_does_not_run(folder: Path, name: str, tmp_path: Path) -> None:
    (folder / name).write_bytes(pickle.dumps(Payload(tmp_path / "owned")))
    with pytest.raises(GLNError, match="of another kind"):
        load_model(folder)
    torch.save(Payload(tmp_path / "owned"), folder / name)
    with pytest.raises(GLNError, match="of another kind"):
        load_model(folder)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
def test_a_truncated_model_is_refused(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(GLNError, match=f"{name} is not .*complete"):
        load_model(folder)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"config": {"width": 7}}, r"layer.0.bias is \[4\] in the file, \[7\] in the model"),
        ({"config": {"depth": 7}}, "depth is not known; there are"),
        ({"model": "os.system"}, "names the model class 'os.system', but known are GLN, GraphFlow, PaperGLN"),
        ({"format": "other"}, "is not a 'gln model 1'"),
        (
            {"format": "gln model 12"},
            "is a 'gln model 12', newer than this gln, which reads 'gln model 1'; update gln",
        ),
        ({"format": "gln learner 1"}, "is not a 'gln model 1'"),
        ({"weights_sha256": ""}, "not the file that the model.json beside it was written for"),
    ],
)
def test_a_description_that_does_not_match_is_refused(
    folder: Path, facts: dict[str, Any], words: str
) -> None:
    change(folder, **facts)
    with pytest.raises(GLNError, match=words):
        load_model(folder)


def test_a_model_of_an_older_format_loads(folder: Path) -> None:
    change(folder, format="gln model 0")
    assert load_model(folder).threshold == 0.3


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match=r"holds no model\.json"):
        load_model(tmp_path)


def test_shipped_models_are_found_by_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "SHIPPED", tmp_path / "shipped")
    with pytest.raises(
        GLNError, match=r"no folder 'rings' and no shipped model of that name; choose from none"
    ):
        load_model("rings")
    shutil.copytree(folder, tmp_path / "shipped" / "rings")
    assert shipped() == ["rings"]
    assert load_model("rings").threshold == 0.3
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rings").mkdir()  # a folder of other things does not hide it
    assert load_model("rings").threshold == 0.3
    with pytest.raises(GLNError, match="of that name; choose from rings"):
        load_model("lines")


def test_only_models_are_saved(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match="config dict"):
        save(torch.nn.Linear(1, 1), tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        GLN(in_channels=np.int64(3), pos_channels=0, width=np.int32(8), pair_width=4, kernels=2, steps=1),
        Set2Graph(in_channels=np.int64(3), pos_channels=0, size="small"),
        PaperGLN(nodes=np.int64(4), in_channels=np.int64(3), width=2, steps=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_width_read_from_an_array_is_saved_as_a_plain_number(
    model: torch.nn.Module, tmp_path: Path
) -> None:
    assert load_model(save(model, tmp_path)).config == model.config
