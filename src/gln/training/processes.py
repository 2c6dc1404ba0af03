"""Several processes for one job: which one this is, how the others start, and what happens when one is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.plugins.environments import (
    ClusterEnvironment,
    LightningEnvironment,
    SLURMEnvironment,
    TorchElasticEnvironment,
)
from pytorch_lightning.strategies import DDPStrategy

from gln.errors import GLNError

PARENT = "GLN_PARENT"  # environment variable of a process that we started: the id of its parent
GRACE = 5.0  # seconds in which a process may report its own error before it is ended


@dataclass(frozen=True)
class Place:
    """Which of ``world`` processes this is; ``local`` counts within this machine.

    ``started``: torchrun, Slurm or another process of ours has already started the others.
    """

    rank: int
    world: int
    local: int
    started: bool


def find_place(devices: int, num_nodes: int, found: ClusterEnvironment | None = None) -> Place:
    """The place of this process among ``devices`` on each of ``num_nodes`` machines, as Lightning sees it."""
    found, world = found or _environment(), devices * num_nodes
    if not isinstance(found, LightningEnvironment):
        if found.world_size() != world:
            raise GLNError(
                f"Got {devices} devices on {num_nodes} machines, but {found.world_size()} processes were started; set "
                "--devices to the processes per machine and --num-nodes to the number of machines."
            )
        return Place(found.global_rank(), world, found.local_rank(), started=True)
    if num_nodes > 1 and not {"NODE_RANK", "GROUP_RANK"} & os.environ.keys():
        raise GLNError(
            f"Got {num_nodes} machines, but nothing says which one this is; start with torchrun or srun, or set "
            "NODE_RANK to 0, 1, … on each."
        )
    node, local = found.node_rank(), found.local_rank()
    if not (0 <= node < num_nodes and 0 <= local < devices):
        raise GLNError(
            f"The environment says NODE_RANK={node} and LOCAL_RANK={local}, but there are {num_nodes} machines with "
            f"{devices} devices each, counted from 0; unset these variables or ask for more."
        )
    return Place(node * devices + local, world, local, started=found.creates_processes_externally)


def place_of(trainer: Trainer) -> Place:
    """The place of this process in a training run; refuse processes that would each train on their own."""
    if trainer.world_size == 1:
        check_alone()
        return Place(0, 1, 0, started=True)
    return find_place(trainer.num_devices, trainer.num_nodes, trainer.strategy.cluster_environment)  # type: ignore[attr-defined]


def check_alone() -> None:
    """Refuse to be one of several processes that were not told to share the work."""
    try:
        found = _environment()
    except GLNError:  # irrelevant to a single process
        return
    rank = found.local_rank() if isinstance(found, LightningEnvironment) else found.global_rank()
    if rank:
        raise GLNError(
            f"This is process {rank} of several, counted from 0, but the command is for one; give --devices and "
            "--num-nodes to share the work."
        )


def _environment() -> ClusterEnvironment:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about srun being installed but not used
        for kind in (TorchElasticEnvironment, SLURMEnvironment):
            if kind.detect():
                try:
                    return kind()
                except RuntimeError as error:
                    raise GLNError(f"Lightning cannot use this Slurm allocation: {error}") from None
    return LightningEnvironment()


class Others:
    """The other processes on this machine, each started with the command that started this one.

    They write nothing to standard output, where the first process speaks for all, and share the cores evenly.
    """

    def __init__(self, devices: int) -> None:
        if "OMP_NUM_THREADS" not in os.environ:
            threads = max(1, (os.cpu_count() or 1) // devices)
            os.environ["OMP_NUM_THREADS"] = str(threads)
            torch.set_num_threads(threads)
        command = [sys.executable, *sys.orig_argv[1:]]
        # Only this process gets Ctrl-C; it then ends the others.
        apart: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
        mine = os.environ | {PARENT: str(os.getpid())}
        self.processes = [
            subprocess.Popen(command, env=mine | {"LOCAL_RANK": str(local)}, **apart)
            for local in range(1, devices)
        ]

    def lost(self) -> int | None:
        """The exit status of a process that failed, or (below 0) was killed; ``None`` if there is none."""
        return next((status for process in self.processes if (status := process.poll())), None)

    def running(self) -> bool:
        """Whether any of them still runs."""
        return any(process.poll() is None for process in self.processes)

    def complete(self) -> bool:
        """Whether all of them still run."""
        return all(process.poll() is None for process in self.processes)

    def kill(self) -> None:
        """Kill those that still run; nothing they wrote is lost, as they write files atomically."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


def is_orphan() -> bool:
    """Whether the process that started this one is gone."""
    return PARENT in os.environ and os.getppid() != int(os.environ[PARENT])


def give_way() -> None:
    """Wait before a process other than the first fails: the first usually fails for the same reason, and reports it."""
    end = time.monotonic() + GRACE
    while PARENT in os.environ and not is_orphan() and time.monotonic() < end:
        time.sleep(0.05)


@contextmanager
def company(trainer: Trainer, strategy: str, lost: str) -> Iterator[None]:
    """Start the other processes of a training run, unless something else does, and watch them.

    A process whose partner is gone would wait for its gradients, with some backends for ever. If it does not notice
    and raise by itself, it prints ``lost`` and exits.
    """
    others = None
    if trainer.world_size > 1 and not place_of(trainer).started and _by_command(trainer, strategy):
        # If LOCAL_RANK is set, Lightning assumes that all processes are started. Its own way of starting them ends
        # this one without a message when another is lost.
        found = LightningEnvironment()
        os.environ.update(MASTER_ADDR=found.main_address, MASTER_PORT=str(found.main_port))
        os.environ.update(NODE_RANK=str(found.node_rank()), LOCAL_RANK="0")
        others = Others(trainer.num_devices)
    done = threading.Event()
    # A process that ends without an error is also lost while this one waits for its gradients.
    alone = is_orphan if others is None else lambda: not others.complete()
    if others is not None or PARENT in os.environ:
        threading.Thread(target=_watch, args=(alone, done, lost, others), daemon=True).start()
    try:
        yield
    except BaseException:
        if others is not None:
            others.kill()
        give_way()
        raise
    finally:
        done.set()


def _by_command(trainer: Trainer, strategy: str) -> bool:
    """Whether Lightning would run this process's command again, rather than fork or spawn."""
    launcher = trainer.strategy.launcher
    if launcher is None or not isinstance(trainer.strategy, DDPStrategy):
        return False
    return not launcher.is_interactive_compatible and "spawn" not in strategy


def _watch(alone: Callable[[], bool], done: threading.Event, lost: str, others: Others | None) -> None:
    while not done.wait(0.5):
        if alone():
            if not done.wait(GRACE):
                print(f"gln: {lost}", file=sys.stderr, flush=True)
                if others is not None:
                    others.kill()
                os._exit(2)  # the main thread may be blocked in a call that no signal interrupts
            return
