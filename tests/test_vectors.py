"""The vectors of compiled loops: what Python makes of the same lines."""

from __future__ import annotations

import numpy as np
import pytest

from gln.compiling import can_compile, compiled
from gln.vectors import add_scaled, add_scaled_sum, dot, dot_sum

pytestmark = pytest.mark.skipif(not can_compile(), reason="numba is not installed")


def loop(width):
    def every(x, y, z, out, found):
        found[0] = dot(x, 1, y, 2, width)
        found[1] = dot_sum(x, 0, y, 3, z, 2, width)
        add_scaled(out, 1, found[0], x, 3, width)
        add_scaled_sum(out, 2, found[1], y, 1, z, 0, width)
        add_scaled(x, 2, found[0], x, 0, width)  # what is written overlaps what is read

    return every


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 12, 16, 24, 33])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_compiled_and_in_python_they_do_the_same(width: int, kind: type) -> None:
    rng = np.random.default_rng(width)
    arrays = [rng.normal(size=width + 6).astype(kind) for _ in range(4)]
    found = []
    for how in (loop(width), compiled(loop(width))):
        given, numbers = [array.copy() for array in arrays], np.zeros(2, kind)
        how(*given, numbers)
        found.append([*given, numbers])
    exact = 1e-5 if kind is np.float32 else 1e-13
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=exact, atol=exact)
