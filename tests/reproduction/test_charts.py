"""Charts hold every curve, keep the colours of the metrics, and are the same each time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from reproduction.charts import Panel, draw_curve, panels_of, save_curves, save_iou
from reproduction.tables import MAIN, MMD

VALUES = {0.1: 0.0, 0.2: 0.1, 1.0: 1.0}


def panel(protocol: str, column: str, values: dict[float, float], floor: float = 0.0) -> Panel:
    """Every metric has the same curve."""
    points = {metric: {place: [value] for place, value in values.items()} for metric in MMD}
    return Panel("GLN", protocol, column, points, dict.fromkeys(MMD, floor))


def cell(name: str, **facts: Any) -> dict[str, Any]:
    protocol, column, row = name.split("/")
    return {"protocol": protocol, "column": column, "row": row, **facts}


def words(path: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


def test_curves_say_what_they_are_and_what_is_missing(tmp_path: Path) -> None:
    panels = [panel("ordered", "community-2", VALUES), panel("set", "community-4", VALUES)]
    save_curves(panels, "share", tmp_path / "new" / "c.svg")
    shown = words(tmp_path / "new" / "c.svg")
    for text in ("GLN, ordered", "GLN, set", "Community 2", "Community 4", "share", "10%", "10⁻³", "0"):
        assert text in shown
    assert shown.count("not measured yet") == 2
    assert [shown.count(name) for name in ("degree", "clustering", "orbit", "floor (training graphs)")] == [
        1
    ] * 4


def test_charts_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        save_curves([panel("set", "community-2", VALUES, 0.01)], "share", tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_score_is_a_mark(tmp_path: Path) -> None:
    save_iou({}, tmp_path / "none.svg")
    save_iou({f"set/{MAIN[0]}/gln": {"scores": {"iou": 0.5}}}, tmp_path / "one.svg")
    marks = [(tmp_path / name).read_text().count("<use ") for name in ("none.svg", "one.svg")]
    assert marks[1] == marks[0] + 1
    assert {"GLN, published", "constant", "Surfaces 400 all"} <= set(words(tmp_path / "none.svg"))


def test_panels_gather_all_runs_and_know_their_floor() -> None:
    runs = [dict.fromkeys(MMD, 1.0), dict.fromkeys(MMD, 3.0)]
    names = ("ordered/community-2/stabilised", "set/community-2/gln", "set/community-4/gln")
    cells = {name: cell(name, shares=[{"share": 0.1, "runs": runs}], empty=runs[0]) for name in names}
    floors = {"set/community-2/floor": {"scores": dict.fromkeys(MMD, 0.5)}}
    panels = panels_of("figure-robustness", cells, floors)
    assert [(one.system, one.protocol, one.column) for one in panels] == [
        ("PaperGLN stabilised", "ordered", "community-2"),
        ("GLN", "set", "community-2"),
        ("GLN", "set", "community-4"),
    ]
    assert panels[1].points == {metric: {0.0: [1.0], 0.1: [1.0, 3.0]} for metric in MMD}
    assert [one.floor for one in panels] == [{}, dict.fromkeys(MMD, 0.5), {}]


def test_panels_run_over_the_steps_of_the_rows() -> None:
    where = "set/surfaces-400-all"
    cells = {
        f"{where}/gln-{steps}": cell(f"{where}/gln-{steps}", scores=dict.fromkeys(MMD, float(steps)))
        for steps in (1, 5)
    }
    cells[f"{where}/gln-6"] = cell(f"{where}/gln-6", cannot="it has five")
    cells[f"{where}/floor"] = cell(f"{where}/floor", scores=dict.fromkeys(MMD, 0.0))
    (found,) = panels_of("figure-depth", cells, {})
    assert found.points == {metric: {1: [1.0], 5: [5.0]} for metric in MMD}


def test_curves_are_means_and_bands() -> None:
    ax = Figure().add_subplot()
    draw_curve({2.0: [0.4, 0.2], 1.0: [0.0, 0.1, 0.2]}, ax, "black")
    (line,) = ax.lines
    assert np.asarray(line.get_xydata()) == pytest.approx(np.array([[1, 0.1], [2, 0.3]]))
    (band,) = ax.collections
    assert band.get_paths()[0].get_extents().extents == pytest.approx([1, 0, 2, 0.4])
