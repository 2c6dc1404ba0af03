"""The benchmark of communities: the graphs are what they should be, and every way is scored on all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks import communities as bench
from gln.errors import GLNError

TINY = replace(
    bench.Size(),
    nodes=80,
    train=5,
    val=2,
    epochs=1,
    lfr={"max_degree": 20, "min_community": 15, "max_community": 40},
    model={"width": 8, "pair_width": 8, "steps": 1},
)


def test_a_graph_is_determined_by_its_number_and_seed() -> None:
    one, same, other = (bench.draw(TINY, 10, number, 0) for number in (0, 0, 1))
    assert torch.equal(one.pos, same.pos)
    assert torch.equal(one.edge_index, same.edge_index)
    assert not torch.equal(one.pos, other.pos)
    inside = one.community[one.edge_index[0]] == one.community[one.edge_index[1]]
    assert inside.float().mean() > 0.7
    assert one.pos.shape == (80, bench.AXES)


def test_every_way_is_scored_for_every_mixing() -> None:
    facts = bench.run(TINY, degree=10, tests=3)
    assert len(facts["rows"]) == 6
    for row in facts["rows"]:
        mixed = [row[f"mixing_{mixing}"] for mixing in bench.MIXING]
        assert row["all"] == pytest.approx(sum(mixed) / 3)
    true = facts["rows"][-1]
    assert true["mixing_0.1"] > 0.8


def test_too_few_tests_are_refused() -> None:
    with pytest.raises(GLNError, match="tests=2"):
        bench.run(TINY, tests=2)
