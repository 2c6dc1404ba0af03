"""The summary says what was measured, and is honest about the rest."""

from __future__ import annotations

import re

from gln.experiments import cells_of, experiments
from gln.experiments.headline import MMD
from gln.experiments.summary import claims, earlier_weights, remains_open, summary
from tests.experiments.made import measured, no_cells, with_scores


def test_with_nothing_measured_it_says_so_and_has_no_number_of_ours() -> None:
    text = "\n".join(summary(no_cells(), "picture.svg"))
    assert "Nothing has been measured yet." in text
    for heading in (
        "form of the network",
        "can and cannot show",
        "unordered sets",
        "two claims",
        "remains open",
    ):
        assert sum(heading in line for line in text.splitlines() if line.startswith("### ")) == 1
    everything = {cell.key for one in experiments().values() for cell in cells_of(one, "full")}
    open_lines = "\n".join(line for line in remains_open(no_cells()) if "Cannot" in line)
    never = sum(int(count) for count in re.findall(r"\((\d+)\)", open_lines))
    assert never
    assert f"Not measured yet: {len(everything) - never} of {len(everything)} cells" in text


def test_what_is_open_shrinks_when_a_cell_is_measured() -> None:
    before = remains_open(no_cells())[0]
    cells = with_scores({"set/community-2/kronecker": {}})
    after = remains_open(cells)[0]
    count = int(before.split()[3])
    assert after.startswith(f"Not measured yet: {count - 1} of")


def test_a_bar_that_is_missed_is_said() -> None:
    assert not any("clear the bar" in line for line in remains_open(no_cells()))
    cells = with_scores({"ordered/community-2/gln": {"iou": 0.5}})
    assert (
        "GLN on ordered nodes does not clear the bar “IoU at least published” in Community 2."
        in remains_open(cells)
    )


def test_what_is_open_is_told_by_experiment() -> None:
    (line,) = (line for line in remains_open(no_cells()) if line.startswith("Not measured yet"))
    assert "`table-ablation` PaperGLN stabilised ordered (6)," in line
    assert "`table-scores`" not in line  # its cells are those of table-mmd


def test_a_network_that_gives_out_the_constant_is_not_called_robust() -> None:
    cells = with_scores({"ordered/community-2/constant": dict.fromkeys(MMD, 0.3)})
    name = "ordered/community-2/stabilised"
    shares = [{"share": share, "runs": [dict.fromkeys(MMD, 0.3)]} for share in (0.1, 1.0)]
    cells["figure-robustness"][name] = measured(name, shares=shares)
    assert claims(cells)[-1][2].startswith("shows nothing: its MMD² are the constant's throughout (0.3000 /")
    shares[1]["runs"] = [dict.fromkeys(MMD, 0.33)]
    assert claims(cells)[-1][2].startswith("confirmed: ")
    assert claims(cells)[-1][2].endswith(
        "; at 1 of 2 points of the curve, its MMD² are nearly the constant's"
    )


def test_cells_of_a_network_that_was_trained_again_are_named() -> None:
    cells, name = no_cells(), "ordered/community-2/gln"
    for experiment, time, seconds in (("table-mmd", "1", 50.0), ("figure-robustness", "2", 60.0)):
        system = {"training_seconds": seconds}
        cells[experiment][name] = measured(name, system=system, environment={"time": time})
    other = {"training_seconds": 70.0}  # another seed is another network
    cells["table-mmd"][f"{name}@1"] = measured(name, system=other, environment={"time": "3"})
    assert earlier_weights(cells) == [f"table-mmd {name}"]
    cells["table-mmd"][name]["system"]["training_seconds"] = 60.0
    assert earlier_weights(cells) == []


def test_cells_of_a_shipped_model_that_has_changed_since_are_named() -> None:
    cells = no_cells()
    for row, time, epoch in (("gln-1", "1", 5), ("gln-2", "2", 6), ("gln-3", "3", 6)):
        name = f"set/surfaces-400-all/{row}"
        system = {"shipped": "surfaces", "training": {"epoch": epoch}}
        cells["figure-depth"][name] = measured(name, system=system, environment={"time": time})
    assert earlier_weights(cells) == ["figure-depth set/surfaces-400-all/gln-1"]
    assert any("earlier weights" in line for line in remains_open(cells))
    cells["figure-depth"]["set/surfaces-400-all/gln-1"]["system"]["training"]["epoch"] = 6
    assert earlier_weights(cells) == []
    assert not any("earlier weights" in line for line in remains_open(cells))
