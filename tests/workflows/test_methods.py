"""One name for everything that can be trained, and what a baseline leaves in its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import gln
from gln.baselines import BASELINES, Copy, Neighbours, baseline, save_baseline
from gln.baselines.base import MOVED
from gln.errors import GLNError
from gln.graphs import make_graph
from gln.graphs.record import Graph
from gln.models import GLN
from gln.training import Interrupted
from gln.workflows.methods import load_for
from gln.workflows.train import find_method, fit_baseline, scale_features
from reproduction.baselines import GraphRNN
from tests.baselines.test_common import TINY_RNN

GRAPHS = gln.family("community", size=4).sample(8, seed=0)
SMALL = {"width": 8, "pair_width": 8, "steps": 1}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("gln:width=8", ("GLN:width=8", False)),
        ("PAPERGLN", ("PaperGLN", False)),
        ("set2graph:size=small", ("Set2Graph:size=small", False)),
        ("GraphRNN:lr=0.01,minutes=none", ("graphrnn:lr=0.01,minutes=none", True)),
        ("neighbours", ("neighbours", True)),
    ],
)
def test_names_are_found_whatever_their_case(spec: str, found: tuple[str, bool]) -> None:
    assert find_method(spec) == found
    if found[1]:
        assert baseline(spec) == baseline(found[0])


def test_an_unknown_name_is_told_with_the_nearest_or_with_all_that_are_known() -> None:
    for asked, near in (
        ("PaperGNN:width=3", "PaperGLN"),
        ("set2grap", "Set2Graph"),
        ("neighbors", "neighbours"),
    ):
        with pytest.raises(GLNError, match=rf"no model '\w+'; did you mean {near}\?"):
            find_method(asked)
    with pytest.raises(GLNError, match=r"no model 'xyz'; choose from GLN, .*Set2Graph, constant, copy"):
        find_method("xyz")


@pytest.mark.parametrize("name", MOVED)
def test_a_baseline_that_has_moved_is_answered_with_where_it_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_baseline(Copy().fit(GRAPHS), tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(facts | {"baseline": name}))
    monkeypatch.delitem(BASELINES, name)  # it is there because this test imports reproduction.baselines
    for asks in (lambda: find_method(f"{name.upper()}:seed=3"), lambda: gln.load(tmp_path)):
        with pytest.raises(GLNError, match=rf"^{name} has moved .* python -m reproduction\.baselines"):
            asks()


def test_what_is_loaded_can_do_what_it_is_loaded_for(tmp_path: Path) -> None:
    fit_baseline(Copy(), GRAPHS, [], tmp_path / "copy")
    fit_baseline(Neighbours(), GRAPHS, [], tmp_path / "near")
    gln.save(GLN(**SMALL), tmp_path / "gln")
    with pytest.raises(GLNError, match=r"holds copy, which samples new graphs .* see gln generate\."):
        load_for("predict", tmp_path / "copy")
    with pytest.raises(GLNError, match=r"holds neighbours, which predicts graphs .* see gln evaluate"):
        load_for("sample", tmp_path / "near")
    assert isinstance(load_for("sample", tmp_path / "copy"), Copy)
    assert isinstance(load_for("predict", tmp_path / "near"), Neighbours)
    for purpose in ("predict", "sample"):
        assert isinstance(load_for(purpose, tmp_path / "gln"), GLN)  # type: ignore[arg-type]


def test_a_run_is_not_overwritten_and_not_mixed_with_another(tmp_path: Path) -> None:
    fit_baseline(Neighbours(), GRAPHS, [], tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before.keys() == {"config.json", "model.json", "model.safetensors"}
    with pytest.raises(GLNError, match="already holds a run; resume it with --resume"):
        fit_baseline(Neighbours(), GRAPHS, [], tmp_path)
    for other, graphs, seed, words in (
        (Neighbours(most=3), GRAPHS, 0, "began with most=32, now it is 3"),
        (Copy(), GRAPHS, 0, "began with baseline='neighbours', now it is 'copy'"),
        (Neighbours(), GRAPHS[1:], 0, "The graphs differ"),
        (Neighbours(), GRAPHS, 1, "began with seed=0, now it is 1"),
    ):
        with pytest.raises(GLNError, match=words):
            fit_baseline(other, graphs, [], tmp_path, seed=seed, resume=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    fit_baseline(Neighbours(), GRAPHS, [], tmp_path, resume=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_saved_model_is_not_overwritten_either(tmp_path: Path) -> None:
    gln.save(GLN(**SMALL), tmp_path)
    with pytest.raises(GLNError, match="already holds a run"):
        fit_baseline(Copy(), GRAPHS, [], tmp_path)


def test_a_fit_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    bare = [make_graph(edges=[[0, 1]], num_nodes=3)]
    for rule in ("knn", "gabriel"):
        with pytest.raises(GLNError, match="neither pos nor x"):
            fit_baseline(Neighbours(rule=rule), bare, [], tmp_path / "run")
    with pytest.raises(GLNError, match="has an edge"):
        fit_baseline(GraphRNN(), [make_graph(num_nodes=3)], [], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ctrl_c_says_how_to_go_on_where_something_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reproduction.baselines.graphrnn.GraphRNN._train", interrupt)
    monkeypatch.setattr(Copy, "fit", interrupt)
    with pytest.raises(Interrupted, match="fitting was interrupted; resume it from"):
        fit_baseline(baseline(f"graphrnn:{TINY_RNN}"), GRAPHS, [], tmp_path / "rnn")
    with pytest.raises(KeyboardInterrupt) as stop:
        fit_baseline(Copy(), GRAPHS, [], tmp_path / "copy")
    assert not str(stop.value)
    assert not (tmp_path / "copy").exists()


def test_features_are_scaled_by_gln_alone_and_that_is_said() -> None:
    rows = torch.tensor([[1e5, 0.0], [2e5, 1], [3e5, 0]])
    train = [Graph(pos=torch.rand(3, 2), x=rows)]
    model = GLN(2, 2, **SMALL)
    words = scale_features(model, train)
    assert words is not None
    assert words.startswith("columns of x scaled to mean 0 and deviation 1")
    assert words.endswith("in the model: 1; columns of zeros and ones, unchanged: 1")
    assert model.config["x_mean"] == [2e5, 0]
    assert scale_features(torch.nn.Linear(2, 2), train) is None
    assert scale_features(GLN(0, 2, **SMALL), [Graph(pos=torch.rand(3, 2))]) is None
    binary = GLN(1, 2, **SMALL)
    assert scale_features(binary, [Graph(pos=torch.rand(3, 2), x=rows[:, 1:])]) is None
    assert binary.config["x_mean"] is None
