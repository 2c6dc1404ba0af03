"""One set of nodes that is too large for the memory: predicted tile by tile, with the edges of the whole set.

The candidate pairs of all nodes are found first, on disk (:mod:`gln.workflows.bins`). A tile is then scored with a halo
of all nodes that its scores depend on (:mod:`gln.models.region`), found by following candidate pairs, not by distance:
this is exact however unevenly the nodes lie. An edge is kept by the tile that has its end with the smaller number.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.errors import GLNError
from gln.files import write_atomically
from gln.graphs.record import Graph
from gln.inference.choice import Choice
from gln.inference.predict import LARGE, chosen_edges
from gln.io.file_edges import Columns, edge_columns
from gln.io.streams import Stream, open_stream
from gln.io.writing import facts_in, pack_edges
from gln.models.contract import kind_names, kinds_of, products
from gln.models.pairs import MOST_COPIES
from gln.models.region import check_local, hops, score_region
from gln.models.settings import misfit
from gln.threads import at_most, threads_for
from gln.workflows import Say, Skip, silent
from gln.workflows.answers import Outcome
from gln.workflows.bins import Bins, distinct, make_bins
from gln.workflows.engines import Engine, in_this_process
from gln.workflows.methods import is_folder, put_on
from gln.workflows.predict_files import Folder, Job, manifest, predict_files, predict_in_folder

# Bytes for each of the K · c values of a node's pairs: measured, with what a step needs beside them.
STATE = 20
SHARE = 0.5  # of the free memory that a prediction may take
SMALLEST = 1000  # nodes of a tile
NOTHING = {"source": np.int64, "target": np.int64, "probability": np.float32}


@dataclass
class TileWork:
    """What a worker does for a tile, by stage: find its candidates, join them with those of others, or score it."""

    folder: Path
    model: Any
    device: str
    choice: Choice
    stage: str
    copies: bool = True  # pairs between nodes that both stand for several are edges of all these

    def begin(self, local: int | None) -> None:
        self.model = put_on(self.model, self.device if self.stage == "edges" else "cpu", local)
        self.bins = Bins(self.folder, self.model, nearest_of(self.model, self.choice))

    def __call__(self, tile: int) -> Any:
        if self.stage == "edges":
            return self.edges(tile)
        find = self.bins.find_near if self.stage == "near" else self.bins.find_rows
        find(tile)
        return True

    def edges(self, tile: int) -> tuple[Columns, int]:
        """The edges that the tile keeps, with their ends by row in the file, and how many nodes it read."""
        bins, steps = self.bins, self.model.checked_steps(self.choice.steps)
        if not bins.counts[tile]:
            return {name: np.empty(0, kind) for name, kind in NOTHING.items()}, 0
        nodes, hop, ends = self.surroundings(tile, hops(self.model, steps))
        device = next(self.model.parameters()).device
        with at_most(threads_for(1, len(nodes))), products(self.model, device):
            batch = bins.nodes(nodes).to(device)
            scored = score_region(self.model, batch, ends.to(device), hop.to(device), steps)
        found = chosen_edges(scored, self.choice.cut(self.model), len(nodes))
        given = {name: value.cpu() for name, value in found.items()} | kind_names(self.model)
        answer = Graph(len(nodes), **given, directed=kinds_of(self.model).directed)
        ours = hop[answer.edge_index[0]] == 0  # from the other end an edge is seen too, by its tile
        answer = answer.some_edges(self.choice.keeps(self.model, answer) & ours)
        columns = edge_columns(answer, nodes)
        pairs, place = self.expanded(np.stack([columns["source"], columns["target"]]))
        rows = np.stack([bins.file_rows(end) for end in pairs])
        rows = rows if answer.directed else np.sort(rows, axis=0)
        columns = {name: column[place] for name, column in columns.items()}
        return columns | {"source": rows[0], "target": rows[1]}, len(nodes)

    def surroundings(self, tile: int, far: int) -> tuple[np.ndarray, Tensor, Tensor]:
        """The nodes up to ``far`` hops from those of the tile, sorted, their hops, and their pairs ``[2, q]``.

        The pairs are by place among these nodes, each in one direction, those of the outermost left out.
        """
        first, last = self.bins.first[tile : tile + 2]
        frontier, halo, pairs = np.arange(first, last), np.empty(0, np.int64), []
        rings = [frontier]
        for _ in range(far):
            place, target = self.bins.rows(frontier)
            pairs.append(np.stack([frontier[place], target]))
            found = distinct(target[(target < first) | (target >= last)])
            frontier = np.setdiff1d(found, halo, assume_unique=True)
            halo = np.union1d(halo, frontier)
            rings.append(frontier)
        nodes = np.concatenate(rings)
        order = nodes.argsort()
        nodes, hop = nodes[order], np.repeat(np.arange(far + 1), list(map(len, rings)))[order]
        ends = np.concatenate(pairs, axis=1)
        outside = (ends < first) | (ends >= last)
        places = np.searchsorted(nodes, ends[outside])
        ends -= first - np.searchsorted(nodes, first)
        ends[outside] = places
        source, target = ends
        once = (source < target) | (hop[target] == far)
        return nodes, torch.from_numpy(hop), torch.from_numpy(np.stack([source[once], target[once]]))

    def expanded(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pairs ``[2, m]`` of all nodes that are alike at crowded places, and the place of each in ``pairs``."""
        place = np.arange(pairs.shape[1])
        if not self.copies:
            place = np.flatnonzero((np.stack([self.bins.copies(end) for end in pairs]) == 1).any(0))
            pairs = pairs[:, place]
        for end in (0, 1):
            alike, which = self.bins.alike(pairs[end])
            pairs, place = pairs[:, which], place[which]
            pairs[end] = alike
        return pairs, place


