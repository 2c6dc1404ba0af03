"""What the benchmarks share: timing, memory, the peers, and how a result reads."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.evaluation import edge_scores
from gln.inference.predict import predict

WITHOUT_COLUMN = ("peer", "ours", "seed", "difference")  # settings that need none, or have one already
TIMES = ("ours_seconds", "peer_seconds", "ratio")  # of a row with a peer
TITLES = {"allowed": "seconds allowed"}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The result of the call, and its seconds; what a GPU was asked to do is waited for."""
    _wait()
    start = time.perf_counter()
    answer = call()
    _wait()
    return answer, time.perf_counter() - start


def _wait() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def seconds_of(call: Callable[[], Any]) -> float:
    return timed(call)[1]


def turns(calls: Sequence[Callable[[], Any]], repeats: int) -> list[list[float]]:
    """The seconds of all calls, one after the other, ``repeats`` times: a disturbance meets them alike."""
    return [[seconds_of(call) for call in calls] for _ in range(repeats)]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run a block with this many torch threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def fast_products() -> Iterator[None]:
    """Matrix products as training does them on a GPU."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def in_fresh_process(call: Callable[..., Any], *args: Any) -> Any:
    """The result of a call in a process that has done nothing before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        try:
            return fresh.submit(call, *args).result()
        except BrokenProcessPool:
            raise GLNError(
                f"The process for {call.__name__}{args} was ended, perhaps for want of memory."
            ) from None


def peak_memory() -> float:
    """The peak memory of this process, in GiB; on Linux, not that of the process that started it."""
    try:
        with open("/proc/self/status") as file:
            peak = next(line for line in file if line.startswith("VmHWM:"))
        return int(peak.split()[1]) / 2**20
    except (OSError, StopIteration):  # not Linux
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def device_name() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def weights_of(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def f1_of(model: nn.Module, graphs: list[Data], candidates: int | None = None) -> float:
    """F1 as in the benchmark of Set2Graph: over all n² entries, mean over sets."""
    answers = predict(model, graphs, candidates=candidates, batch_size=64)
    return float(edge_scores(graphs, answers, entries="all")["dice"])


def peer(module: str, name: str) -> Callable[..., Any]:
    """A function of a package that is only compared with."""
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise GLNError(
            f"The peer needs {error.name}, which is not installed; pip install 'gln[bench]'."
        ) from None


def orbit_counter() -> Callable[..., Any]:
    """pyfglt's counter: a table ``[n, 16]`` for a networkx graph or a ``csc_matrix [n, n]`` with at least one edge."""
    return peer("pyfglt.fglt", "compute")


def in_orca_order(table: Any) -> np.ndarray:
    """The orbits ``[n, 15]`` of such a table, which lists the node itself first and the paws before the 4-cycle."""
    return table.to_numpy()[:, [1, 2, 3, 4, 5, 6, 7, 8, 12, 9, 10, 11, 13, 14, 15]]


@contextmanager
def silence() -> Iterator[None]:
    """Suppress the line that the compiled counter prints for every graph."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        if os.name == "posix":
            ctypes.CDLL(None).fflush(None)  # what C still buffers
        os.dup2(kept, 1)
        os.close(kept)


def side_by_side(name: str, ours: float, theirs: float, settings: dict[str, Any]) -> dict[str, Any]:
    """The result of a benchmark with one peer, from the seconds of both."""
    return {
        "name": name,
        "ours_seconds": ours,
        "peer_seconds": theirs,
        "ratio": theirs / ours,
        "settings": settings,
    }


def table(facts: dict[str, Any]) -> list[list[str]]:
    """The rows of a result as text, the titles first; nested values are left out. Without rows, an empty list."""
    rows = facts.get("rows") or facts.get("sizes") or [facts]
    if all("peer_seconds" in row for row in rows):
        rows = [_beside(row) for row in rows]
    elif rows == [facts]:
        return []
    nested = {key for row in rows for key, value in row.items() if isinstance(value, dict | list)}
    titles = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in nested]
    cells = [[_cell(row.get(key)) for key in titles] for row in rows]
    return [[TITLES.get(key, key.replace("_", " ")) for key in titles], *cells]


def notes(facts: dict[str, Any]) -> list[str]:
    """What a reader needs beside the table."""
    rows = facts.get("rows") or [facts]
    found = []
    if all("peer_seconds" in row for row in rows):
        peers = dict.fromkeys((row.get("settings") or facts["settings"])["peer"] for row in rows)
        found.append(f"Peer: {'; '.join(peers)}.")
    if "time_ratios" in facts:
        time_, memory = (
            ", ".join(f"{ratio:.2f}×" for ratio in facts[f"{of}_ratios"]) for of in ("time", "memory")
        )
        found.append(f"Against half as many points: time {time_}; memory {memory}.")
    for share in facts.get("better", []):
        scores = ", ".join(
            f"{name} {value:.0%}"
            for name, value in share.items()
            if isinstance(value, float) and name != "noise"
        )
        found.append(
            f"GLN is better than {share['than']} (noise {share['noise']:g}) on: {scores} of the meshes."
        )
    if "target" in facts:
        found.append(f"Aim: an F1 of {facts['target']}.")
    if "floor" in facts:
        floor = facts["floor"]
        found.append(
            f"Floor: {1e3 * floor['seconds']:.2f} ms, the longer of {floor['products'] / 1e9:.1f} billion products "
            f"({1e3 * floor['matrix_seconds']:.2f} ms as one float32 matrix product) and "
            f"{floor['bytes'] / 1e9:.2f} GB moved ({1e3 * floor['copy_seconds']:.2f} ms as one copy)"
            + (
                f"; in bfloat16 {1e3 * floor['bfloat16_seconds']:.2f} ms."
                if "bfloat16_seconds" in floor
                else "."
            )
        )
    return found


def _beside(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a benchmark with a peer: its sizes, both times and their ratio."""
    settings = row.get("settings") or {key: row[key] for key in row if key not in TIMES}
    sizes = {key: value for key, value in settings.items() if key not in WITHOUT_COLUMN}
    times = {"ours": _seconds(row["ours_seconds"]), "peer": _seconds(row["peer_seconds"])}
    return sizes | times | {"ratio": f"{row['ratio']:.1f}×"}


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 1000 else f"{value:.0f} s"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}".replace(",", " ")
    return "" if value is None else str(value)
