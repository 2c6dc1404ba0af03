"""GLN over many small sets on a CPU, without gradients: the result of the padded forms, several times faster.

A few sets at a time go through all steps, so that their states stay in the cache. Empty entries are skipped, a
normalisation is folded into the linear layer after it, and layers that read the same numbers share one product. What is
not a matrix product is in the compiled loops of :mod:`gln.models.small_kernels`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gln.compiling import can_compile, spread
from gln.models.features import pair_features
from gln.models.flat import FlatBlock, FlatPairs
from gln.models.gln_parts import Step, inverse_root
from gln.models.mixing import compiled_kernel
from gln.models.pairs import DensePairs
from gln.models.small_kernels import EPS, Kernels, kernels
from gln.models.streaming import unit_of_length

if TYPE_CHECKING:
    from gln.models.gln import GLN

WORTH = 2**14  # a batch with fewer entries is done before the compiled loops are loaded
CROWDED = 0.75  # share of entries that are pairs; above it, all entries are computed at once
GROUP = 2**12  # pairs per thread that go through all steps together: what a cache holds


def worth_compiling(pairs: DensePairs, like: Tensor) -> bool:
    """Whether :func:`score_small` supports this input and is faster."""
    return (
        pairs.mask.numel() > WORTH
        and like.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
        and can_compile()
    )


@torch.no_grad()
def score_small(
    model: GLN, pairs: DensePairs, where: Tensor, pos: Tensor, x: Tensor, a: Tensor, steps: int
) -> list[tuple[Tensor, Tensor]]:
    """The scores ``[B, N, N]`` and node states ``[B, N, d]`` after each step.

    The arguments are those of :func:`gln.models.streaming.stream`, with the dimensions of a batch.
    """
    places = pairs.mask.flatten(1).sum(1)
    parts = [_Part(model.step(n), model.step(n + 1) if n + 1 < steps else None) for n in range(steps)]
    answers = []
    for some in _groups(places.tolist(), GROUP * torch.get_num_threads()):
        given = (where[some], pos[some], x[some], a[some])
        answers.append(_score_group(model, parts, pairs.mask[some], *given))
    return [
        (torch.cat([scores for scores, _ in step]), torch.cat([states for _, states in step]))
        for step in zip(*answers, strict=True)
    ]


def _groups(places: list[int], size: int) -> Iterator[slice]:
    """Consecutive sets in groups of at most ``size`` pairs, or of a single set with more."""
    first, held = 0, 0
    for number, count in enumerate(places):
        if number > first and held + count > size:
            yield slice(first, number)
            first, held = number, 0
        held += count
    yield slice(first, len(places))


class _Folded(NamedTuple):
    """A linear layer with the scale and shift of the LayerNorm before it folded in: ``[out, in]`` and ``[out]``."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, norm: nn.Module, linear: nn.Module) -> _Folded:
        assert isinstance(norm, nn.LayerNorm)
        assert norm.eps == EPS
        assert isinstance(linear, nn.Linear)
        return cls(linear.weight * norm.weight, linear.weight @ norm.bias + linear.bias)

    def beside(self, other: _Folded) -> _Folded:
        """Both layers as one product."""
        return _Folded(*(torch.cat(both) for both in zip(self, other, strict=True)))

    def __call__(self, normed: Tensor) -> Tensor:
        return functional.linear(normed, self.weight, self.bias)


class _Part:
    """A step with its layers over pairs folded; the gates of the next step are computed with its scores."""

    def __init__(self, step: Step, following: Step | None) -> None:
        self.step = step
        self.gate = _gate(step)
        self.read = None if step.mix is None else _Folded.of(step.mix.norm, step.mix.read)
        weigh, score = cast(Any, step.weigh), cast(Any, step.score)
        self.weigh, self.weighed = _Folded.of(weigh[0], weigh[1][0]), weigh[1][2]
        self.score = _Folded.of(*score)
        if following is not None:
            self.score = self.score.beside(_gate(following))


def _gate(step: Step) -> _Folded:
    return _Folded.of(step.listen.pair_norm, step.listen.gate)