def too_large(job: Job, tile: int | None, say: Say) -> Stream | None:
    """The nodes of a job that is one set too large for the memory, or that is to be cut into tiles anyway."""
    if len(job.paths) != 1 or not isinstance(job.model, torch.nn.Module):
        return None
    stream = open_stream(job.paths[0], job.options, say)
    if (
        stream is None
        or stream.count <= LARGE
        or (tile is None and stream.count <= min(room_for(job), job.options.max_nodes))
    ):
        return None
    return stream


def nearest_of(model: Any, choice: Choice) -> int:
    """K, the number of nearest nodes that a node is paired with."""
    return int(choice.candidates or model.candidates)


def room_for(job: Job) -> int:
    """How many nodes the memory has room for at once."""
    model: Any = job.model
    state = STATE * nearest_of(model, job.choice) * model.config["pair_width"]
    try:
        with open("/proc/meminfo") as file:
            free = 1024.0 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        free = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if job.device != "cpu" and torch.cuda.is_available():
        free = min(free, torch.cuda.mem_get_info()[0])
    return int(SHARE * free / state)


def size_for(job: Job, stream: Stream, workers: int = 1) -> int:
    """The largest tile that fits into the memory with its halo, if nodes lie evenly."""
    model: Any = job.model
    room, axes = room_for(job) / workers, model.pos_channels or sum(stream.widths)
    reach = (nearest_of(model, job.choice) ** (1 / axes)) / 2  # of a pair, in distances between nodes
    side = room ** (1 / axes) - 2 * hops(model, model.checked_steps(job.choice.steps)) * reach
    return int(max(side, 0) ** axes) or max(int(room / 8), SMALLEST)


def predict_job(job: Job, engine: Engine, tile: int | None, workers: int, say: Say, skip: Skip) -> Outcome:
    """Predict into a file or a folder; a single set that is too large for the memory, in tiles into a folder."""
    said: list[str] = []
    stream = too_large(job, tile, said.append)
    if stream is None:
        return (predict_in_folder if is_folder(job.output) else predict_files)(job, engine, say, skip)
    if not is_folder(job.output):
        raise GLNError(
            f"{stream.count:,} nodes are predicted in tiles; name a folder for the output, such as {job.output.stem}/."
        )
    for text in said:
        say(text)
    return predict_tiles(job, stream, engine, tile, workers, say)


