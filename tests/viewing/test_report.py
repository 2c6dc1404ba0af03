"""The report of a run shows what the run folder says and what evaluating gives, number for number."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gln
from gln.baselines import BASELINES
from gln.baselines.neighbours import load_rules
from gln.errors import GLNError
from gln.evaluation import mmd
from gln.graphs import make_graph
from gln.training.config import FitConfig
from gln.viewing import View
from gln.viewing.reports import GALLERY, pack_gallery, write_report
from gln.workflows.divide import TrainValTest
from gln.workflows.judge import Gallery, Judged, RunReport, best_to_worst, judge, judge_run
from gln.workflows.runs import read_run
from gln.workflows.training_data import family_data
from tests.baselines.test_common import SMALL
from tests.commands.test_train import write_graphs
from tests.viewing import decoding
from tests.viewing.training import QUICK, train

FAMILY, COUNT, SEED = "delaunay:points=7", 40, 3
LABEL = "<img src=x onerror=window.hacked=1>"
BUDGET = 1_500_000


def report_run(run: Path, path: Path) -> Path:
    return write_report(path, judge_run(run))


def reported(run: Path, path: Path) -> dict[str, Any]:
    return decoding.data_of(report_run(run, path))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    words = ["--count", str(COUNT), "--seed", str(SEED), "--epochs", "3", "--lr", "0.004"]
    train(folder, FAMILY, "-o", "run", *words, *QUICK)
    return folder / "run"


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture(scope="module")
def parts() -> Any:
    return family_data(FAMILY, COUNT, SEED)


def test_curves_are_those_of_metrics_csv(made: Path) -> None:
    data = decoding.data_of(made / "report.html")
    rows = list(csv.DictReader((made / "metrics.csv").open()))
    assert len(rows) == len(data["history"]) == 3
    for row, shown in zip(rows, data["history"], strict=True):
        assert {name: float(value) for name, value in row.items()} == shown
    best = max(rows, key=lambda row: (float(row["val_iou"]), -float(row["val_loss"])))
    assert data["best"] == int(best["epoch"]) == gln.load(made).training_facts["epoch"]
    assert data["threshold"] == gln.load(made).threshold
    assert data["state"] == {"finished": True, "words": ""}


def test_of_equally_good_epochs_the_best_has_the_lowest_loss_and_is_the_first(made: Path) -> None:
    rows = [(0.4, 0.1), (0.5, 0.3), (0.5, 0.2), (0.5, 0.2)]
    history = [{"epoch": i, "val_iou": iou, "val_loss": loss} for i, (iou, loss) in enumerate(rows, 1)]
    assert replace(read_run(made), history=history).best_epoch == 3


def test_the_learning_rate_is_the_one_that_was_used(made: Path) -> None:
    rates, config = decoding.data_of(made / "report.html")["rates"], FitConfig(epochs=3, lr=0.004)
    batches = -(-29 // 20)
    assert rates["step"] == list(range(1, 3 * batches + 1))
    expected = [config.lr_at(epoch, batch, batches) for epoch in range(3) for batch in range(batches)]
    assert rates["lr"] == expected
    assert rates["seconds"][-1] == read_run(made).history[-1]["seconds"]
    assert rates["epoch"][-1] == 3


def test_scores_are_those_of_evaluate_with_the_floor_of_mmd(made: Path, parts: Any) -> None:
    model, (train_graphs, _, test) = gln.load(made), parts
    scores = gln.evaluate(model, test, floor=train_graphs)
    judged = judge(model, parts)
    assert (judged.scores, judged.scores.notes, judged.printed) == (scores, scores.notes, str(scores))
    data = decoding.data_of(made / "report.html")["scores"]
    floors = mmd(test, gln.predict(model, test), floor=train_graphs).floor
    rows = {row["name"]: row for row in data["rows"]}
    assert {name: row["value"] for name, row in rows.items()} == {
        name: value for name, value in scores.items() if not name.startswith("pooled_")
    }
    assert {row["name"]: row["floor"] for row in data["rows"] if row["floor"] is not None} == {
        f"mmd_{name}": value for name, value in floors.items()
    }
    assert rows["iou"]["pooled"] == scores["pooled_iou"]
    assert (rows["iou"]["arrow"], rows["mmd_orbit"]["arrow"]) == ("↑", "↓")
    assert tuple(data["notes"]) == scores.notes
    rules = load_rules(made)
    assert data["rules"] == list(rules)
    for place, rule in enumerate(rules.values()):
        beside = gln.edge_scores(test, [rule.predict(graph.to_data()) for graph in test])
        assert rows["dice"]["rules"][place] == beside["dice"]
    best = max(rows["dice"]["rules"])
    assert bool(data["verdict"]) == (best > scores["dice"])
    for name, (low, high) in scores.intervals.items():
        assert rows[name]["interval"] == [low, high]
        assert low <= scores[name] <= high
    assert {"dice", "iou", "precision", "recall"} <= scores.intervals.keys()


def test_gln_report_writes_what_gln_train_wrote(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.parent)
    page = report_run(Path("run"), Path("again.html"))
    assert page.read_text() == Path("run/report.html").read_text()


def test_the_gallery_shows_what_the_model_predicts(made: Path, parts: Any) -> None:
    gallery, model = decoding.data_of(made / "report.html")["gallery"], gln.load(made)
    test = parts.test
    assert len(test) == 8
    assert gallery["words"] == ["best"] * 2 + ["median"] * 2 + ["worst"] * 2
    dice = [gln.edge_scores([true], [gln.predict(model, true)])["dice"] for true in test]
    order = sorted(range(8), key=lambda number: -dice[number])
    assert [dice[int(view["name"].split()[-1])] for view in gallery["views"]] == pytest.approx(
        [dice[number] for number in (order[0], order[1], order[3], order[4], order[6], order[7])]
    )
    for view in gallery["views"]:
        true = test[int(view["name"].split()[-1])]
        assert view["steps"] == 3
        for step in (1, 2):
            chosen = decoding.levels(view)[step] >= decoding.cut(gallery, view, view["own"])
            answer = gln.predict(model, true, steps=step).edge_index
            once = answer[:, answer[0] < answer[1]].T.tolist()
            assert decoding.pairs(view)[chosen].tolist() == once
        assert decoding.true(view).sum() == true.num_edges // 2


def test_the_command_repeats_the_run_to_the_byte(made: Path, tmp_path: Path) -> None:
    command = decoding.data_of(made / "report.html")["command"]
    words = shlex.split(command)
    assert words[:3] == ["gln", "train", FAMILY]
    assert words[3:5] == ["-o", "run-again"]
    train(tmp_path, *words[2:])
    again = tmp_path / "run-again"
    assert (again / "model.safetensors").read_bytes() == (made / "model.safetensors").read_bytes()
    before, now = (json.loads((run / "config.json").read_text()) for run in (made, again))
    assert before == now


def test_a_run_on_files_is_repeated_whatever_their_names(tmp_path: Path) -> None:
    data = f"data {LABEL}"
    write_graphs(tmp_path / data, 12)
    train(tmp_path, data, "-o", f"run {LABEL}", "--epochs", "1", *QUICK)
    run = tmp_path / f"run {LABEL}"
    page = run / "report.html"
    assert LABEL not in page.read_text()
    shown = decoding.data_of(page)
    assert shown["title"] == run.name
    assert ["files", str(tmp_path / data)] in shown["data"]
    words = shlex.split(shown["command"])
    train(tmp_path, *words[2:])
    again = tmp_path / f"{run.name}-again" / "model.safetensors"
    assert again.read_bytes() == (run / "model.safetensors").read_bytes()
    nodes = tmp_path / data / "nodes.csv"
    nodes.write_text(nodes.read_text().replace("g0,0.", "g0,1."))
    later = reported(run, tmp_path / "later.html")
    assert later["scores"] is None
    assert "learned from have changed since" in later["why"]
    shutil.rmtree(tmp_path / data)
    gone = reported(run, tmp_path / "gone.html")
    assert gone["scores"] is None
    assert "cannot be read" in gone["why"]
    assert gone["history"] == shown["history"]


def test_a_run_that_does_not_say_its_data_has_all_but_scores(copied: Path, tmp_path: Path) -> None:
    whole = reported(copied, tmp_path / "a.html")
    (copied / "data.json").unlink()
    data = reported(copied, tmp_path / "b.html")
    assert "does not say what the run learned from" in data["why"]
    assert (data["scores"], data["gallery"], data["command"]) == (None, None, None)
    for same in ("history", "rates", "settings", "starts", "best", "threshold"):
        assert data[same] == whole[same]


def test_other_graphs_than_it_learned_from_are_not_scored(copied: Path, tmp_path: Path) -> None:
    facts = json.loads((copied / "data.json").read_text())
    (copied / "data.json").write_text(json.dumps(facts | {"seed": SEED + 1}))
    data = reported(copied, tmp_path / "a.html")
    assert "have changed since" in data["why"]
    assert (data["scores"], data["gallery"]) == (None, None)


def test_an_unfinished_run_shows_what_there_is(copied: Path, tmp_path: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config["fit"]["epochs"] = 9
    (copied / "config.json").write_text(json.dumps(config))
    data = reported(copied, tmp_path / "a.html")
    assert data["state"]["finished"] is False
    assert data["state"]["words"].startswith("3 of 9 epochs are done")
    assert data["resume"] is True
    assert len(data["history"]) == 3
    assert data["scores"] is not None
    for name in ("metrics.csv", "model.json", "model.safetensors", "data.json"):
        (copied / name).unlink()
    data = reported(copied, tmp_path / "b.html")
    assert data["state"]["words"].startswith("0 of 9")
    assert "no model yet" in data["why"]
    assert (data["history"], data["rates"], data["best"]) == ([], {}, None)


def test_a_run_that_lost_patience_is_at_its_end(copied: Path, tmp_path: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config["fit"] |= {"epochs": 9, "patience": 1}
    (copied / "config.json").write_text(json.dumps(config))
    rows = (copied / "metrics.csv").read_text().splitlines()
    iou = [row.split(",") for row in rows[1:]]
    for row, value in zip(iou, ("0.3", "0.5", "0.4"), strict=True):
        row[4] = value
    (copied / "metrics.csv").write_text("\n".join([rows[0], *map(",".join, iou)]) + "\n")
    state = reported(copied, tmp_path / "a.html")["state"]
    assert state == {
        "finished": True,
        "words": "Training stopped after 3 of 9 epochs: none of the last 1 was better.",
    }


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_baselines_have_reports_too(name: str, tmp_path: Path) -> None:
    family = "community:size=4,order=ordered"
    spec = SMALL[name][-1]
    train(tmp_path, family, "-o", "run", "--count", "15", "--model", spec, "--no-progress", "--seed", "2")
    data = decoding.data_of(tmp_path / "run" / "report.html")
    three = family_data(family, 15, 2)
    judged = judge(gln.load(tmp_path / "run"), three, seed=2)
    assert [row["value"] for row in data["scores"]["rows"]] == [row["value"] for row in judged.scores.rows()]
    assert (data["history"], data["weights"]) == ([], None)
    assert data["state"] == {"finished": True, "words": ""}
    words = {"predict": ["best", "median", "worst"], "sample": ["true"] * 3 + ["sampled"] * 3}
    assert data["gallery"]["words"] == words[BASELINES[name].kind]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=12), st.integers(1, 3))
def test_best_median_and_worst(scores: list[float], each: int) -> None:
    chosen = best_to_worst(scores, each)
    places = [place for _, place in chosen]
    assert len(set(places)) == len(places)
    groups = {word: [scores[place] for other, place in chosen if other == word] for word, _ in chosen}
    ranked = sorted(scores, reverse=True)
    size = len(groups["best"])
    assert groups["best"] == ranked[:size]
    if len(scores) > 1:
        assert groups["worst"] == ranked[-size:]
    if len(scores) > 2:
        assert size == min(each, len(scores) // 3)
        above, below = ranked.index(groups["median"][0]), len(ranked)
        assert groups["median"] == ranked[(below - size) // 2 : (below - size) // 2 + size]
        assert above <= below // 2


def worst(nodes: int, steps: int, share: float, seed: int = 0) -> View:
    """A graph of which a share of all pairs is predicted after every step."""
    rng = np.random.default_rng(seed)
    pairs = np.stack(np.triu_indices(nodes, 1), axis=1)
    seen = decoding.seen_of(
        pairs, np.where(rng.random((steps, len(pairs))) < share, rng.uniform(0.5, 1), 0).astype("f4")
    )
    return View(make_graph(pos=rng.random((nodes, 3)), edges=pairs[::50]), "worst", seen=seen)


@pytest.mark.parametrize(("share", "shown", "steps"), [(0.01, 6, 6), (0.2, 6, 1), (1.0, 1, 1)])
def test_a_gallery_fits_its_page_even_if_every_pair_is_predicted(
    share: float, shown: int, steps: int
) -> None:
    gallery = pack_gallery(Gallery(["best"] * 6, [worst(400, 6, share, seed) for seed in range(6)]))
    assert len(gallery["views"]) == len(gallery["words"]) == shown
    assert {view["steps"] for view in gallery["views"]} == {steps}
    assert len(json.dumps(gallery)) <= GALLERY + 10_000
    assert ("steps before the last" in gallery["note"]) == (steps == 1)
    assert ("5 more graphs" in gallery["note"]) == (shown == 1)


def test_a_report_on_large_graphs_is_small(made: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pairs = np.stack(np.triu_indices(400, 1), axis=1)
    truths = [make_graph(pos=rng.random((400, 2)), edges=pairs[seed::70]) for seed in range(6)]
    model = gln.GLN(pos_channels=2, width=8, pair_width=8, steps=6)
    model.threshold = 0.0  # every pair that is scored is an edge, at every step
    page = write_report(
        tmp_path / "a.html",
        RunReport(read_run(made), model, judge(model, TrainValTest(truths, truths, truths))),
    )
    assert page.stat().st_size < BUDGET


def test_a_sampler_without_places_and_huge_graphs(made: Path, tmp_path: Path) -> None:
    facts, judged = read_run(made), judge(gln.load(made), family_data("delaunay:points=5", 10, 0))
    huge = [make_graph(num_nodes=5_001)] * 2
    page = write_report(tmp_path / "a.html", RunReport(facts, None, replace(judged, true=huge, made=huge)))
    assert "more than 5,000 nodes" in decoding.data_of(page)["gallery"]["note"]
    mixed = replace(judged, true=[*judged.true, huge[0]], made=[*judged.made, huge[0]])
    shown = decoding.data_of(write_report(tmp_path / "b.html", RunReport(facts, gln.load(made), mixed)))[
        "gallery"
    ]
    assert shown["note"] == "Among the test graphs of up to 5,000 nodes."
    assert all(view["nodes"] == 5 for view in shown["views"])


def test_large_graphs_are_shown_as_they_were_predicted_and_not_predicted_again(
    made: Path, tmp_path: Path
) -> None:
    model, three = gln.load(made), family_data("delaunay:points=340", 15, 0)
    judged = judge(model, three)
    method = replace_forward(model)
    shown = decoding.data_of(write_report(tmp_path / "a.html", RunReport(read_run(made), method, judged)))[
        "gallery"
    ]
    assert shown["note"] == "After the last step; gln view shows the others."
    for view in shown["views"]:
        answer = judged.made[int(view["name"].split()[-1])].edge_index
        chosen = decoding.levels(view)[-1] >= decoding.cut(shown, view, view["own"])
        assert view["steps"] == 1
        assert decoding.pairs(view)[chosen].tolist() == answer[:, answer[0] < answer[1]].T.tolist()


def replace_forward(model: Any) -> Any:
    """A model that must not be asked."""

    def forward(*args: Any, **settings: Any) -> None:
        raise AssertionError("asked again")

    model.forward = forward
    return model


def test_the_page_is_whole_and_reaches_nowhere(made: Path) -> None:
    text = (made / "report.html").read_text()
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', text)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not re.findall(r"(?:src|href)=\"(?!data:)", text)
    assert " style=" not in text


def test_only_the_threshold_of_the_model_is_asked(made: Path, parts: Any) -> None:
    judged = judge(gln.load(made), parts)
    assert isinstance(judged, Judged)
    assert judged.paired
    assert all(torch.equal(a.pos, b.pos) for a, b in zip(judged.true, parts.test, strict=True))


def test_what_is_no_run_is_said(tmp_path: Path, copied: Path) -> None:
    with pytest.raises(GLNError, match="not a run folder"):
        report_run(tmp_path, tmp_path / "a.html")
    with pytest.raises(GLNError, match=r"\.html"):
        report_run(copied, tmp_path / "a.png")
    for broken in ("epoch,step\n1,x\n", "epoch,step\n1,2\n", "epoch,step\n1,2,3\n"):
        (copied / "metrics.csv").write_text(broken)
        with pytest.raises(GLNError, match=r"metrics\.csv is not the table"):
            report_run(copied, tmp_path / "a.html")
    assert not list(tmp_path.glob("*.html"))
