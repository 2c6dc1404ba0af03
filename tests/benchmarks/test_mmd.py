"""The benchmark compares like with like and reports what it measured."""

from __future__ import annotations

import sys

import pytest

from benchmarks.mmd import run
from gln.errors import GLNError


def test_ours_and_the_peer_agree_and_nothing_is_printed(capfd) -> None:
    result = run(graphs=3, nodes=12)
    assert set(result) == {"name", "ours_seconds", "peer_seconds", "ratio", "settings"}
    assert result["ratio"] == result["peer_seconds"] / result["ours_seconds"] > 0
    assert result["settings"]["difference"] < 1e-9
    assert capfd.readouterr().out == ""


def test_a_missing_peer_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyemd", None)
    with pytest.raises(GLNError, match=r"pyemd.*pip install 'gln\[bench\]'"):
        run(graphs=2, nodes=10)


def test_mistakes_are_named() -> None:
    with pytest.raises(GLNError, match="graphs=0"):
        run(graphs=0)
