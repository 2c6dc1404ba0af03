"""The structure that GLN's recurrence feeds back: ``A``, and of which kind its edges are."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.models.contract import Kinds
from gln.models.pairs import Pairs


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
