"""Cells from several seeds: the same graphs, other weights, one entry with its spread."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reproduction.cells import Places, cells_of, choose
from reproduction.runner import run_cell
from reproduction.specs import columns, experiments, repeats
from reproduction.tables import read_cells, score_tables

NAME = "ordered/community-2/stabilised"


def quiet(line: str) -> None:
    pass


def test_what_is_repeated_exists_and_has_chance_in_it() -> None:
    rows = {row for one in experiments().values() for rows in one.rows.values() for row in rows}
    for again in repeats().values():
        assert set(again["columns"]) <= set(columns())
        assert set(again["rows"]) <= rows - {"floor", "constant", "knn"}
        assert 0 not in again["seeds"]


def test_the_main_columns_have_three_seeds_at_full_size_alone() -> None:
    one = experiments()["table-scores"]
    names = [cell.name for cell in cells_of(one, "full") if cell.name.startswith(NAME)]
    assert names == [NAME, f"{NAME}@1", f"{NAME}@2"]
    assert [cell.name for cell in choose(["table-mmd"], "full", f"{NAME}@2")] == [f"{NAME}@2"]
    assert not [cell for cell in cells_of(one, "smoke") if cell.seed]
    assert not [
        cell for cell in cells_of(one, "full") if cell.seed and cell.row in ("constant", "knn", "copy")
    ]


@pytest.mark.parametrize("row", ["stabilised", "mmsb"])
def test_another_seed_has_the_same_graphs_and_other_weights(tmp_path: Path, row: str) -> None:
    places, first = Places(tmp_path), choose(["table-mmd"], "smoke", f"ordered/community-2/{row}")[0]
    second = replace(first, seed=1)
    assert first.path(places) != second.path(places)
    assert first.run_folder(places) != second.run_folder(places)
    one, other = (run_cell(cell, places, quiet) for cell in (first, second))
    assert (one["training_seed"], other["training_seed"]) == (0, 1)
    assert one["family"] == other["family"]
    assert one["scores"] != other["scores"]
    assert run_cell(second, Places(tmp_path / "new"), quiet)["scores"] == other["scores"]


def test_a_shipped_model_has_one_seed_and_another_is_trained_by_its_recipe(tmp_path: Path) -> None:
    places = Places(tmp_path)
    cell = replace(choose(["table-mmd"], "smoke", "set/community-2/gln")[0], seed=2)
    said = run_cell(cell, places, quiet)["cannot"]
    folder = cell.run_folder(places)
    assert (
        said
        == f"it has to be trained first: python recipes/families.py train community --seed 21 --run {folder}"
    )
    assert folder == replace(cell, column="community-4").run_folder(places)  # which serves both


def test_an_entry_is_the_mean_with_its_spread(tmp_path: Path) -> None:
    table, places = experiments()["table-scores"], Places(tmp_path)
    kept = {"command": "c", "seed": 0, "device": "d", "seconds": 1, "commit": None}
    for seed, iou in enumerate((0.5, 0.6, 0.7)):
        path = choose(["table-scores"], "full", f"{NAME}@{seed}" if seed else NAME)[0].path(places)
        path.parent.mkdir(parents=True, exist_ok=True)
        scores = {"scores": {"iou": iou, "accuracy": 0.25}}
        path.write_text(json.dumps(kept | scores | {"protocol": "ordered", "row": "stabilised"}))
    measured = read_cells(table, "full", places)
    rows = score_tables(table, measured)["Community and Figures, ordered"]
    assert ["PaperGLN stabilised", "0.2500 ± 0.0000 / 0.6000 ± 0.1000 / – / – / –", "·", "·"] in rows
