"""What pairs and nodes are told: features of the input, series of moments, and the structure that is fed back.

The features of pairs are independent of origin and node order and, unless asked for, of the unit of length.

Where ``x`` holds the same few values at many moments, it is a series. A pair is described at every moment ``t`` by
``m_ij(t)``, always in the same way. It reads the mean over time, and then, in every step, whether it is needed to
explain what happens to its first node: ``mean_t n_ij(t) · (s_i(t) + Σ_k g_ik m_ik(t))``, where ``s_i(t)`` is what
happens there, and ``g_ik`` says what the current structure makes of the pair ``ik``. With the force between two
particles for ``m`` and the acceleration of one for ``s``, this is how well the force fits what the others leave over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from gln.errors import GLNError
from gln.models.contract import Kinds
from gln.models.pairs import Block, Pairs, joined
from gln.models.settings import Lengths

LOCAL = 4  # the unit of length at a node is its mean distance to this many nearest nodes
SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)  # lengths in the data's own unit that a pair is compared with
WAVES = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25)  # wavelengths in it: a hundredth of it shows, in half precision too
REACH = 5  # moments that are read together


def feature_count(pos: int, x: int, lengths: Lengths, directions: bool, sums: bool) -> int:
    """How many features a pair has whose nodes have ``pos`` and ``x`` of these widths."""
    own = (lengths != "local") * (1 + len(SCALES)) + (lengths == "fine") * 2 * len(WAVES)
    return 2 * pos * directions + 3 + own + (2 + sums) * x


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two linear layers with a GELU between them."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, outputs))


def pair_features(
    block: Block,
    where: Tensor,
    pos: Tensor,
    x: Tensor,
    unit: Tensor,
    lengths: Lengths = "local",
    directions: bool = True,
    sums: bool = False,
) -> Tensor:
    """The input features of the pairs of a block, as many as :func:`feature_count`.

    ==============  ============================================================================================
    directions      the offset between the ends in local units, and its direction
    lengths         the distance in local units (``unit [..., 1]`` is :func:`local_unit`), also as logarithms
    in their unit   if ``lengths`` are absolute: the logarithm of the distance ``d``, and ``d / (d + s)`` for some ``s``
                    if they are fine, also sines and cosines of waves along it
    change          the difference of ``x``, and its size; with ``sums``, also the sum
    ==============  ============================================================================================
    """
    offset = block.target(pos) - block.source(pos)
    change = (block.target(x) - block.source(x)).expand(*block.shape, -1)
    distance = pair_length(block, where)[..., None]
    ours, theirs = block.source(unit), block.target(unit)
    common = (ours * theirs).sqrt()
    parts = [distance / common, (distance / ours + 1e-3).log(), (distance / theirs + 1e-3).log()]
    if directions:
        turned = [(offset / common).expand(*block.shape, -1), offset / distance.where(distance > 0, 1)]
        parts = turned + parts
    if lengths != "local":
        parts += [(distance + 1e-6).log(), *(distance / (distance + scale) for scale in SCALES)]
    if lengths == "fine":
        angle = torch.cat([distance * (2 * torch.pi / wave) for wave in WAVES], dim=-1)
        parts += [angle.sin(), angle.cos()]
    parts += [change, change.abs()]
    if sums:
        parts.append((block.target(x) + block.source(x)).expand(*block.shape, -1))
    return block.only(torch.cat(parts, dim=-1))


def pair_length(block: Block, where: Tensor) -> Tensor:
    """The distance between the ends of every pair, with a zero gradient at zero length."""
    square = (block.target(where) - block.source(where)).square().sum(-1)
    length = torch.where(square > 0, square.clamp(min=torch.finfo(square.dtype).tiny).sqrt(), 0)
    return length.expand(block.shape)


def local_unit(block: Block, where: Tensor) -> Tensor:
    """The unit of length at every node of a block: its mean distance to the nearest few that do not coincide with it.

    It is 1 for a node without any.
    """
    distance = pair_length(block, where)
    distance = block.by_row(distance.masked_fill(distance == 0, torch.inf), torch.inf)
    near = distance.topk(min(LOCAL, distance.shape[-1]), largest=False).values
    real = near.isfinite()
    mean = near.where(real, 0).sum(-1) / real.sum(-1).clamp(min=1)
    return torch.where(mean > 0, mean, 1)


def index_features(mask: Tensor, channels: int) -> Tensor:
    """The index of every node in its graph, as sines and cosines, the fastest first: ``[B, N, channels]``.

    The wavelengths are powers of two, so that the index can be read off bit by bit.
    """
    place = torch.arange(mask.shape[1], device=mask.device, dtype=torch.float32)
    wave = torch.pi / 2.0 ** torch.arange(channels // 2, device=mask.device)  # the fastest alternates by node
    angle = place[:, None] * wave  # [N, channels / 2]
    return torch.cat([angle.sin(), angle.cos()], dim=-1) * mask[..., None]


class Moments(NamedTuple):
    """What is kept of a series, ``v`` values at each of ``t`` moments."""

    happens: Tensor  # s: [..., t · v], of nodes
    moves: Tensor  # m: [..., t, v], of pairs, 0 where there is none
    fits: Tensor  # n: [..., t, v]


class Series(nn.Module):
    """Reads the series at both ends of a pair, moment by moment."""

    def __init__(self, moments: int, values: int, pair_width: int) -> None:
        super().__init__()
        self.moments, self.width, self.kept = moments, 2 * pair_width, max(pair_width // 2, 1)
        self.nodes = nn.Conv1d(values, 4 * self.width + self.kept, REACH, padding=REACH // 2)
        self.norm = nn.LayerNorm(self.width)
        self.think = nn.Linear(self.width, self.width)
        self.size = nn.Linear(self.width, 2 * self.kept)
        self.way = nn.Linear(self.width, 2 * self.kept, bias=False)
        self.out = nn.Linear(self.width, pair_width)

    def forward(self, blocks: Sequence[Block], x: Tensor) -> tuple[Tensor, Moments]:
        """What pairs read of ``x [..., t · values]``, ``[..., c]``, and what is kept for later."""
        series = x.unflatten(-1, (self.moments, -1)).flatten(0, -3)  # [n, t, values]
        with _exactly(x):
            seen = self.nodes(series.mT).mT.reshape(*x.shape[:-1], self.moments, -1)
        parts = seen.split([2 * self.width, 2 * self.width, self.kept], dim=-1)
        source, target, happens = (part.flatten(-2) for part in parts)
        read, moves, fits = [], [], []
        for block in blocks:
            with _exactly(x):
                both = (block.source(source) + block.target(target)).unflatten(-1, (self.moments, -1))
                one, other = both.chunk(2, dim=-1)
                product = self.norm(one * other)
            moment = gelu(self.think(product))  # [..., t, w]
            # As a force has a size and a way.
            move, fit = (self.size(moment) * self.way(one)).chunk(2, dim=-1)
            read.append(self.out(moment.mean(-2)))
            moves.append(block.only(move))
            fits.append(fit)
        return joined(read), Moments(happens, joined(moves), joined(fits))


def _exactly(x: Tensor) -> torch.autocast:
    """In full precision: what changes from moment to moment, and what keeps neighbours apart, are the last digits."""
    return torch.autocast(x.device.type, enabled=False)


class Explain(nn.Module):
    """How well each pair fits what the current structure leaves unexplained at its first node."""

    def __init__(self, pair_width: int, seen: int) -> None:
        super().__init__()
        kept = max(pair_width // 2, 1)
        self.weigh = nn.Linear(seen, kept)
        self.out = nn.Linear(kept, pair_width)

    def forward(self, blocks: Sequence[Block], moments: Moments, structure: Tensor) -> Tensor:
        """What pairs read, ``[..., c]``, given the current structure ``[..., seen]``."""
        read = []
        for block in blocks:
            move, fit = block.pairs(moments.moves), block.pairs(moments.fits)
            part = self.weigh(block.pairs(structure))[..., None, :] * move
            left = block.of_row(block.row_total(part.flatten(-2))) + block.source(moments.happens)
            # One collision must not outweigh all other moments.
            left = torch.asinh(left.unflatten(-1, fit.shape[-2:]))
            read.append(self.out(torch.asinh((fit * left).mean(-2))))
        return joined(read)


class Structure(NamedTuple):
    """The current structure, as it is fed back.

    =========  ========================  ================================================================
    ``a``      ``[...]``                 ``A``: the probability of every edge
    ``back``   ``[...]`` or ``None``     that of the other direction; ``None``: undirected
    ``kinds``  ``[..., c]`` or ``None``  ``A`` times the chances of every type and the logarithm of the
                                         weight; if directed, for both directions, ``back`` first
    =========  ========================  ================================================================
    """

    a: Tensor
    back: Tensor | None = None
    kinds: Tensor | None = None

    def channels(self) -> Tensor:
        """All of it, ``[..., 1 + c]``."""
        a = self.a[..., None]
        return a if self.kinds is None else torch.cat([a, self.kinds], dim=-1)

    def hidden(self, pairs: Pairs) -> Structure:
        """What a model sees that is not to see it: every pair is an edge of no kind."""
        a = pairs.only(torch.ones_like(self.a))
        kinds = None if self.kinds is None else torch.zeros_like(self.kinds)
        return Structure(a, None if self.back is None else a, kinds)


def said(kinds: Kinds) -> int:
    """How many numbers say of which kind an edge is."""
    return (kinds.edge_types if kinds.edge_types > 1 else 0) + kinds.edge_weights


def fed_back(kinds: Kinds) -> int:
    """How many are fed back beside ``A``: if directed, those of both directions, and ``A`` of the other."""
    return 1 + 2 * said(kinds) if kinds.directed else said(kinds)


def types_and_weights(kinds: Kinds, given: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The scores of all types ``[..., T]`` and the logarithm of the weight ``[...]`` among what is said of pairs."""
    if given is None:
        return None, None
    weights = given[..., -1] if kinds.edge_weights else None
    return given[..., : kinds.edge_types] if kinds.edge_types > 1 else None, weights


