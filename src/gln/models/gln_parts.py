"""The parts of one step of GLN, in the order in which data flows through them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gln.models.features import mlp
from gln.models.pairs import PairEnds, Pairs


class Step(nn.Module):
    """One step: nodes listen to one another through the structure, then the structure is re-scored."""

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
        """New states ``h`` ``[B, N, d]`` and ``e`` ``[B, N, S, c]``, and scores ``[B, N, S]``, shaped like ``a``."""
        a = self.shown(pairs, a)
        h = self.rethink(h, self.listen(pairs, h, e, a))
        e = e + self.ends(pairs, h, a)
        e, score = self.reweigh(e, None if self.mix is None else self.mix(pairs, e))
        return h, e, (score + pairs.reverse(score)) / 2

    # The parts of forward, for pairs that are processed in blocks (:mod:`gln.models.streaming`).

    def shown(self, pairs: PairEnds, a: Tensor) -> Tensor:
        """The structure that nodes and pairs see."""
        return a if self.feedback else pairs.mask.to(a.dtype)

    def rethink(self, h: Tensor, heard: Tensor) -> Tensor:
        h = h + heard
        return h + self.think(h)

    def reweigh(self, e: Tensor, mixed: Tensor | None) -> tuple[Tensor, Tensor]:
        """New pair states ``[..., c]`` and their scores ``[...]``, before both directions are averaged."""
        e = e if mixed is None else e + mixed
        e = e + self.weigh(e)
        return e, self.score(e).squeeze(-1)


class Listen(nn.Module):
    """The paper's η and λ: ``Σ_i τ(A) H W_i``, with each kernel ``i`` gated by the pair's state."""

    def __init__(self, width: int, pair_width: int, kernels: int) -> None:
        super().__init__()
        self.kernels = kernels
        self.norm, self.pair_norm = nn.LayerNorm(width), nn.LayerNorm(pair_width)
        self.W = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(pair_width, kernels)
        self.U = nn.Linear(width, width)

    def forward(self, pairs: Pairs, h: Tensor, e: Tensor, a: Tensor) -> Tensor:
        return self.hear(pairs, self.speak(h), inverse_root(pairs.total(a)), e, a)

    def speak(self, h: Tensor) -> Tensor:
        """The values that every node sends, ``[B, N, k, d/k]``."""
        return self.W(self.norm(h)).unflatten(-1, (self.kernels, -1))

    def hear(self, pairs: PairEnds, values: Tensor, root: Tensor, e: Tensor, a: Tensor) -> Tensor:
        """What nodes receive over their pairs of the ``values`` of all nodes; ``root`` ``[B, N]`` is ``D̂^(-1/2)``."""
        tau = (
            a * pairs.of_source(root[..., None])[..., 0] * pairs.of_target(root[..., None])[..., 0]
        )  # [B, N, S]
        weight = tau[..., None] * 2 * self.gate(self.pair_norm(e)).sigmoid()  # [B, N, S, k]
        own = pairs.of_rows(root**2)[..., None, None] * pairs.of_rows(values)
        heard = pairs.aggregate(weight, values) + own
        return self.U(nn.functional.gelu(heard.flatten(-2)))


def inverse_root(degree: Tensor) -> Tensor:
    """``D̂^(-1/2)``, where every node also counts itself."""
    return (1 + degree).rsqrt()


class Ends(nn.Module):
    """What a pair reads: its two ends and its own entry in the current structure."""

    def __init__(self, width: int, pair_width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.source, self.target = nn.Linear(width, 2 * pair_width), nn.Linear(width, 2 * pair_width)
        self.structure = nn.Linear(1, pair_width)
        self.out = nn.Linear(pair_width, pair_width)

    def forward(self, pairs: Pairs, h: Tensor, a: Tensor) -> Tensor:
        return self.join(pairs, *self.project(h), a)

    def project(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """What every node contributes as a source and as a target, both ``[B, N, 2c]``."""
        h = self.norm(h)
        return self.source(h), self.target(h)

    def join(self, pairs: PairEnds, sources: Tensor, targets: Tensor, a: Tensor) -> Tensor:
        left, left_factor = pairs.of_source(sources).chunk(2, dim=-1)
        right, right_factor = pairs.of_target(targets).chunk(2, dim=-1)
        both = left + right + left_factor * right_factor + self.structure(a[..., None])  # sum and product: α
        return self.out(nn.functional.gelu(both))


class Mix(nn.Module):
    """Pairs read pairs: ``ij`` attends over third nodes ``k``, scored by ``ik`` and ``jk`` together."""

    def __init__(self, pair_width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(pair_width)
        self.read = nn.Linear(pair_width, 4 * pair_width)
        self.out = nn.Linear(pair_width + heads, pair_width)

    def forward(self, pairs: Pairs, e: Tensor) -> Tensor:
        read = self.read(self.norm(e)).unflatten(-1, (4, self.heads, -1))  # [B, N, S, 4, h, c/h]
        return self.answer(*pairs.mix(read))

    def read_part(self, e: Tensor, part: slice) -> Tensor:
        """Some of query, key, first and second, for normalised pairs ``[m, c]``: ``[m, ·, h, c/h]``."""
        weight, bias = (values.unflatten(0, (4, -1))[part] for values in (self.read.weight, self.read.bias))
        read = nn.functional.linear(e, weight.flatten(0, 1), bias.flatten(0, 1))
        return read.unflatten(-1, (len(weight), self.heads, -1))

    def answer(self, mixed: Tensor, total: Tensor) -> Tensor:
        return self.out(torch.cat([mixed.flatten(-2), total], dim=-1))
