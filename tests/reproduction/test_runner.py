"""Cells: found by name, run once, kept whole."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

import gln
from gln.errors import GLNError
from reproduction import runner
from reproduction.__main__ import reproduce
from reproduction.cells import Places, cells_of, choose
from reproduction.data import parts_of, standardised
from reproduction.measures import MEASURES
from reproduction.runner import run_cell, run_cells
from reproduction.specs import experiments

ROOT = Path(__file__).parents[2]


def test_names_find_cells_by_their_end() -> None:
    found = choose(["table-mmd"], "full", "community-2/mmsb")
    assert [cell.name for cell in found] == ["ordered/community-2/mmsb", "set/community-2/mmsb"]
    assert [cell.name for cell in choose(["table-mmd"], "full", "set/figures/gln")] == ["set/figures/gln"]


@pytest.mark.parametrize(
    ("names", "cell", "message"),
    [(["nothing"], None, "no experiment 'nothing'"), (["table-mmd"], "2/mmsb", "no cell '2/mmsb'")],
)
def test_unknown_names_are_refused(names: list[str], cell: str | None, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        choose(names, "full", cell)


def test_the_command_of_a_cell_finds_that_cell() -> None:
    for one in experiments().values():
        for cell in cells_of(one, "smoke"):
            words = cell.command.split()
            assert words[:3] == ["python", "-m", "reproduction"]
            assert [found.key for found in choose([words[3]], "smoke", words[-1])] == [cell.key]


def test_cells_have_files_of_their_own_and_scales_are_apart() -> None:
    keys = [cell.key for cell in choose([], "full", None)]
    assert len(keys) == len(set(keys))
    smoke, full = (
        choose(["table-scores"], scale, "ordered/figures/constant")[0] for scale in ("smoke", "full")
    )
    assert "smoke" in smoke.path(Places()).parts
    assert "smoke" not in full.path(Places()).parts
    shared = choose(["table-mmd"], "full", "ordered/figures/constant")[0]
    assert shared.path(Places()) == full.path(Places())  # the two tables show the same measurement


def test_a_cell_is_measured_once_and_says_where_it_comes_from(tmp_path: Path) -> None:
    places, cells = Places(tmp_path), choose(["table-scores"], "smoke", "ordered/community-2/constant")
    said: list[str] = []
    assert run_cells(cells, places, say=said.append) == 1
    assert run_cells(cells, places, say=said.append) == 0
    kept = cells[0].read(places)
    assert kept is not None
    assert {"seed", "device", "seconds", "commit", "command", "environment"} <= set(kept)
    assert run_cells(cells, places, again=True, say=said.append) == 1
    assert cells[0].read(places)["scores"] == kept["scores"]  # type: ignore[index]
    assert len(said) == 2


def test_the_constant_scores_as_the_mean_adjacency_does(tmp_path: Path) -> None:
    cell = choose(["table-scores"], "smoke", "ordered/figures/constant")[0]
    measured = run_cell(cell, Places(tmp_path), say=lambda line: None)
    family = gln.family("figures", side=4, order="ordered")
    train, val, test = gln.split(family.sample(12, 0), 0)
    dense = [
        torch.zeros(16, 16).index_put(tuple(g.edge_index), torch.tensor(1.0)) for g in [*train, *val, *test]
    ]
    guess = torch.stack(dense[: -len(test)]).mean(0) >= 0.5
    ious = [(guess & (true > 0)).sum() / (guess | (true > 0)).sum() for true in dense[-len(test) :]]
    assert measured["scores"]["iou"] == pytest.approx(float(torch.stack(ious).mean()))


def test_a_trained_system_is_shared_by_experiments_and_gives_the_same_again(tmp_path: Path) -> None:
    places, quiet = Places(tmp_path), lambda line: None
    table = choose(["table-mmd"], "smoke", "ordered/community-2/stabilised")[0]
    robust = choose(["figure-robustness"], "smoke", "ordered/community-2/stabilised")[0]
    assert table.run_folder(places) == robust.run_folder(places)
    first = run_cell(table, places, quiet)
    assert run_cell(table, places, quiet)["scores"] == first["scores"]  # from the kept run
    assert run_cell(table, Places(tmp_path / "new"), quiet)["scores"] == first["scores"]  # trained anew
    shares = run_cell(robust, places, quiet)["shares"]
    assert [entry["share"] for entry in shares] == [0.1, 1.0]
    assert all(len(entry["runs"]) == 2 for entry in shares)
    assert shares[1]["runs"][0] == shares[1]["runs"][1]  # all pairs are all pairs, whatever the seed


def test_a_cell_that_cannot_run_says_why_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(task: object) -> dict:
        raise GLNError("it has five steps")

    monkeypatch.setitem(MEASURES, "scores", fail)
    places, cells = Places(tmp_path), choose(["table-mmd"], "smoke", "set/figures/floor")
    for _ in range(2):
        assert run_cells(cells, places, say=lambda line: None) == 1
        assert "five steps" in cells[0].read(places)["cannot"]  # type: ignore[index]


def test_a_failure_does_not_overwrite_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places, cells = Places(tmp_path), choose(["table-mmd"], "smoke", "set/figures/floor")
    run_cells(cells, places, say=lambda line: None)
    kept = cells[0].path(places).read_bytes()

    def fail(task: object) -> dict:
        raise GLNError("no room")

    monkeypatch.setitem(MEASURES, "scores", fail)
    said: list[str] = []
    run_cells(cells, places, again=True, say=said.append)
    assert "cannot run: no room" in said[0]
    assert cells[0].path(places).read_bytes() == kept


def test_rows_with_settings_of_their_own_are_trained_apart() -> None:
    places, cells = Places(), list(cells_of(experiments()["table-ablation"], "full"))
    folders = [cell.run_folder(places) for cell in cells]
    assert len(folders) == len(set(folders))
    assert choose(["table-mmd"], "full", "ordered/figures/stabilised")[0].run_folder(places) not in folders


def test_standardised_features_have_mean_0_and_deviation_1_and_leave_the_graphs_alone() -> None:
    parts = parts_of("smoke", "ordered", "figures")
    before = parts.train[0].pos.clone()
    shown = standardised(parts)
    rows = torch.cat([graph.x for graph in shown.train])
    torch.testing.assert_close(rows.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(rows.std(0), torch.ones(3))
    assert torch.equal(parts.train[0].pos, before)
    assert all(torch.equal(a.edge_index, b.edge_index) for a, b in zip(shown.test, parts.test, strict=True))


def test_the_command_keeps_a_cell_and_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    reproduce(("generator",), scale="smoke", cell="set/community-2/copy", write_docs=True, root=tmp_path)
    kept = tmp_path / "results/reproduction/smoke/generator/set/community-2/copy.json"
    assert json.loads(kept.read_text())["scores"]["novelty"] == 0
    page = (tmp_path / "results/reproduction/smoke/README.md").read_text()
    assert page.startswith("# Quick check")
    more = ["reproduction-iou", "reproduction-mmd", "uncertainty", "paper-network", "compared", "commands"]
    assert sorted(re.findall("^## (.*)$", page, re.MULTILINE)) == sorted([*experiments(), *more])
    assert not (tmp_path / "docs").exists()
    reproduce(root=tmp_path, scale="smoke")
    assert "1 of  40 cells at scale smoke" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [{"cell": "set/community-2/copy"}, {"again": True}])
def test_what_to_measure_needs_an_experiment(tmp_path: Path, asked: dict[str, Any]) -> None:
    with pytest.raises(GLNError, match=f"--{next(iter(asked))} without an experiment; name one, or all"):
        reproduce(root=tmp_path, **asked)


def test_no_result_comes_from_uncommitted_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = choose(["table-scores"], "full", "set/community-2/constant")
    for commit in ("f00-dirty", None):
        monkeypatch.setattr(runner, "commit", lambda commit=commit: commit)
        with pytest.raises(GLNError, match="committed code only; commit the changes first"):
            run_cells(cells, Places(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_mistake_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["reproduction", "table-9"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(ROOT / "reproduction/__main__.py"), run_name="__main__")
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("reproduction: There is no experiment 'table-9'; choose from ")
