"""The benchmark of prediction: every model on the same sets, beside Set2Graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import predict as bench
from benchmarks.common import table
from gln.errors import GLNError


def test_every_model_is_timed_and_compared_with_the_peer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "PEER_RESULT", tmp_path / "none.json")
    row = bench.run(points="20", sets=4, scored=6, repeats=1, peer="small")
    alone = [line for line in row["rows"] if line["threads"] == 1]
    assert [(line["model"], line["candidates"]) for line in alone] == [
        ("Set2Graph (small widths)", None),
        *bench.OURS,
    ]
    peer, ours, *fewer, smaller = alone
    assert peer["ratio"] == 1
    assert ours["ratio"] == pytest.approx(ours["graphs_per_second"] / peer["graphs_per_second"])
    assert ours["f1"] > 0.95
    assert {line["f1"] for line in fewer} == {ours["f1"]}  # as many candidates as there are nodes
    assert smaller["f1"] > 0.9
    assert peer["f1"] is None
    lines = table(row)
    assert len(lines) == 1 + len(row["rows"])
    assert f"{ours['ratio']:.4g}" in lines[2]


def test_the_peers_f1_is_what_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"points": 50, "test": {"dice": 0.9}}))
    monkeypatch.setattr(bench, "PEER_RESULT", path)
    assert bench._peer_f1("published", "50") == 0.9
    assert bench._peer_f1("published", "51") is None
    assert bench._peer_f1("small", "50") is None


def test_a_mistake_is_one_sentence() -> None:
    with pytest.raises(GLNError, match="sets=0"):
        bench.run(sets=0)
