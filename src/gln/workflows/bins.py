"""One set of nodes on disk, cut into tiles, and the candidate pairs of all its nodes.

::

    WORK/
      bins.json            how many nodes each tile has, its box, and what was subtracted from positions
      000003.nodes         tile 3: the row in the file, the position and the features of every node
      000003.crowds.npz    where very many nodes coincide (gln.models.crowds), if they do
      000003.near.npy      pairs of its nodes with their nearest, sorted by the tile of the other end; cuts.npy: where
      000003.rows.npy      the second ends of all candidate pairs of its nodes; begin.npy: where those of a node begin

Tiles are the leaves of a tree that splits a sample of the nodes again and again across the widest side, so that they
hold about as many nodes wherever these are dense or few; nodes that coincide are in one tile. A node's number is its
place in all tiles, one after another. Nothing here holds more than a few tiles in memory.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gln.files import write_atomically
from gln.graphs import GraphBatch, make_graph
from gln.graphs.check import COARSEST
from gln.graphs.record import Graph
from gln.io.streams import Stream
from gln.later import spatial
from gln.models.candidates import TIE
from gln.models.crowds import find_crowds
from gln.storage.facts import read_facts
from gln.storage.tensors import write_json

if TYPE_CHECKING:
    from gln.models.gln import GLN

SAMPLE = 2**20  # nodes that the tree is made from
_NONE = np.empty(0, dtype=np.int64)
SPARE = 8  # nodes that are looked for beyond the K nearest: some may be as near as the last


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
        """The records ``row`` and ``values`` of the nodes of a tile, mapped."""
        kind = _record(sum(self.widths))
        if not self.counts[tile]:
            return np.empty(0, kind)
        return np.memmap(self.path(tile, "nodes"), kind, "r")

    def nodes(self, numbers: np.ndarray) -> GraphBatch:
        """Sorted nodes, as one graph."""
        parts = [self.read(tile)["values"][places] for tile, places in self.by_tile(numbers)]
        return _batch(np.concatenate(parts), self.widths)

    def file_rows(self, numbers: np.ndarray) -> np.ndarray:
        """The row in the file of any nodes, in any order."""
        distinct, place = np.unique(numbers, return_inverse=True)
        parts = [self.read(tile)["row"][own] for tile, own in self.by_tile(distinct)]
        return np.concatenate([_NONE, *parts])[place]

    def crowds(self, tile: int) -> dict[str, np.ndarray] | None:
        """What :func:`find_crowds` says of a tile: ``seen``, ``within`` and ``stands``."""
        path = self.path(tile, "crowds.npz")
        return dict(np.load(path)) if path.exists() else None

    def _tree(self, tile: int) -> tuple[Any, np.ndarray]:
        """A tree of the nodes of a tile that others may be paired with, and their places in the tile."""
        where = self.model.inputs(_batch(self.read(tile)["values"], self.widths))[0][0].numpy(force=True)
        crowds = self.crowds(tile)
        places = np.arange(len(where)) if crowds is None else np.flatnonzero(crowds["seen"])
        return spatial.cKDTree(where[places]), places

    def find_near(self, tile: int) -> bool:
        """Write the pairs of the nodes of a tile with their K nearest in all tiles, ties included."""
        parts = []
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
        ends = np.concatenate([np.empty((2, 0), np.int64), *parts], axis=1)
        owner = self.owner(ends[1])
        tiles, counts = np.unique(owner, return_counts=True)
        _save(self.path(tile, "near.npy"), self.short(ends[:, owner.argsort(kind="stable")]))
        _save(self.path(tile, "cuts.npy"), np.stack([tiles, counts.cumsum() - counts, counts.cumsum()]))
        return True

    def _nearest(self, tile: int, rows: np.ndarray, take: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``take`` nearest of some nodes of a tile, nearest first: distances ``[m, take]``, infinite for none."""
        points = self.tree(tile)[0].data[rows]
        distance, node = np.full((len(rows), take), np.inf), np.full((len(rows), take), -1)
        # The distance of every tile from this one; the nearest are searched first, so that fewer others must be.
        apart = _apart(self.low[tile], self.high[tile], self.low, self.high)
        for other in np.argsort(apart, kind="stable"):
            reach = distance[:, min(self.nearest, take) - 1] * TIE
            if apart[other] > reach.max() or not self.counts[other]:
                continue
            near = np.flatnonzero(_apart(points, points, self.low[other], self.high[other]) <= reach)
            if not len(near):
                continue
            theirs, their_places = self.tree(int(other))
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

    def find_rows(self, tile: int) -> bool:
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
        return True

    def copies(self, nodes: np.ndarray) -> np.ndarray:
        """How many nodes each of ``nodes`` is scored for: itself, and its likes at a crowded place."""
        found, owner = np.ones(len(nodes), dtype=np.int64), self.owner(nodes)
        for tile in np.unique(owner).tolist():
            if (crowds := self.crowds(tile)) is not None:
                mine = owner == tile
                found[mine] = np.bincount(crowds["stands"], minlength=self.counts[tile])[
                    nodes[mine] - self.first[tile]
                ]
        return found

    def alike(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All nodes that each of ``nodes`` is scored for, and the place in ``nodes`` of the one that is."""
        found, place, owner = [_NONE], [_NONE], self.owner(nodes)
        for tile in np.unique(owner).tolist():
            mine = np.flatnonzero(owner == tile)
            if (crowds := self.crowds(tile)) is None:
                found.append(nodes[mine])
                place.append(mine)
                continue
            own, order = nodes[mine] - self.first[tile], crowds["stands"].argsort(kind="stable")
            count = np.bincount(crowds["stands"], minlength=self.counts[tile])
            turn = np.arange(count[own].sum()) - np.repeat(count[own].cumsum() - count[own], count[own])
            found.append(
                order[np.repeat((count.cumsum() - count)[own], count[own]) + turn] + self.first[tile]
            )
            place.append(np.repeat(mine, count[own]))
        return np.concatenate(found), np.concatenate(place)

    def rows(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of sorted nodes: the place of the first end in ``numbers``, and the second end."""
        places, targets, done = [_NONE], [_NONE], 0
        for tile, own in self.by_tile(numbers):
            begin = np.load(self.path(tile, "begin.npy"), mmap_mode="r")
            rows = np.load(self.path(tile, "rows.npy"), mmap_mode="r")
            first, count = np.asarray(begin[own]), np.asarray(begin[own + 1] - begin[own])
            jump = np.repeat(first - (np.cumsum(count) - count), count)
            targets.append(np.asarray(rows[np.arange(len(jump)) + jump]).astype(np.int64))
            places.append(np.repeat(np.arange(done, done + len(own)), count))
            done += len(own)
        return np.concatenate(places), np.concatenate(targets)


def make_bins(
    stream: Stream, folder: Path, model: GLN, nearest: int, size: int, tick: Callable[[int], Any]
) -> None:
    """Cut the nodes of ``stream`` into tiles of about ``size`` nodes, in two passes."""
    pos_width, width = stream.widths[0], sum(stream.widths)
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    sample, exact, step, done = [], True, max(1, stream.count // SAMPLE), 0
    for pos, x in stream.chunks():
        values = np.concatenate([pos, x.astype(pos.dtype)], axis=1)
        low, high = np.minimum(low, values.min(0)), np.maximum(high, values.max(0))
        exact = exact and (pos.dtype == np.float32 or bool((pos.astype(np.float32) == pos).all()))
        sample.append(values[-done % step :: step])
        done += len(values)
        tick(len(values))
    origin = np.zeros(width)
    extent, largest = (
        (high - low)[:pos_width].max(initial=0),
        np.abs([low, high]).astype(np.float32)[:, :pos_width],
    )
    if (
        not exact and np.spacing(largest.max(initial=0)) > COARSEST * extent > 0
    ):  # as in gln.io.items.far_from
        origin[:pos_width] = ((low + high) / 2)[:pos_width]
    make_graph(pos=(np.stack([low, high]) - origin)[:, :pos_width] if pos_width else None, num_nodes=2)
    drawn = np.concatenate(sample) - origin
    cut = Splits(drawn, model.pos_channels or width, size * len(drawn) / done)
    counts = np.zeros(cut.leaves, dtype=np.int64)
    for path in folder.glob("*.nodes"):
        path.unlink()
    row = 0
    for pos, x in stream.chunks():
        records = np.empty(len(pos), _record(width))
        records["row"] = np.arange(row, row + len(pos))
        values = np.concatenate([pos, x.astype(pos.dtype)], axis=1)
        records["values"] = values - origin if origin.any() else values
        leaf = cut.leaf(records["values"])
        order = leaf.argsort(kind="stable")
        cuts = np.searchsorted(leaf[order], np.arange(cut.leaves + 1))
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            with (folder / f"{number:06d}.nodes").open("ab") as file:
                file.write(records[order[cuts[number] : cuts[number + 1]]].tobytes())
        counts += np.diff(cuts)
        row += len(pos)
        tick(len(pos))
    facts = {"counts": counts.tolist(), "widths": list(stream.widths), "origin": origin.tolist()}
    boxes = [_look_at(folder, number, model, nearest, stream.widths) for number in range(cut.leaves)]
    write_json(
        folder / "bins.json", facts | {"low": [low for low, _ in boxes], "high": [high for _, high in boxes]}
    )


def _look_at(
    folder: Path, tile: int, model: GLN, nearest: int, widths: tuple[int, int]
) -> tuple[list[float], list[float]]:
    """Find crowded places in a tile; the corners of its box, of no size far away if it is empty."""
    path = folder / f"{tile:06d}.nodes"
    if not path.exists():
        return [0.0] * (model.pos_channels or widths[1]), [0.0] * (model.pos_channels or widths[1])
    batch = _batch(np.fromfile(path, _record(sum(widths)))["values"], widths)
    where, _, x = model.inputs(batch)
    none = torch.empty(2, 0, dtype=torch.long)
    crowds = find_crowds(where, x, batch.mask, torch.tensor([nearest]), none)
    if crowds is not None:
        found = {name: getattr(crowds, name).numpy(force=True) for name in ("seen", "within", "stands")}
        file = io.BytesIO()
        np.savez(file, **found | {"seen": found["seen"][0]})
        write_atomically(folder / f"{tile:06d}.crowds.npz", file.getvalue())
    points = where[0].numpy(force=True).astype(np.float64)
    return points.min(0).tolist(), points.max(0).tolist()


class Splits:
    """A tree that splits a ``sample [n, c]`` by its first columns until no leaf holds more than ``size`` of it."""

    def __init__(self, sample: np.ndarray, columns: int, size: float) -> None:
        self.nodes: list[
            tuple[int, float, int, int]
        ] = []  # column, value, the child below it and the other one
        self.leaves = 0
        self._split(sample[:, :columns], max(size, 1))

    def _split(self, sample: np.ndarray, size: float) -> int:
        """The number of the node that was made; leaves are counted from −1 downwards."""
        spread = np.ptp(sample, axis=0)
        column = int(spread.argmax())
        values = sample[:, column]
        if len(sample) > size and spread[column] > 0:
            leaves = int(
                np.ceil(len(sample) / size)
            )  # shared out evenly: halves alone might all be half empty
            value = np.quantile(values, leaves // 2 / leaves)
            value = value if value > values.min() else values[values > value].min()
            # As single precision, in which nodes are compared with it.
            value = np.float32(value) if np.float32(value) > values.min() else np.float32(values.max())
            below = values.astype(np.float32) < value
            if below.any() and not below.all():
                number = len(self.nodes)
                self.nodes.append((column, float(value), 0, 0))
                children = self._split(sample[below], size), self._split(sample[~below], size)
                self.nodes[number] = (column, float(value), *children)
                return number
        self.leaves += 1
        return -self.leaves

    def leaf(self, values: np.ndarray) -> np.ndarray:
        """The leaf of every row of ``values [n, c]``, counted from 0."""
        found, todo = (
            np.empty(len(values), dtype=np.int64),
            [(0 if self.nodes else -1, np.arange(len(values)))],
        )
        while todo:
            node, rows = todo.pop()
            if node < 0:
                found[rows] = -node - 1
            elif len(rows):
                column, value, low, high = self.nodes[node]
                below = values[rows, column] < np.float32(value)
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
