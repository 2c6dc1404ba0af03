"""Run cells side by side, each in a process of its own: one small network leaves most of a GPU idle."""

from __future__ import annotations

import os
import sys
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from gln.errors import GLNError, in_words, polite_kill
from gln.experiments.runner import Cell, Places, run_cell


def run_side_by_side(cells: list[Cell], places: Places, jobs: int) -> None:
    """Run ``cells``, at most ``jobs`` at a time; a failure does not stop the others and is raised at the end."""
    waiting = by_training(cells, places)
    running: dict[Any, tuple[BaseProcess, list[Cell]]] = {}
    failed: list[Cell] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                together = waiting.pop(0)
                process = _start(together, places, jobs)
                running[process.sentinel] = (process, together)
            for sentinel in wait(list(running)):
                process, together = running.pop(sentinel)
                process.join()
                if process.exitcode:
                    failed += [cell for cell in together if not cell.is_measured(places)] or together
    finally:  # after Ctrl-C or a kill: let every training store where it is
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.join()
    if failed:
        raise GLNError(
            f"Not measured: {', '.join(cell.name for cell in failed)}; the messages above say why."
        )


def by_training(cells: list[Cell], places: Places) -> list[list[Cell]]:
    """The cells in lists that can run at the same time; those that share a training are in one list."""
    groups: dict[Path, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.run_folder(places), []).append(cell)
    return list(groups.values())


def _start(cells: list[Cell], places: Places, jobs: int) -> BaseProcess:
    # A forked process could not use the GPU.
    process = get_context("spawn").Process(target=_run, args=(cells, places, jobs))
    process.start()
    return process


def _run(cells: list[Cell], places: Places, jobs: int) -> None:
    """What one process does; it ends quietly when it is told to stop."""
    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))
    try:
        with polite_kill():
            for cell in cells:
                run_cell(cell, places, say=partial(print, flush=True))
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        sys.exit(in_words(error))
