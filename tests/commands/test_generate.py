"""``gln train`` and ``gln generate`` with a flow, from a family to files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gln
from tests.conftest import run

MODEL = "GraphFlow:width=8,pair_width=8,kernels=2,steps=1,sampling_steps=4"


def test_a_flow_is_trained_and_its_graphs_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    train = ["train", "tree:nodes=6", "--model", MODEL, "-o", "run", "--count", "20", "--epochs", "1"]
    assert run(*train, "--no-progress") == 0
    assert "distinct graphs" in capsys.readouterr().out
    how = ["--sampling-steps", "3", "--stochasticity", "5"]
    made = ["generate", "run", "-o", "made.npz", "--count", "40", "--against", "tree:nodes=6"]
    assert run(*made, *how) == 0
    assert "valid, unique and novel" in capsys.readouterr().out
    with np.load("made.npz") as arrays:
        assert arrays["batch"].tolist() == np.repeat(np.arange(40), 6).tolist()
        assert (arrays["edge_index"][0] // 6 == arrays["edge_index"][1] // 6).all()
    assert run("generate", "run", "-o", "made.npz", "--count", "2") == 2  # it exists
    assert run("evaluate", "run", "--on", "tree:nodes=6") == 2
    assert "see gln generate" in capsys.readouterr().err
    assert run("view", "made.npz", "-o", "made.html", "--count", "2") == 0
    assert run("view", "run", "-o", "forming.html", "--count", "2") == 0
    assert run("generate", "run", "-o", "drawn.html", "--count", "2") == 0
    forming, drawn, made = (Path(f"{name}.html").read_text() for name in ("forming", "drawn", "made"))
    assert '"steps":5' in forming
    assert '"steps":5' in drawn
    assert '"steps"' not in made
    assert len(gln.generate(gln.load("run"), 3, sampling_steps=2)) == 3


def test_what_is_for_flows_is_refused_elsewhere() -> None:
    with pytest.raises(gln.GLNError, match="not a flow"):
        gln.generate(gln.GLN(), 1, sampling_steps=3)
