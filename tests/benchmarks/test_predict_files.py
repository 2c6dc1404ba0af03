"""The benchmark of many files: what it compares, and that it says what was extrapolated."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import predict_files
from gln.errors import GLNError
from tests.conftest import run as run_here


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run here, not in fresh processes, whose start is what the benchmark is about."""

    def predict(source: Path, output: Path) -> None:
        assert run_here("predict", "delaunay", str(source), "-o", str(output)) == 0

    monkeypatch.setattr(predict_files, "_predict", predict)


@pytest.mark.usefixtures("in_process")
def test_the_row_says_what_was_measured() -> None:
    row = predict_files.run(files=4, calls=2, nodes=5)
    assert row["ratio"] == row["peer_seconds"] / row["ours_seconds"] > 0
    assert "extrapolated from 2 calls" in row["settings"]["peer"]


@pytest.mark.usefixtures("in_process")
def test_edges_that_differ_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    read = predict_files._edges

    def lose_one(path: Path) -> dict[str, set[tuple[str, str]]]:
        found = read(path)
        if path.name == "all.csv":
            found["00000.csv"].pop()
        return found

    monkeypatch.setattr(predict_files, "_edges", lose_one)
    with pytest.raises(AssertionError, match=r"00000\.csv has different edges"):
        predict_files.run(files=2, calls=1, nodes=5)


def test_a_mistake_is_one_sentence() -> None:
    with pytest.raises(GLNError, match="calls=5"):
        predict_files.run(files=3, calls=5)