def _score_group(
    model: GLN,
    parts: list[_Part],
    mask: Tensor,
    where: Tensor,
    pos: Tensor,
    x: Tensor,
    a: Tensor,
) -> list[tuple[Tensor, Tensor]]:
    """As :func:`score_small`, for some of the sets."""
    sets, nodes, _ = mask.shape
    index = torch.arange(nodes).expand(mask.shape)
    pairs, a = FlatPairs.from_slots(index, mask), a[mask]
    where, pos, x = where.flatten(0, 1), pos.flatten(0, 1), x.flatten(0, 1)
    group = _Group(model, pairs, np.arange(0, sets * nodes + 1, nodes))
    everything = FlatBlock(pairs, slice(0, len(x)), slice(0, len(pairs.target)))
    unit = unit_of_length(everything, where)[:, None]
    e = model.embed_pair(pair_features(everything, where, pos, x, unit))
    h = model.embed_node(x if x.shape[-1] else x.new_ones(len(x), 1))
    gate = parts[0].gate(group.normalised(e, e.new_zeros(e.shape[1])))
    answers = []
    for part in parts:
        h, score, gate = group.step(part, h, e, a, gate)
        score = (score + pairs.reverse(score)) / 2
        a = score.sigmoid()
        answers.append(
            (score.new_zeros(mask.shape).masked_scatter_(mask, score), h.unflatten(0, (sets, nodes)))
        )
    return answers


class _Group:
    """Some sets, with the buffers for their steps."""

    def __init__(self, model: GLN, pairs: FlatPairs, bounds: np.ndarray) -> None:
        like = next(model.parameters())
        heads, width = model.config["kernels"], model.pair_width
        self.pairs, self.bounds = pairs, bounds
        self.nodes, self.count = len(pairs.start) - 1, len(pairs.target)
        self.ends = (pairs.start.numpy(), pairs.target.numpy())
        self.kernels: Kernels = kernels(heads, width // heads)
        # Where many pairs are missing, it pays to look up the third nodes that both ends share.
        crowded = self.count > CROWDED * self.nodes * (bounds[1] - bounds[0])
        self.sparse = None if crowded else compiled_kernel(heads, width // heads)
        self.normed, self.joined = like.new_empty(2, self.count, width)
        self.mixed = like.new_empty(self.count, width + heads)

    def normalised(self, e: Tensor, shift: Tensor) -> Tensor:
        """Add ``shift`` to ``e`` in place; the result with mean 0 and variance 1, valid until the next call."""
        arrays = (e.numpy(), shift.detach().numpy(), self.normed.numpy())
        spread(self.kernels.normalise, 0, self.count, *arrays)
        return self.normed

    def step(
        self, part: _Part, h: Tensor, e: Tensor, a: Tensor, gate: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """New node states, the scores in one direction and the gates of the next step; ``e`` is changed in place.

        Each product adds a layer's output to ``e`` without the bias, which the next normalisation adds on the way.
        """
        step = part.step
        a = a if step.feedback else torch.ones_like(a)
        h = step.rethink(h, self._heard(step, h, a, gate))
        e.addmm_(functional.gelu(self._joined(step, h, a)), step.ends.out.weight.T)
        bias = step.ends.out.bias
        if step.mix is not None and part.read is not None:
            read = part.read(self.normalised(e, bias))
            self._mix(read.numpy())
            e.addmm_(self.mixed, step.mix.out.weight.T)
            bias = step.mix.out.bias
        e.addmm_(functional.gelu(part.weigh(self.normalised(e, bias))), part.weighed.weight.T)
        score, gate = part.score(self.normalised(e, part.weighed.bias)).tensor_split([1], dim=1)
        return h, score[:, 0], gate

    def _mix(self, read: np.ndarray) -> None:
        """Fill ``mixed`` from query, key, first and second of every pair, ``[m, 4 · c]``."""
        mixed = self.mixed.numpy()
        if self.sparse is None:
            arrays = (self.bounds, *self.ends, self.pairs.back.numpy(), read, mixed)
            spread(self.kernels.mix, 0, len(self.bounds) - 1, *arrays)
            return
        channels = read.shape[1] // 4
        layout = (4 * channels, 2 * channels, channels, 3 * channels)
        out = (mixed[:, :channels], mixed[:, channels:])
        spread(self.sparse, 0, self.nodes, 0, layout, *self.ends, read, read, *out)

    def _heard(self, step: Step, h: Tensor, a: Tensor, gate: Tensor) -> Tensor:
        values = step.listen.speak(h).flatten(1)
        root, heard = inverse_root(self.pairs.total(a)), torch.empty_like(values)
        arrays = [given.contiguous().numpy() for given in (values, root, gate, a, heard)]
        spread(self.kernels.listen, 0, self.nodes, *self.ends, *arrays)
        return cast(Tensor, step.listen.U(functional.gelu(heard)))

    def _joined(self, step: Step, h: Tensor, a: Tensor) -> Tensor:
        sources, targets = step.ends.project(h)
        structure = step.ends.structure
        sources[:, : self.joined.shape[1]] += structure.bias
        arrays = [
            given.detach().numpy() for given in (sources, targets, structure.weight[:, 0], a, self.joined)
        ]
        spread(self.kernels.join, 0, self.nodes, *self.ends, *arrays)
        return self.joined
