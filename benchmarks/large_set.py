"""One set in tiles by several processes: seconds per point and memory, against a set a fraction of its size."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.common import device_name, timed
from benchmarks.tiles import draw
from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.inference.predict import predict_graphs
from gln.io import ReadOptions
from gln.io.streams import open_stream
from gln.io.writing import facts_in
from gln.storage.models import load_model
from gln.workflows import tiling
from gln.workflows.engines import Engine, in_processes
from gln.workflows.methods import put_on
from gln.workflows.predict_files import Job

MODEL = "delaunay-small"


def run(
    points: int = 1_000_000,
    small: int = 100_000,
    tile: int = 100_000,
    workers: int = 2,
    scorers: int | None = None,
    device: str = "cpu",
    model: str = MODEL,
    disturb: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Seconds, memory of all processes together, and points read, halos included, for uniform points in the plane.

    The clock runs from the file to the edges on disk; the stages are timed apart. What starts the processes of every
    stage is there before, and how long that takes is stated. Memory is the largest sum of the resident memory of the
    command and its workers, looked at twice a second. Where other programs run too, the processor time of all of them
    says more than the clock, and sizes are compared by it.

    Args:
        points: number of points.
        small: of the set that it is compared with; 0: none.
        tile: points in a tile.
        workers: processes, with a share of the cores each.
        scorers: processes that score, if not as many.
        device: where pairs are scored.
        model: a shipped one, or the folder of a trained one.
        disturb: in place of all this, kill a worker and then the command in the middle, and repeat it.
        seed: of the points.
    """
    if points < 10_000 or tile < 10_000 or 0 < small < 10_000 or min(workers, scorers or workers) < 1:
        raise GLNError(f"Got points={points}, small={small}, tile={tile}; expected at least 10 000 each.")
    if disturb:
        settings: dict[str, Any] = {"points": points, "tile": tile, "workers": workers, "model": model}
        settings["seed"] = seed
        return {"name": "large-set-disturbed", **disturbed(**settings), "settings": settings}
    chosen = load_model(model)
    warm = [Graph(pos=torch.rand(5000, 2))]
    predict_graphs(put_on(chosen, device), warm)  # compiles the kernels
    measured = (chosen.cpu(), tile, workers, scorers or workers, device, seed)
    idle = ((number, number) for number in range(workers))
    _, start = timed(lambda: list(in_processes(workers)(Idle(), idle)))
    sizes = [measure(count, *measured) for count in (small, points) if count]
    config: Any = chosen.config
    kept = {name: config[name] for name in ("width", "pair_width", "kernels", "steps", "candidates")}
    named = f"{model}, as shipped" if model == MODEL else f"GLN {kept}, {training_of(chosen)}"
    settings = {
        "model": named,
        "tile": tile,
        "workers": workers,
        "scorers": scorers or workers,
        "start_seconds": start,
    }
    settings |= {"device": device_name() if device != "cpu" else "cpu", "cores": len(os.sched_getaffinity(0))}
    settings |= {"seed": seed, "load": [round(load, 1) for load in os.getloadavg()]}
    first, last = (sizes[at]["core_microseconds_per_point"] for at in (0, -1))
    return {"name": "large-set", "sizes": sizes, "per_point_ratio": last / first, "settings": settings}


def training_of(model: Any) -> str:
    facts = model.training_facts or {}
    return f"trained for {facts.get('epoch')} epochs, IoU {facts.get('val_iou', 0):.3f}"


class Idle:
    """Work that is to start processes, and nothing else."""

    def begin(self, local: int | None) -> None:
        """Every worker has imported what it needs by now."""

    def __call__(self, task: Any) -> None:
        """Nothing."""


