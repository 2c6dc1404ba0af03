"""The GRU whose layers are one kernel each; without a GPU Triton's interpreter runs them, number by number."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from gln.baselines import graphrnn_network
from gln.baselines.graphrnn_network import GraphRNNNetwork, run_gru

pytest.importorskip("triton", reason="the kernels need Triton")

from gln.baselines import graphrnn_gru as kernels

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
FALLING = (5, 4, 4, 3, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1)  # more than one program holds


@pytest.fixture(autouse=True)
def exact_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(graphrnn_network, "KERNELS", {DEVICE: kernels})


def packed(lengths: tuple[int, ...], width: int, **changes: torch.dtype) -> PackedSequence:
    rng = torch.Generator().manual_seed(len(lengths))
    return pack_sequence([torch.randn(length, width, generator=rng) for length in lengths]).to(
        DEVICE, **changes
    )


def answer(gru: nn.GRU, inputs: PackedSequence, start: Tensor | None) -> list[Tensor]:
    """The states, and the gradients of some weighing of them by inputs, start and weights."""
    leaf = inputs.data.detach().requires_grad_()
    start = None if start is None else start.detach().requires_grad_()
    states = run_gru(gru, PackedSequence(leaf, inputs.batch_sizes), start)
    weight = torch.randn(states.shape, generator=torch.Generator().manual_seed(0)).to(states)
    asked = [leaf, *gru.parameters()] + ([] if start is None else [start])
    return [states, *torch.autograd.grad((states * weight).sum(), asked)]


@pytest.mark.parametrize("with_start", [False, True])
@pytest.mark.parametrize(
    ("hidden", "layers", "lengths", "one_by_one"),
    [
        (16, 1, (4, 4, 4), False),
        (16, 4, FALLING, False),
        (32, 2, FALLING, False),
        (16, 1, (1,), True),  # narrow states as wide ones are taken, for the interpreter is slow
        (16, 1, (3, 2), True),
    ]
    + [(16, 4, tuple(range(100, 0, -1)), False), (64, 1, FALLING, True), (128, 4, FALLING, True)] * GPU,
)
def test_the_kernels_equal_torch_and_its_gradients(
    hidden: int,
    layers: int,
    lengths: tuple[int, ...],
    one_by_one: bool,
    with_start: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "NARROW", 0 if one_by_one else 32)
    torch.manual_seed(hidden)
    gru = nn.GRU(5, hidden, layers).to(DEVICE)
    for weight in gru.parameters():  # gates far from half open
        weight.data *= 2
    inputs = packed(lengths, 5)
    start = torch.randn(layers, len(lengths), hidden).to(DEVICE) if with_start else None
    assert kernels.takes(gru, inputs)
    exact = answer(
        deepcopy(gru).double(),
        inputs.to(torch.float64),
        None if start is None else start.double(),
    )  # not taken, so torch's own
    for found, expected in zip(answer(gru, inputs, start), exact, strict=True):
        assert (found - expected).abs().max() <= 1e-5 * (1 + expected.abs().max())


def test_a_network_learns_the_same_with_and_without_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = GraphRNNNetwork("rnn", 6, 3, 16, 5, 16, 3, layers=2).to(DEVICE)
    bits = (torch.rand(3, 5, 3) < 0.5).to(DEVICE)
    found = []
    for used in ({DEVICE: kernels}, {}):
        monkeypatch.setattr(graphrnn_network, "KERNELS", used)
        loss = net.losses(bits, (6, 5, 2))[0]
        found.append([loss, *torch.autograd.grad(loss.mean(), list(net.parameters()))])
    for with_kernels, without in zip(*found, strict=True):
        torch.testing.assert_close(with_kernels, without, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden_size": 12},  # registers come in powers of two
        {"hidden_size": 8},
        {"hidden_size": 256},  # its weights do not fit
        {"hidden_size": 16, "bias": False},
        {"hidden_size": 16, "bidirectional": True},
        {"hidden_size": 16, "dtype": torch.float64},
    ],
)
def test_what_the_kernels_are_not_made_for_is_left_to_torch(settings: dict[str, object]) -> None:
    gru = nn.GRU(5, device=DEVICE, **settings)  # type: ignore[arg-type]
    inputs = packed((3, 2), 5, dtype=gru.weight_ih_l0.dtype)
    assert not kernels.takes(gru, inputs)
    torch.testing.assert_close(run_gru(gru, inputs), gru(inputs)[0].data)


def test_sequences_packed_in_another_order_are_left_to_torch() -> None:
    gru = nn.GRU(5, 16, device=DEVICE)
    sorted_here = pack_sequence([torch.zeros(2, 5), torch.ones(3, 5)], enforce_sorted=False).to(DEVICE)
    assert not kernels.takes(gru, sorted_here)
