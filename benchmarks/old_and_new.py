"""Two checkouts of the package in one run: is the new one slower than the old one anywhere?

This file is also the program that measures: each checkout runs it in processes of its own. They use nothing but what
a user may use (public names and the command line), so that it runs on both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import gln

ROOT = Path(__file__).resolve().parents[1]
SEED = 0
ALLOWED = 1.10  # new / old
AT_LEAST = 0.5  # seconds: what takes less is repeated for so long, and the median counts
WARM = 5_000  # points of the first, untimed prediction
STEPS = 5  # optimiser steps in an epoch

Call = Callable[[], float]  # does the work once and returns its seconds


@dataclass(frozen=True)
class Case:
    """Something to measure; ``kind`` is a key of ``KINDS``."""

    kind: str
    sets: int
    points: int
    threads: int = 2
    device: str = "cpu"
    family: str = "delaunay"

    @property
    def what(self) -> str:
        return f"{self.kind}, {self.sets} × {self.points} points, {self.family}"


def cases(quick: bool, gpu: bool) -> list[Case]:
    """Everything that is compared; ``quick``: at toy sizes, to see that it runs."""

    def size(full: int, toy: int) -> int:
        return toy if quick else full

    found = []
    for threads in (1, 2):
        found += [
            Case("predict", size(64, 2), size(50, 10), threads),
            Case("predict", 1, size(1000, 20), threads),
            Case("predict", 1, size(100_000, 30), threads),
        ]
    found.append(Case("step", size(16, 2), size(50, 10)))
    found.append(Case("step", size(4, 2), size(400, 16), family="surfaces"))
    if gpu:
        found.append(Case("step", size(64, 2), size(50, 10), device="cuda"))
        found.append(Case("step", size(16, 2), size(400, 16), device="cuda", family="surfaces"))
    large = 1_000_000 if gpu else 200_000
    found.append(Case("scale", 1, size(large, 40), device="cuda" if gpu else "cpu"))
    found.append(Case("files", size(200, 3), size(20, 5)))
    found.append(Case("cold", 1, size(10, 5)))
    return found


def run(
    old: Path,
    new: Path = ROOT,
    pairs: int = 7,
    quick: bool = False,
    only: tuple[str, ...] = (),
    at_once: int = 1,
) -> dict[str, Any]:
    """Time both checkouts, one after the other, ``pairs`` times; more than an hour at full size on two cores.

    The ratio is the median over pairs of the new seconds by the old ones, with a 95 % interval by bootstrap; the new
    checkout is slower only if the interval excludes 1.10. Predictions and training steps are timed in processes that
    are warm, commands from their start to their end.

    Args:
        old: root of a checkout to compare with.
        new: root of a checkout; default: this one.
        pairs: how many times each is timed.
        quick: toy sizes, to see that it runs.
        only: measure only these kinds: predict, step, scale, files, cold.
        at_once: how many pairs are timed at the same time on a CPU, where there are cores to spare; within a pair the
            checkouts still take turns.
    """
    for path in (old, new):
        if not (path / "src/gln/__init__.py").is_file():
            raise gln.GLNError(f"Got {path}, which has no src/gln; expected the root of a checkout.")
    if pairs < 1:
        raise gln.GLNError(f"Got pairs={pairs}; expected at least 1.")
    rows = []
    for case in cases(quick, torch.cuda.is_available()):
        if not only or case.kind in only:
            rows.append(compare(case, old.resolve(), new.resolve(), pairs, at_once))
            print(
                {key: rows[-1][key] for key in ("what", "threads", "device", "ratio", "verdict")}, flush=True
            )
    commits = {"old": commit_of(old), "new": commit_of(new)}
    return {
        "name": "old-and-new",
        "rows": rows,
        "settings": commits | {"pairs": pairs, "at_once": at_once, "quick": quick, "seed": SEED},
    }


def compare(case: Case, old: Path, new: Path, pairs: int, at_once: int = 1) -> dict[str, Any]:
    """One row: both checkouts take turns, and who is first alternates."""
    together = at_once if case.device == "cpu" else 1
    numbers = [range(pairs)[first::together] for first in range(together)]
    with ThreadPoolExecutor(together) as pool:  # each thread waits for its own two processes
        found = pool.map(lambda some: take_turns(case, old, new, some), filter(len, numbers))
        times = [pair for some in found for pair in some]
    ratios = [second / first for first, second in times]
    low, high = interval(ratios)
    return {
        "what": case.what,
        "threads": case.threads,
        "device": case.device,
        "old_seconds": median(first for first, _ in times),
        "new_seconds": median(second for _, second in times),
        "ratio": median(ratios),
        "low": low,
        "high": high,
        "verdict": "slower" if low > ALLOWED else "faster" if high < 1 else "not slower",
        "ratios": ratios,
    }


def take_turns(case: Case, old: Path, new: Path, numbers: Sequence[int]) -> list[tuple[float, float]]:
    """Seconds of the old and of the new checkout, once for each number."""
    times = []
    with Worker(case, old) as one, Worker(case, new) as two:
        one.wait()
        two.wait()
        for number in numbers:
            if number % 2:
                second, first = two.seconds(), one.seconds()
            else:
                first, second = one.seconds(), two.seconds()
            times.append((first, second))
    return times


def interval(ratios: list[float], draws: int = 10_000) -> tuple[float, float]:
    """The 95 % interval of the median, by bootstrap."""
    drawn = np.random.default_rng(SEED).choice(ratios, (draws, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(low), float(high)


def commit_of(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Worker:
    """A process that runs the code of ``checkout``: it says when it is ready, then measures whenever it is asked."""

    def __init__(self, case: Case, checkout: Path) -> None:
        self.case, self.checkout = case, checkout
        variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        env = os.environ | dict.fromkeys(variables, str(case.threads)) | {"PYTHONPATH": str(checkout / "src")}
        command = [sys.executable, "-P", __file__, json.dumps(asdict(case))]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=env, cwd=checkout, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Worker:
        self.process.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.process.__exit__(*error)  # closes its input, upon which it ends

    def answer(self) -> str:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise gln.GLNError(
                f"{self.checkout} could not measure {self.case.what!r}; what it said is above."
            )
        return line.strip()

    def wait(self) -> None:
        where = Path(self.answer())
        assert where.is_relative_to(self.checkout), f"{where} is not the code of {self.checkout}"

    def seconds(self) -> float:
        print("again", file=self.process.stdin, flush=True)
        return float(self.answer())


def work(case: Case) -> None:
    """What a worker does: prepare, then measure once for every line it is sent."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed otherwise is not an answer
    torch.set_num_threads(case.threads)
    call = KINDS[case.kind](case)
    print(gln.__file__, file=answers, flush=True)
    for _ in sys.stdin:
        end, times = time.perf_counter() + AT_LEAST, [call()]
        while time.perf_counter() < end:
            times.append(call())
        print(median(times), file=answers, flush=True)


