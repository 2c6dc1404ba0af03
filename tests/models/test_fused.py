"""The GPU kernels of the mixing; without a GPU Triton's interpreter runs them, number by number."""

from __future__ import annotations

import pytest
import torch

from gln.models.candidates import candidate_pairs
from gln.models.pairs import DensePairs

GPU = torch.cuda.is_available()
pytest.importorskip("triton", reason="the kernels need Triton")

from gln.models import fused  # noqa: E402


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("nodes", "heads", "width"), [(7, 2, 4), (11, 1, 2)] + [(100, 4, 16)] * GPU)
def test_the_kernels_equal_the_plain_mixing_and_its_gradient(
    sparse: bool, nodes: int, heads: int, width: int
) -> None:
    rng = torch.Generator().manual_seed(nodes)
    device = "cuda" if GPU else "cpu"
    points = torch.rand(2, nodes, 2, generator=rng).to(device)
    mask = torch.ones(2, nodes, dtype=torch.bool, device=device)
    mask[0, nodes - 2 :] = False
    pairs = candidate_pairs(points, mask, 4, sparse=sparse)
    shape = (2, nodes, pairs.mask.shape[2], 4, heads, width)
    read = torch.randn(shape, generator=rng).to(device).requires_grad_()
    exact = read.detach().double().requires_grad_()

    mix = fused.mix_dense if isinstance(pairs, DensePairs) else fused.mix_sparse
    mixed, total = mix(read, pairs)
    expected, expected_total = pairs.mix(exact)  # in float64 the GPU's kernels are not used
    real = pairs.mask
    assert torch.allclose(mixed[real].double(), expected[real], atol=1e-4)
    assert torch.allclose(total[real].double(), expected_total[real], atol=1e-4)

    weight = torch.randn(mixed.shape, generator=rng).to(device)
    for result, normaliser in ((mixed, total), (expected, expected_total)):
        ((result * weight)[real].sum() + normaliser[real].square().sum()).backward()
    assert torch.allclose(read.grad[real].double(), exact.grad[real], atol=1e-3)


def test_what_the_kernels_are_not_made_for_is_left_to_the_plain_form() -> None:
    def read(slots: int, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(1, 1, slots, 4, 1, width, dtype=dtype)

    assert fused.takes(read(8, 16))
    assert not fused.takes(read(8, 12))  # registers come in powers of two
    assert not fused.takes(read(fused.MOST_SLOTS + 1, 16))
    assert not fused.takes(read(8, 16, torch.float64))
