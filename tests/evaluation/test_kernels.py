"""Kernel matrices are what kernels promise, and their distances those of the textbook."""

from __future__ import annotations

import pytest
import torch

from gln.errors import GLNError
from gln.evaluation import Kernel
from tests.evaluation import slow


def histograms(count: int, bins: int, seed: int) -> torch.Tensor:
    values = torch.rand(count, bins, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 4
    return values / values.sum(1, keepdim=True)


@pytest.mark.parametrize("distance", ["emd", "tv", "rbf"])
@pytest.mark.parametrize("bins", [1, 2, 30])
def test_symmetric_with_unit_diagonal_and_between_0_and_1(distance, bins) -> None:
    kernel, x, y = Kernel(distance, 0.3), histograms(7, bins, 0), histograms(5, bins, 1)
    square = kernel(x, x, 0.1)
    assert torch.equal(square, square.T)
    assert torch.equal(square.diagonal(), torch.ones(7, dtype=torch.float64))
    assert ((square >= 0) & (square <= 1)).all()
    assert torch.allclose(kernel(x, y, 0.1), kernel(y, x, 0.1).T, atol=1e-15)


@pytest.mark.parametrize(
    ("distance", "slowly"),
    [("emd", lambda x, y: slow.emd(x, y, 4)), ("tv", slow.variation), ("rbf", slow.euclidean)],
)
def test_equals_the_definition(distance, slowly) -> None:
    x, y = histograms(4, 9, 2), histograms(3, 9, 3)
    expected = [[slow.gaussian(slowly(a, b), 0.5) for b in y.tolist()] for a in x.tolist()]
    assert torch.allclose(Kernel(distance, 0.5)(x, y, 1 / 4), torch.tensor(expected).double(), atol=1e-9)


def test_only_the_earth_mover_knows_how_far_bins_are_apart() -> None:
    near, far = torch.eye(5, dtype=torch.float64)[[1, 4]]
    start = torch.eye(5, dtype=torch.float64)[:1]
    for distance, differs in (("emd", True), ("tv", False), ("rbf", False)):
        kernel = Kernel(distance, 1.0)
        assert bool(kernel(start, near[None], 1.0) > kernel(start, far[None], 1.0)) is differs


def test_mistakes_are_named() -> None:
    with pytest.raises(GLNError, match="distance='sinkhorn'; choose from emd"):
        Kernel("sinkhorn", 1.0)
    with pytest.raises(GLNError, match="sigma=0"):
        Kernel("emd", 0)
    for sigma in ("a", float("nan"), float("inf")):
        with pytest.raises(GLNError, match=f"sigma={sigma!r}"):
            Kernel("rbf", sigma)
    with pytest.raises(GLNError, match="compares histograms"):
        Kernel("emd", 1.0)(torch.ones(1, 2), torch.ones(1, 2))