def next_structure(
    kinds: Kinds, pairs: Pairs, score: Tensor, types: Tensor | None, weights: Tensor | None
) -> Structure:
    """What the next step sees of the scores of this one."""
    a = pairs.only(score.sigmoid())
    each = None if types is None else a[..., None] * _shares(types)
    return _both_ways(kinds, pairs, a, each, None if weights is None else a * weights)


def _shares(types: Tensor) -> Tensor:
    """``softmax`` over the last dimension; on a CPU, few columns take a tenth of the time that short rows do."""
    if types.is_cpu:
        return types.movedim(-1, 0).contiguous().softmax(0).movedim(0, -1)
    return types.softmax(-1)


def first_structure(kinds: Kinds, pairs: Pairs, a: Tensor | None, nothing: Tensor) -> Structure:
    """``A⁰``: ``nothing [...]``, or ``a`` with unknown types ``[...]`` or known ones ``[..., T]``."""
    a, types = nothing if a is None else a, kinds.edge_types
    if types > 1 and a.dim() == nothing.dim():
        a = (a / types)[..., None].expand(*a.shape, types)
    each = a + nothing[..., None] if types > 1 else None
    whole = a + nothing if each is None else each.sum(-1)
    return _both_ways(kinds, pairs, whole, each, nothing if kinds.edge_weights else None)


