"""How cells that are not measured yet are run, one after the other or side by side."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from gln.errors import GLNError, in_words, polite_kill
from gln.storage.provenance import commit, write_result
from gln.workflows.methods import out_of_memory
from reproduction.cells import Cell, Places
from reproduction.data import SEED, parts_of
from reproduction.measures import MEASURES, Task
from reproduction.specs import columns


def run_cells(
    cells: list[Cell], places: Places, again: bool = False, say: Callable[[str], None] = print, jobs: int = 1
) -> int:
    """Run the cells that are not measured yet, or all of them with ``again``; returns how many were run.

    With ``jobs``, that many run side by side, in processes that print their own lines.
    """
    missing = [cell for cell in cells if again or not cell.is_measured(places)]
    if any(cell.scale == "full" for cell in missing) and "-dirty" in (commit() or "-dirty"):
        raise GLNError("A result is measured with committed code only; commit the changes first.")
    if jobs == 1:
        for cell in missing:
            run_cell(cell, places, say)
    else:
        run_side_by_side(missing, places, jobs)
    return len(missing)


def run_side_by_side(cells: list[Cell], places: Places, jobs: int) -> None:
    """Run ``cells`` in processes, at most ``jobs`` at a time: one small network leaves most of a GPU idle.

    A failure does not stop the others and is raised at the end.
    """
    waiting = by_training(cells, places)
    running: dict[Any, tuple[BaseProcess, list[Cell]]] = {}
    failed: list[Cell] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                together = waiting.pop(0)
                # A forked process could not use the GPU.
                started = get_context("spawn").Process(target=_run, args=(together, places, jobs))
                # Ctrl-C is for this process, which then ends the others.
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                started.start()
                running[started.sentinel] = (started, together)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
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


def _run(cells: list[Cell], places: Places, jobs: int) -> None:
    """What one process does; it ends quietly when it is told to stop."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))
    try:
        with polite_kill():
            for cell in cells:
                run_cell(cell, places, say=partial(print, flush=True))
    except OSError as error:
        sys.exit(in_words(error))


def run_cell(cell: Cell, places: Places, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Measure one cell and store it; one that cannot be measured is stored with the reason."""
    start, settings, seed = time.perf_counter(), cell.settings, SEED
    try:
        if settings.cannot is not None:
            raise GLNError(settings.cannot)
        parts = parts_of(cell.scale, cell.protocol, cell.column)
        if settings.trained_on is not None:
            parts = parts.taught_by(parts_of(cell.scale, cell.protocol, settings.trained_on))
        seed, options = parts.seed, cell.experiment.options.get(cell.scale, {})
        column, folder = columns()[cell.column], cell.run_folder(places)
        task = Task(settings, column, parts, folder, cell.picture(places), options, cell.seed)
        found = {"family": str(parts.family), "test_graphs": len(parts.test)}
        found |= MEASURES[cell.experiment.measure](task)
    except GLNError as error:
        found = {"cannot": str(error)}
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        found = {"cannot": "there is not enough memory on this machine"}
    where = {name: getattr(cell, name) for name in ("scale", "protocol", "column", "row")}
    measured = {"experiment": cell.experiment.name, **where, "training_seed": cell.seed, **found}
    measured["seconds"] = round(time.perf_counter() - start, 2)
    before = cell.read(places)
    if before is None or "cannot" in before or "cannot" not in measured:  # a failure never replaces a number
        write_result(cell.path(places), cell.command, seed, measured)
    say(f"{cell.experiment.name} {cell.name}: {_outcome(measured)}, {measured['seconds']:.1f} s")
    return measured


def _outcome(measured: dict[str, Any]) -> str:
    """One line on what was measured."""
    if "cannot" in measured:
        return f"cannot run: {measured['cannot']}"
    if "picture" in measured:
        return f"drew {measured['picture']}"
    if "shares" in measured:
        return f"{len(measured['shares'])} shares of A⁰"
    shown = ("iou", "dice", "mmd_degree", "mmd_clustering", "mmd_orbit", "novelty")
    return ", ".join(f"{name} {measured['scores'][name]:.4g}" for name in shown if name in measured["scores"])
