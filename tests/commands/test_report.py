"""``gln report``, and the report that ``gln train`` leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.test_train import QUICK, write_graphs
from tests.conftest import run
from tests.viewing import decoding


def test_training_leaves_a_report_and_gln_report_writes_it_again(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    assert run("train", "delaunay:points=6", "-o", "runs/one", "--count", "12", *QUICK) == 0
    out = capsys.readouterr().out
    assert out.endswith("Wrote runs/one/report.html.\n")
    page = Path("runs/one/report.html")
    before = page.read_bytes()
    page.unlink()
    assert run("report", "runs/one") == 0
    assert capsys.readouterr().out == "Wrote runs/one/report.html.\n"
    assert page.read_bytes() == before
    assert run("report", "runs/one", "-o", "new/page.html") == 0
    assert Path("new/page.html").read_bytes() == before
    for row in decoding.data_of(page)["scores"]["rows"]:  # the numbers that were printed
        assert f"{row['title']} {row['arrow']}" in out


def test_files_that_are_skipped_are_named(here: Path, capsys: pytest.CaptureFixture) -> None:
    write_graphs(here / "data", 6)
    (here / "bad.csv").write_text("")
    assert run("train", "data", "bad.csv", "-o", "run", *QUICK) == 1
    assert Path("run/report.html").exists()
    capsys.readouterr()
    assert run("report", "run", "-o", "again.html") == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("Wrote again.html.\n")
    assert "skipped" in captured.err
    assert Path("again.html").read_bytes() == Path("run/report.html").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere is not a run folder"),
        (["."], ". is not a run folder"),
        ([".", "-o", "a.png"], "pages are written as .html"),
    ],
)
def test_a_mistake_is_one_sentence(
    here: Path, capsys: pytest.CaptureFixture, words: list[str], message: str
) -> None:
    assert run("report", *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(here.iterdir())
