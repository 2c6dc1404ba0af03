"""Cells in processes of their own: the same numbers, no training twice, no failure lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gln.errors import GLNError
from reproduction.__main__ import reproduce
from reproduction.runner import Places, by_training, choose, run_cells


def test_cells_that_share_a_training_never_run_at_the_same_time() -> None:
    places, cells = Places(), choose([], "full", None)
    groups = by_training(cells, places)
    assert sorted(cell.key for group in groups for cell in group) == sorted(cell.key for cell in cells)
    folders = [{cell.run_folder(places) for cell in group} for group in groups]
    assert all(len(folder) == 1 for folder in folders)
    assert len(set().union(*folders)) == len(groups)


def test_the_numbers_are_those_of_one_after_the_other(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    alone, together = Places(tmp_path / "alone"), Places(tmp_path / "together")
    names = ("ordered/community-2/stabilised", "ordered/figures/constant")
    cells = [*choose(["table-scores"], "smoke", names[0]), *choose(["table-scores"], "smoke", names[1])]
    cells += choose(["figure-robustness"], "smoke", names[0])  # shares its training with the first
    run_cells(cells, alone, say=lambda line: None)
    assert run_cells(cells, together, jobs=2) == 3
    for cell in cells:
        one, other = (json.loads(cell.path(places).read_text()) for places in (alone, together))
        assert (one.get("scores"), one.get("shares")) == (other.get("scores"), other.get("shares"))
    said = capfd.readouterr().out
    assert all(f"{cell.experiment.name} {cell.name}: " in said for cell in cells)
    assert run_cells(cells, together, jobs=2) == 0


def test_a_failure_is_named_and_the_others_are_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    places = Places(tmp_path)
    broken, fine = (
        choose(["table-scores"], "smoke", name)[0]
        for name in ("ordered/community-2/constant", "ordered/figures/constant")
    )
    in_the_way = broken.path(places).parent  # so its result cannot be written
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    with pytest.raises(GLNError, match="Not measured: ordered/community-2/constant; the messages above"):
        run_cells([broken, fine], places, jobs=2)
    assert fine.is_measured(places)
    said = capfd.readouterr().err
    assert "File exists" in said
    assert "Traceback" not in said


def test_no_jobs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match="Got --jobs 0; expected at least 1"):
        reproduce(("table-scores",), scale="smoke", jobs=0, root=tmp_path)
