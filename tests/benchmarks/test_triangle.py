"""The triangle product that the mixing is compared with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks import triangle as bench
from gln.errors import GLNError
from gln.models.pairs import AllPairs

TINY = replace(bench.CPU, points=6, sets=64, model={"width": 8, "pair_width": 8, "steps": 1})


def test_the_triangle_product_is_its_formula_and_reads_pairs_alone() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 1, 4, 4, 3)
    slow = torch.stack([(a[0, i] * b[0, j]).sum(0) for i in range(4) for j in range(4)]).view(1, 4, 4, 3)
    assert torch.allclose(bench.triangle(a, b), slow / 2, atol=1e-6)
    mask = torch.ones(1, 4, 4, dtype=torch.bool)
    mask[:, :, 3] = mask[:, 3] = False
    module, around = bench.TriangleProduct(8), torch.randn(1, 4, 4, 8)
    other = torch.where(mask[..., None], around, 7.0)
    first, second = module(AllPairs(mask), around), module(AllPairs(mask), other)
    assert torch.equal(first[mask], second[mask])


def test_both_are_trained_for_the_same_seconds_and_tested() -> None:
    attention, product = bench.run(TINY, epochs=2, tests=8)["rows"]
    assert (attention["mixing"], product["mixing"]) == ("attention over third nodes", "triangle product")
    assert attention["epochs"] == 2
    assert product["seconds"] == pytest.approx(attention["seconds"], rel=2)
    for row in (attention, product):
        assert 0 < row["f1"] <= 1 < row["weights"]
        assert row["step_ms"] > 0
        assert len(row["history"]) == row["epochs"]


def test_a_mistake_is_one_sentence() -> None:
    with pytest.raises(GLNError, match="epochs=0"):
        bench.run(TINY, epochs=0)
