"""Two checkouts side by side: what is called slower, and that a worker runs the code it is told to."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import old_and_new as bench
from gln.errors import GLNError
from tests.conftest import run

ROOT = bench.ROOT


def test_this_checkout_beside_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    case = bench.Case("predict", 2, 5, threads=1)
    monkeypatch.setattr(bench, "cases", lambda *_: [case, replace(case, kind="scale")])
    facts = bench.run(ROOT, pairs=1, only=("predict",))
    (row,) = facts["rows"]
    assert row["low"] == row["ratio"] == row["high"] == row["new_seconds"] / row["old_seconds"] > 0
    assert facts["settings"]["old"] == facts["settings"]["new"]


def measured(case: bench.Case) -> float:
    return bench.KINDS[case.kind](case)()


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in bench.cases(quick=True, gpu=False)
        if case.kind in ("predict", "step") and case.threads == 2
    ],
    ids=lambda case: case.what,
)
def test_calls_are_measured(case: bench.Case) -> None:
    assert measured(case) > 0


def test_commands_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_here(command: list[str], cwd: str, **_: object) -> None:
        monkeypatch.chdir(cwd)
        assert run(*command[3:]) == 0

    monkeypatch.setattr(bench.subprocess, "run", run_here)
    assert measured(bench.Case("files", 2, 5)) > 0


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.2, 1.3, 1.25, 1.2, 1.22, 1.3, 1.28], "slower"),
        ([1.2, 1.0, 1.25, 1.05, 1.22, 1.3, 1.28], "not slower"),  # the interval still holds 1.05
        ([0.8, 0.9, 0.7, 0.8, 0.85, 0.8, 0.9], "faster"),
    ],
)
def test_slower_is_what_the_interval_excludes(
    monkeypatch: pytest.MonkeyPatch, ratios: list[float], verdict: str
) -> None:
    class Worker(nullcontext):
        def __init__(self, case: bench.Case, checkout: Path) -> None:
            super().__init__(self)
            self.times = iter([2.0] * 7 if checkout.name == "old" else [2 * ratio for ratio in ratios])

        def wait(self) -> None:
            pass

        def seconds(self) -> float:
            return next(self.times)

    monkeypatch.setattr(bench, "Worker", Worker)
    row = bench.compare(bench.Case("predict", 1, 3), Path("old"), Path("new"), 7)
    assert row["verdict"] == verdict
    assert row["low"] <= row["ratio"] <= row["high"]
    assert row["ratios"] == pytest.approx(ratios)


def test_a_worker_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.sys, "executable", "false")
    with pytest.raises(GLNError, match="could not measure 'predict, 1 × 3 points"):
        bench.compare(bench.Case("predict", 1, 3), ROOT, ROOT, 1)


def test_a_folder_that_is_no_checkout_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match=r"no src/gln"):
        bench.run(tmp_path)
