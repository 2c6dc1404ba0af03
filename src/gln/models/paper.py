"""The Graph Learning Network of Saire Pilco and Ramírez Rivera (2019), in the paper's own letters.

Starting from ``H⁰ = V``, the features of the ``n`` nodes, and ``A⁰ = I`` or any structure, for ``l = 0 … L−1``:

====================  ======================================================  ===============
normalised adjacency  ``τ(A) = D̂^{-1/2} (A + I) D̂^{-1/2}``, ``D̂ = D + I``
embedding η           ``H_int = Σᵢ σ(τ(A) H Wᵢ)``, ``i = 1 … k``              ``Wᵢ``: d_l × d
local context λ       ``H_local = σ(τ(A) H_int U)``, which is the next ``H``  ``U``: d × d
global context γ      ``H_global = tanh(H_local Z)``                          ``Z``: d × d
mixing α              ``α = H_local Q H_globalᵀ``                             ``Q``: d × d
structure ρ           ``S = M α Mᵀ``, ``A' = σ((S + Sᵀ)/2)``                  ``M``: n × n
====================  ======================================================  ===============

``"equations"`` is this table. ``symmetric=False`` gives the literal ``A' = σ(S)``, which is not symmetric, although the
paper says it is. Where the paper is silent, this variant chooses: first weights from a truncated normal of deviation
0.1, as in the released code (``init``); weights of their own for every step (``shared``); features as they are (the
released code standardises those of Surfaces); and no diagonal: neither the loss nor a score counts the n pairs of a
node with itself. How many graphs share an update is for training to say: the paper gives no batch size.

``"stabilised"`` is the table with three changes, each an option of its own:

- ``m_bias``: ``M`` gets a bias, ``S = (M H_local Q + B₁)(M H_global + B₂)ᵀ`` with ``B₁, B₂``: n × d. The
  sigmoids and τ soon make all rows of ``H`` alike; then ``M H`` has rank one, and so has ``S``.
- ``normalise``: the input of σ is standardised over the nodes of the graph, so that the rows stay distinct.
- ``identity_m``: ``M`` starts as the identity, so that a node's scores start from its own features.

``"released"`` is what the authors' code computes: ReLU in place of σ and tanh, each after a batch normalisation;
``W, U, Z`` divided by their norms; λ and γ both read ``H_int``, which is the next ``H``; and a dense layer
from n² to n² units over the last ``A``. Only this variant depends on which graphs share a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.graphs.batch import as_batch
from gln.models import contract
from gln.models.settings import APART, Variant, check_paper, check_steps

if TYPE_CHECKING:
    from torch_geometric.data import Data


class PaperGLN(nn.Module):
    """The paper's network, for graphs of one size that list their nodes in one order.

    Args:
        nodes: ``n``, the same for every graph because ``M`` is n × n.
        in_channels: width of ``H⁰``, the batch's ``[pos, x]``.
        variant: ``"equations"``, ``"stabilised"`` or ``"released"``; see above.
        steps: ``L``; by default 5, or the number of widths.
        kernels: ``k``.
        width: ``d``, or one per step; by default 32, for released (32, 16, 8).
        shared: one block for all steps, as in the paper's figure, or one per step, as its indices say. The first
            ``W`` is always separate, because features have their own width.
        symmetric: ``(S + Sᵀ)/2`` or the literal ``S``; by default symmetric, except for released.
        initial: ``A⁰``: ``"identity"``, ``"full"``, or the share of all pairs that is joined to the identity.
        initial_seed: seed that draws that share.
        m_bias, normalise, identity_m: the three changes; by default on for stabilised, off for the others.
        init: standard deviation of the truncated normal initialisation (released: 0.1; the paper does not say), or
            ``"glorot"``: uniform, with the variance 2 / (rows + columns) of each matrix.
    """

    A0: Tensor  # [N, N]

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
        m_bias: bool | None = None,
        normalise: bool | None = None,
        identity_m: bool | None = None,
        init: float | Literal["glorot"] = 0.1,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in APART}
        super().__init__()
        self.config = check_paper(given)
        self.threshold = 0.5
        self.released = variant == "released"
        self.register_buffer("A0", initial_structure(nodes, initial, initial_seed), persistent=False)

        def draw(*shape: int) -> nn.Parameter:
            return nn.Parameter(first_weights(torch.empty(shape), init))

        widths: list[int] = self.config["width"]
        blocks = widths[:1] if shared else widths
        into = list(zip([in_channels, *widths], widths, strict=False))  # d_l and d_{l+1}
        self.W = nn.ParameterList(draw(f, kernels, d) for f, d in (into[:2] if shared else into))
        self.U = nn.ParameterList(draw(d, d) for d in blocks)
        self.Z = nn.ParameterList(draw(d, d) for d in blocks)
        self.Q = nn.ParameterList(draw(d, d) for d in blocks)
        self.M = nn.ParameterList(draw(nodes, nodes) for _ in blocks)
        self.B = nn.ParameterList(draw(nodes, 2 * d) for d in blocks if self.config["m_bias"])
        if self.config["identity_m"]:
            for M in self.M:
                nn.init.eye_(M)
        if self.released:
            channels = {
                "W": [kernels * d for d in blocks],
                "U": blocks,
                "Z": blocks,
                "M": [nodes] * len(blocks),
            }
            self.norm = nn.ModuleDict({X: nn.ModuleList(map(BatchNorm, channels[X])) for X in channels})
            self.dense = nn.utils.skip_init(nn.Linear, nodes**2, nodes**2, device=torch.get_default_device())
            first_weights(self.dense.weight, init)
            nn.init.constant_(self.dense.bias, 0.1)

    def forward(
        self, batch: GraphBatch, initial: Tensor | None = None, steps: int | None = None
    ) -> contract.StructureOutput:
        """The structure after every step, from the features alone; ``batch.adj`` is never read.

        Args:
            batch: graphs of exactly ``nodes`` nodes.
            initial: ``A⁰ [N, N]`` or ``[B, N, N]``, instead of the configured one.
            steps: number of steps to run; more than configured only if weights are shared.
        """
        batch = as_batch(batch)
        recorded = batch.mask.is_cuda and torch.cuda.is_current_stream_capturing()  # draw has checked it
        if not recorded and not torch.compiler.is_exporting():
            check_batch(self.config, batch, initial)
        H = batch.features.to(self.A0.dtype)  # [B, N, f]
        A = self.A0 if initial is None else initial.to(self.A0)  # [N, N] or [B, N, N]
        scores, states = self.recur(H, A, check_steps(steps, self.config["steps"], self.config["shared"]))
        return contract.StructureOutput(tuple(scores), tuple(states), mask=batch.pair_mask)

    def recur(self, H: Tensor, A: Tensor, steps: int) -> tuple[list[Tensor], list[Tensor]]:
        """The scores ``S`` and states ``H`` of every step, from ``H⁰`` and ``A⁰``."""
        scores, states = [], []
        for l in range(steps):
            H_int = self.eta(l, H, A)
            H_local = self.lambda_(l, H_int, A)
            H = H_int if self.released else H_local
            S = self.rho(l, *self.alpha(l, H_local, self.gamma(l, H)))
            A = self.sigma(S)
            scores.append(S)
            states.append(H)
        if self.released:
            # The scores of earlier steps are what enters their ReLU: positive for an edge.
            scores[-1] = self.symmetrise(self.dense(A.flatten(1)).view_as(A))
        return scores, states

    def draw(self, batch: GraphBatch) -> dict[str, Tensor]:
        """Nothing: it scores all pairs; but a batch that does not fit is refused."""
        check_batch(self.config, batch, None)
        return {}

    def misfit(self, nodes: int, pos_width: int, x_width: int) -> str | None:
        """Why it cannot read such nodes, as the end of a sentence: it takes one size, ``pos`` and ``x`` together."""
        if nodes != self.config["nodes"]:
            return f"it has {nodes} nodes, but the model takes sets of exactly {self.config['nodes']}."
        if pos_width + x_width != self.config["in_channels"]:
            wanted = self.config["in_channels"]
            return f"it has {pos_width + x_width} values per node, but the model takes {wanted}."
        return None

    @staticmethod
    def input_settings(graphs: Sequence[Data]) -> dict[str, int]:
        """The settings that follow from graphs, all of one size."""
        sizes = {graph.num_nodes for graph in graphs}
        if len(sizes) > 1:
            raise GLNError(
                f"PaperGLN needs graphs of one size, but these have {min(sizes)} to {max(sizes)} nodes; "
                "train GLN instead."
            )
        return {"nodes": sizes.pop(), "in_channels": sum(contract.input_settings(graphs).values())}

    def eta(self, l: int, H: Tensor, A: Tensor) -> Tensor:
        """``H_int = Σᵢ σ(τ(A) H Wᵢ) [B, N, d]``, with the k kernels as one product."""
        X = tau(A, H) @ self.weight("W", l).flatten(1)  # [B, N, k·d]
        return self.sigma(self.normal("W", l, X)).unflatten(-1, (self.config["kernels"], -1)).sum(dim=2)

    def lambda_(self, l: int, H_int: Tensor, A: Tensor) -> Tensor:
        """``H_local = σ(τ(A) H_int U) [B, N, d]``."""
        return self.sigma(self.normal("U", l, tau(A, H_int) @ self.weight("U", l)))

    def gamma(self, l: int, H: Tensor) -> Tensor:
        """``H_global = tanh(H Z) [B, N, d]``."""
        X = H @ self.weight("Z", l)
        return self.normal("Z", l, X).relu() if self.released else X.tanh()

    def alpha(self, l: int, H_local: Tensor, H_global: Tensor) -> tuple[Tensor, Tensor]:
        """``α = H_local Q H_globalᵀ`` as its two factors ``[B, N, d]``; α itself, n × n, is never needed."""
        return H_local @ at(self.Q, l), H_global

    def rho(self, l: int, left: Tensor, right: Tensor) -> Tensor:
        """``S = M α Mᵀ = (M left)(M right)ᵀ [B, N, N]``: n²d products instead of n³."""
        X = at(self.M, l) @ torch.cat([left, right], dim=-1)  # [B, N, 2d]
        left, right = (X + at(self.B, l) if len(self.B) else X).chunk(2, dim=-1)
        S = left @ right.mT
        return self.normal("M", l, S) if self.released else self.symmetrise(S)

    def sigma(self, X: Tensor) -> Tensor:
        return X.relu() if self.released else X.sigmoid()

    def symmetrise(self, S: Tensor) -> Tensor:
        return (S + S.mT) / 2 if self.config["symmetric"] else S

    def weight(self, name: str, l: int) -> Tensor:
        weight = at(getattr(self, name), l)
        if self.released:  # each kernel of W has its own norm
            weight = weight / weight.square().sum(dim=(0, -1), keepdim=True).sqrt()
        return weight

    def normal(self, name: str, l: int, X: Tensor) -> Tensor:
        if self.released:
            return at(self.norm[name], l)(X)
        if not self.config["normalise"]:
            return X
        variance, mean = torch.var_mean(X, dim=1, correction=0, keepdim=True)
        return (X - mean) * (variance + 1e-5).rsqrt()


def first_weights(weight: Tensor, init: float | str) -> Tensor:
    """Fill ``weight [rows, …, columns]``, whose middle axes number matrices, as ``init`` says."""
    if isinstance(init, str):
        bound = (6 / (weight.shape[0] + weight.shape[-1])) ** 0.5
        return nn.init.uniform_(weight, -bound, bound)
    return nn.init.trunc_normal_(weight, std=init, a=-2 * init, b=2 * init)


def tau(A: Tensor, H: Tensor) -> Tensor:
    """``τ(A) H [B, N, d]`` without forming ``τ(A)``, for ``A [B, N, N]`` or ``[N, N]``."""
    root = (1 + A.sum(dim=-1, keepdim=True)).rsqrt()  # D̂^{-1/2}
    X = root * H
    return root * (A @ X + X)


def at(blocks: Any, l: int) -> Any:
    """The weights of step ``l``; shared ones serve all steps (for ``W``, all but the first)."""
    return blocks[min(l, len(blocks) - 1)]


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


def initial_structure(nodes: int, share: str | float, seed: int = 0) -> Tensor:
    """``A⁰ [N, N]``: the identity plus a random ``share`` of all pairs, 0 (``"identity"``) to 1 (``"full"``).

    The share is of all pairs, because true edges would give the answer away.
    """
    part = {"identity": 0.0, "full": 1.0}.get(share, -1.0) if isinstance(share, str) else share
    if not 0 <= part <= 1:
        raise GLNError(
            f"Got initial={share!r}; expected identity, full, or a share of all pairs from 0 to 1."
        )
    A = torch.eye(nodes)
    pairs = torch.triu_indices(nodes, nodes, offset=1)  # [2, n(n−1)/2]
    draw = None if A.is_meta else torch.Generator().manual_seed(seed)  # an outline draws nothing
    order = torch.randperm(pairs.shape[1], generator=draw)
    i, j = pairs[:, order[: round(part * pairs.shape[1])]]
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