def measure(
    count: int, model: Any, tile: int, workers: int, scorers: int, device: str, seed: int
) -> dict[str, Any]:
    stages: dict[str, float] = {}

    def engine(work: Any, tasks: Any) -> Any:
        begun = time.perf_counter()
        for done, answer in enumerate(
            in_processes(scorers if work.stage == "edges" else workers)(work, tasks)
        ):
            yield answer
            passed = time.perf_counter() - begun
            print(f"{count} points, {work.stage}: {done + 1} tiles in {passed:.1f} s", flush=True)
        stages[work.stage] = time.perf_counter() - begun

    counted: Engine = engine
    points = draw(2, "uniform", count, seed)
    with TemporaryDirectory(prefix="gln-") as place, Watch() as watch:
        folder = Path(place)
        np.save(folder / "points.npy", points)
        del points
        job = Job(model, [folder / "points.npy"], folder / "edges", device=device)
        stream = open_stream(job.paths[0], ReadOptions(), lambda text: None)
        assert stream is not None
        begun = time.perf_counter()
        outcome = tiling.predict_tiles(job, stream, counted, tile, workers)
        seconds = time.perf_counter() - begun
        shards = sorted(job.output.glob("*.parquet"))
        read = sum(facts_in(path)["nodes"] for path in shards)
        written = sum(path.stat().st_size for path in shards)
    return {
        "points": count,
        "tiles": len(shards),
        "seconds": seconds,
        "microseconds_per_point": 1e6 * seconds / count,
        "core_microseconds_per_point": 1e6 * sum(watch.cpu.values()) / count,
        "cutting_seconds": seconds - sum(stages.values()),
        "nearest_seconds": stages["near"],
        "candidates_seconds": stages["rows"],
        "scoring_seconds": stages["edges"],
        "read_per_point": read / count,
        "edges": outcome.edges,
        "bytes_per_point": written / count,
        "memory_gib": watch.most / 2**30,
    }


def disturbed(points: int, tile: int, workers: int, model: str, seed: int) -> dict[str, Any]:
    """``gln predict``, of which a worker is killed after a quarter of the tiles and the command itself after half."""
    with TemporaryDirectory(prefix="gln-") as place:
        path, undisturbed, output = (Path(place) / name for name in ("points.npy", "undisturbed", "edges"))
        np.save(path, draw(2, "uniform", points, seed))
        words = [sys.executable, "-m", "gln", "predict", model, str(path), "--device", "cpu", "-o"]
        flags = ["--tile-nodes", str(tile), "--devices", str(workers)]
        subprocess.run([*words, str(undisturbed), *flags], check=True)
        expected = sorted(shard.name for shard in undisturbed.glob("*.parquet"))
        command = subprocess.Popen([*words, str(output), *flags])
        when_killed = when_done(command, output, len(expected) // 4)
        busiest(command).kill()
        when_done(command, output, len(expected) // 2)
        command.kill()
        command.wait()
        kept = {shard: shard.stat().st_mtime_ns for shard in output.glob("*.parquet")}
        begun = time.perf_counter()
        again = subprocess.run([*words, str(output), *flags], check=False).returncode
        seconds = time.perf_counter() - begun
        return {
            "tiles": len(expected),
            "tiles_when_a_worker_was_killed": when_killed,
            "tiles_when_the_command_was_killed": len(kept),
            "exit_code_of_the_repetition": again,
            "seconds_of_the_repetition": seconds,
            "kept_tiles_untouched": all(shard.stat().st_mtime_ns == then for shard, then in kept.items()),
            "same_bytes": expected == sorted(shard.name for shard in output.glob("*.parquet"))
            and all((output / name).read_bytes() == (undisturbed / name).read_bytes() for name in expected),
        }


def when_done(command: subprocess.Popen[bytes], output: Path, count: int) -> int:
    """The number of tiles or windows that are done, once there are as many as ``count``."""
    while (done := len(list(output.glob("*.parquet")))) < max(count, 1):
        if command.poll() is not None:
            raise GLNError(f"The command ended with {command.returncode} before it was disturbed.")
        time.sleep(0.05)
    return done


def busiest(command: subprocess.Popen[bytes]) -> Any:
    """The worker that has computed most; the processes that the command itself started start workers."""
    import psutil  # of bench alone

    below = psutil.Process(command.pid).children(recursive=True)
    workers = [process for process in below if process.ppid() != command.pid]
    return max(workers, key=lambda process: sum(process.cpu_times()[:2]))


class Watch:
    """The largest resident memory of this process and all below it while the block runs, and their processor time."""

    def __enter__(self) -> Watch:
        import psutil  # of bench alone

        self.most, self.over = 0, threading.Event()
        self.cpu: dict[int, float] = {}  # seconds of every process since the block began, as last seen
        begun: dict[int, float] = {}

        def look() -> None:
            total, here = 0, psutil.Process()
            for process in [here, *here.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                    self.cpu[process.pid] = sum(process.cpu_times()[:2]) - begun.get(process.pid, 0)
                except psutil.Error:  # it has ended
                    continue
            self.most = max(self.most, total)

        def watch() -> None:
            while not self.over.wait(0.5):
                look()

        look()
        begun |= self.cpu
        self.thread = threading.Thread(target=watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
