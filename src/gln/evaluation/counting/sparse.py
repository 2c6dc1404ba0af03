"""Counting by listing, for graphs with few edges.

Nodes are renumbered by degree, so that hubs come last and patterns are found from nodes of small degree:

========  ==========================================================================================
triangle  ``x < y < z``: an edge xy with each later edge xz of x, kept if yz is an edge
K4        the later neighbours of ``x`` that are joined to both y and z, 62 at a time as bits
4-cycle   ``v`` its last node and ``w`` the opposite one: two paths v–u–w with u < v and w < v
========  ==========================================================================================

An edge uv lists at most min(deg u, deg v) paths, so a star of any size costs nothing. Lists are made in pieces:
memory is O(n + m). All numbers are integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from gln.evaluation.counting.blocks import Blocks, Counts

# List entries held at a time, about 100 bytes each: what fits into a CPU's cache, what keeps a GPU busy.
AT_ONCE = {"cpu": 2**16, "cuda": 2**22}
BITS = 62  # of an int64, without its sign
REMEMBER = 2**23  # triangles to keep, at 12 to 24 bytes each; if there may be more, they are listed twice


def count(blocks: Blocks) -> Counts:
    """Count the patterns of all graphs."""
    ordered = _ByDegree(blocks)
    again = int((ordered.above**2).sum()) > 2 * REMEMBER
    triangles = ordered.triangles() if again else list(ordered.triangles())
    on_edge = ordered.count_on_edges(triangles)
    triangles = ordered.triangles() if again else triangles
    diamonds, cliques = ordered.diamonds_and_cliques(triangles, on_edge)
    at_nodes = (_pick(values, ordered.rank) for values in (diamonds, ordered.cycles(), cliques))
    return Counts(ordered.edges_back(on_edge), *at_nodes)


def count_triangles(blocks: Blocks) -> Tensor:
    """Triangles on every edge: int64 ``[m]``."""
    ordered = _ByDegree(blocks)
    return ordered.edges_back(ordered.count_on_edges(ordered.triangles()))


class _ByDegree:
    """The blocks renumbered by (graph, degree); ``low < high [m]`` are the ends of their sorted edges."""

    def __init__(self, blocks: Blocks) -> None:
        degree = blocks.degrees()
        self.n, self.m, self.device = blocks.num_nodes, blocks.edges.shape[1], blocks.device
        self.width = max(blocks.nodes)  # above all degrees, and all differences between nodes of one graph
        # int32 takes half the bytes and a third of the time to sort, if all keys (see below) and edge numbers fit.
        self.kind = torch.int32 if self.n * self.width < 2**31 else torch.int64
        # The nodes of a graph stay together: near in memory, and near enough for short keys.
        order = (blocks.graph_of(blocks.nodes) * self.width + degree).to(self.kind).argsort()
        self.degree = _pick(degree, order)
        self.rank = torch.empty_like(order).index_copy_(0, order, torch.arange(self.n, device=self.device))
        one, other = (_pick(self.rank.to(self.kind), ends) for ends in blocks.edges)
        keys, self.edge_order = self.key(torch.minimum(one, other), torch.maximum(one, other)).sort()
        self.low, self.high = self.ends(keys)
        self.above = self.low.bincount(minlength=self.n)  # [n] higher neighbours
        self.first = (self.above.cumsum(0) - self.above).to(self.kind)  # [n] the first edge with that low
        self.reach = int(self.above.max()).bit_length()
        self.keys = torch.cat([keys, keys.new_full((2**self.reach,), torch.iinfo(self.kind).max)])

    def arange(self, length: int, start: int = 0) -> Tensor:
        return torch.arange(start, start + length, dtype=self.kind, device=self.device)

    def key(self, low: Tensor, high: Tensor) -> Tensor:
        """One number for a pair ``low < high`` of nodes of one graph, in the order of (low, high)."""
        return low * (self.width - 1) + high

    def ends(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse of :meth:`key`."""
        low = key // self.width
        return low, key - low * (self.width - 1)

    def find(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the pairs ``low < high`` are edges, and the numbers of those edges."""
        key = self.key(low, high)
        at = _pick(self.first, low)
        for step in (2**bit for bit in reversed(range(self.reach))):  # bisection among the few edges of `low`
            at = torch.where(_pick(self.keys, at + (step - 1)) < key, at + step, at)
        found = (_pick(self.keys, at) == key).nonzero().flatten()
        return found, _pick(at, found)

    def edges_back(self, per_edge: Tensor) -> Tensor:
        """``per_edge [m]`` in the order of ``blocks.edges``."""
        return torch.empty_like(per_edge).index_copy_(0, self.edge_order, per_edge)

    def triangles(self) -> Iterator[Tensor]:
        """Triangles ``x < y < z`` as edges (xy, xz, yz) ``[3, T]``; those of one x are consecutive, in one piece."""
        stop = (self.first + self.above).to(self.kind)  # [n] after the last edge with that low
        later = _pick(stop, self.low) - self.arange(self.m, 1)  # [m] edges xz after xy
        for start, end in _pieces(self.above * (self.above - 1) // 2):
            a, b = int(self.first[start]), int(stop[end - 1])
            xy, xz = _runs(self.arange(b - a, a + 1), later[a:b])
            xy += a
            found, yz = self.find(_pick(self.high, xy), _pick(self.high, xz))
            yield torch.stack([_pick(xy, found), _pick(xz, found), yz])

    def count_on_edges(self, triangles: Iterable[Tensor]) -> Tensor:
        """Triangles on every edge: int64 ``[m]``."""
        total = torch.zeros(self.m, dtype=torch.int64, device=self.device)
        for edges in triangles:
            total.index_add_(0, edges.flatten(), total.new_ones(()).expand(edges.numel()))
        return total

    def diamonds_and_cliques(self, triangles: Iterable[Tensor], on_edge: Tensor) -> tuple[Tensor, Tensor]:
        """Diamonds with the node off the chord, and K4, at every node: int64 ``[n]`` each."""
        diamonds, first, other = (torch.zeros_like(self.degree) for _ in range(3))
        for xy, xz, yz in triangles:
            x, y, z = _pick(self.low, xy), _pick(self.high, xy), _pick(self.high, xz)
            for node, chord in ((x, yz), (y, xz), (z, xy)):
                diamonds.index_add_(0, node, _pick(on_edge, chord) - 1)
            cliques = self.cliques_of(x, xy, xz)
            for total, node in ((first, x), (other, y), (other, z)):
                total.index_add_(0, node, cliques)
        # A K4 has three triangles at its first node, and two of them at each other node.
        return diamonds, first // 3 + other // 2

    def cliques_of(self, x: Tensor, xy: Tensor, xz: Tensor) -> Tensor:
        """K4 with first node x on every triangle ``x < y < z``: int64 ``[T]``."""
        total = torch.zeros(len(x), dtype=torch.int64, device=self.device)
        if not len(x):
            return total
        start, end = int(xy.min()), int(xz.max()) + 1
        first = _pick(self.first, x)
        places = [(edge - first).long() for edge in (xy, xz)]  # of y and z among the later neighbours of x
        xy, xz = xy - start, xz - start
        for word in range(0, int(places[1].max()) + 1, BITS):
            # For every edge of x: which of BITS neighbours of x its other end is joined to.
            joined = torch.zeros(end - start, dtype=torch.int64, device=self.device)
            for edge, place in ((xy, places[1]), (xz, places[0])):
                bit = place - word
                joined.index_add_(0, edge, (1 << bit.clamp(0, BITS - 1)) * ((bit >= 0) & (bit < BITS)))
            total += _ones(_pick(joined, xy) & _pick(joined, xz))
        return total

    def cycles(self) -> Tensor:
        """4-cycles through every node: int64 ``[n]``."""
        order = self.high.argsort(stable=True)
        u, v = _pick(self.low, order), _pick(self.high, order)  # [m] the edges sorted by (v, u)
        below = self.degree - self.above
        end_below = below.cumsum(0)
        begin = self.degree.cumsum(0) - self.degree
        # The neighbours of all nodes, ascending: the lower ones of a node come before the higher ones.
        edge = torch.arange(self.m, device=self.device)
        place = edge + _pick(end_below, self.low)  # of `high` among the neighbours of `low`
        neighbours = self.low.new_empty(2 * self.m).index_copy_(0, place, self.high)
        neighbours.index_copy_(0, edge + _pick(begin - end_below + below, v), u)
        first = _pick(begin, u)
        length = _pick(place, order) - first  # neighbours w of u with w < v
        work = torch.zeros_like(begin).index_add_(0, v, length)
        first, length = first.to(self.kind), length.to(self.kind)

        between, opposite = torch.zeros_like(self.degree), torch.zeros_like(self.degree)
        for start, end in _pieces(work):  # all paths from one v are in one piece
            edges = slice(int(end_below[start] - below[start]), int(end_below[end - 1]))
            edge, slot = _runs(first[edges], length[edges])
            key, order = self.key(_pick(neighbours, slot), _pick(v[edges], edge)).sort()  # of (w, v)
            pairs, pair, paths = key.unique_consecutive(return_inverse=True, return_counts=True)
            between.index_add_(0, _pick(_pick(u[edges], edge), order), _pick(paths - 1, pair))
            twice = paths * (paths - 1)  # each cycle of a pair, from both of its paths
            for node in self.ends(pairs):
                opposite.index_add_(0, node, twice)
        return between + opposite // 2


def _pick(values: Tensor, index: Tensor) -> Tensor:
    return values.index_select(0, index)  # several times as fast as values[index] on the CPU


def _ones(bits: Tensor) -> Tensor:
    """How many bits of each number are set, by adding neighbouring pairs, fours and eights of bits."""
    bits = bits - (bits >> 1 & 0x5555555555555555)
    bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333)
    return ((bits + (bits >> 4) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101) >> 56


def _runs(first: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """The ``length[i]`` numbers ``first[i], first[i] + 1, …`` for every i; returns the i of each, then the numbers."""
    run = torch.repeat_interleave(length)
    shift = first - (length.cumsum(0, dtype=length.dtype) - length)
    return run, torch.arange(len(run), dtype=first.dtype, device=first.device) + _pick(shift, run)


def _pieces(work: Tensor) -> list[tuple[int, int]]:
    """Cut items into ranges of about :data:`AT_ONCE` of ``work`` each."""
    total = work.cumsum(0)
    if not len(work) or not total[-1]:
        return []
    marks = torch.arange(0, int(total[-1]), AT_ONCE.get(work.device.type, 2**20), device=work.device)
    cuts = [0, *torch.searchsorted(total, marks[1:], right=True).unique_consecutive().tolist(), len(work)]
    return [(a, b) for a, b in pairwise(cuts) if a < b]
