"""The benchmark of the mixing's kernels."""

from __future__ import annotations

import pytest
import torch

from benchmarks import mixing
from gln.errors import GLNError


@pytest.mark.skipif(torch.cuda.is_available(), reason="it runs there")
def test_without_a_gpu_there_is_nothing_to_measure() -> None:
    with pytest.raises(GLNError, match="GPU"):
        mixing.run()
