"""Processes of their own that need not import everything again."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import torch

# Children of a fork server are clean processes, but find the slow imports done.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["gln.training.fitting", "tests.training.tiny", "torch.utils.tensorboard"])


def start(function: Callable[..., Any], *args: Any) -> BaseProcess:
    """Run ``function`` in a new process."""
    process = CONTEXT.Process(target=_run, args=(function, *args))
    process.start()
    return process


def _run(function: Callable[..., Any], *args: Any) -> None:
    torch.set_num_threads(1)
    function(*args)
