"""The compiled mixing for training on a CPU is the plain one, with its gradient."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from gln.compiling import can_compile, compiled, exp, spread
from gln.models import mixing_cpu
from gln.models.candidates import candidate_pairs
from gln.models.pairs import DensePairs, SparsePairs
from tests.models.test_gln import batch_of, close, model_of

HEADS, WIDTH = 2, 3
PLAIN = 2**60  # no batch has as many scores

pytestmark = pytest.mark.skipif(not can_compile(), reason="numba is not installed")
both_forms = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is worth it."""
    monkeypatch.setattr(mixing_cpu, "WORTH", 0)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def pairs_of(
    sizes: tuple[int, ...], nearest: int, sparse: bool, padding: int = 0
) -> DensePairs | SparsePairs:
    nodes = max(sizes)
    points = torch.rand(len(sizes), nodes, 2, generator=torch.Generator().manual_seed(nodes))
    points = torch.cat([points, points.new_zeros(len(sizes), padding, 2)], dim=1)
    mask = torch.arange(nodes + padding) < torch.tensor(sizes)[:, None]
    return candidate_pairs(points, mask, nearest, sparse=sparse)


def read_of(pairs: DensePairs | SparsePairs, dtype: torch.dtype = torch.float64, size: float = 1) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return (torch.randn(*pairs.mask.shape, 4, HEADS, WIDTH, generator=rng, dtype=torch.float64) * size).to(
        dtype
    )


