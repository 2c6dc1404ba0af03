"""What surrounds a training run: clear words where it ends early, and silence where Lightning would chat."""

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
from gln.training.run import RunFolder
from gln.training.tensors import clear_disk_errors

# What gloo, and sockets below it, say when a process at the other end is gone.
GONE = re.compile(
    r"gloo.*(peer|timed out|timeout)|connection (closed|reset) by peer|broken pipe", re.IGNORECASE
)


class StopRun(Exception):
    """Ctrl-C or a polite kill, within the run, after the checkpoint was written."""


class StopSignal:
    """Ctrl-C or a polite kill, to be obeyed once the step in work is done; at once when it comes again.

    Some tools send one signal twice, to the process and to its group: what comes within a second is one.
    """

    asked = False
    since = 0.0

    def listen(self) -> None:
        """From now on; Lightning puts back what was there before."""
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
    """Ctrl-C during training; says how to go on."""


@contextmanager
def clear_errors(folder: RunFolder) -> Iterator[None]:
    """Everything that can end a run early, in one sentence each."""
    try:
        with clear_disk_errors(folder.path):
            yield
    except (StopRun, SystemExit):  # Lightning makes SystemExit of Ctrl-C
        raise Interrupted(_how_to_go_on(folder)) from None
    except ProcessRaisedException as error:
        # From a process that Lightning spawned; its traceback comes as text.
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
    """What to say when a process of the run was killed or cannot be reached."""
    return (
        f"Another process of this run was lost; {folder.path} holds the last checkpoint: go on with --resume "
        "(resume=True)."
    )


def _how_to_go_on(folder: RunFolder) -> str:
    if folder.kept:
        return f"Training was interrupted and is kept in {folder.path}; go on with --resume (resume=True)."
    return "Training was interrupted, and no run folder was given to keep it in; give run= next time."


@contextmanager
def quiet() -> Iterator[None]:
    """No tips and no doubts about our data loaders: those choices are made here, knowingly."""
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
