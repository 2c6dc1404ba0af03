"""The Graph Learning Network of Saire Pilco and Ramírez Rivera (2019), in the paper's own letters.

From ``H⁰ = V``, the features of the ``n`` nodes, and ``A⁰ = I`` or any structure, for ``l = 0 … L−1``:

====================  ======================================================  ==============================
normalised adjacency  ``τ(A) = D̂^{-1/2} (A + I) D̂^{-1/2}``, ``D̂ = D + I``
embedding η           ``H_int = Σᵢ σ(τ(A) H Wᵢ)``, ``i = 1 … k``              ``Wᵢ``: d_l × d_{l+1}
local context λ       ``H_local = σ(τ(A) H_int U)``, which is the next ``H``  ``U``: d × d
global context γ      ``H_global = tanh(H_local Z)``                          ``Z``: d × d
mixing α              ``α = H_local Q H_globalᵀ``                             ``Q``: d × d
structure ρ           ``S = M α Mᵀ``, ``A' = σ((S + Sᵀ)/2)``                  ``M``: n × n, hence fixed n
====================  ======================================================  ==============================

``"equations"`` is this table; ``symmetric=False`` is the paper's ``A' = σ(S)``, which is not the symmetric matrix
that the paper says it is. ``"stabilised"`` is the table and three changes that make it train: ``normalise``,
``logit_bias`` and ``identity_m``. ``"released"`` is what the authors' code computes: ReLU for σ and tanh, each behind
a batch normalisation; ``W, U, Z`` divided by their norms; λ and γ both read ``H_int``, which is the next ``H``; and a
dense layer of n² to n² units over the last ``A``. It depends on which graphs share a batch; the others do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.models.output import StructureOutput

Variant = Literal["equations", "stabilised", "released"]
LOGIT_BIAS = -3.0  # σ(−3) = .05: the first structures are nearly empty, so that τ(A) does not level all nodes
MOST_WEIGHTS = 10**9  # of the released dense layer: 4 GB, 16 GB with gradients and Adam's moments


class PaperGLN(nn.Module):
    """The paper's network, for graphs of ``nodes`` nodes in one fixed order.

    Args:
        nodes: ``n``, the same for every graph.
        in_channels: width of ``H⁰``, the batch's ``[pos, x]``.
        variant: ``"equations"``, ``"stabilised"`` or ``"released"``, see above.
        steps: ``L``; 5, or as many as there are widths.
        kernels: ``k``.
        width: ``d``, or one per step; 32, for released (32, 16, 8).
        shared: one block for all steps, as the paper draws it, or one per step, as its indices say. The first
            ``W`` is always its own, since features have their own width.
        symmetric: ``(S + Sᵀ)/2`` or the literal ``S``; default: symmetric, except for released.
        initial: ``A⁰``: ``"identity"``, ``"full"``, or the share of all pairs that is added to the identity, drawn
            at random from ``initial_seed``.
        normalise: standardise what enters σ and tanh over the nodes of the graph; default: stabilised only.
        logit_bias: learn one number per step that is added to all scores, from this start; default: −3 for
            stabilised, otherwise False.
        identity_m: start ``M`` at the identity; default: stabilised only.
        init: weights start from a truncated normal of this deviation (released: 0.1; the paper does not say).
    """

    def __init__(
        self,
        nodes: int,
        in_channels: int,
        variant: Variant = "equations",
        steps: int | None = None,
        kernels: int = 3,
        width: int | Sequence[int] | None = None,
        shared: bool = False,
        symmetric: bool | None = None,
        initial: str | float = "identity",
        initial_seed: int = 0,
        normalise: bool | None = None,
        logit_bias: float | bool | None = None,
        identity_m: bool | None = None,
        init: float = 0.1,
    ) -> None:
        super().__init__()
        released, stabilised = variant == "released", variant == "stabilised"
        if width is None:
            width = [32, 16, 8] if released and steps in (None, 3) else 32
        widths = [width] * (5 if steps is None else steps) if isinstance(width, int) else list(width)
        symmetric = not released if symmetric is None else symmetric
        normalise = stabilised if normalise is None else normalise
        identity_m = stabilised if identity_m is None else identity_m
        if logit_bias is None or logit_bias is True:
            logit_bias = LOGIT_BIAS if stabilised or logit_bias else False
        self.config: dict[str, Any] = {
            "nodes": nodes,
            "in_channels": in_channels,
            "variant": variant,
            "steps": len(widths) if steps is None else steps,
            "kernels": kernels,
            "width": widths,
            "shared": shared,
            "symmetric": symmetric,
            "initial": initial,
            "initial_seed": initial_seed,
            "normalise": normalise,
            "logit_bias": logit_bias,
            "identity_m": identity_m,
            "init": init,
        }
        _check(self.config)
        self.threshold = 0.5
