"""Baselines on the command line: each is trained, judged and used as a model is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gln
from gln.baselines import BASELINES
from gln.storage.runs import read_checkpoint
from reproduction.baselines import GraphRNN, graphrnn
from tests.baselines.test_common import SMALL, TINY_RNN
from tests.commands.test_train import write_graphs
from tests.conftest import run

FAMILY = "community:size=4,order=ordered"
DATA = [FAMILY, "--count", "15"]


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_each_is_trained_scored_and_used_and_its_run_is_kept(
    name: str, here: Path, capsys: pytest.CaptureFixture
) -> None:
    words = ["train", *DATA, "-o", "run", "--model", SMALL[name][-1], "--no-progress"]
    assert run(*words) == 0
    out = capsys.readouterr().out
    assert "11 / 1 / 3 graphs to train / validate / test" in out
    assert BASELINES[name].fitted in out
    assert "3 reference and 3 predicted graphs" in out
    before = {path.name: path.read_bytes() for path in Path("run").iterdir()}
    assert run(*words) == 2
    assert "already holds a run; resume it with --resume" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in Path("run").iterdir()} == before
    assert run(*words, "--resume") == 0
    assert capsys.readouterr().out == out

    evaluate = ["evaluate", "run", "--on", FAMILY, "--count", "4"]
    predict = ["predict", "run", "points.csv", "-o", "edges.csv"]
    generate = ["generate", "run", "-o", "drawn.safetensors", "--count", "4", "--against", FAMILY]
    Path("points.csv").write_text("x,y\n" + "".join(f"{i},{i * i}\n" for i in range(8)))
    if BASELINES[name].kind == "predict":
        assert "dice (F1) ↑" in out
        assert run(*evaluate) == 0
        assert "dice (F1) ↑" in capsys.readouterr().out
        assert run(*predict) == 0
        assert "in 1 graph" in capsys.readouterr().out
        refused, other = [generate], "gln evaluate and gln predict"
    else:
        assert "distinct graphs ↑" in out
        assert "floor graphs and the reference" in out
        assert run(*generate) == 0
        assert "novel graphs ↑" in capsys.readouterr().out
        assert len(gln.graphs.load_graphs(Path("drawn.safetensors"))) == 4
        assert run("generate", "run", "-o", "drawn.png", "--count", "2") == 0
        refused, other = [evaluate, predict], "see gln generate"
    capsys.readouterr()
    for words in refused:
        assert run(*words) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"gln: run holds {name}, which")
        assert other in error
        assert error.count("\n") == 1


def test_graphrnn_goes_on_where_it_stood(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    words = ["train", *DATA, "--no-progress", "--model", f"GraphRNN:{TINY_RNN}"]
    assert run(*words, "-o", "whole") == 0
    monkeypatch.setattr(graphrnn, "CHECKPOINT_SECONDS", -1)  # after every epoch
    plain, done = GraphRNN._epoch, []

    def killed(*args):  # type: ignore[no-untyped-def]
        done.append(args[4])
        if done == [0, 1]:
            raise KeyboardInterrupt
        return plain(*args)

    monkeypatch.setattr(GraphRNN, "_epoch", killed)
    capsys.readouterr()
    assert run(*words, "-o", "run") == 130
    assert "fitting was interrupted; resume it from run with --resume" in capsys.readouterr().err
    assert run(*words, "-o", "run", "--resume") == 0
    assert done == [0, 1, 1]
    assert len(read_checkpoint(Path("run/checkpoint.safetensors")).progress["history"]) == 2
    assert Path("run/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
    longer = [word.replace("epochs=2", "epochs=3") for word in words]
    assert run(*longer, "-o", "run", "--resume") == 0
    assert done == [0, 1, 1, 2]


def test_set2graph_is_a_model_by_any_case(here: Path, capsys: pytest.CaptureFixture) -> None:
    quick = ["--epochs", "1", "--accelerator", "cpu", "--no-progress"]
    assert run("train", *DATA, "-o", "run", "--model", "set2graph:size=small", *quick) == 0
    assert "Set2Graph, " in capsys.readouterr().out
    assert run("evaluate", "run", "--on", FAMILY, "--count", "4") == 0
    assert run("generate", "run", "-o", "drawn.png", "--count", "2") == 0


def test_files_are_as_good_as_a_family_and_a_recipe_repeats_the_run(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    write_graphs(here / "data", 12)
    words = ["train", "data", "-o", "run", "--model", "Neighbours:rule=radius", "--recipe", "recipe.json"]
    assert run(*words) == 0
    out = capsys.readouterr().out
    assert "split       9 / 1 / 2 graphs" in out
    assert "model       neighbours:rule=radius\n" in out
    assert "batch size" not in out
    assert json.loads(Path("recipe.json").read_text())["model"] == "neighbours:rule=radius"
    assert run("train", "data", "-o", "again", "--from-recipe", "recipe.json") == 0
    assert Path("run/model.safetensors").read_bytes() == Path("again/model.safetensors").read_bytes()
    assert run("evaluate", "run", "--on", "data") == 0
    assert run("predict", "run", "data", "-o", "out.csv") == 0
    assert "mean over 12 graphs that came with true edges" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "neighbors"], "no model 'neighbors'"),
        (["--model", "copy:seed=3"], "copy has no setting 'seed'"),
        (["--model", "neighbours:rule=near"], "rule='near'"),
        (["--model", "copy", "--epochs", "3"], "--epochs, which is for networks"),
        (["--model", "copy", "--edge-loss", "plain"], "--edge-loss, which is for networks"),
        (["--model", "copy", "--every-step", "True"], "--every-step, which is for networks"),
        (["--model", "constant"], "constant needs graphs of the same size"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_run_begins(
    here: Path, capsys: pytest.CaptureFixture, words: list[str], message: str
) -> None:
    assert run("train", "delaunay:points=5-9", "--count", "15", "-o", "run", *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(here.iterdir())


def test_list_tells_kind_and_fitting_of_every_baseline_and_names_the_models(
    capsys: pytest.CaptureFixture,
) -> None:
    assert run("list") == 0
    out = " ".join(capsys.readouterr().out.split())
    for name, cls in BASELINES.items():
        kind = "predictor" if cls.kind == "predict" else "sampler"
        summary = " ".join(cls.summary().replace("``", "").split())
        assert f"{name} {summary} {kind}; {cls.fitted}" in out
    for word in ("GLN Predicts", "PaperGLN The paper's", "Set2Graph DeepSets", "rule=knn", "size=published"):
        assert word in out
    assert "in_channels" not in out
