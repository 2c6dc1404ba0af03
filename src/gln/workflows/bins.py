"""One set of nodes on disk, cut into tiles, and the candidate pairs of all its nodes.

::

    WORK/
      bins.json            how many nodes each tile has, and its box
      000003.nodes         tile 3: the row in the file, the position and the features of every node
      000003.crowds.npz    where very many nodes coincide (gln.models.candidates), if they do
      000003.near.npy      pairs of its nodes with their nearest, sorted by the tile of the other end; cuts.npy: where
      000003.rows.npy      the second ends of all candidate pairs of its nodes; begin.npy: where those of a node begin

Tiles are the leaves of a tree that splits a sample of the nodes again and again across the widest side, so that they
hold about as many nodes wherever these are dense or few; nodes that coincide are in one tile. A node's number is its
place in all tiles, one after another. Nothing here holds more than a few tiles in memory.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gln.files import write_atomically
from gln.graphs import GraphBatch, make_graph
from gln.graphs.check import far_from
from gln.graphs.record import Graph
from gln.io.streams import Stream
from gln.later import spatial
from gln.models.candidates import TIE, find_crowds
from gln.storage.facts import read_facts, write_json

if TYPE_CHECKING:
    from gln.models.gln import GLN

SAMPLE = 2**20  # nodes that the tree is made from
SLACK = 0.02  # a leaf may hold this share more than was asked for
_NONE = np.empty(0, dtype=np.int64)
SPARE = 8  # nodes that are looked for beyond the K nearest: some may be as near as the last

# A leaf; or a column, a value, and the trees of those below it and of the others.
Tree = int | tuple[int, np.float32, Any, Any]


class Bins:
    """The tiles of a set, on disk in ``folder``, and what ``model`` sees of their nodes."""

    def __init__(self, folder: Path, model: GLN, nearest: int) -> None:
        self.folder, self.model, self.nearest = folder, model, nearest
        facts = read_facts(folder / "bins.json")
        self.counts = np.array(facts["counts"], dtype=np.int64)  # [t]
        self.first = np.concatenate([[0], self.counts.cumsum()])  # [t + 1]
        self.low, self.high = np.array(facts["low"]), np.array(facts["high"])  # [t, p] of what distance is by
        self.widths = tuple(facts["widths"])
        self.tree = lru_cache(8)(self._tree)

    def path(self, tile: int, kind: str) -> Path:
        return self.folder / f"{tile:06d}.{kind}"

    def owner(self, nodes: np.ndarray) -> np.ndarray:
        """The tile of every node."""
        return np.searchsorted(self.first, nodes, side="right") - 1

    def by_tile(self, nodes: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Sorted ``nodes``, cut at the ends of tiles and counted within them."""
        cuts = np.searchsorted(nodes, self.first)
        tiles = np.flatnonzero(np.diff(cuts))
        return [(int(tile), nodes[cuts[tile] : cuts[tile + 1]] - self.first[tile]) for tile in tiles]

    def short(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers of nodes as they are kept on disk."""
        return numbers.astype(np.uint32) if self.first[-1] < 2**32 else numbers

    def read(self, tile: int) -> np.ndarray:
        """The records ``row`` and ``values`` of the nodes of a tile."""
        return np.fromfile(self.path(tile, "nodes"), _record(sum(self.widths)))

    def nodes(self, numbers: np.ndarray) -> GraphBatch:
        """Sorted nodes, as one graph."""
        parts = [self.read(tile)["values"][places] for tile, places in self.by_tile(numbers)]
        return _batch(np.concatenate(parts), self.widths)

    def file_rows(self, numbers: np.ndarray) -> np.ndarray:
        """The row in the file of any nodes, in any order."""
        distinct, place = np.unique(numbers, return_inverse=True)
        parts = [self.read(tile)["row"][own] for tile, own in self.by_tile(distinct)]
        return np.concatenate([_NONE, *parts])[place]

    def _tree(self, tile: int) -> tuple[Any, np.ndarray]:
        """A tree of the nodes of a tile that others may be paired with, and their places in the tile."""
        where = self.model.inputs(_batch(self.read(tile)["values"], self.widths))[0][0].numpy(force=True)
        crowds = self.crowds(tile)
        places = np.arange(len(where)) if crowds is None else np.flatnonzero(crowds["seen"])
        return spatial.cKDTree(where[places]), places

    def find_near(self, tile: int) -> None:
        """Write the pairs of the nodes of a tile with their K nearest in all tiles, ties included."""
        parts = [np.empty((2, 0), np.int64)]
        if self.counts[tile]:
            tree, places = self.tree(tile)
            rows, take = np.arange(tree.n), self.nearest + SPARE
            while len(rows):
                distance, node = self._nearest(tile, rows, take)
                last = min(self.nearest, take) - 1
                reach = distance[:, [last]] * TIE
                crowded = np.isfinite(distance[:, -1]) & (distance[:, -1] <= reach[:, 0])
                row, slot = ((distance <= reach) & np.isfinite(distance) & ~crowded[:, None]).nonzero()
                parts.append(np.stack([places[rows[row]] + self.first[tile], node[row, slot]]))
                rows, take = rows[crowded], 2 * take
            if (crowds := self.crowds(tile)) is not None:
                parts.append(crowds["within"] + self.first[tile])
        ends = np.concatenate(parts, axis=1)
        owner = self.owner(ends[1])
        tiles, counts = np.unique(owner, return_counts=True)
        _save(self.path(tile, "near.npy"), self.short(ends[:, owner.argsort(kind="stable")]))
        _save(self.path(tile, "cuts.npy"), np.stack([tiles, counts.cumsum() - counts, counts.cumsum()]))

    def _nearest(self, tile: int, rows: np.ndarray, take: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``take`` nearest of some nodes of a tile, nearest first: distances ``[m, take]``, infinite for none."""
        points = self.tree(tile)[0].data[rows]
        distance, node = np.full((len(rows), take), np.inf), np.full((len(rows), take), -1)
        # The distance of every tile from this one; the nearest are searched first, so that fewer others must be.
        apart = _apart(self.low[tile], self.high[tile], self.low, self.high)
        for other in np.argsort(apart, kind="stable").tolist():
            reach = distance[:, min(self.nearest, take) - 1] * TIE
            if apart[other] > reach.max() or not self.counts[other]:
                continue
            near = np.flatnonzero(_apart(points, points, self.low[other], self.high[other]) <= reach)
            if not len(near):
                continue
            theirs, their_places = self.tree(other)
            count = min(take + (other == tile), theirs.n)
            found, at = theirs.query(points[near], k=np.arange(1, count + 1), workers=torch.get_num_threads())
            if other == tile:
                found[at == rows[near, None]] = np.inf  # itself
            found = np.concatenate([distance[near], found], axis=1)
            nodes = np.concatenate([node[near], their_places[at] + self.first[other]], axis=1)
            best = np.argsort(found, axis=1, kind="stable")[:, :take]
            distance[near] = np.take_along_axis(found, best, axis=1)
            node[near] = np.take_along_axis(nodes, best, axis=1)
        return distance, node

    @cached_property
    def into(self) -> dict[int, list[tuple[int, int, int]]]:
        """The other tiles whose nodes are paired with nodes of a tile, and where these pairs are in their files."""
        found: dict[int, list[tuple[int, int, int]]] = {}
        for other in range(len(self.counts)):
            for tile, start, end in np.load(self.path(other, "cuts.npy")).T.tolist():
                found.setdefault(tile, []).append((other, start, end))
        return found

    def find_rows(self, tile: int) -> None:
        """Write all candidate pairs of the nodes of a tile, and how many pairs of copies they stand for."""
        parts = [np.load(self.path(tile, "near.npy"))]
        for other, start, end in self.into.get(tile, []):
            parts.append(np.load(self.path(other, "near.npy"), mmap_mode="r")[::-1, start:end])
        source, target = np.concatenate(parts, axis=1).astype(np.int64)
        first, last, count = self.first[tile], self.first[tile + 1], int(self.first[-1])
        key = distinct((source - first) * count + target)
        source, target = key // count, key % count
        _save(self.path(tile, "begin.npy"), np.searchsorted(source, np.arange(last - first + 1)))
        _save(self.path(tile, "rows.npy"), self.short(target))
        ours, theirs = self.copies(source + first), self.copies(target)
        _save(self.path(tile, "copies.npy"), (ours * theirs)[(ours > 1) & (theirs > 1)].sum())

    def rows(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of sorted nodes: the place of the first end in ``numbers``, and the second end."""
        places, targets, done = [_NONE], [_NONE], 0
        for tile, own in self.by_tile(numbers):
            begin = np.load(self.path(tile, "begin.npy"), mmap_mode="r")
            rows = np.load(self.path(tile, "rows.npy"), mmap_mode="r")
            count = begin[own + 1] - begin[own]
            jump = np.repeat(begin[own] - (count.cumsum() - count), count)
            targets.append(rows[np.arange(len(jump)) + jump].astype(np.int64))
            places.append(np.repeat(np.arange(done, done + len(own)), count))
            done += len(own)
        return np.concatenate(places), np.concatenate(targets)

    def crowds(self, tile: int) -> dict[str, np.ndarray] | None:
        """What :func:`find_crowds` says of a tile: ``seen``, ``within``, and lists of the nodes scored by each one.

        Those of node i are ``alike[begin[i] : begin[i + 1]]``.
        """
        path = self.path(tile, "crowds.npz")
        return dict(np.load(path)) if path.exists() else None

    def crowded(self, nodes: np.ndarray) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray, int]]:
        """The tiles of ``nodes`` with crowded places: what is said of these, which nodes are theirs, the first node."""
        owner = self.owner(nodes)
        for tile in np.unique(owner).tolist():
            if (crowds := self.crowds(tile)) is not None:
                yield crowds, owner == tile, self.first[tile]

    def copies(self, nodes: np.ndarray) -> np.ndarray:
        """How many nodes each of ``nodes`` is scored for: itself, and its likes at a crowded place."""
        found = np.ones(len(nodes), dtype=np.int64)
        for crowds, mine, first in self.crowded(nodes):
            found[mine] = np.diff(crowds["begin"])[nodes[mine] - first]
        return found

    def alike(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All nodes that each of ``nodes`` is scored for, and the place in ``nodes`` of the one that is."""
        place = np.repeat(np.arange(len(nodes)), self.copies(nodes))
        turn = np.arange(len(place)) - np.searchsorted(place, place)
        found = nodes[place]
        for crowds, mine, first in self.crowded(found):
            found[mine] = crowds["alike"][crowds["begin"][found[mine] - first] + turn[mine]] + first
        return found, place


def make_bins(
    stream: Stream, folder: Path, model: GLN, nearest: int, size: int, tick: Callable[[int], Any]
) -> None:
    """Cut the nodes of ``stream`` into tiles of about ``size`` nodes, in two passes."""
    sample, origin, count = _survey(stream, tick)
    cut = Splits(sample, model.pos_channels or sum(stream.widths), size * len(sample) / count)
    paths = [folder / f"{leaf:06d}.nodes" for leaf in range(cut.leaves)]
    for path in paths:
        path.write_bytes(b"")
    kind, row = _record(sum(stream.widths)), 0
    for pos, x in stream.chunks():
        records = np.empty(len(pos), kind)
        records["row"] = np.arange(row, row + len(pos))
        records["values"] = np.concatenate([pos - origin, x], axis=1)
        leaf = cut.leaf(records["values"])
        ends = np.bincount(leaf, minlength=cut.leaves).cumsum()
        for path, own in zip(paths, np.split(leaf.argsort(kind="stable"), ends[:-1]), strict=True):
            if len(own):
                with path.open("ab") as file:
                    file.write(records[own].tobytes())
        row += len(pos)
        tick(len(pos))
    boxes = [_look_at(path, model, nearest, stream.widths) for path in paths]
    low, high = zip(*boxes, strict=True)
    counts = [path.stat().st_size // kind.itemsize for path in paths]
    facts = {"counts": counts, "widths": list(stream.widths), "low": low, "high": high}
    write_json(folder / "bins.json", facts)


def _survey(stream: Stream, tick: Callable[[int], Any]) -> tuple[np.ndarray, np.ndarray, int]:
    """A sample of the nodes ``[s, p + f]``, what to subtract from positions ``[p]``, and how many nodes there are."""
    width = stream.widths[0]
    low, high, rounded = np.full(width, np.inf), np.full(width, -np.inf), np.empty((0, width))
    sample, step, count = [], max(1, stream.count // SAMPLE), 0
    for pos, x in stream.chunks():
        low, high = np.minimum(low, pos.min(0)), np.maximum(high, pos.max(0))
        if not len(rounded):
            rounded = pos[(pos.astype(np.float32) != pos).any(axis=1)][:1]
        sample.append(np.concatenate([pos, x], axis=1)[-count % step :: step])
        count += len(pos)
        tick(len(pos))
    # What is said of the whole set can be said of its corners and of a position that single precision rounds, if any.
    corners = np.stack([low, high, *rounded])
    if width:
        make_graph(pos=corners)
    origin = np.array(far_from(corners) or np.zeros(width))
    drawn = np.concatenate(sample)
    drawn[:, :width] -= origin.astype(drawn.dtype)
    return drawn, origin, count


def _look_at(path: Path, model: GLN, nearest: int, widths: tuple[int, int]) -> list[list[float]]:
    """Find crowded places in a tile; the corners of its box, of no size if it is empty."""
    batch = _batch(np.fromfile(path, _record(sum(widths)))["values"], widths)
    if not batch.mask.numel():
        return [[0.0] * (model.pos_channels or widths[1])] * 2
    where, _, x = model.inputs(batch)
    none = torch.empty(2, 0, dtype=torch.long)
    crowds = find_crowds(where, x, batch.mask, torch.tensor([nearest]), none)
    if crowds is not None:
        seen, within, stands = (
            part.numpy(force=True) for part in (crowds.seen[0], crowds.within, crowds.stands)
        )
        begin = np.searchsorted(np.sort(stands), np.arange(len(stands) + 1))
        file = io.BytesIO()
        np.savez(file, seen=seen, within=within, begin=begin, alike=stands.argsort(kind="stable"))
        write_atomically(path.with_suffix(".crowds.npz"), file.getvalue())
    points = where[0].numpy(force=True).astype(np.float64)
    return np.stack([points.min(0), points.max(0)]).tolist()


class Splits:
    """A tree that splits a ``sample [n, c]`` by its first columns until leaves hold about ``size`` of it at most."""

    def __init__(self, sample: np.ndarray, columns: int, size: float) -> None:
        self.leaves = 0
        # In single precision, as nodes are compared.
        self.tree = self._split(sample[:, :columns].astype(np.float32), max(size, 1))

    def _split(self, sample: np.ndarray, size: float) -> Tree:
        column = int(np.ptp(sample, axis=0).argmax())
        values = sample[:, column]
        above = values[values > values.min()]
        # Shared out evenly, as halves alone might all be half empty; a node too many makes no further leaf.
        leaves = math.ceil(len(sample) / size - SLACK)
        if leaves > 1 and len(above):
            value = max(np.quantile(values, leaves // 2 / leaves, method="higher"), above.min())
            below = values < value
            return column, value, self._split(sample[below], size), self._split(sample[~below], size)
        self.leaves += 1
        return self.leaves - 1

    def leaf(self, values: np.ndarray) -> np.ndarray:
        """The leaf of every row of ``values [n, c]``, counted from 0."""
        found = np.empty(len(values), dtype=np.int64)
        todo = [(self.tree, np.arange(len(values)))]
        while todo:
            tree, rows = todo.pop()
            if isinstance(tree, int):
                found[rows] = tree
            else:
                column, value, low, high = tree
                below = values[rows, column] < value
                todo += [(low, rows[below]), (high, rows[~below])]
        return found


def _record(width: int) -> np.dtype:
    return np.dtype([("row", "<i8"), ("values", "<f4", (width,))])


def _batch(values: np.ndarray, widths: Sequence[int]) -> GraphBatch:
    """Nodes ``[n, p + f]`` as a batch of one graph."""
    pos, x = torch.from_numpy(np.array(values)).split(list(widths), dim=1)
    rows = {name: part for name, part in (("pos", pos), ("x", x)) if part.shape[1]}
    return GraphBatch.from_graphs([Graph(len(values), **rows)], edges=False)


def distinct(numbers: np.ndarray) -> np.ndarray:
    """Sorted, each once; ``np.unique`` takes ten times as long, as it hashes them first."""
    numbers = np.sort(numbers)
    return numbers[np.diff(numbers, prepend=-1) != 0]


def _apart(low: np.ndarray, high: np.ndarray, their_low: np.ndarray, their_high: np.ndarray) -> np.ndarray:
    """The distance between boxes."""
    return np.sqrt(np.square(np.maximum(0, np.maximum(low - their_high, their_low - high))).sum(-1))


def _save(path: Path, array: Any) -> None:
    file = io.BytesIO()
    np.save(file, array)
    write_atomically(path, file.getvalue())
