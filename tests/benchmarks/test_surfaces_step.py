"""The benchmark of a training step over candidates."""

from __future__ import annotations

import pytest

from benchmarks import surfaces_step as bench
from gln.errors import GLNError


def test_a_step_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.torch.cuda, "is_available", lambda: False)
    facts = bench.run(points=144, graphs=1, candidates=8, steps=1)
    (row,) = facts["rows"]
    assert row["way"] == "eager"
    assert row["seconds"] > 0


def test_a_mistake_is_one_sentence() -> None:
    with pytest.raises(GLNError, match="graphs=0"):
        bench.run(graphs=0)
