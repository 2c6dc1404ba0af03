"""Cells in processes of their own: the same numbers, no training twice, no failure lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gln.errors import GLNError
from reproduction.__main__ import reproduce
from reproduction.cells import Cell, Places, choose
from reproduction.runner import by_training, run_cells


def test_cells_that_share_a_training_never_run_at_the_same_time() -> None:
    places, cells = Places(), choose([], "full", None)
    groups = by_training(cells, places)
    assert sorted(cell.key for group in groups for cell in group) == sorted(cell.key for cell in cells)
    folders = [{cell.run_folder(places) for cell in group} for group in groups]
    assert all(len(folder) == 1 for folder in folders)
    assert len(set().union(*folders)) == len(groups)


def test_the_numbers_are_those_of_one_after_the_other_and_a_failure_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    alone, together = Places(tmp_path / "alone"), Places(tmp_path / "together")

    def one(experiment: str, name: str) -> Cell:
        return choose([experiment], "smoke", f"ordered/{name}")[0]

    broken = one("table-scores", "surfaces-100-all/constant")
    cells = [
        one("table-scores", "community-2/stabilised"),
        one("figure-robustness", "community-2/stabilised"),  # shares its training with the first
        one("table-scores", "figures/constant"),  # waits for the end of another
    ]
    in_the_way = broken.path(together).parent  # so its result cannot be written
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    run_cells(cells, alone, say=lambda line: None)
    with pytest.raises(GLNError, match=f"Not measured: {broken.name}; the messages above"):
        run_cells([broken, *cells], together, jobs=2)
    for cell in cells:
        one_by_one, other = (json.loads(cell.path(places).read_text()) for places in (alone, together))
        for what in ("scores", "shares"):
            assert one_by_one.get(what) == other.get(what)
    said, complained = capfd.readouterr()
    assert all(f"{cell.experiment.name} {cell.name}: " in said for cell in cells)
    assert "File exists" in complained
    assert "Traceback" not in complained
    assert run_cells(cells, together, jobs=2) == 0


def test_no_jobs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match="Got --jobs 0; expected at least 1"):
        reproduce(("table-scores",), scale="smoke", jobs=0, root=tmp_path)
