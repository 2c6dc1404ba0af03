"""Training for so many minutes, in one call or several: on machines that are lent by the minute."""

from __future__ import annotations

import argparse
import ast
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import gln
from gln.graphs.record import Graph
from gln.training.config import FitConfig
from gln.training.losses import Loss
from gln.training.processes import Interrupted

FIT: dict[str, Any] = {"warmup": 0.02, "weight_decay": 1e-3, "average": 0.999, "progress": False}


class Ahead:
    """The graphs of every epoch, a function of its number: made while the one before is learned."""

    def __init__(self, make: Callable[[int], list[Graph]]) -> None:
        self.make = make
        self.ahead: dict[int, Future[list[Graph]]] = {}
        self.thread = ThreadPoolExecutor(1)

    def __call__(self, epoch: int) -> list[Graph]:
        ahead = self.ahead.pop(epoch, None)
        self.ahead = {epoch + 1: self.thread.submit(self.make, epoch + 1)}
        return self.make(epoch) if ahead is None else ahead.result()


class Timed(FitConfig):
    """The rate of learning falls to 0 as minutes pass, not as epochs do."""

    spent, total, begun = 0.0, 1.0, 0.0  # seconds

    def lr_at(self, epoch: int, batch: int, batches: int) -> float:
        now = (Timed.spent + time.monotonic() - Timed.begun) / Timed.total
        if now < self.warmup:
            return self.lr * max(now, 1e-3) / self.warmup
        return self.lr * float(0.5 * (1 + np.cos(np.pi * min(now, 1))))


def fit_for(
    given: argparse.Namespace,
    model: nn.Module,
    make: Callable[[int], list[Graph]],
    val: list[Graph],
    loss: Loss,
) -> None:
    """Train for ``given.minutes`` of ``given.of``; the same call again goes on."""
    torch.set_float32_matmul_precision("high")
    sys.setswitchinterval(5e-4)  # the next epoch's graphs are made meanwhile
    path = given.run / "metrics.csv"
    rows = path.read_text().splitlines() if path.exists() else []
    if len(rows) > 1:
        Timed.spent = float(dict(zip(rows[0].split(","), rows[-1].split(","), strict=True))["seconds"])
    Timed.total, Timed.begun = max(60 * (given.of or 0), Timed.spent + 60 * given.minutes), time.monotonic()
    timer = threading.Timer(60 * given.minutes + 4, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    settings = FIT | {"batch_size": given.batch_size, "lr": given.lr, "accelerator": given.device}
    graphs = Ahead(make)
    try:
        gln.fit(
            model,
            graphs,
            val,
            run=given.run,
            resume=True,
            loss=loss,
            config=Timed(epochs=100_000, **settings),
        )
    except Interrupted:
        print(path.read_text()[-400:] if path.exists() else "in the first epoch", flush=True)
    finally:
        timer.cancel()
        graphs.thread.shutdown(wait=True, cancel_futures=True)


def add_training_flags(parser: argparse.ArgumentParser, lr: float, batch_size: int) -> None:
    parser.add_argument("--run", type=Path)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--of", type=float, help="minutes of all calls together, if there are to be several")
    parser.add_argument("--lr", type=float, default=lr)
    parser.add_argument("--batch-size", type=int, default=batch_size)
    parser.add_argument("--set", nargs="*", default=[], help="settings of the model, such as steps=5")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")


def settings_in(words: list[str]) -> dict[str, Any]:
    """``["steps=5"]`` as settings."""
    return {word.partition("=")[0]: ast.literal_eval(word.partition("=")[2]) for word in words}
