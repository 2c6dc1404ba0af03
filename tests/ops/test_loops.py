"""What compiled loops are made of: vectors, the exponential, threads."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest
import torch

from gln.ops.loops import compiled, spread
from gln.ops.vectors import add_scaled, dot, exp


def loop(width):  # type: ignore[no-untyped-def]
    def both(x, y, out, found):  # type: ignore[no-untyped-def]
        found[0] = dot(x, 1, y, 2, width)
        add_scaled(out, 1, found[0], x, 3, width)
        add_scaled(x, 2, found[0], x, 0, width)  # what is written overlaps what is read

    return both


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 16, 33])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_vectors_are_stretches_of_arrays(width: int, kind: type) -> None:
    rng = np.random.default_rng(width)
    x, y, out = (rng.normal(size=width + 6).astype(kind) for _ in range(3))
    given, found = [x.copy(), y.copy(), out.copy()], np.zeros(1, kind)
    compiled(loop(width))(*given, found)
    share = (x[1 : width + 1] * y[2 : width + 2]).sum()
    exact = 1e-5 if kind is np.float32 else 1e-13
    np.testing.assert_allclose(found[0], share, rtol=exact, atol=exact)
    out[1 : width + 1] += share * x[3 : width + 3]
    x[2 : width + 2] = x[2 : width + 2] + share * x[:width].copy()
    for got, expected in zip(given, (x, y, out), strict=True):
        np.testing.assert_allclose(got, expected, rtol=exact, atol=exact)


def exponentials(begin, end, x, out):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        out[i] = exp(x[i])


@pytest.mark.parametrize(("dtype", "close_to"), [(np.float32, 3e-7), (np.float64, 1e-15)])
def test_the_exponential_is_exact_and_keeps_what_is_no_number(dtype: type, close_to: float) -> None:
    x = np.linspace(-86, 80, 10_001).astype(dtype)
    x = np.concatenate([x, np.array([-np.inf, -1e4, 0, np.nan], dtype)])
    out = np.empty_like(x)
    compiled(exponentials)(0, len(x), x, out)
    assert out[-4:].tolist()[:3] == [0, 0, 1]
    assert np.isnan(out[-1])
    np.testing.assert_allclose(out[:-4], np.exp(x[:-4].astype(np.float64)), rtol=close_to)


def shared_sum(begin, end, out):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        out[i] = i


def sum_of_rows() -> None:
    out = np.zeros(10)
    spread(shared_sum, 0, 10, out)
    assert out.sum() == 45


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes are not forked")
def test_a_forked_process_has_threads_of_its_own() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        sum_of_rows()  # the threads are there
        process = multiprocessing.get_context("fork").Process(target=sum_of_rows)
        process.start()
        process.join(30)
    finally:
        torch.set_num_threads(before)
    stuck = process.is_alive()
    process.kill()
    assert not stuck
    assert process.exitcode == 0