def answers(pairs: DensePairs | SparsePairs, read: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of the pairs alone: the mixed values, the log-normaliser and the gradient of a function of both."""
    read = read.detach().requires_grad_()
    mixed, total = pairs.mix(read)
    real, weight = pairs.mask, torch.linspace(-1, 1, WIDTH, dtype=read.dtype)
    (gradient,) = torch.autograd.grad((mixed[real] @ weight).sin().sum() + total[real].square().sum(), read)
    assert not gradient[~real].any()
    return mixed[real], total[real], gradient[real]


@both_forms
@pytest.mark.parametrize("sizes", [(11,), (1, 18, 2, 6), (4, 33)], ids=str)
@pytest.mark.parametrize("nearest", [3, 40])
def test_it_is_the_plain_mixing_with_its_gradient(
    sizes: tuple[int, ...], nearest: int, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of graphs with and without pairs, padded or not, with few candidates and with all."""
    pairs = pairs_of(sizes, nearest, sparse)
    for size in (1.0, 10.0):
        got = answers(pairs, read_of(pairs, size=size))
        with monkeypatch.context() as context:
            context.setattr(mixing_cpu, "WORTH", PLAIN)
            expected = answers(pairs, read_of(pairs, size=size))
        for ours, theirs in zip(got, expected, strict=True):
            assert ours.isfinite().all()
            assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@both_forms
def test_float32_is_as_exact_as_the_plain_form(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = pairs_of((25, 18), 12, sparse)
    given = read_of(pairs, torch.float32)
    got, exact = answers(pairs, given), answers(pairs, given.double())
    monkeypatch.setattr(mixing_cpu, "WORTH", PLAIN)
    for ours, theirs, truth in zip(got, answers(pairs, given), exact, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - truth).square().mean() < 4 * (theirs - truth).square().mean()


@both_forms
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_threads_and_repeats_change_no_bit(
    sparse: bool, dtype: torch.dtype, threads: Callable[[int], None]
) -> None:
    pairs = pairs_of((7, 21, 13), 6, sparse)
    given, found = read_of(pairs, dtype), []
    torch.use_deterministic_algorithms(True)
    try:
        for count in (1, 2, 3, 2):
            threads(count)
            found.append(answers(pairs, given))
    finally:
        torch.use_deterministic_algorithms(False)
    for other in found[1:]:
        assert all(torch.equal(*both) for both in zip(found[0], other, strict=True))


def test_padding_changes_no_bit() -> None:
    pairs, padded = (pairs_of((9, 20), 5, False, padding) for padding in (0, 13))
    given = read_of(pairs)
    more = torch.full((*padded.mask.shape, 4, HEADS, WIDTH), torch.nan, dtype=given.dtype)
    more[:, :20, :20] = given
    for ours, theirs in zip(answers(pairs, given), answers(padded, more), strict=True):
        assert ours.equal(theirs)


@both_forms
@pytest.mark.parametrize("part", range(4))
def test_what_is_spoilt_is_not_hidden(sparse: bool, part: int) -> None:
    pairs = pairs_of((12,), 40, sparse)
    given = read_of(pairs, torch.float32)
    given[..., part, 0, 1] = torch.nan
    mixed, total, gradient = answers(pairs, given)
    assert mixed[:, 0, 1].isnan().all()
    assert total[:, 0].isnan().all() == (part < 2)  # first and second have no part in the scores
    assert gradient[:, :2, 0].isnan().all()


@both_forms
def test_inputs_and_gradients_need_not_be_contiguous(sparse: bool) -> None:
    pairs = pairs_of((8, 5), 4, sparse)
    given = read_of(pairs)
    scattered = given.transpose(0, -1).contiguous().transpose(0, -1)
    for ours, theirs in zip(answers(pairs, scattered), answers(pairs, given), strict=True):
        assert ours.equal(theirs)
    gradients = []
    for ones in (torch.ones(()), torch.ones(*pairs.mask.shape, HEADS, WIDTH)):
        leaf = given.clone().requires_grad_()
        mixed, _ = pairs.mix(leaf)
        mixed.backward(ones.to(mixed).expand(mixed.shape))
        gradients.append(leaf.grad)
    assert gradients[0].equal(gradients[1])


@both_forms
def test_compiled_the_model_gives_the_same_answer_and_gradient(sparse: bool) -> None:
    model = model_of(steps=1, pair_width=HEADS * WIDTH, kernels=HEADS)
    batch, found = batch_of((9, 6)), []
    pairs = candidate_pairs(batch.pos, batch.mask, 4, sparse=sparse)
    for again in (False, True):
        if again:
            model.compile(backend="aot_eager")
        model.zero_grad()
        output = model(batch, pairs=pairs)
        output.logits[-1][output.mask].square().sum().backward()
        found.append([output.probabilities(), *(weight.grad.clone() for weight in model.parameters())])
    assert all(close(*both) for both in zip(*found, strict=True))


@both_forms
def test_transformed_by_torch_it_is_the_plain_form(sparse: bool) -> None:
    pairs = pairs_of((9,), 4, sparse)
    read = read_of(pairs).requires_grad_()

    def scalar(read: Tensor) -> Tensor:
        return pairs.mix(read)[0][pairs.mask].square().sum()

    (expected,) = torch.autograd.grad(scalar(read), read)
    assert close(torch.func.grad(scalar)(read.detach()), expected)


def test_what_is_not_worth_it_or_not_possible_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    read = torch.zeros(1, 8, 8, 4, HEADS, WIDTH, requires_grad=True)
    assert mixing_cpu.takes(read)
    assert mixing_cpu.takes(read.double())
    assert not mixing_cpu.takes(read.detach())  # without gradients there are other ways
    assert not mixing_cpu.takes(read.half())
    assert not mixing_cpu.takes(read.bfloat16())
    monkeypatch.setattr(mixing_cpu, "WORTH", 8**3 * HEADS)
    assert mixing_cpu.takes(read)
    monkeypatch.setattr(mixing_cpu, "WORTH", 8**3 * HEADS + 1)
    assert not mixing_cpu.takes(read)


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
def test_a_forked_process_has_threads_of_its_own(threads: Callable[[int], None]) -> None:
    threads(2)
    sum_of_rows()  # the threads are there
    process = multiprocessing.get_context("fork").Process(target=sum_of_rows)
    process.start()
    process.join(30)
    stuck = process.is_alive()
    process.kill()
    assert not stuck
    assert process.exitcode == 0