def predict(case: Case) -> Call:
    """From points in memory to edges in memory."""
    rng = np.random.default_rng(SEED)
    model: Any = gln.load("delaunay")
    model.to(case.device)
    sets = [rng.random((case.points, 2), dtype=np.float32) for _ in range(case.sets)]
    gln.predict(model, [pos[:WARM] for pos in sets])
    return lambda: seconds_of(lambda: gln.predict(model, sets))


def step(case: Case) -> Call:
    """An optimiser step of ``gln.fit``, from the second epoch; the first pays for compiling and memory."""
    graphs = gln.family(case.family, points=case.points).sample(STEPS * case.sets, SEED)
    settings: dict[str, Any] = {"epochs": 2, "batch_size": case.sets, "progress": False}
    settings["accelerator"] = "gpu" if case.device == "cuda" else "cpu"

    def call() -> float:
        torch.manual_seed(SEED)
        # All pairs for up to 128 points, then candidates.
        model = gln.GLN(pos_channels=graphs[0].pos.shape[1])
        history = gln.fit(model, graphs, graphs[:1], **settings).history
        return (history[1]["seconds"] - history[0]["seconds"]) / STEPS

    return call


def files(case: Case) -> Call:
    """``gln predict`` over a folder of tables, each time in a new process."""
    place, rng = TemporaryDirectory(prefix="gln-"), np.random.default_rng(SEED)
    folder = Path(place.name)  # there as long as the call below
    (folder / "points").mkdir()
    for number in range(case.sets):
        rows = rng.random((case.points, 2))
        np.savetxt(folder / f"points/{number:05}.csv", rows, delimiter=",", header="x,y", comments="")
    command = [sys.executable, "-m", "gln", "predict", "delaunay", "points", "-o", "edges.csv"]
    command += ["--force", "--device", "cpu"]

    def call() -> float:
        return seconds_of(lambda: subprocess.run(command, cwd=place.name, check=True, capture_output=True))

    call()
    return call


KINDS = {"predict": predict, "scale": predict, "step": step, "files": files, "cold": files}


def seconds_of(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    work(Case(**json.loads(sys.argv[1])))
