"""The short tables and the bar are what the cells say."""

from __future__ import annotations

import pytest

from gln.experiments.headline import (
    MAIN,
    above,
    bar_table,
    behind,
    has_published,
    iou_table,
    mmd_table,
    published,
    short,
)
from tests.experiments.made import measured, no_cells, with_scores

IOU = published("community-2", "iou")


def entry(table: list[list[str]], *row: str, column: str = "community-2") -> str:
    (line,) = (line for line in table[1:] if line[: len(row)] == list(row))
    return line[len(row) + MAIN.index(column)]


def test_tables_show_the_mean_over_seeds_and_mark_what_is_missing() -> None:
    cells = with_scores({"set/community-2/gln": {"iou": 0.5}, "set/community-2/gln@1": {"iou": 0.7}})
    cells["table-mmd"]["ordered/figures/gln"] = measured("ordered/figures/gln", cannot="no")
    table = iou_table(cells)
    assert entry(table, "**GLN**", "set") == "0.6000"
    assert entry(table, "**GLN**", "set", column="figures") == "·"
    assert entry(table, "**GLN**", "ordered", column="figures") == "n/a"
    assert entry(table, "*GLN, published*", "ordered") == "0.993"


def test_the_graphs_and_seeds_behind_a_mean_are_counted() -> None:
    cells = with_scores({"set/community-4/gln": {"iou": 0.5}, "set/community-4/gln@1": {"iou": 0.7}})
    name = "ordered/community-2/constant"
    cells["table-mmd"][name] = measured(name, scores={}, test_graphs=60)
    text = behind(cells)
    assert text.startswith("Test graphs per column: 60, ·, ·, ·, ·.")
    assert "GLN, ordered (0); GLN, set (0 or 2); other rows (1)." in text


def test_a_row_of_one_table_alone_is_found() -> None:
    cells = no_cells()
    cells["table-scores"]["set/community-2/knn"] = measured("set/community-2/knn", scores={"iou": 0.25})
    assert entry(iou_table(cells), "nearest neighbours", "set") == "0.2500"


def test_mmd_is_shown_to_the_published_digits() -> None:
    scores = {"mmd_degree": -1e-6, "mmd_clustering": 0.01234}
    cells = with_scores({"ordered/community-2/gln": scores})
    assert entry(mmd_table(cells), "**GLN**", "ordered") == "0.0000 / 0.0123 / –"
    assert entry(mmd_table(cells), "*GLN, published*", "ordered") == "0.0121 / 0.0098 / 0.6248"
    assert short(-1e-9) == "0.0000"


@pytest.mark.parametrize(
    ("gln", "constant", "answers"),
    [
        (IOU, IOU - 0.001, ["yes", "yes"]),
        (IOU, IOU, ["yes", "**no**"]),
        (IOU, IOU - 1e-6, ["yes", "**no**"]),  # not above in the digits that are shown
        (IOU - 0.002, 0.5, ["**no**", "yes"]),
        (IOU, None, ["yes", "·"]),
        (None, 0.5, ["·", "·"]),
    ],
)
def test_the_bar(gln: float | None, constant: float | None, answers: list[str]) -> None:
    found = {"gln": gln, "constant": constant}
    cells = with_scores(
        {f"ordered/community-2/{row}": {"iou": v} for row, v in found.items() if v is not None}
    )
    table = bar_table(cells)
    assert [line[1 + MAIN.index("community-2")] for line in table[1:3]] == answers


def test_the_bar_tells_the_metrics_apart_where_they_differ() -> None:
    scores = {"mmd_degree": 0.0121, "mmd_clustering": 0.5, "mmd_orbit": 0.0}
    cells = with_scores({"ordered/community-2/gln": scores})
    assert bar_table(cells)[3][1] == "yes / **no** / yes"
    assert has_published(cells, "community-2", "gln", scores) is False
    assert above(cells, "community-2", "gln", "constant") is None
