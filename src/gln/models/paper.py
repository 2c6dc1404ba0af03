"""The Graph Learning Network of Saire Pilco and Ramírez Rivera (2019), in the paper's own letters.

From ``H⁰ = V``, the features of the ``n`` nodes, and ``A⁰ = I`` or any structure, for ``l = 0 … L−1``:

====================  ======================================================  ==================
normalised adjacency  ``τ(A) = D̂^{-1/2} (A + I) D̂^{-1/2}``, ``D̂ = D + I``
embedding η           ``H_int = Σᵢ σ(τ(A) H Wᵢ)``, ``i = 1 … k``              ``Wᵢ``: d_l × d
local context λ       ``H_local = σ(τ(A) H_int U)``, which is the next ``H``  ``U``: d × d
global context γ      ``H_global = tanh(H_local Z)``                          ``Z``: d × d
mixing α              ``α = H_local Q H_globalᵀ``                             ``Q``: d × d
structure ρ           ``S = M α Mᵀ``, ``A' = σ((S + Sᵀ)/2)``                  ``M``: n × n
====================  ======================================================  ==================

``"equations"`` is this table; ``symmetric=False`` is the paper's ``A' = σ(S)``, which is not the symmetric
matrix that the paper says it is. ``"stabilised"`` is the table and three changes that make it train:
``normalise``, ``logit_bias`` and ``identity_m``. ``"released"`` is what the authors' code computes: ReLU for
σ and tanh, each behind a batch normalisation; ``W, U, Z`` divided by their norms; λ and γ both read
``H_int``, which is the next ``H``; and a dense layer from n² to n² units over the last ``A``. It alone
depends on which graphs share a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.models.output import StructureOutput

Variant = Literal["equations", "stabilised", "released"]
LOGIT_BIAS = -3.0  # σ(−3) = .05: the first structures are nearly empty, so τ(A) does not level all nodes
MOST_WEIGHTS = 10**9  # of the dense layer: 4 GB, 16 GB with gradients and Adam's moments


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
        initial: ``A⁰``: ``"identity"``, ``"full"``, or the share of all pairs that is joined to the identity.
        initial_seed: draws that share.
        normalise: standardise what enters σ over the nodes of the graph; default: stabilised alone.
        logit_bias: learn one number per step that is added to all scores, starting here, or False; default:
            −3 for stabilised.
        identity_m: start ``M`` at the identity; default: stabilised alone.
        init: deviation of the truncated normal that weights start from (released: 0.1, the paper is silent).
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
        options = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__()
        self.config = config = _resolve(options)
        self.threshold = 0.5
        self.register_buffer("A0", initial_structure(nodes, initial, initial_seed), persistent=False)

        def draw(*shape: int) -> nn.Parameter:
            return nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=init, a=-2 * init, b=2 * init))

        widths = config["width"]
        blocks = widths[:1] if shared else widths
        into = list(zip([in_channels, *widths], widths, strict=False))  # d_l and d_{l+1}
        # A shared W is two, one for the features and one for H.
        self.W = nn.ParameterList(draw(f, kernels, d) for f, d in (into[:2] if shared else into))
        self.U = nn.ParameterList(draw(d, d) for d in blocks)
        self.Z = nn.ParameterList(draw(d, d) for d in blocks)
        self.Q = nn.ParameterList(draw(d, d) for d in blocks)
        self.M = nn.ParameterList(draw(nodes, nodes) for _ in blocks)
        if config["identity_m"]:
            for M in self.M:
                nn.init.eye_(M)
        start = config["logit_bias"]
        self.b = nn.ParameterList(
            nn.Parameter(torch.tensor(float(start))) for _ in blocks if start is not False
        )

        self.released = variant == "released"
        self.norm = nn.ModuleDict()
        if self.released:
            norms = {"W": [kernels * d for d in blocks], "U": blocks, "Z": blocks, "M": [nodes] * len(blocks)}
            self.norm.update({X: nn.ModuleList(BatchNorm(c) for c in norms[X]) for X in norms})
            self.dense = nn.utils.skip_init(nn.Linear, nodes**2, nodes**2)
            nn.init.trunc_normal_(self.dense.weight, std=init, a=-2 * init, b=2 * init)
            nn.init.constant_(self.dense.bias, 0.1)

    def forward(
        self, batch: GraphBatch, initial: Tensor | None = None, steps: int | None = None
    ) -> StructureOutput:
        """The structure after every step, from the features alone: ``batch.adj`` is never read.

        Args:
            batch: graphs of exactly ``nodes`` nodes.
            initial: ``A⁰ [N, N]`` or ``[B, N, N]`` instead of the configured one.
            steps: how many steps to run; more than the configured number only if weights are shared.
        """
        H, A = self._start(batch, initial)  # [B, N, f], [B, N, N]
        scores, states = [], []
        for l in range(self._steps(steps)):
            H_int = self.eta(l, H, A)
            H_local = self.lambda_(l, H_int, A)
            H = H_int if self.released else H_local
            S = self.rho(l, *self.alpha(l, H_local, self.gamma(l, H)))
            A = self.sigma(S)
            scores.append(S)
            states.append(H)
        if self.released:
            # Earlier steps answer what enters their ReLU, positive where they see an edge.
            scores[-1] = self._symmetrised(self.dense(A.flatten(1)).view_as(A))
        return StructureOutput(tuple(scores), tuple(states), mask=batch.pair_mask)

    def sigma(self, X: Tensor) -> Tensor:
        return X.relu() if self.released else X.sigmoid()

    def eta(self, l: int, H: Tensor, A: Tensor) -> Tensor:
        """``H_int = Σᵢ σ(τ(A) H Wᵢ)``, the k kernels as one product."""
        X = tau(A, H) @ self._weight("W", l).flatten(1)  # [B, N, k·d]
        X = self.sigma(self._normalised("W", l, X))
        return X.unflatten(-1, (self.config["kernels"], -1)).sum(dim=2)  # [B, N, d]

    def lambda_(self, l: int, H_int: Tensor, A: Tensor) -> Tensor:
        """``H_local = σ(τ(A) H_int U)``."""
        return self.sigma(self._normalised("U", l, tau(A, H_int) @ self._weight("U", l)))  # [B, N, d]

    def gamma(self, l: int, H: Tensor) -> Tensor:
        """``H_global = tanh(H Z)``."""
        X = H @ self._weight("Z", l)  # [B, N, d]
        return self._normalised("Z", l, X).relu() if self.released else X.tanh()

    def alpha(self, l: int, H_local: Tensor, H_global: Tensor) -> tuple[Tensor, Tensor]:
        """``α = H_local Q H_globalᵀ`` as its two factors ``[B, N, d]``; α itself, n × n, is never needed."""
        return H_local @ _at(self.Q, l), H_global

    def rho(self, l: int, left: Tensor, right: Tensor) -> Tensor:
        """``S = M α Mᵀ = (M left)(M right)ᵀ``: n²d products instead of n³; symmetrised, with its bias."""
        left, right = (_at(self.M, l) @ torch.cat([left, right], dim=-1)).chunk(2, dim=-1)
        S = left @ right.mT  # [B, N, N]
        if self.released:
            return self._normalised("M", l, S)
        return self._symmetrised(S) + (_at(self.b, l) if len(self.b) else 0)

    def _weight(self, name: str, l: int) -> Tensor:
        weight = _at(getattr(self, name), l)
        if not self.released:
            return weight
        return (
            weight / weight.square().sum(dim=(0, -1), keepdim=True).sqrt()
        )  # each kernel of W by its own norm

    def _normalised(self, name: str, l: int, X: Tensor) -> Tensor:
        if self.released:
            return _at(self.norm[name], l)(X)
        if not self.config["normalise"]:
            return X
        variance, mean = torch.var_mean(X, dim=1, correction=0, keepdim=True)
        return (X - mean) * (variance + 1e-5).rsqrt()

    def _symmetrised(self, S: Tensor) -> Tensor:
        return (S + S.mT) / 2 if self.config["symmetric"] else S

    def _start(self, batch: GraphBatch, initial: Tensor | None) -> tuple[Tensor, Tensor]:
        n, f, H = self.config["nodes"], self.config["in_channels"], batch.features
        if H.shape[1] != n or not bool(batch.mask.all()):
            sizes = sorted(set(batch.sizes.tolist()))
            raise GLNError(
                f"Got graphs of {', '.join(map(str, sizes))} nodes; this PaperGLN is made for exactly {n}, the size of its M: "
                "give it such graphs, build one with another nodes=, or use GLN, which takes any size."
            )
        if H.shape[2] != f:
            raise GLNError(
                f"Got graphs with {H.shape[2]} features per node, pos and x together; this PaperGLN expects in_channels={f}."
            )
        A = self.A0 if initial is None else initial.to(self.A0)
        if A.shape not in ((n, n), (len(H), n, n)):
            raise GLNError(
                f"Got an initial structure of shape {tuple(A.shape)}; expected [{n}, {n}] or [{len(H)}, {n}, {n}]."
            )
        return H.to(self.A0.dtype), A

    def _steps(self, steps: int | None) -> int:
        most = len(self.config["width"])
        if steps is None:
            return most
        if steps < 1 or (steps > most and not self.config["shared"]):
            raise GLNError(
                f"Got steps={steps}; expected 1 to {most}, as many as there are weights, or a model with shared=True."
            )
        return steps


class BatchNorm(nn.Module):
    """The released normalisation: over the batch axis alone, by the statistics of the batch, always."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, X: Tensor) -> Tensor:
        variance, mean = torch.var_mean(X, dim=0, correction=0, keepdim=True)
        return (X - mean) * (variance + 1e-12).rsqrt() * self.scale + self.shift


def tau(A: Tensor, H: Tensor) -> Tensor:
    """``τ(A) H [B, N, d]`` without forming ``τ(A)``, for ``A [B, N, N]`` or ``[N, N]``."""
    root = (1 + A.sum(dim=-1, keepdim=True)).rsqrt()  # D̂^{-1/2}
    X = root * H
    return root * (A @ X + X)


def initial_structure(nodes: int, share: str | float, seed: int = 0) -> Tensor:
    """``A⁰ [N, N]``: the identity and, drawn by ``seed``, a ``share`` of all pairs (never the true edges)."""
    share = {"identity": 0.0, "full": 1.0}.get(share, share) if isinstance(share, str) else share
    ...


def _at(blocks: Any, l: int) -> Any:
    """The weights of step ``l``; shared ones serve all later steps."""
    return blocks[min(l, len(blocks) - 1)]