def predict_tiles(
    job: Job,
    stream: Stream,
    engine: Engine = in_this_process,
    size: int | None = None,
    workers: int = 1,
    say: Say = silent,
) -> Outcome:
    """Predict one set into a folder, tile by tile; repeated, only tiles that are missing are computed."""
    check_local(job.model)
    for name, given in (("--known", job.known), ("--top-k", job.choice.top_k)):
        if given is not None:
            raise GLNError(f"Got {name} for a set that is predicted in tiles; leave it out.")
    widths = [torch.empty(1, width) if width else None for width in stream.widths]
    if wrong := misfit(job.model, Graph(stream.count, pos=widths[0], x=widths[1])):
        raise GLNError(f"{job.paths[0]}: {wrong}")
    size = size or size_for(job, stream, workers)
    folder, work = Folder(job.output, manifest(job) | {"nodes in a tile": size}), job.output / "_work"
    with folder.begun(job.force):
        count = facts_in(folder.file(0))["tiles"] if folder.file(0).exists() else 0
        missing = [tile for tile in range(count) if not folder.file(tile).exists()]
        if missing or not count:
            _compute(job, stream, engine, size, folder, work, say)
            count = facts_in(folder.file(0))["tiles"]
        shutil.rmtree(work, ignore_errors=True)
        edges = sum(facts_in(folder.file(tile))["edges"] for tile in range(count))
    return Outcome(graphs=1, edges=edges)


def _compute(
    job: Job, stream: Stream, engine: Engine, size: int, folder: Folder, work: Path, say: Say
) -> None:
    """Write the shards that are missing, from what ``work`` holds already."""
    work.mkdir(exist_ok=True)
    model: Any = job.model
    nearest, far = nearest_of(model, job.choice), hops(model, model.checked_steps(job.choice.steps))
    if not (work / "bins.json").exists():
        with _bar("cutting into tiles", 2 * stream.count) as bar:
            make_bins(stream, work, model, nearest, size, bar.update)
    bins = Bins(work, model, nearest)
    tiles = len(bins.counts)
    say(
        f"{stream.count:,} nodes are predicted in {tiles:,} tiles of about {size:,}, each with a halo of {far} hops."
    )
    label, scored = job.paths[0].name, 0
    for stage, mark, words in (
        ("near", "cuts.npy", "nearest nodes"),
        ("rows", "copies.npy", "candidate pairs"),
        ("edges", None, "edges"),
    ):
        done = folder.file if mark is None else partial(bins.path, kind=mark)
        todo = [tile for tile in range(tiles) if not done(tile).exists()]
        copies = sum(int(np.load(bins.path(tile, "copies.npy"))) for tile in range(tiles) if mark is None)
        task = TileWork(work, job.model, job.device, job.choice, stage, copies <= MOST_COPIES)
        with _bar(words, int(bins.counts[todo].sum())) as bar:
            for tile, found in engine(task, ((tile, tile) for tile in todo)):
                if found is None:
                    raise GLNError(
                        f"Tile {tile} needs more memory than there is; repeat the command with smaller --tile-nodes."
                    )
                if mark is None:
                    columns, nodes = found
                    facts = Outcome(edges=len(columns["source"])).facts() | {"tiles": tiles, "nodes": nodes}
                    write_atomically(folder.file(tile), pack_edges([(label, columns)], facts))
                    scored += nodes
                bar.update(int(bins.counts[tile]))
        if stage == "rows":  # nobody reads these again
            for tile in range(tiles):
                bins.path(tile, "near.npy").unlink(missing_ok=True)
    say(
        f"{scored / max(int(bins.counts[todo].sum()), 1):.2f} nodes were scored for each one, halos included."
    )


def _bar(words: str, total: int) -> tqdm:
    """Counts nodes: all take about as long, so that the time that is left can be told."""
    return tqdm(total=total, desc=words, unit="node", unit_scale=True, disable=None, leave=False)
