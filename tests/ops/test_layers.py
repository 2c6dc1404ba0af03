"""Linear layers with what stands before and after them: every kernel is its reference, gradient included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, linear

from gln.models.features import mlp
from gln.ops import layers

pytest.importorskip("triton", reason="the kernels need Triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # without a GPU, Triton's interpreter runs them
ROWS, WIDTH = 150, 16


def normed_reference(e: Tensor, scale: Tensor, shift: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return linear(layer_norm(e, e.shape[-1:], scale, shift, 1e-5), w, b)


def normed_kernel(*given: Tensor) -> Tensor:
    return layers._normed_linear(*given, 1e-5, torch.float32)


def gelu_reference(e: Tensor, z: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return e + linear(gelu(z), w, b)


def gelu_kernel(*given: Tensor) -> Tensor:
    return layers._gelu_linear(*given, torch.float32)


def answers(call: Callable[..., Tensor], given: list[Tensor]) -> list[Tensor]:
    """The result, and the gradient of every argument."""
    leaves = [value.detach().clone().requires_grad_() for value in given]
    out = call(*leaves)
    wanted = torch.linspace(-1, 2, out.numel(), device=out.device, dtype=out.dtype).view_as(out)
    return [out.detach(), *torch.autograd.grad(out, leaves, wanted)]


def random(*shapes: tuple[int, ...]) -> list[Tensor]:
    torch.manual_seed(len(shapes))
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def check(kernel: Callable[..., Tensor], reference: Callable[..., Tensor], given: list[Tensor]) -> None:
    got = answers(kernel, [value.to(DEVICE, torch.float32) for value in given])
    for ours, theirs in zip(got, answers(reference, given), strict=True):
        assert torch.allclose(ours.cpu().double(), theirs, atol=1e-5 * float(theirs.abs().max()), rtol=0)


@pytest.mark.parametrize("outputs", [1, 4, 64, 130])
def test_a_norm_and_a_layer(outputs: int) -> None:
    given = random((ROWS, WIDTH), (WIDTH,), (WIDTH,), (outputs, WIDTH), (outputs,))
    check(normed_kernel, normed_reference, given)


@pytest.mark.parametrize("outputs", [16, 64])
def test_a_gelu_and_a_layer_added_to_what_is_there(outputs: int) -> None:
    check(gelu_kernel, gelu_reference, random((ROWS, outputs), (ROWS, 32), (outputs, 32), (outputs,)))


def test_no_rows() -> None:
    given = [value.to(DEVICE, torch.float32) for value in random((0, 16), (0, 32), (16, 32), (16,))]
    out, of_e, of_z, *of_weights = answers(gelu_kernel, given)
    assert out.shape == of_e.shape == (0, 16)
    assert of_z.shape == (0, 32)
    assert not any(bool(value.any()) for value in of_weights)


def test_a_cpu_computes_what_the_layers_say() -> None:
    torch.manual_seed(0)
    norm, layer, e = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), torch.randn(2, 3, WIDTH)
    assert torch.equal(layers.normed_linear(norm, layer, e), layer(norm(e)))
    assert torch.equal(layers.gelu_linear(layer, e, 2 * e), e + layer(gelu(2 * e)))
    both = nn.Sequential(norm, mlp(WIDTH, 2 * WIDTH, WIDTH))
    assert torch.equal(layers.normed_mlp(both, e), e + both(e))


@pytest.mark.skipif(DEVICE == "cpu", reason="half precision on a GPU")
def test_half_precision_is_near_the_layers() -> None:
    torch.manual_seed(0)
    norm, layer = nn.LayerNorm(64, device=DEVICE), nn.Linear(64, 64, device=DEVICE)
    e = torch.randn(1000, 64, device=DEVICE)
    calls = (lambda: layers.normed_linear(norm, layer, e), lambda: layers.gelu_linear(layer, e, 2 * e))
    for call in calls:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            got = call()
        assert torch.allclose(got.float(), call(), atol=0.05)
