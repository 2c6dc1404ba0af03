"""Charts hold every curve, keep the colours of the metrics, and are the same each time."""

from __future__ import annotations

import re
from pathlib import Path

from gln.experiments.charts import save_curves, save_iou
from gln.experiments.headline import MAIN
from tests.experiments.made import no_cells, panel, with_scores

VALUES = {0.1: 0.0, 0.2: 0.1, 1.0: 1.0}


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
    cells = with_scores({f"set/{MAIN[0]}/gln": {"iou": 0.5}})
    for name, kept in (("none.svg", no_cells()), ("one.svg", cells)):
        save_iou(kept, tmp_path / name)
    marks = [(tmp_path / name).read_text().count("<use ") for name in ("none.svg", "one.svg")]
    assert marks[1] == marks[0] + 1
    assert {"GLN, published", "constant", "Surfaces 400 all"} <= set(words(tmp_path / "none.svg"))
