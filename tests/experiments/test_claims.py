"""The verdict on a claim turns with the curve."""

from __future__ import annotations

import pytest

from gln.experiments.claims import MATTERS, NOISE, five_steps, initial_structure, panels_of
from gln.experiments.headline import MMD, published
from tests.experiments.made import measured, no_cells, panel, with_scores

COLUMN = "surfaces-400-all"
LEAST = min(published(COLUMN, metric) for metric in MMD)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({1: 1.0, 4: 0.5}, "open: five steps have not been measured; the published MMD² is not reached"),
        (
            {1: LEAST, 4: 0.5},
            "open: five steps have not been measured; the published MMD² is reached with 1 step",
        ),
        ({1: 1.0, 5: 0.1}, "fewer steps are worse; more were not measured"),
        ({1: 1.0, 5: 0.1, 6: 0.06}, "confirmed: "),
        ({1: 1.0, 5: 0.1, 6: 0.05}, "not confirmed: 6 steps at least halve"),
        ({1: 1.0, 3: 0.1, 5: 0.1, 6: 0.09}, "five steps are more than needed: 3 steps do as well"),
        ({1: LEAST, 5: 0.0}, "five steps are more than needed; the published MMD² is reached with 1 step"),
        ({1: 1.0, 5: LEAST, 6: 0.0}, "confirmed: "),  # good enough is not made better
    ],
)
def test_five_steps(values: dict[float, float], verdict: str) -> None:
    assert five_steps(panel("ordered", COLUMN, values)).startswith(verdict)


def test_on_sets_the_floor_is_good_enough() -> None:
    values = {1.0: 0.2, 5.0: 0.1}
    assert five_steps(panel("set", COLUMN, values)).startswith("fewer steps are worse")
    assert "more than needed; the floor is reached with 1 step" in five_steps(
        panel("set", COLUMN, values, 0.2)
    )


def test_the_ends_of_the_curve_stand_beside_five_steps() -> None:
    text = five_steps(panel("ordered", COLUMN, {1.0: 0.3, 5.0: 0.2, 8.0: 0.19}))
    shown = [f"{value} / {value} / {value} with" for value in ("0.3000", "0.2000", "0.1900")]
    assert all(words in text for words in shown)
    assert five_steps(panel("ordered", COLUMN, {1.0: 0.3, 5.0: 0.2})).count("5 steps") == 1


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({0.1: 0.3}, "open: only one share has been measured"),
        (
            {0.1: 0.1, 1.0: 0.1 * MATTERS},
            "confirmed: from 10% to 100% of all pairs, no MMD² grows beyond 2.00 times",
        ),
        ({0.1: 0.3, 1.0: 0.1}, "confirmed: from 10% to 100% of all pairs, no MMD² grows beyond 1.00 times"),
        ({0.1: 0.0, 1.0: NOISE * MATTERS}, "confirmed: "),
        ({0.1: 0.0, 1.0: NOISE * MATTERS * 1.1}, "not confirmed: breaks at 100%"),
        (
            {0.1: 0.1, 0.9: 0.1, 1.0: 0.21},
            "not confirmed: holds up to 90%, breaks at 100% of all pairs (MMD² degree",
        ),
    ],
)
def test_initial_structure(values: dict[float, float], verdict: str) -> None:
    assert initial_structure(panel("set", "community-2", values)).startswith(verdict)


def test_where_the_empty_structure_is_left_the_others_are_compared_among_themselves() -> None:
    curve = panel("set", "community-2", {0.0: 0.1, 0.1: 0.9, 0.5: 0.3, 1.0: 0.6})
    assert initial_structure(curve).endswith("; from 10% to 100%, MMD² vary by a factor of up to 3.0")
    curve = panel("set", "community-2", {0.0: 0.1, 0.1: 0.1, 1.0: 0.6})
    assert "vary" not in initial_structure(curve)


def test_panels_gather_all_runs_and_know_their_floor() -> None:
    runs = [dict.fromkeys(MMD, 1.0), dict.fromkeys(MMD, 3.0)]
    cells = with_scores({"set/community-2/floor": dict.fromkeys(MMD, 0.5)})
    for name in ("set/community-4/gln", "set/community-2/gln", "ordered/community-2/stabilised"):
        cells["figure-robustness"][name] = measured(
            name, shares=[{"share": 0.1, "runs": runs}], empty=runs[0]
        )
    panels = panels_of("figure-robustness", cells)
    assert [one.title for one in panels] == [
        "GLN, Community 2, set",
        "PaperGLN stabilised, Community 2, ordered",
        "GLN, Community 4, set",
    ]
    assert panels[0].points == {metric: {0.0: [1.0], 0.1: [1.0, 3.0]} for metric in MMD}
    assert panels[0].at(0.1) == dict.fromkeys(MMD, 2.0)
    assert panels[0].floor == dict.fromkeys(MMD, 0.5)
    assert panels[2].floor == {}


def test_panels_run_over_the_steps_of_the_rows() -> None:
    cells = no_cells()
    for steps in (1, 5):
        name = f"set/{COLUMN}/gln-{steps}"
        cells["figure-depth"][name] = measured(name, scores=dict.fromkeys(MMD, float(steps)))
    name = f"set/{COLUMN}/gln-6"
    cells["figure-depth"][name] = measured(name, cannot="it has five")
    (found,) = panels_of("figure-depth", cells)
    assert found.points == {metric: {1: [1.0], 5: [5.0]} for metric in MMD}
    assert panels_of("table-mmd", cells) == []
