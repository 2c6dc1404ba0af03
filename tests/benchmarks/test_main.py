"""``python -m benchmarks``: every name runs, prints its table and saves what it measured."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks import families


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    try:
        program.main()
    except SystemExit as stop:
        return stop.code
    return 0


def test_every_benchmark_has_a_name_and_every_name_a_benchmark() -> None:
    here = Path(program.__file__).parent
    parts = {"__init__", "__main__", "common", "fuzz_targets"}
    files = {path.stem for path in here.glob("*.py")} - parts
    assert {name.replace("-", "_") for name in program.NAMES} == files
    assert all(callable(import_module(f"benchmarks.{name}").run) for name in files)


def test_a_result_is_printed_and_saved_with_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(families, "CASES", [("delaunay:points=5", 1200, 10), ("community:size=4", 2, None)])
    path = tmp_path / "result.json"
    assert run(monkeypatch, "families", "--seed", "3", "-o", str(path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].split("  ")[-1] == "seconds allowed"
    assert lines[-2].startswith("delaunay:points=5   1 200  ")
    saved = json.loads(path.read_text())
    assert saved["command"] == "python -m benchmarks families --seed 3"
    assert (saved["seed"], saved["rows"][1]["graphs"]) == (3, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [(["nothing"], "invalid choice: 'nothing'"), (["mmd", "--graphs", "0"], "graphs=0")],
)
def test_a_mistake_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, words: list[str], message: str
) -> None:
    assert run(monkeypatch, *words) == 2
    assert message in capsys.readouterr().err


def test_sizes_of_the_mmd_are_rows() -> None:
    facts = import_module("benchmarks.mmd_scaling").run(sizes=(2, 3), alone=4, nodes=12)
    assert [row["settings"]["graphs"] for row in facts["rows"]] == [2, 3]
    assert facts["settings"]["alone_seconds"] > 0
