"""``gln view``, and ``--view`` on the commands that have something to show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.commands.test_train import QUICK, write_graphs
from tests.conftest import run
from tests.viewing import decoding


def test_a_family_alone_and_with_a_model(here: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("view", "delaunay:points=9", "--count", "2") == 0
    assert capsys.readouterr().out == "Wrote page.html: 2 graphs.\n"
    assert "chances" not in decoding.data_of(here / "page.html")["views"][0]
    words = ["view", "delaunay:points=9", "--model", "delaunay", "-o", "new/a.html", "--count", "1"]
    assert run(*words) == 0
    data = decoding.data_of(here / "new" / "a.html")
    assert data["title"] == "delaunay on delaunay:points=9"
    assert data["views"][0]["steps"] == 5


def test_a_run_is_shown_on_graphs_of_its_own(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    write_graphs(here / "data", 12)
    assert run("train", "data", "-o", "files", "--view", "trained.html", *QUICK) == 0
    assert len(decoding.data_of(here / "trained.html")["views"]) == 2
    assert run("train", "delaunay:points=6", "-o", "family", "--count", "12", *QUICK) == 0
    monkeypatch.chdir(here / "data")  # from anywhere
    for name, count in (("files", 2), ("family", 6)):
        assert run("view", f"../{name}", "-o", f"../{name}.html") == 0
        views = decoding.data_of(here / f"{name}.html")["views"]
        assert len(views) == count
        assert all(view["truth"] and "chances" in view for view in views)
    # Predictions that are named are not passed over for the model of the run.
    (here / "edges.csv").write_text("graph,source,target,probability\na.csv,0,1,1\n")
    assert run("view", "../family", "--predicted", "../edges.csv", "-o", "none.html") == 2
    assert "edges.csv holds no graph" in capsys.readouterr().err
    # The test graphs of a run are those that training had kept aside.
    names = ("trained.html", "files.html")
    assert len({decoding.data_of(here / name)["views"][1]["pos"] for name in names}) == 1

    words = ["evaluate", "../family", "--on", "delaunay:points=6", "--count", "3", "--view", "scored.html"]
    assert run(*words) == 0
    assert capsys.readouterr().out.endswith("Wrote scored.html: 3 graphs.\n")


def test_a_sampler_shows_what_it_draws(here: Path) -> None:
    words = ["train", "community:size=4", "-o", "run", "--model", "copy", "--count", "12", "--no-progress"]
    assert run(*words, "--view", "drawn.html") == 0
    assert len(decoding.data_of(here / "drawn.html")["views"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["view"], "nothing to show"),
        (["view", "nowhere"], "no file and no family 'nowhere'"),
        (["view", "delaunay", "-o", "a.png"], "'a.png'; pages are written as .html"),
        (["view", "delaunay", "--count", "0"], "count=0"),
        (["view", "delaunay", "--threshold", "2"], "threshold=2"),
        (["view", "delaunay", "--model", "surfaces"], "trained with 3"),
        (["view", "delaunay", "--model", "delaunay", "--predicted", "a.csv"], "one of them"),
        (["evaluate", "delaunay", "--on", "delaunay", "--view", "a.pdf"], ".html"),
        (["train", "delaunay", "-o", "run", "--view", "a.pdf"], ".html"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    here: Path, capsys: pytest.CaptureFixture, words: list[str], message: str
) -> None:
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(here.iterdir())


def test_what_is_too_large_is_refused(
    here: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is computed for it."""
    monkeypatch.setattr("gln.workflows.views.watch", None)
    np.save("points.npy", np.random.default_rng(0).random((100_001, 2)))
    assert run("view", "points.npy", "--model", "delaunay-small") == 2
    assert "the smallest here has 100,001 nodes" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["points.npy"]
