"""The triangle product that the mixing is compared with."""

from __future__ import annotations

import pytest
import torch

from benchmarks import mixing
from gln.errors import GLNError
from gln.models.pairs import AllPairs


def test_the_triangle_product_is_its_formula_and_reads_pairs_alone() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 1, 4, 4, 3)
    slow = torch.stack([(a[0, i] * b[0, j]).sum(0) for i in range(4) for j in range(4)]).view(1, 4, 4, 3)
    assert torch.allclose(mixing.triangle(a, b), slow / 2, atol=1e-6)
    mask = torch.ones(1, 4, 4, dtype=torch.bool)
    mask[:, :, 3] = mask[:, 3] = False
    module, around = mixing.TriangleProduct(8), torch.randn(1, 4, 4, 8)
    other = torch.where(mask[..., None], around, 7.0)
    first, second = module(AllPairs(mask), around), module(AllPairs(mask), other)
    assert torch.equal(first[mask], second[mask])


@pytest.mark.skipif(torch.cuda.is_available(), reason="it runs there")
def test_without_a_gpu_there_is_nothing_to_measure() -> None:
    with pytest.raises(GLNError, match="GPU"):
        mixing.run()
