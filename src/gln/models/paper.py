"""The Graph Learning Network of Saire Pilco and Ramírez Rivera (2019), in the paper's own letters.

Inputs ``H⁰ = V`` (the features of the ``n`` nodes) and ``A⁰ = I`` (or any structure); for ``l = 0 … L−1``:

====================  ====================================================  =====================================
normalised adjacency  ``τ(A) = D̂^{-1/2} (A + I) D̂^{-1/2}``, ``D̂ = D + I``
embedding η           ``H_int = Σᵢ σ(τ(A) H Wᵢ)``, i = 1 … k                ``Wᵢ``: d_l × d_{l+1}
local context λ       ``H_local = σ(τ(A) H_int U)``, which is the next H    ``U``: d × d
global context γ      ``H_global = tanh(H_local Z)``                        ``Z``: d × d
mixing α              ``α = H_local Q H_globalᵀ``                           ``Q``: d × d, ``α``: n × n
structure ρ           ``A' = σ(M α Mᵀ)``, symmetrised before σ              ``M``: n × n, so n and order are fixed
====================  ====================================================  =====================================

Variants:

- ``"equations"``: the table, to the letter.
- ``"stabilised"``: the table and the named changes ``normalise``, ``logit_bias`` and ``identity_m``, which make it train.
- ``"released"``: what the authors' code computes. σ and tanh are ReLU behind a batch normalisation; ``W, U, Z`` are
  divided by their norm; λ and γ both read ``H_int``, which is the next H; after the last step a dense layer from
  n² to n² units scores the pairs. A prediction depends on the other graphs of its batch.
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
VARIANTS: tuple[Variant, ...] = ("equations", "stabilised", "released")
READOUT_LIMIT = 10**9  # weights of the released read-out: 4 GB, and 16 GB with gradients and Adam's two moments


class PaperGLN(nn.Module):
    """The paper's network, for graphs of exactly ``nodes`` nodes in one fixed order.

    Args:
        nodes: ``n``.
        in_channels: width of ``H⁰``, the batch's ``[pos, x]``.
        variant: see the top of this module.
        steps: ``L``; 5 as in the paper, or as many as there are widths.
        kernels: ``k``.
        width: ``d``, or one width per step; 32 as in the paper (released: 32, 16, 8).
        shared: one block for all steps, as the paper draws it, instead of one per step, as its indices say. The
            first ``W`` stays its own: it reads the features.
        symmetric: ``(S + Sᵀ)/2`` for the scores ``S = M α Mᵀ``; off, the literal form, is not symmetric.
            Default: on, except for released.
        initial: ``A⁰``: ``"identity"``, ``"full"``, or the share of all pairs, drawn at random by ``initial_seed``,
            that is joined to the identity.
        normalise: standardise what enters σ over the nodes of the graph. Default: stabilised only.
        logit_bias: add one learned number to all scores of a step. Default: stabilised only.
        identity_m: start ``M`` at the identity. Default: stabilised only.
        init: standard deviation of the truncated normal that weights start from (the authors' code: 0.1).
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
        logit_bias: bool | None = None,
        identity_m: bool | None = None,
        init: float = 0.1,
    ) -> None:
        super().__init__()
        if variant not in VARIANTS:
            raise GLNError(f"There is no variant {variant!r}; choose from {', '.join(VARIANTS)}.")
