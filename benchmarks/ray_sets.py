"""Many small sets from one Parquet file: one process, Ray with one worker and with two, and Ray disturbed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.common import timed
from benchmarks.large_set import when_done
from gln.adapters.ray import on_ray
from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.inference.predict import predict_graphs
from gln.storage.models import load_model
from gln.workflows.engines import in_this_process
from gln.workflows.predict_files import Job, predict_in_folder

MODEL = "delaunay-small"
WARM = 4  # windows answered before the clock starts: more than there are workers
LONG = 1200.0  # seconds that a command may take without its cluster, and the repetition


def run(sets: int = 10_000, nodes: int = 20, disturb: bool = True, seed: int = 0) -> dict[str, Any]:
    """Seconds from the file to the edges in a folder; the output is the same in all rows.

    Ray is started before the clock, and its workers have loaded the model and compiled its kernels; how long that
    takes is stated. Every worker, and the one process, has one thread. Processor seconds are those of the command and
    all it has started, Ray's own processes too.

    Args:
        sets: number of sets.
        nodes: mean number of points of a set.
        disturb: also kill a worker, and then all of Ray, under the command, and repeat it.
        seed: of the points.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    import ray
    import torch

    if sets < 256 or nodes < 4:
        raise GLNError(f"Got sets={sets}, nodes={nodes}; expected at least 256 sets of 4 nodes.")
    torch.set_num_threads(1)
    os.environ.update(RAY_worker_niceness="0")  # as the one process has, where other programs run too
    rng = np.random.default_rng(seed)
    sizes = rng.integers(nodes // 2, nodes + nodes // 2 + 1, sets)
    columns = {"set": np.repeat(np.arange(sets), sizes)}
    columns |= dict(zip("xy", rng.random((2, sizes.sum()), dtype=np.float32), strict=True))
    model = load_model(MODEL)
    rows: list[dict[str, Any]] = []
    predict_graphs(model, [Graph(pos=torch.rand(30, 2))])  # compiles the kernels
    with TemporaryDirectory(prefix="gln-") as place:
        path = Path(place) / "sets.parquet"
        pq.write_table(pa.table(columns), path)
        for name, workers in (("one process", 0), ("Ray, one worker", 1), ("Ray, two workers", 2)):
            begun = 0.0
            if workers:
                _, begun = timed(
                    lambda: ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
                )
            engine = Begun(on_ray(workers) if workers else in_this_process, max(workers, 1))
            job = Job(model, [path], Path(place) / f"edges-{workers}")
            start = time.perf_counter()
            predict_in_folder(job, engine)
            row = {"engine": name, "seconds": time.perf_counter() - start - engine.seconds}
            row |= {"core_seconds": engine.core_seconds, "start_seconds": begun + engine.seconds}
            ray.shutdown()
            if not rows:
                expected = pq.read_table(job.output)
            rows.append(row | {"same_edges": pq.read_table(job.output).equals(expected)})
        found = {"disturbed": disturbed(path, Path(place) / "disturbed", expected)} if disturb else {}
    settings = {"model": f"{MODEL}, as shipped", "sets": sets, "nodes": nodes, "seed": seed}
    return {
        "name": "ray-sets",
        "rows": rows,
        "two_workers_against_one": rows[1]["seconds"] / rows[2]["seconds"],
        "one_worker_against_one_process": rows[0]["seconds"] / rows[1]["seconds"],
        **found,
        "settings": settings | {"load": [round(load, 1) for load in os.getloadavg()]},
    }


class Begun:
    """An engine whose workers answer the first window some times before the clock starts."""

    def __init__(self, engine: Any, workers: int) -> None:
        self.engine, self.workers = engine, workers
        self.seconds = self.core_seconds = 0.0

    def __call__(self, work: Any, tasks: Any) -> Any:
        first = next(tasks := iter(tasks))

        def all_of_them() -> Any:
            for number in range(-WARM, 0):
                yield number, first[1]
            yield first
            yield from tasks

        start, before, warm = time.perf_counter(), processor_seconds(), 0
        for number, result in self.engine(work, all_of_them()):
            if number >= 0:
                yield number, result
                self.core_seconds = processor_seconds() - before
                continue
            warm += 1
            if warm <= WARM + 1 - self.workers:  # from then on, a worker may have the first of the others
                self.seconds = time.perf_counter() - start
                before = processor_seconds()


def processor_seconds() -> float:
    """Of this process and all that it has started."""
    import psutil  # of bench alone

    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:2])
        except psutil.Error:  # it has ended
            continue
    return total


def disturbed(path: Path, output: Path, expected: Any) -> dict[str, Any]:
    """``gln predict`` on a cluster of two nodes: a worker is killed, then all of Ray, and the command is repeated."""
    import psutil
    import pyarrow.parquet as pq

    shards = -(-len(expected.column("graph").unique()) // 256)
    words = [sys.executable, "-m", "gln", "predict", MODEL, str(path), "-o", str(output), "--engine", "ray"]

    with cluster() as address:
        command = subprocess.Popen([*words, "--address", address])
        when_killed = when_done(command, output, shards // 4)
        workers = [one for one in psutil.Process().children(recursive=True) if "Server" in one.name()]
        workers[0].kill()
        when_done(command, output, shards // 2)
        kept = {shard: shard.stat().st_mtime_ns for shard in output.glob("*.parquet")}
    _, until_end = timed(lambda: command.wait(LONG))
    with cluster() as address:
        again = subprocess.run([*words, "--address", address], timeout=LONG).returncode
    same = all(shard.stat().st_mtime_ns == changed for shard, changed in kept.items())
    return {
        "shards": len(list(output.glob("*.parquet"))),
        "shards_when_a_worker_was_killed": when_killed,
        "shards_when_ray_was_killed": len(kept),
        "exit_code_without_ray": command.returncode,
        "seconds_until_it_ended": until_end,
        "exit_code_of_the_repetition": again,
        "kept_shards_untouched": same,
        "same_edges": pq.read_table(output).equals(expected),
    }


@contextmanager
def cluster() -> Iterator[str]:
    """The address of two Ray nodes with a core each, of which all processes are killed in the end."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 10**8}
    nodes = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    try:
        nodes.add_node(**node)
        yield nodes.address
    finally:
        for one in [*nodes.worker_nodes, nodes.head_node]:
            nodes.remove_node(one, allow_graceful=False)
