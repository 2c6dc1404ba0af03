"""Several processes for one job: which one this is, how the others start, and what ends a run early.

Lightning is imported on first use: a prediction by one process does not need it.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed import DistError

from gln.errors import GLNError
from gln.models.contract import in_bfloat16
from gln.storage.facts import clear_disk_errors
from gln.storage.runs import RunFolder
from gln.training.config import OWN, SEVERAL, FitConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments import ClusterEnvironment

PARENT = "GLN_PARENT"  # environment variable of a process that we started: the id of its parent
GRACE = 5.0  # seconds in which a process may report its own error before it is ended
# What gloo and the sockets below it report when the process at the other end is gone.
GONE = ("gloo", "connection closed by peer", "connection reset by peer", "broken pipe")
LOST = (
    "Another process of this run was lost; resume from the last checkpoint in {} with --resume (resume=True)."
)


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
    if not _is_ours(found):
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


def check_alone(instead: str = "give --devices and --num-nodes to share the work") -> None:
    """Refuse to be one of several processes that were not told to share the work."""
    if rank := _rank():
        raise GLNError(
            f"This is process {rank} of several, counted from 0, but the command is for one; {instead}."
        )


def is_first(num_nodes: int) -> bool:
    """Whether this is the first process on the first of ``num_nodes`` machines, which speaks for all."""
    machine = os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", "0"))
    return not _rank() and (num_nodes == 1 or machine == "0")


def _rank() -> int:
    """The number of this process among all, or of those that we started among those of this machine."""
    if not SEVERAL & os.environ.keys():
        return 0
    try:
        found = _environment()
    except GLNError:  # irrelevant to a single process
        return 0
    return found.local_rank() if _is_ours(found) else found.global_rank()


def _environment() -> ClusterEnvironment:
    from lightning_fabric.plugins.environments import (
        LightningEnvironment,
        SLURMEnvironment,
        TorchElasticEnvironment,
    )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about srun being installed but not used
        for kind in (TorchElasticEnvironment, SLURMEnvironment):
            if kind.detect():
                try:
                    return kind()
                except RuntimeError as error:
                    raise GLNError(f"Lightning cannot use this Slurm allocation: {error}") from None
    return LightningEnvironment()


def _is_ours(found: ClusterEnvironment) -> bool:
    """Whether nobody but us starts processes."""
    from lightning_fabric.plugins.environments import LightningEnvironment

    return isinstance(found, LightningEnvironment)


def suited(config: FitConfig, model: nn.Module) -> FitConfig:
    """The settings with what suits ``model`` and the device where they leave it open."""
    for name, own in OWN.items():
        if getattr(config, name) is None:
            config = config.changed(**{name: getattr(model, own, None)})
    if config.precision != "auto":
        return config
    on_gpu = torch.cuda.is_available() and config.accelerator in ("auto", "gpu", "cuda")
    half = on_gpu and in_bfloat16(model, torch.device("cuda"))
    return config.changed(precision="bf16" if half else "32")


def make_fabric(config: FitConfig) -> tuple[Fabric, Place, int]:
    """Lightning for these settings, the place of this process, and how many processes each machine has.

    Refuses processes that would each train on their own.
    """
    from lightning_fabric import Fabric

    strategy = "auto" if config.strategy == "ddp" else config.strategy  # a single process needs no DDP
    try:
        fabric = Fabric(
            accelerator=config.accelerator,
            devices=config.devices,
            num_nodes=config.num_nodes,
            strategy=strategy,
            precision={"32": "32-true", "bf16": "bf16-mixed"}[config.precision],  # type: ignore[arg-type]
        )
    except (ValueError, RuntimeError, ImportError) as error:
        raise GLNError(
            f"Got accelerator={config.accelerator!r}, devices={config.devices!r}, num_nodes="
            f"{config.num_nodes}, strategy={config.strategy!r}, which Lightning refuses on this machine: {error}"
        ) from error
    devices = getattr(fabric.strategy, "num_processes", 1)
    if devices * config.num_nodes == 1:
        check_alone()
        return fabric, Place(0, 1, 0, started=True), 1
    if fabric.strategy.launcher is not None and fabric.strategy.launcher.is_interactive_compatible:
        raise GLNError(
            f"Got {devices} devices in an interactive session, whose commands no other process can repeat; "
            "train with devices=1, from a script or with gln train."
        )
    environment = fabric.strategy.cluster_environment  # type: ignore[attr-defined]
    return fabric, find_place(devices, config.num_nodes, environment), devices


class OtherProcesses:
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
def with_others(place: Place, devices: int, folder: RunFolder) -> Iterator[None]:
    """Start the other processes of a training run, unless something else does, and watch them.

    A process whose partner is gone would wait for its gradients, with some backends for ever. If it does not notice
    and raise by itself, it says so and exits.
    """
    others = None
    if not place.started:
        # If LOCAL_RANK is set, Lightning takes all processes as started. Its own way of starting them ends this one
        # without a message when another is lost.
        found = _environment()
        os.environ.update(MASTER_ADDR=found.main_address, MASTER_PORT=str(found.main_port))
        os.environ.update(NODE_RANK=str(found.node_rank()), LOCAL_RANK="0")
        others = OtherProcesses(devices)
    done = threading.Event()
    # A process that ends without an error is also lost while this one waits for its gradients.
    alone = is_orphan if others is None else lambda: not others.complete()
    if others is not None or PARENT in os.environ:
        threading.Thread(
            target=_watch, args=(alone, done, LOST.format(folder.path), others), daemon=True
        ).start()
    try:
        yield
    except BaseException:
        if others is not None:
            others.kill()
        give_way()
        raise
    finally:
        done.set()


def _watch(
    alone: Callable[[], bool], done: threading.Event, lost: str, others: OtherProcesses | None
) -> None:
    while not done.wait(0.5):
        if alone():
            if not done.wait(GRACE):
                print(f"gln: {lost}", file=sys.stderr, flush=True)
                if others is not None:
                    others.kill()
                # The main thread is blocked in a collective: native code that ends for no signal and no exception,
                # and that the interpreter would wait for if it ended in the usual way.
                os._exit(2)
            return


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training; the message says how to resume."""


class StopSignal:
    """Ctrl-C or SIGTERM, obeyed once the current step is done, or at once if it comes again.

    Some tools send a signal twice, to the process and to its group: signals within a second count as one.
    """

    def __init__(self) -> None:
        self.asked, self.since = False, 0.0
        self.before: dict[int, Any] = {}  # the handlers to restore

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def _hear(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self.asked and now - self.since > 1:
            raise KeyboardInterrupt
        if not self.asked:
            self.asked, self.since = True, now


@contextmanager
def clear_errors(folder: RunFolder) -> Iterator[None]:
    """Turn everything that can end a run early into one clear sentence."""
    try:
        with clear_disk_errors(folder.path):
            yield
    except (KeyboardInterrupt, SystemExit):
        how = "Training was interrupted and nothing was saved; give run= a folder next time."
        if folder.kept:
            how = f"Training was interrupted; resume it from {folder.path} with --resume (resume=True)."
        raise Interrupted(how) from None
    except RuntimeError as error:
        if not isinstance(error, DistError) and not any(words in str(error).lower() for words in GONE):
            raise
        raise GLNError(LOST.format(folder.path)) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Lightning's tips."""
    logger = logging.getLogger("lightning_fabric")
    level = logger.level
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning_fabric")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
