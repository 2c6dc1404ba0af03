"""Several processes for one job: which of them this is, how the others start, and what follows when one is lost."""

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

PARENT = "GLN_PARENT"  # in the environment of a process that another one of ours started: whose it is
GRACE = 5.0  # seconds for a process to end in its own words before it is ended


@dataclass(frozen=True)
class Place:
    """Which of ``world`` processes this is; ``local`` counts those of this machine.

    ``started``: torchrun, Slurm or another process of ours has started the others.
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
                f"Got {devices} devices on {num_nodes} machines, but {found.world_size()} processes were started; let "
                "--devices be the processes per machine and --num-nodes the machines."
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
            f"{devices} devices each, counted from 0; unset these variables, or ask for more."
        )
    return Place(node * devices + local, world, local, started=found.creates_processes_externally)


def place_of(trainer: Trainer) -> Place:
    """The place of this process in a training run; refuse processes that would each train for itself."""
    if trainer.world_size == 1:
        check_alone()
        return Place(0, 1, 0, started=True)
    return find_place(trainer.num_devices, trainer.num_nodes, trainer.strategy.cluster_environment)  # type: ignore[attr-defined]


def check_alone() -> None:
    """Refuse to be one of several processes that nobody has told to share the work."""
    try:
        found = _environment()
    except GLNError:  # of no concern to one process
        return
    rank = found.local_rank() if isinstance(found, LightningEnvironment) else found.global_rank()
    if rank:
        raise GLNError(
            f"This is process {rank} of several, counted from 0, but the command is for one; say --devices and "
            "--num-nodes, and they share the work."
        )


def _environment() -> ClusterEnvironment:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that srun is installed and not used
        for kind in (TorchElasticEnvironment, SLURMEnvironment):
            if kind.detect():
                try:
                    return kind()
                except RuntimeError as error:
                    raise GLNError(f"Lightning cannot work with what Slurm was asked for: {error}") from None
    return LightningEnvironment()


class Others:
    """The other processes of this machine, each started with the command that started this one.

    They write nothing to the standard output: the first process speaks for all. They share the cores evenly.
    """

    def __init__(self, devices: int) -> None:
        if "OMP_NUM_THREADS" not in os.environ:
            threads = max(1, (os.cpu_count() or 1) // devices)
            os.environ["OMP_NUM_THREADS"] = str(threads)
            torch.set_num_threads(threads)
        command = [sys.executable, *sys.orig_argv[1:]]
        # Ctrl-C is for this process, which ends the others.
        apart: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
        mine = os.environ | {PARENT: str(os.getpid())}
        self.processes = [
            subprocess.Popen(command, env=mine | {"LOCAL_RANK": str(local)}, **apart)
            for local in range(1, devices)
        ]

    def lost(self) -> int | None:
        """The exit status of one that has ended with an error, or, below 0, was killed."""
        return next((status for process in self.processes if (status := process.poll())), None)

    def running(self) -> bool:
        """Whether one still works."""
        return any(process.poll() is None for process in self.processes)

    def complete(self) -> bool:
        """Whether all of them still work."""
        return all(process.poll() is None for process in self.processes)

    def kill(self) -> None:
        """End those that still run; nothing of theirs is lost, for what they write is written in one step."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


def is_orphan() -> bool:
    """Whether the process that started this one is gone."""
    return PARENT in os.environ and os.getppid() != int(os.environ[PARENT])


def give_way() -> None:
    """Before another process of ours than the first fails: that one mostly fails for the same reason, and speaks."""
    end = time.monotonic() + GRACE
    while PARENT in os.environ and not is_orphan() and time.monotonic() < end:
        time.sleep(0.05)


@contextmanager
def company(trainer: Trainer, strategy: str, lost: str) -> Iterator[None]:
    """Start the other processes of a training run, unless someone else does, and watch them.

    A process whose partner is gone would wait for its gradients, with some backends for ever. It may find out itself,
    and raises; if it does not, it prints ``lost`` and ends.
    """
    others = None
    if trainer.world_size > 1 and not place_of(trainer).started and _by_command(trainer, strategy):
        # Lightning takes processes that find LOCAL_RANK for complete. Its own way of starting them ends this one
        # without a word when another is lost.
        found = LightningEnvironment()
        os.environ.update(MASTER_ADDR=found.main_address, MASTER_PORT=str(found.main_port))
        os.environ.update(NODE_RANK=str(found.node_rank()), LOCAL_RANK="0")
        others = Others(trainer.num_devices)
    done = threading.Event()
    # One that ends without an error is lost, too, as long as this one waits for its gradients.
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
    """Whether Lightning would run the command of this process once more, rather than fork or spawn."""
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
                os._exit(2)  # the main thread may wait in a call that no signal reaches
            return
