"""The benchmark of time to accuracy: both are trained and tested, and what was reached is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import time_to_accuracy as bench
from benchmarks.common import notes
from gln.errors import GLNError

TINY = replace(bench.CPU, points=6, sets=64, epochs=(1,), model={"width": 8, "pair_width": 8, "steps": 1})


def test_both_are_trained_and_tested() -> None:
    row = bench.run(TINY, tests=8)
    ours, peer = row["rows"]
    assert (ours["model"], peer["model"]) == ("GLN", "Set2Graph (small widths)")
    assert ours["seconds"] > 0 < peer["seconds"]
    assert 0 < ours["f1"] <= 1
    assert 0 < peer["f1"] <= 1
    assert notes(row) == ["Aim: an F1 of 0.95."]


def test_no_test_sets_are_refused() -> None:
    with pytest.raises(GLNError, match="tests=0"):
        bench.run(TINY, tests=0)
