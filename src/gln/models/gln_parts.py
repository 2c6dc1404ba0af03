"""The parts of one step of GLN, in the order in which data flows through them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gln.models.features import mlp
from gln.models.pairs import Pairs


class Step(nn.Module):
    """One turn of the alternation: nodes listen through the structure, then the structure is re-scored."""

    def __init__(self, width: int, pair_width: int, kernels: int, mixing: bool, feedback: bool) -> None:
        super().__init__()
        self.feedback = feedback
        self.listen = Listen(width, pair_width, kernels)
        self.think = nn.Sequential(nn.LayerNorm(width), mlp(width, 2 * width, width))
        self.ends = Ends(width, pair_width)
        self.mix = Mix(pair_width, kernels) if mixing else None
        self.weigh = nn.Sequential(nn.LayerNorm(pair_width), mlp(pair_width, 2 * pair_width, pair_width))
        self.score = nn.Sequential(nn.LayerNorm(pair_width), nn.Linear(pair_width, 1))

    def forward(self, pairs: Pairs, h: Tensor, e: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States ``h`` ``[B, N, d]`` and ``e`` ``[B, N, S, c]``, structure ``a`` ``[B, N, S]``; scores as ``a``."""
        a = a if self.feedback else pairs.mask.to(a.dtype)
        h = h + self.listen(pairs, h, e, a)
        h = h + self.think(h)
        e = e + self.ends(pairs, h, a)
        if self.mix is not None:
            e = e + self.mix(pairs, e)
        e = e + self.weigh(e)
        score = self.score(e).squeeze(-1)
        return h, e, (score + pairs.reverse(score)) / 2


class Listen(nn.Module):
    """The paper's η and λ: ``Σ_i τ(A) H W_i``, where kernel ``i`` also hears the pair's own state."""

    def __init__(self, width: int, pair_width: int, kernels: int) -> None:
        super().__init__()
        self.kernels = kernels
        self.norm, self.pair_norm = nn.LayerNorm(width), nn.LayerNorm(pair_width)
        self.W = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(pair_width, kernels)
        self.U = nn.Linear(width, width)

    def forward(self, pairs: Pairs, h: Tensor, e: Tensor, a: Tensor) -> Tensor:
        values = self.W(self.norm(h)).unflatten(-1, (self.kernels, -1))  # [B, N, k, d/k]
        root = (1 + a.sum(-1)).rsqrt()  # D̂^(-1/2): [B, N]
        tau = (
            a * pairs.of_source(root[..., None])[..., 0] * pairs.of_target(root[..., None])[..., 0]
        )  # [B, N, S]
        weight = tau[..., None] * 2 * self.gate(self.pair_norm(e)).sigmoid()  # [B, N, S, k]
        heard = pairs.aggregate(weight, values) + (root**2)[..., None, None] * values
        return self.U(nn.functional.gelu(heard.flatten(-2)))


class Ends(nn.Module):
    """What a pair reads at its two ends, and its place in the current structure."""

    def __init__(self, width: int, pair_width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.source, self.target = nn.Linear(width, 2 * pair_width), nn.Linear(width, 2 * pair_width)
        self.structure = nn.Linear(1, pair_width)
        self.out = nn.Linear(pair_width, pair_width)

    def forward(self, pairs: Pairs, h: Tensor, a: Tensor) -> Tensor:
        h = self.norm(h)
        left, left_factor = pairs.of_source(self.source(h)).chunk(2, dim=-1)
        right, right_factor = pairs.of_target(self.target(h)).chunk(2, dim=-1)
        both = left + right + left_factor * right_factor + self.structure(a[..., None])  # sum and product: α
        return self.out(nn.functional.gelu(both))


class Mix(nn.Module):
    """Pairs that share a third node: the pair ``ij`` attends over ``k`` by what ``ik`` and ``jk`` say together."""

    def __init__(self, pair_width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(pair_width)
        self.read = nn.Linear(pair_width, 4 * pair_width)
        self.out = nn.Linear(pair_width + heads, pair_width)

    def forward(self, pairs: Pairs, e: Tensor) -> Tensor:
        read = self.read(self.norm(e)).unflatten(-1, (4, self.heads, -1))  # [B, N, S, 4, h, c/h]
        mixed, total = pairs.mix(read)
        return self.out(torch.cat([mixed.flatten(-2), total], dim=-1))
