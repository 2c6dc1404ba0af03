"""What the paper's network needs besides its equations: options, checks, ``A⁰`` and the released normalisation."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.graphs.check import whole_number

Variant = Literal["equations", "stabilised", "released"]
MOST_WEIGHTS = 10**9  # in the released dense layer: 4 GB, or 16 GB with gradients and Adam's moments


def resolve(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a ``PaperGLN`` with every default filled in, so that a saved config is complete."""
    variant, steps, width, n = (options[name] for name in ("variant", "steps", "width", "nodes"))
    if variant not in get_args(Variant):
        raise GLNError(f"There is no variant {variant!r}; choose from {', '.join(get_args(Variant))}.")
    released = variant == "released"
    if width is None:
        width = [32, 16, 8] if released and steps is None else 32
    widths = [width] * (5 if steps is None else steps) if isinstance(width, int) else list(width)
    own = {"symmetric": not released, "steps": len(widths)}
    own |= dict.fromkeys(("m_bias", "normalise", "identity_m"), variant == "stabilised")
    config = (
        options | {name: value for name, value in own.items() if options[name] is None} | {"width": widths}
    )

    counts = [n, options["in_channels"], options["kernels"], len(widths), *widths]
    if config["steps"] != len(widths) or min(counts) < 1:
        raise GLNError(
            f"Got nodes={n}, in_channels={options['in_channels']}, kernels={options['kernels']}, steps={steps} "
            f"and width={width}; expected whole numbers of at least 1, and as many widths as steps."
        )
    if options["shared"] and len(set(widths)) > 1:
        raise GLNError(f"Got shared=True and widths {widths}; one block for all steps needs one width.")
    if released and (config["m_bias"] or config["normalise"]):
        raise GLNError(
            "The released variant has its own biases and normalisation; leave out m_bias and normalise, or use "
            "variant='stabilised'."
        )
    if released and n**4 > MOST_WEIGHTS:
        raise GLNError(
            f"The released variant at nodes={n} ends in a dense layer of n⁴ = {n**4:,} weights; expected at most "
            f"{MOST_WEIGHTS:,} (nodes={int(MOST_WEIGHTS**0.25)}): use variant='stabilised', which has no such layer."
        )
    return config


def check_batch(config: dict[str, Any], batch: GraphBatch, initial: Tensor | None) -> None:
    """Refuse graphs of another size or width, and an ``A⁰`` of another shape."""
    n, width = config["nodes"], batch.features.shape[2]
    if batch.mask.shape[1] != n or not bool(batch.mask.all()):
        sizes = ", ".join(map(str, sorted(set(batch.sizes.tolist()))))
        raise GLNError(
            f"Got graphs of {sizes} nodes; this PaperGLN expects exactly {n} in each: build one with "
            "another nodes=, or use GLN, which takes graphs of any size."
        )
    if width != config["in_channels"]:
        raise GLNError(
            f"Got {width} features per node (pos and x together); this PaperGLN expects "
            f"{config['in_channels']}: build one with in_channels={width}."
        )
    if initial is not None and initial.shape not in ((n, n), (len(batch), n, n)):
        raise GLNError(
            f"Got an initial structure of shape {list(initial.shape)}; expected [{n}, {n}] or "
            f"[{len(batch)}, {n}, {n}]: pass one for all graphs, or one for each."
        )


def check_steps(config: dict[str, Any], steps: int | None) -> int:
    """The number of steps to run."""
    most = config["steps"]
    wanted = most if steps is None else whole_number(steps)
    if wanted is None or wanted < 1 or (wanted > most and not config["shared"]):
        raise GLNError(
            f"Got steps={steps!r}; this PaperGLN has weights for 1 to {most}: build one with shared=True to run more."
        )
    return wanted


def initial_structure(nodes: int, share: str | float, seed: int = 0) -> Tensor:
    """``A⁰ [N, N]``: the identity plus a random ``share`` of all pairs.

    The share is of all pairs, because true edges would give the answer away.

    Args:
        nodes: ``n``.
        share: 0 (``"identity"``) to 1 (``"full"``).
        seed: seed that draws the pairs.
    """
    part = {"identity": 0.0, "full": 1.0}.get(share, -1.0) if isinstance(share, str) else share
    if not 0 <= part <= 1:
        raise GLNError(
            f"Got initial={share!r}; expected identity, full, or a share of all pairs from 0 to 1."
        )
    pairs = torch.triu_indices(nodes, nodes, offset=1)  # [2, n(n−1)/2]
    order = torch.randperm(pairs.shape[1], generator=torch.Generator().manual_seed(seed))
    i, j = pairs[:, order[: round(part * pairs.shape[1])]]
    A = torch.eye(nodes)
    A[i, j] = A[j, i] = 1
    return A


class BatchNorm(nn.Module):
    """The released normalisation: over the batch axis only, and always with the statistics of the batch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, X: Tensor) -> Tensor:
        variance, mean = torch.var_mean(X, dim=0, correction=0, keepdim=True)
        return (X - mean) * (variance + 1e-12).rsqrt() * self.scale + self.shift
