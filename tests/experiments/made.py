"""Cells made up for tests."""

from __future__ import annotations

from typing import Any

from gln.experiments import experiments
from gln.experiments.claims import Panel
from gln.experiments.findings import Cells
from gln.experiments.headline import MMD


def no_cells() -> Cells:
    return {name: {} for name in experiments()}


def with_scores(scores: dict[str, dict[str, float]], name: str = "table-mmd") -> Cells:
    """By the name of the cell, all of one experiment."""
    cells = no_cells()
    for cell, values in scores.items():
        cells[name][cell] = measured(cell, scores=values)
    return cells


def measured(name: str, **facts: Any) -> dict[str, Any]:
    protocol, column, row = name.partition("@")[0].split("/")
    where = {"protocol": protocol, "column": column, "row": row}
    return where | {"seconds": 1.0, "device": "CPU, 1 threads", "environment": {"time": "2020"}} | facts


def panel(protocol: str, column: str, values: dict[float, float], floor: float = 0.0) -> Panel:
    """Every metric has the same curve."""
    points = {metric: {place: [value] for place, value in values.items()} for metric in MMD}
    return Panel("GLN", protocol, column, points, dict.fromkeys(MMD, floor))