def _both_ways(
    kinds: Kinds, pairs: Pairs, a: Tensor, each: Tensor | None, weights: Tensor | None
) -> Structure:
    """From ``A``, ``A`` for ``each`` type ``[..., T]``, and the weights ``[...]``."""
    parts = [] if each is None else [each]
    parts += [] if weights is None else [weights[..., None]]
    if not kinds.directed:
        return Structure(a, None, torch.cat(parts, dim=-1) if parts else None)
    back = pairs.reverse(a)
    both = torch.cat([back[..., None], *parts, *map(pairs.reverse, parts)], dim=-1)
    return Structure(a, back, both)


def checked_structure(kinds: Kinds, initial: Tensor, mask: Tensor, like: Tensor) -> Tensor:
    """``A⁰`` as ``[B, N, N]`` or, for each type, ``[B, N, N, T]``, with the device and dtype of the model."""
    count, nodes = mask.shape
    shapes: list[tuple[int, ...]] = [(nodes, nodes), (count, nodes, nodes)]
    if kinds.edge_types > 1:
        shapes.append((count, nodes, nodes, kinds.edge_types))
    if initial.shape not in shapes:
        raise GLNError(
            f"Got an initial structure of shape {list(initial.shape)}; expected "
            f"{' or '.join(str(list(shape)) for shape in shapes)}."
        )
    return initial.to(like).expand(count, nodes, nodes, *initial.shape[3:])
