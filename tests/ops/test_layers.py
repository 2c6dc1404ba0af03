"""Linear layers with what stands before and after them: every kernel is its reference, gradient included."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, linear

from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.models import GLN
from gln.models.candidates import candidate_pairs
from gln.models.features import mlp
from gln.models.pairs import ListedPairs
from gln.ops import layers, mix
from gln.training.losses import Loss

pytest.importorskip("triton", reason="the kernels need Triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # without a GPU, Triton's interpreter runs them
ROWS, WIDTH = 150, 16


def normed_reference(e: Tensor, scale: Tensor, shift: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return linear(layer_norm(e, e.shape[-1:], scale, shift, 1e-5), w, b)


def normed_kernel(*given: Tensor) -> Tensor:
    e, scale, shift, w, b = given
    nothing = e.new_empty(0)
    read = (nothing, e, nothing, nothing, scale, shift)
    return layers._linear("normed", *read, w, b, *layers._nowhere(e), 1e-5, torch.float32)


def gelu_reference(e: Tensor, z: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return e + linear(gelu(z), w, b)


def gelu_kernel(*given: Tensor) -> Tensor:
    e, z, w, b = given
    read = (z, *[e.new_empty(0)] * 4)
    return layers._linear("gelu", e, *read, w, b, *layers._nowhere(e), 0.0, torch.float32)


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


@pytest.mark.parametrize("listed", [False, True], ids=["all", "listed"])
def test_what_pairs_read_of_their_ends(listed: bool) -> None:
    """In a padded list the last places hold no pair, and pull at no node."""
    points = torch.rand(2, 7, 2, generator=torch.Generator().manual_seed(0))
    pairs = candidate_pairs(points, torch.ones(2, 7, dtype=torch.bool), 3, listed=listed)
    pairs = pairs.padded() if isinstance(pairs, ListedPairs) else pairs
    (block,) = pairs.blocks(2**60)
    count = int(pairs.start[-1]) if isinstance(pairs, ListedPairs) else 2 * 7 * 7
    shape = block.shape
    nodes = (14, 2 * WIDTH) if listed else (2, 7, 2 * WIDTH)
    given = random((*shape, WIDTH), nodes, nodes, shape, (WIDTH, 1), (WIDTH,), (WIDTH, WIDTH), (WIDTH,))

    def reference(e: Tensor, sources: Tensor, targets: Tensor, a: Tensor, *weights: Tensor) -> Tensor:
        slope, shift, w, b = weights
        (left, f), (right, g) = block.source(sources).chunk(2, -1), block.target(targets).chunk(2, -1)
        z = left + right + f * g + linear(a[..., None], slope, shift)
        return gelu_reference(e, z, w, b).flatten(0, -2)[:count]

    def kernel(e: Tensor, sources: Tensor, targets: Tensor, a: Tensor, *weights: Tensor) -> Tensor:
        slope, shift, w, b = weights
        *nodes, where = block.fused(sources, targets)
        where = layers.PairEnds(*(value.to(DEVICE) for value in where[:3]), where.nodes)
        given = (
            e.flatten(0, -2),
            *(value.contiguous() for value in nodes),
            a.flatten(),
            slope[:, 0],
            shift,
            w,
            b,
        )
        return layers._linear("ends", *given, *where, 0.0, torch.float32)[:count]

    check(kernel, reference, given)


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


@pytest.mark.skipif(DEVICE == "cpu", reason="half precision on a GPU")
@pytest.mark.parametrize("nodes", [20, 140], ids=["all", "listed"])
def test_half_precision_learns_as_the_layers_do(nodes: int) -> None:
    torch.manual_seed(0)
    model = GLN(width=32, pair_width=32, kernels=2, steps=2, candidates=8).to(DEVICE)
    batch = GraphBatch.from_graphs(parse_family(f"delaunay:points={nodes}").sample(3, 0)).to(DEVICE)
    found = []
    for reference in (False, True):
        model.zero_grad()
        torch.manual_seed(1)  # as many candidates
        with torch.autocast("cuda", dtype=torch.bfloat16), mix.reference() if reference else nullcontext():
            output = model(batch)
        Loss(every_step=True)(output.full_precision(), batch).mean().backward()
        gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
        found.append((output.probabilities(), torch.cat(gradients)))
    (ours, our_gradient), (theirs, their_gradient) = found
    assert torch.allclose(ours, theirs, atol=0.02)
    assert torch.cosine_similarity(our_gradient, their_gradient, dim=0) > 0.995
