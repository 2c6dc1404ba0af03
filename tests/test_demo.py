"""The demo, in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import demo


def test_it_trains_scores_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = demo.learn_figures(tmp_path, images=8, held_out=6, epochs=1)
    assert 0 <= scores["iou"] <= 1
    scores = demo.predict_surfaces(tmp_path, count=6)
    assert scores["iou"] > 0.9
    assert (tmp_path / "figures.png").stat().st_size > 10_000
    assert (tmp_path / "surfaces.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert printed.count("IoU ↑") == 2
