"""The mixing over third nodes: the references are the formula, and every kernel is its reference, gradient included."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from gln.models.candidates import candidate_pairs
from gln.models.pairs import AllPairs, Pairs
from gln.ops import mix
from tests.models.test_gln import batch_of, close, model_of

HEADS, WIDTH = 2, 3
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # of the GPU's kernels

both_forms = pytest.mark.parametrize("listed", [False, True], ids=["all", "listed"])


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is worth it."""
    monkeypatch.setattr(mix, "WORTH", 0)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def pairs_of(
    sizes: tuple[int, ...], nearest: int, listed: bool, padding: int = 0, device: str = "cpu"
) -> Pairs:
    nodes = max(sizes)
    points = torch.rand(len(sizes), nodes, 2, generator=torch.Generator().manual_seed(nodes))
    points = torch.cat([points, points.new_zeros(len(sizes), padding, 2)], dim=1)
    mask = torch.arange(nodes + padding) < torch.tensor(sizes)[:, None]
    return candidate_pairs(points.to(device), mask.to(device), nearest, listed=listed)


def read_of(pairs: Pairs, dtype: torch.dtype = torch.float64, size: float = 1, width: int = WIDTH) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    shape = pairs.blocks(2**60)[0].shape
    read = torch.randn(*shape, 4, HEADS, width, generator=rng, dtype=torch.float64) * size
    return read.to(pairs.mask.device, dtype)


def mixed_of(pairs: Pairs, read: Tensor, size: int = 2**60) -> tuple[Tensor, Tensor]:
    """Of the pairs alone, in blocks of some size."""
    blocks = pairs.blocks(size)
    states = [block.pairs(read) for block in blocks]
    answers = [block.mix(block.around(states, number)) for number, block in enumerate(blocks)]
    mixed, total = (torch.cat(parts) for parts in zip(*answers, strict=True))
    return (mixed[pairs.mask], total[pairs.mask]) if isinstance(pairs, AllPairs) else (mixed, total)


