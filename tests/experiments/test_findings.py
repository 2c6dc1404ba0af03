"""Sentences follow the numbers."""

from __future__ import annotations

from gln.experiments.findings import EDGE_SCORES, against_constant, all_columns, network, on_sets, tables_show
from gln.experiments.headline import MMD, published
from tests.experiments.made import measured, no_cells, with_scores


def test_against_the_constant() -> None:
    scores = {"community-2": (0.9, 0.8), "community-4": (0.7, 0.7), "figures": (0.1, 0.2)}
    cells = with_scores(
        {
            f"ordered/{c}/{row}": {"iou": v}
            for c, pair in scores.items()
            for row, v in zip(("gln", "constant"), pair, strict=True)
        }
    )
    assert against_constant(cells, "gln") == (
        "Against the constant it wins in Community 2; ties in Community 4; loses in Figures."
    )
    for row in ("gln", "constant"):
        del cells["table-mmd"][f"ordered/community-2/{row}"]
    assert against_constant(cells, "gln").endswith("loses in Figures, and wins nowhere.")
    cells["table-mmd"]["ordered/figures/constant"]["scores"]["iou"] = 1.0
    assert "loses in Figures, in all of which the constant makes no error" in against_constant(cells, "gln")
    assert against_constant(no_cells(), "gln") == "The constant has not been measured there."


def test_networks_count_the_columns_that_have_the_published_iou() -> None:
    cells = with_scores(
        {"ordered/community-2/stabilised": {"iou": 0.993}, "ordered/community-4/stabilised": {"iou": 0.5}}
    )
    equations, _, stabilised, _ = network(cells)
    assert equations.endswith("not measured yet.")
    counts = "IoU 0.5000 to 0.9930, at least as high as published in 1 of 2 (not in Community 4)."
    assert f"; 2 of 17 columns measured: {counts}" in stabilised


def test_columns_in_which_a_network_cannot_be_built_are_not_missing() -> None:
    cells = with_scores({"ordered/community-2/released": {"iou": 0.5}})
    assert "; 1 of 9 possible columns measured: IoU 0.5000," in network(cells)[1]


def test_sets_are_compared_with_the_floor() -> None:
    rows = {f"set/figures/{row}": {"iou": 0.5, **dict.fromkeys(MMD, 0.2)} for row in ("gln", "floor", "knn")}
    rows |= {
        f"set/community-2/{row}": {"iou": 0.5, **dict.fromkeys(MMD, 0.2)} for row in ("gln", "floor", "knn")
    }
    rows["set/community-2/gln"]["mmd_orbit"] = 0.3
    text = "\n".join(on_sets(with_scores(rows)))
    assert "GLN's MMD² are above it in Community 2 and within it in Figures." in text


def test_a_column_whose_every_number_the_constant_has_shows_nothing() -> None:
    as_published = {metric: published("community-2", metric) for metric in (*EDGE_SCORES, *MMD)}
    cells = with_scores(
        {"ordered/community-2/constant": as_published, "set/community-2/constant": {"iou": 0.25}}
    )
    text = "\n".join(tables_show(cells))
    assert "In 1 of 1 columns one of the two matches or beats every published number" in text
    assert "No column can." in text
    assert "the constant has an IoU of 0.9930 on ordered nodes and 0.2500 on sets." in text
    assert "no error at all" not in text
    cells["table-mmd"]["ordered/community-2/constant"]["scores"]["mmd_orbit"] = 2.0
    text = "\n".join(tables_show(cells))
    assert "In 0 of 1 columns" in text
    assert "The columns that can: Community 2." in text


def test_sets_are_compared_with_what_needs_no_learning() -> None:
    assert on_sets(no_cells()) == ["Not measured yet."]
    cells = with_scores(
        {
            "set/community-2/gln": {"iou": 0.9, "exact": 0.25},
            "set/community-2/knn": {"iou": 0.5},
            "set/community-2/constant": {"iou": 0.6},
            "set/community-4/gln": {"iou": 0.3},
            "set/community-4/knn": {"iou": 0.5},
        }
    )
    _, ahead, exact = on_sets(cells)
    assert "in 1 of 2 columns. Its lowest IoU is 0.3000, in Community 4." in ahead
    assert exact == "Test graphs predicted without a single error: Community 2 25%."
    for name, dice in (("delaunay-50", 0.99), ("delaunay-20-80", 0.5)):
        key = f"set/{name}/gln"
        cells["benchmark-delaunay"][key] = measured(key, scores={"dice": dice})
    last = on_sets(cells)[-1]
    assert "0.9900 (Delaunay, 50 points), above HOT 2021 (at most 0.975)" in last
    assert "0.5000 (Delaunay, 20 to 80 points), not above HOT 2021 (at most 0.971)" in last


def test_all_columns_are_those_of_the_paper() -> None:
    assert len(all_columns()) == len(set(all_columns())) == 17
