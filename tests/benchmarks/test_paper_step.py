"""The benchmark compares like with like and reports what it measured."""

from __future__ import annotations

import pytest
import torch

from benchmarks import paper_step
from benchmarks.paper_step import run
from gln.errors import GLNError


def test_both_ways_have_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_step, "in_fresh_process", lambda call, *args: call(*args))
    threads = torch.get_num_threads()
    result = run(nodes=12, batch=2)
    assert set(result) == {"name", "ours_seconds", "peer_seconds", "ratio", "settings"}
    assert result["ratio"] == result["peer_seconds"] / result["ours_seconds"] > 0
    assert result["settings"]["difference"] < 1e-9
    for memory in (result["settings"]["ours_memory"], result["settings"]["peer_memory"]):
        assert memory["peak_gib"] >= memory["before_gib"] > 0
    assert torch.get_num_threads() == threads


def test_mistakes_are_named() -> None:
    with pytest.raises(GLNError, match="nodes=1"):
        run(nodes=1)
