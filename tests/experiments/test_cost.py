"""Every second is counted once."""

from __future__ import annotations

from gln.experiments.cost import cost, kind_of, spendings
from tests.experiments.made import measured, no_cells

CELL = "ordered/community-2/stabilised"


def test_a_cell_that_two_tables_share_is_counted_once() -> None:
    cells = no_cells()
    for name in ("table-mmd", "table-scores"):
        cells[name][CELL] = measured(CELL, seconds=3.0)
    assert spendings(cells) == [("CPU", 3.0)]


def test_a_training_that_two_cells_read_is_counted_once() -> None:
    cells = no_cells()
    trained = {"training_seconds": 50.0}
    cells["table-mmd"][CELL] = measured(CELL, seconds=1.0, system=trained, environment={"time": "1"})
    cells["figure-robustness"][CELL] = measured(CELL, seconds=90.0, system=trained, environment={"time": "2"})
    assert (
        sum(spent for _, spent in spendings(cells)) == 50 + 90
    )  # the first second was the end of the training
    cells["figure-robustness"][CELL]["environment"]["time"] = (
        "0"  # it came first, and trained within its seconds
    )
    assert sum(spent for _, spent in spendings(cells)) == 1 + 90


def test_minutes_are_summed_by_kind_of_device() -> None:
    assert kind_of("CPU, 4 threads") == "CPU"
    cells = no_cells()
    for row, device in (("constant", "CPU, 1 threads"), ("copy", "CPU, 2 threads"), ("gln", "NVIDIA H200")):
        name = f"ordered/community-2/{row}"
        cells["table-mmd"][name] = measured(name, seconds=90.0, device=device)
    name = "ordered/figures/released"
    cells["table-mmd"][name] = measured(name, seconds=500.0, cannot="too large")
    assert cost(cells)[0].startswith(
        "The cells on this page took 3 minutes on CPU (2 cells) and 2 minutes on NVIDIA H200 (1 cell)"
    )
