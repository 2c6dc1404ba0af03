"""Processes of their own that need not import everything again."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

# Children of a fork server are clean processes, but find the slow imports done.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "lightning_fabric",
        "gln.commands.cli",
        "gln.training.loop",
        "gln.workflows.predict_files",
        "tests.training.tiny",
        "torch.utils.tensorboard",
    ]
)


def start(function: Callable[..., Any], *args: Any, **environment: str) -> BaseProcess:
    """Run ``function`` in a new process."""
    process = CONTEXT.Process(target=_run, args=(environment, function, *args))
    process.start()
    return process


def start_two(function: Callable[..., Any], *args: Any, torchrun: bool = False) -> list[BaseProcess]:
    """Run ``function`` in two new processes that can find each other, as if something had started them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    if torchrun:
        two = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "none"}
        return [start(function, *args, **address, **two, RANK=rank, LOCAL_RANK=rank) for rank in ("0", "1")]
    return [start(function, *args, **address, LOCAL_RANK=rank) for rank in ("0", "1")]


def join(processes: list[BaseProcess]) -> list[int | None]:
    """Wait for the processes; their exit codes."""
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def gln_in(folder: Path, *words: str, said: Path) -> None:
    """``gln`` as if started in ``folder``; what it says on either stream is in the files ``said``.out and .err."""
    from gln.commands.cli import main

    for stream, kind in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(said.with_suffix(kind), os.O_CREAT | os.O_WRONLY | os.O_APPEND), stream)
    os.chdir(folder)
    sys.argv = ["gln", *words]
    main()


def _run(environment: dict[str, str], function: Callable[..., Any], *args: Any) -> None:
    os.environ.update(environment)
    torch.set_num_threads(1)
    function(*args)
