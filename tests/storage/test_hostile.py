"""Models, checkpoints, runs and recipes from strangers: refused in one sentence, soon and in little memory.

The hostile files are built by rule: every value in every file of facts is replaced by values of every other type.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from benchmarks import fuzz_targets
from benchmarks.fuzz_targets import BASE, _network, _places, prepare
from gln.adapters.sklearn import GraphLearner
from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.inference.generate import generate_graphs
from gln.inference.predict import predict_graphs
from gln.models import GLN
from gln.storage.facts import read_facts, write_json
from gln.storage.models import _sha256, load_model, load_weights, read_tensors, save, write_tensors
from gln.storage.runs import CHECKPOINT, RunFolder, read_checkpoint, restore_optimizer
from gln.training.config import FREE
from gln.training.progress import resumed
from gln.viewing.reports import report_content
from gln.workflows.judge import RunReport
from gln.workflows.methods import load
from gln.workflows.recipe import Recipe
from gln.workflows.runs import learned_from, read_run

DEEP = b"[" * 100_000 + b"]" * 100_000
SMALL = fuzz_targets.SMALL
TYPES: list[Any] = [None, True, "x", -1, 10**30, 0.5, [], {}]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    threads, path = torch.get_num_threads(), tmp_path_factory.mktemp("hostile")
    prepare(path)
    torch.set_num_threads(threads)
    return path


def hostile(facts: Any) -> Iterator[Any]:
    """``facts`` with one value gone or replaced by each of ``TYPES``, for every value in it."""
    text = json.dumps(facts)
    for number in range(len(list(_places(facts)))):
        for value in (*TYPES, "gone"):
            changed = json.loads(text)
            holder, key = list(_places(changed))[number]
            if value == "gone":
                del holder[key]
            else:
                holder[key] = value
            yield changed


def survives(call: Callable[[], object]) -> None:
    """Whatever it reads, it works or raises one sentence, soon."""
    start = time.process_time()
    words = ""
    try:
        call()
    except GLNError as error:
        words = str(error)
    assert "\n" not in words
    assert time.process_time() - start < 5


@pytest.mark.parametrize("name", ["GLN", "scaled", "PaperGLN", "neighbours"])
def test_a_model_with_any_other_value(name: str, place: Path) -> None:
    folder, good = place / name, BASE[name]["model.json"]
    points = Graph(5, pos=fuzz_targets.POINTS)

    def use() -> None:
        model = load(folder)
        predict_graphs(model, [points])
        if name == "GLN":
            generate_graphs(model, 1)

    try:
        for facts in hostile(json.loads(good)):
            (folder / "model.json").write_text(json.dumps(facts))
            survives(use)
    finally:
        (folder / "model.json").write_bytes(good)


RUN = ["config.json", "environment.json", "data.json", "recipe.json", "model.json"]


@pytest.mark.parametrize("name", RUN)
def test_a_run_with_any_other_value(name: str, place: Path) -> None:
    run, good, config = place / "run", BASE["run"][name], json.loads(BASE["run"]["config.json"])
    before = {other: data for other, data in BASE["run"].items() if other != name}
    try:
        for facts in hostile(json.loads(good)):
            for other, data in before.items():
                (run / other).write_bytes(data)
            (run / name).write_text(json.dumps(facts))
            survives(lambda: report_content(RunReport(read_run(run))))
            survives(lambda: learned_from(run))
            survives(lambda: Recipe.load(run / "recipe.json"))
            if name in ("config.json", "environment.json"):
                survives(lambda: RunFolder(run).begin(config, resume=True, free=FREE))
    finally:
        for other, data in BASE["run"].items():
            (run / other).write_bytes(data)


def test_a_checkpoint_with_any_other_value(place: Path, tmp_path: Path) -> None:
    tensors, facts = read_tensors(place / "run" / "checkpoint.safetensors")
    path = tmp_path / "checkpoint.safetensors"

    def use() -> None:
        state, (network, optimizer) = read_checkpoint(path), _network()
        resumed(state.progress, path)
        load_weights(network, state.weights, path)
        restore_optimizer(optimizer, state.optimizer, path)

    for changed in hostile(facts):
        write_tensors(path, tensors, changed)
        survives(use)
    for name in tensors:
        for wrong in (torch.zeros(7), torch.zeros(()), torch.zeros(2, 1, dtype=torch.int32)):
            write_tensors(path, tensors | {name: wrong}, facts)
            survives(use)


def test_a_learner_with_any_other_value(tmp_path: Path) -> None:
    sets = [torch.rand(4, 2).numpy() for _ in range(2)]
    learner = GraphLearner(epochs=1, width=4, pair_width=4, steps=1).fit(sets, [[[0, 1]], [[1, 2]]])
    folder = learner.save(tmp_path / "learner")
    facts = read_facts(folder / "model.json")
    for changed in hostile({"learner": facts["learner"]}):
        write_json(folder / "model.json", facts | changed)
        survives(lambda: GraphLearner.load(folder).predict(sets))


def test_one_flipped_bit_of_a_checkpoint_is_noticed(place: Path, tmp_path: Path) -> None:
    good, path = BASE["checkpoint"]["checkpoint.safetensors"], tmp_path / "checkpoint.safetensors"
    expected = read_checkpoint(place / "run" / "checkpoint.safetensors")
    for bit in range(0, 8 * len(good), 29):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        try:
            got = read_checkpoint(path)
        except GLNError:
            continue
        assert got.progress == expected.progress  # é for its escape, E for e in a number: the same facts
        for ours, theirs in ((got.weights, expected.weights), (got.best, expected.best)):
            assert all(ours[name].equal(theirs[name]) for name in theirs | ours)


def test_a_checkpoint_without_its_seal_is_refused_unless_it_is_an_old_one(
    place: Path, tmp_path: Path
) -> None:
    tensors, facts = read_tensors(place / "run" / "checkpoint.safetensors")
    path = tmp_path / "checkpoint.safetensors"
    for name, refused in ((CHECKPOINT, True), ("gln checkpoint 1", False)):
        words = json.dumps(facts | {"format": name})
        path.write_bytes(safetensors.torch.save(tensors, {"gln": words}))
        if refused:
            with pytest.raises(GLNError, match="is damaged"):
                read_checkpoint(path)
        else:
            assert read_checkpoint(path).progress == facts["progress"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *[("width", 8000), ("pair_width", 8000), ("steps", 1000), ("steps", 10**5), ("kernels", 1)],
        *[("candidates", 10**9), ("in_channels", 10**6), ("index_channels", 10**6), ("proposals", 10**6)],
    ],
)
@pytest.mark.parametrize("shared", [False, True])
def test_a_network_is_built_only_if_it_fits_its_weights(
    setting: str, value: int, shared: bool, tmp_path: Path
) -> None:
    save(GLN(**SMALL, shared=shared), tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    facts["config"][setting] = value
    (tmp_path / "model.json").write_text(json.dumps(facts))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    if shared and value == 1000:
        load_model(tmp_path)
    else:
        with pytest.raises(GLNError):
            load_model(tmp_path)
    assert time.process_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # KiB


def test_the_papers_network_is_built_only_if_it_fits_its_weights(place: Path, tmp_path: Path) -> None:
    for name, data in BASE["PaperGLN"].items():
        (tmp_path / name).write_bytes(data)
    for variant in ("equations", "released"):
        for nodes in (100, 30_000):
            facts = json.loads(BASE["PaperGLN"]["model.json"])
            facts["config"] |= {"nodes": nodes, "variant": variant}
            (tmp_path / "model.json").write_text(json.dumps(facts))
            survives(lambda: load_model(tmp_path))


@pytest.mark.parametrize("label", ["I32", "U32", "BOOL", "I64"])
def test_weights_of_another_type_are_refused(label: str, tmp_path: Path) -> None:
    save(GLN(**SMALL), tmp_path)
    weights = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load(weights.read_bytes())
    kind = {"I32": torch.int32, "U32": torch.uint32, "BOOL": torch.bool, "I64": torch.int64}[label]
    write_tensors(
        weights, {name: value.to(kind) for name, value in tensors.items()}, {"format": "gln model 1"}
    )
    facts = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(facts | {"weights_sha256": _sha256(weights)}))
    with pytest.raises(GLNError, match="of torch"):
        load_model(tmp_path)


@pytest.mark.parametrize("threshold", ["NaN", "Infinity", "5", "-0.1", "null", '"0.5"', "true", "1e999"])
def test_a_threshold_is_a_probability(threshold: str, tmp_path: Path) -> None:
    save(GLN(**SMALL), tmp_path)
    path = tmp_path / "model.json"
    path.write_text(path.read_text().replace('"threshold": 0.5', f'"threshold": {threshold}'))
    with pytest.raises(GLNError):
        load_model(tmp_path)


SPECIAL = [
    "pipe",
    "zeros",
    "folder",
    "link to nothing",
    "circle",
    "empty",
    "deep",
    "deeper",
    "huge",
    "not UTF-8",
]


def make_special(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind in ("zeros", "link to nothing", "circle"):
        path.symlink_to({"zeros": "/dev/zero", "circle": path.name}.get(kind, "nothing"))
    else:
        path.write_bytes(
            {"deep": DEEP, "deeper": b'{"a":' * 100_000, "not UTF-8": b'{"a": "\xff"}'}.get(kind, b"")
        )
        if kind == "huge":
            os.truncate(path, 2**40)


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize(
    "name", ["model.json", "model.safetensors", "checkpoint.safetensors", *RUN[:4], "metrics.csv"]
)
def test_special_files_in_a_run_folder(name: str, kind: str, place: Path, tmp_path: Path) -> None:
    for other in (place / "run").iterdir():
        if other.is_file():
            (tmp_path / other.name).write_bytes(other.read_bytes())
    for other, data in BASE["run"].items():
        (tmp_path / other).write_bytes(data)
    make_special(tmp_path / name, kind)
    config = json.loads(BASE["run"]["config.json"])
    survives(lambda: load(tmp_path))
    survives(lambda: report_content(RunReport(read_run(tmp_path))))
    survives(lambda: Recipe.load(tmp_path / "recipe.json"))
    survives(lambda: read_checkpoint(tmp_path / "checkpoint.safetensors"))
    survives(lambda: RunFolder(tmp_path).begin(config, resume=True, free=FREE))
