"""Trainings at their last epoch: kept, packed, and accepted only from the source of their commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from gln.errors import GLNError
from reproduction import together
from reproduction.cells import Places, choose
from reproduction.last import Start, digest_of_files, in_stacks, kept, predictions_of, source_files, train
from reproduction.measures import edge_rows
from reproduction.runner import run_cell
from reproduction.together import digest_of_commit, fold, pack, trainings_of

NAMES = (
    "ordered/community-2/equations-1",
    "ordered/community-2/equations-longer",
    "ordered/community-2/glorot",
)


def quiet(line: str) -> None:
    pass


def test_rows_that_continue_a_training_share_it_and_alike_ones_are_stacked(tmp_path: Path) -> None:
    cells = [cell for cell in choose(["table-readings"], "full") if cell.name.split("@")[0] in NAMES]
    trainings = trainings_of(cells, Places(tmp_path))
    assert [training.stops for training in trainings] == [(150, 750)] * 3 + [(150,)] * 3
    assert [len(group) for group in in_stacks(trainings)] == [3, 3]


def test_a_kept_training_is_measured_and_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = Places(tmp_path / "here"), Places(tmp_path / "there")
    (cell,) = choose(["table-readings"], "smoke", NAMES[0])
    measured = run_cell(cell, here, quiet)
    (training,) = trainings_of([cell], here)
    assert training.finished
    made, facts = predictions_of(training.folder, 1, training.parts.test)
    iou = float(edge_rows(training.parts.test, made, False)["iou"].mean())
    assert measured["scores"]["iou"] == pytest.approx(iou)
    assert facts["curve"][-1][2] == pytest.approx(iou, abs=1e-5)

    assert pack([training.folder], here, tmp_path / "out") == 1
    (packed,) = (tmp_path / "out").iterdir()
    monkeypatch.setattr(together, "digest_of_commit", lambda name: "of another source")
    with pytest.raises(GLNError, match="was not trained with the source of commit"):
        fold(packed, there)
    monkeypatch.setattr(together, "digest_of_commit", lambda name: facts["trained"]["source"])
    assert fold(packed, there) == 1
    assert fold(packed, there) == 0  # it is there already
    monkeypatch.setattr("reproduction.measures.train", None)  # who trains once more fails
    assert run_cell(cell, there, quiet)["scores"] == measured["scores"]


def test_the_digest_of_a_commit_is_that_of_its_files() -> None:
    if together.commit() is None or str(together.commit()).endswith("-dirty"):
        pytest.skip("not a clean clone of the repository")
    assert digest_of_commit("HEAD") == digest_of_files((path, path.read_bytes()) for path in source_files())
    with pytest.raises(GLNError, match="no commit"):
        digest_of_commit("0" * 40)


def test_initial_structures_join_their_share_of_pairs_and_are_each_graphs_own() -> None:
    starts = torch.from_numpy(Start(0.3, 2, 1).draw(10, 4))
    assert torch.equal(starts, starts.mT)
    assert starts.diagonal(dim1=1, dim2=2).all()
    assert (starts.sum((1, 2)) - 10 == 2 * round(0.3 * 45)).all()
    assert not torch.equal(starts[0], starts[1])


def test_an_error_is_told_and_leaves_no_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = trainings_of(choose(["table-readings"], "smoke", NAMES[2]), Places(tmp_path))
    monkeypatch.setattr("reproduction.last.Stack.run_epoch", lambda stack: 1 / 0)
    (job,) = train(trainings, "cpu", say=quiet)
    assert "ZeroDivisionError" in str(job.failed)
    assert not kept(trainings[0].folder, 1).exists()
    assert not list(tmp_path.rglob("training.json"))


def test_a_report_keeps_what_is_not_here(tmp_path: Path) -> None:
    (cell,) = choose(["table-readings"], "smoke", NAMES[1])
    (training,) = trainings_of([cell], Places(tmp_path))
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"rows": [{"training": name} for name in ("elsewhere", training.name)]}))
    run_cell(cell, Places(tmp_path), quiet)  # which finishes it
    assert together.report([training], path) == 1
    assert [row["training"] for row in json.loads(path.read_text())["rows"]] == ["elsewhere"]