def answers(pairs: Pairs, read: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mixed values, the log-normaliser and the gradient of a function of both."""
    read = read.detach().requires_grad_()
    mixed, total = mixed_of(pairs, read)
    weight = torch.linspace(-1, 1, read.shape[-1], dtype=read.dtype, device=read.device)
    (gradient,) = torch.autograd.grad((mixed @ weight).sin().sum() + total.square().sum(), read)
    if isinstance(pairs, AllPairs):
        assert not gradient[~pairs.mask].any()
        gradient = gradient[pairs.mask]
    return mixed, total, gradient


@pytest.mark.parametrize("size", [1, 17, 2**60])
@pytest.mark.parametrize("kernel", [False, True])
@both_forms
def test_it_is_three_loops(listed: bool, kernel: bool, size: int) -> None:
    """In blocks of any size, too."""
    pairs, matrix = pairs_of((9,), 3, listed), pairs_of((9,), 3, False).mask[0]
    everything = torch.randn(9, 9, 4, HEADS, WIDTH, dtype=torch.float64)
    read = everything[matrix] if listed else everything[None]
    mixed, total = mixed_of(pairs, read, size) if kernel else plainly(pairs, read, size)
    query, key, first, second = everything.unbind(2)
    for row, (i, j) in enumerate(matrix.nonzero().tolist()):
        third = [k for k in range(9) if matrix[i, k] and matrix[j, k]]
        for head in range(HEADS):
            weight = [(query[i, k, head] @ key[j, k, head]).exp() for k in third]
            value = sum(
                w * (first[i, k, head] + second[j, k, head]) for w, k in zip(weight, third, strict=True)
            )
            assert close(mixed[row, head], torch.as_tensor(value / (1 + sum(weight))).expand(WIDTH))
            assert close(total[row, head], torch.as_tensor(1 + sum(weight), dtype=torch.float64).log())


def plainly(pairs: Pairs, read: Tensor, size: int = 2**60) -> tuple[Tensor, Tensor]:
    with mix.reference():
        return mixed_of(pairs, read, size)


@both_forms
@pytest.mark.parametrize("sizes", [(11,), (1, 18, 2, 6), (4, 33)], ids=str)
@pytest.mark.parametrize("nearest", [3, 40])
def test_the_cpu_kernels_are_the_reference_with_its_gradient(
    sizes: tuple[int, ...], nearest: int, listed: bool
) -> None:
    """Of graphs with and without pairs, padded or not, with few candidates and with all."""
    pairs = pairs_of(sizes, nearest, listed)
    for size in (1.0, 10.0):
        got = answers(pairs, read_of(pairs, size=size))
        with mix.reference():
            expected = answers(pairs, read_of(pairs, size=size))
        for ours, theirs in zip(got, expected, strict=True):
            assert ours.isfinite().all()
            assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@both_forms
def test_float32_is_as_exact_as_the_reference_and_half_runs(listed: bool) -> None:
    pairs = pairs_of((25, 18), 12, listed)
    given = read_of(pairs, torch.float32)
    got, exact = answers(pairs, given), answers(pairs, given.double())
    with mix.reference():
        plain = answers(pairs, given)
    for ours, theirs, truth in zip(got, plain, exact, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - truth).square().mean() < 4 * (theirs - truth).square().mean()
    for ours, truth in zip(answers(pairs, given.bfloat16()), exact, strict=True):
        assert ours.dtype == torch.bfloat16
        assert (ours - truth).abs().mean() < 0.05


@both_forms
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_threads_and_repeats_change_no_bit(
    listed: bool, dtype: torch.dtype, threads: Callable[[int], None]
) -> None:
    pairs = pairs_of((7, 21, 13), 6, listed)
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
def test_what_is_spoilt_is_not_hidden(listed: bool, part: int) -> None:
    pairs = pairs_of((12,), 40, listed)
    given = read_of(pairs, torch.float32)
    (given if listed else given[0, 0])[1, part, 0, 1] = torch.nan  # the pair 0 → 2 or 0 → 1
    spoilt = [values.flatten(1).isnan().any(1) for values in answers(pairs, given)]
    assert spoilt[0].sum() >= 10
    assert spoilt[1].any() == (part < 2)  # first and second have no part in the scores
    assert spoilt[2].sum() >= 10


@both_forms
def test_inputs_and_gradients_need_not_be_contiguous(listed: bool) -> None:
    pairs = pairs_of((8, 5), 4, listed)
    given = read_of(pairs)
    scattered = given.transpose(0, -1).contiguous().transpose(0, -1)
    for ours, theirs in zip(answers(pairs, scattered), answers(pairs, given), strict=True):
        assert ours.equal(theirs)
    gradients = []
    for ones in (torch.ones(()), torch.ones(HEADS, WIDTH)):
        leaf = given.clone().requires_grad_()
        mixed, _ = mixed_of(pairs, leaf)
        mixed.backward(ones.to(mixed).expand(mixed.shape))
        gradients.append(leaf.grad)
    assert gradients[0].equal(gradients[1])


def test_some_rows_have_the_answer_and_the_gradient_of_the_reference() -> None:
    pairs = pairs_of((14,), 4, True)
    block = pairs.blocks(25)[1]
    assert 0 < block.near.rows[0] < block.near.rows[1] < len(block.near.start) - 1
    found = []
    for how in (mix.mix_listed_reference, lambda *given: mix.mix_listed(*given, pairs.longest)):
        read = read_of(pairs)[: len(block.near.target)].requires_grad_()
        mixed, total = how(read, *block.near[:4])
        (mixed.sin().sum() + total.square().sum()).backward()
        found.append((mixed, total, read.grad))
    assert all(close(*both) for both in zip(*found, strict=True))


@both_forms
def test_transforms_and_exports_see_the_reference(listed: bool) -> None:
    pairs = pairs_of((9,), 4, listed)
    read = read_of(pairs).requires_grad_()

    def scalar(read: Tensor) -> Tensor:
        return mixed_of(pairs, read)[0].square().sum()

    (expected,) = torch.autograd.grad(scalar(read), read)
    assert close(torch.func.grad(scalar)(read.detach()), expected)
    if not listed:
        exported = torch.export.export(Mixing(pairs), (read.detach(),))
        assert not any("gln" in str(node.target) for node in exported.graph.nodes)


class Mixing(torch.nn.Module):
    def __init__(self, pairs: Pairs) -> None:
        super().__init__()
        self.pairs = pairs

    def forward(self, read: Tensor) -> Tensor:
        return self.pairs.mix(read)[0]


@both_forms
def test_compiled_the_model_gives_the_same_answer_and_gradient(listed: bool) -> None:
    model = model_of(steps=1, pair_width=HEADS * WIDTH, kernels=HEADS)
    batch, found = batch_of((9, 6)), []
    pairs = candidate_pairs(batch.pos, batch.mask, 4, listed=listed)
    for again in (False, True):
        if again:
            model.compile(
                backend="aot_eager", fullgraph=True
            )  # all of the tracing, none of the code generation
        model.zero_grad()
        output = model(batch, pairs=pairs)
        output.logits[-1][output.mask].square().sum().backward()
        found.append([output.probabilities(), *(weight.grad.clone() for weight in model.parameters())])
    assert all(close(*both) for both in zip(*found, strict=True))


@both_forms
@pytest.mark.parametrize("width", [2, 4] + [16] * (DEVICE == "cuda"))
@pytest.mark.parametrize(("sizes", "nearest"), [((8, 5), 3), ((23,), 17)], ids=["one tile", "several"])
def test_the_gpu_kernels_are_the_reference_with_its_gradient(
    listed: bool, width: int, sizes: tuple[int, ...], nearest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU, Triton's interpreter runs them, number by number."""
    pytest.importorskip("triton", reason="the kernels need Triton")
    from gln.ops import gpu

    monkeypatch.setattr(mix, "_kernels", lambda given: gpu)
    monkeypatch.setattr(gpu, "TILE", 16)
    monkeypatch.setattr(gpu, "LISTED", 16)
    pairs = pairs_of(sizes, nearest, listed, device=DEVICE)
    given = read_of(pairs, torch.float32, width=width)
    got = answers(pairs, given)
    with mix.reference():
        expected = answers(pairs, given.double())
    for ours, theirs in zip(got, expected, strict=True):
        assert torch.allclose(ours.double(), theirs, atol=1e-3)
    if listed:  # some rows of a block
        block = pairs.blocks(25)[1]
        some = given[: len(block.near.target)]
        mixed, _ = mix.mix_listed(some, *block.near[:4], pairs.longest)
        assert torch.allclose(mixed, mix.mix_listed_reference(some, *block.near[:4])[0], atol=1e-4)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_padding_of_a_list_changes_nothing(on_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if on_gpu:
        pytest.importorskip("triton", reason="the kernels need Triton")
        from gln.ops import gpu

        monkeypatch.setattr(mix, "_kernels", lambda given: gpu)
    pairs = pairs_of((9, 6), 3, True, device=DEVICE if on_gpu else "cpu")
    padded, count = pairs.padded(), pairs.ends.shape[1]
    assert padded.ends.shape[1] > count
    given = read_of(pairs, torch.float32, width=4)
    more = torch.cat([given, torch.randn_like(given)])[: padded.ends.shape[1]]
    for ours, theirs in zip(answers(pairs, given), answers(padded, more), strict=True):
        assert torch.allclose(ours, theirs[:count], atol=1e-6)
        assert not theirs[count:].any()


def test_what_the_kernels_are_not_made_for_is_left_to_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu:
        device, is_cpu, is_cuda = torch.device("cuda"), False, True

        def __init__(self, width: int, dtype: torch.dtype = torch.float32) -> None:
            self.shape, self.dtype = torch.Size([1, 4, 1, width]), dtype

    monkeypatch.setattr(mix, "may_use_kernels", lambda given: True)
    monkeypatch.setattr(mix, "HAS_TRITON", True)
    assert mix._has_kernel(OnGpu(16), 1, 8)
    assert not mix._has_kernel(OnGpu(12), 1, 8)  # registers come in powers of two
    assert not mix._has_kernel(OnGpu(16), 1, mix.MOST_SLOTS + 1)
    assert not mix._has_kernel(OnGpu(16, torch.float64), 1, 8)
    monkeypatch.setattr(mix, "WORTH", 10)
    assert mix._has_kernel(torch.zeros(1), 10, 1)
    assert not mix._has_kernel(torch.zeros(1), 9, 1)
