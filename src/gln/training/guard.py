"""Around a training run: clear errors when it ends early, signals, and no chatter from Lightning."""

from __future__ import annotations

import errno
import logging
import re
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed import DistError
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from gln.errors import GLNError
from gln.storage.tensors import clear_disk_errors
from gln.training.run import RunFolder

# What gloo and the sockets below it report when the process at the other end is gone.
GONE = re.compile(
    r"gloo.*(peer|timed out|timeout)|connection (closed|reset) by peer|broken pipe", re.IGNORECASE
)


class StopRun(Exception):
    """Ctrl-C or SIGTERM, raised within the run once the checkpoint is written."""


class StopSignal:
    """Ctrl-C or SIGTERM, obeyed once the current step is done, or at once if it comes again.

    Some tools send a signal twice, to the process and to its group: signals within a second count as one.
    """

    asked = False
    since = 0.0

    def listen(self) -> None:
        """Start listening; Lightning restores the previous handlers."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._hear)

    def _hear(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self.asked and now - self.since > 1:
            raise KeyboardInterrupt
        if not self.asked:
            self.asked, self.since = True, now


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training; the message says how to resume."""


@contextmanager
def clear_errors(folder: RunFolder) -> Iterator[None]:
    """Turn everything that can end a run early into one clear sentence."""
    try:
        with clear_disk_errors(folder.path):
            yield
    except (StopRun, SystemExit):  # Lightning turns Ctrl-C into SystemExit
        raise Interrupted(_how_to_go_on(folder)) from None
    except ProcessRaisedException as error:
        # From a process that Lightning spawned; its traceback arrives as text.
        text = str(error)
        if f"{StopRun.__module__}.{StopRun.__qualname__}" in text:
            raise Interrupted(_how_to_go_on(folder)) from None
        if ours := re.findall(r"^gln\.errors\.GLNError: (.*)", text, re.MULTILINE):
            raise GLNError(ours[-1]) from None
        if f"OSError: [Errno {errno.ENOSPC}]" in text:
            raise GLNError(f"The disk of {folder.path} is full; free some space and resume.") from None
        if _is_loss(text):
            raise GLNError(lost_process(folder)) from None
        raise
    except ProcessExitedException:  # killed
        raise GLNError(lost_process(folder)) from None
    except RuntimeError as error:
        if not isinstance(error, DistError) and not _is_loss(str(error)):
            raise
        raise GLNError(lost_process(folder)) from error


def _is_loss(text: str) -> bool:
    return "torch.distributed.Dist" in text or GONE.search(text) is not None


def lost_process(folder: RunFolder) -> str:
    """The message for when a process of the run was killed or cannot be reached."""
    return (
        f"Another process of this run was lost; resume from the last checkpoint in {folder.path} with --resume "
        "(resume=True)."
    )


def _how_to_go_on(folder: RunFolder) -> str:
    if folder.kept:
        return f"Training was interrupted; resume it from {folder.path} with --resume (resume=True)."
    return "Training was interrupted and nothing was saved; give run= a folder next time."


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Lightning's tips and its warnings about our data loaders, which are made so on purpose."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"pytorch_lightning|lightning_fabric")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
