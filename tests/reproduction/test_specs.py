"""Every experiment against the code: what it names exists and takes its settings."""

from __future__ import annotations

import dataclasses
import inspect
from decimal import ROUND_DOWN

import pytest

import reproduction.baselines  # noqa: F401  (registers those of the paper)
from gln.baselines import baseline
from gln.evaluation.metrics import METRICS
from gln.families import parse_family
from gln.models import MODELS
from gln.registry import parse_spec
from gln.storage.models import shipped
from gln.training import FitConfig
from gln.training.losses import Loss
from reproduction.cells import cells_of
from reproduction.measures import MEASURES
from reproduction.specs import Experiment, _changed, columns, experiments, systems

ASKED = {
    "table-mmd",
    "table-scores",
    "table-ablation",
    "table-readings",
    "table-figures",
    "table-released",
    "figure-depth",
    "figure-robustness",
    "figure-robustness-trained",
    "figure-surfaces",
    "figure-community",
    "figure-geometric",
    "generator",
    "benchmark-delaunay",
}
every = pytest.mark.parametrize("one", experiments().values(), ids=experiments())


def test_there_is_every_table_and_figure() -> None:
    assert set(experiments()) == ASKED


@every
def test_names_exist(one: Experiment) -> None:
    assert one.measure in MEASURES
    assert set(one.metrics) <= set(METRICS)
    assert set(one.rows) <= {"ordered", "set"}
    used = [name for group in one.columns.values() for name in group]
    assert len(used) == len(set(used))
    assert set(used) <= set(columns())
    assert one.metrics or one.measure == "gallery"


@every
def test_published_numbers_belong_to_columns_and_metrics(one: Experiment) -> None:
    used = {name for group in one.columns.values() for name in group}
    for row, by_column in one.published.items():
        assert by_column, row
        for column, numbers in by_column.items():
            assert column in used
            assert 0 < len(numbers) <= len(one.metrics)
            for metric, value in zip(one.metrics, numbers, strict=False):
                for bound in value if isinstance(value, list) else [value]:
                    assert METRICS[metric].low <= bound <= METRICS[metric].high


@pytest.mark.parametrize("scale", ["smoke", "full"])
@every
def test_every_cell_can_be_made(one: Experiment, scale: str) -> None:
    for cell in cells_of(one, scale):  # type: ignore[arg-type]
        column = columns()[cell.column]
        family = parse_family(column.full if scale == "full" else column.smoke)
        family = dataclasses.replace(family, order=cell.protocol)  # type: ignore[arg-type]
        assert scale == "smoke" or column.parts or column.count or family.paper_count
        settings = cell.settings
        if settings.shipped:
            assert settings.shipped in shipped()
        elif settings.baseline:
            baseline(settings.baseline)
        elif settings.model:
            name, options = parse_spec(settings.model)
            assert set(options) <= set(inspect.signature(MODELS[name]).parameters)
            FitConfig().changed(**settings.fit)
            Loss(**settings.loss)
        else:
            assert settings.is_floor
            assert cell.row == "floor"


def test_every_system_is_used() -> None:
    used = {
        own.get("system", row)
        for one in experiments().values()
        for rows in one.rows.values()
        for row, own in rows.items()
    }
    assert used == set(systems())


def test_where_changes_only_what_it_names() -> None:
    base = {"title": "a", "fit": {"lr": 1, "epochs": 2}}
    assert _changed(base, {"fit": {"epochs": 3}}) == {"title": "a", "fit": {"lr": 1, "epochs": 3}}
    ours = experiments()["table-mmd"].settings("full", "ordered", "community-2", "equations")
    assert (ours.fit["lr"], ours.fit["epochs"], ours.fit["batch_size"]) == (1e-5, 150, 20)
    assert experiments()["table-mmd"].settings("full", "ordered", "figures", "released").cannot
    assert not experiments()["table-mmd"].settings("smoke", "ordered", "figures", "released").cannot


def test_the_published_figures_column_is_the_ablation_row_with_the_regulariser() -> None:
    """The note on the table says so: the same digits, cut off."""
    column = experiments()["table-mmd"].published["gln"]["figures"]
    row = experiments()["table-ablation"].published["iou-hed-reg"]["figures"][3:]
    for cut, value in zip(column, row, strict=True):
        assert cut == value.quantize(cut, ROUND_DOWN)
