"""Cells: which ones exist, where each is kept, and how missing ones are run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gln.errors import GLNError
from gln.experiments.specs import Experiment, Scale, Settings, columns, experiments


@dataclass(frozen=True)
class Places:
    """Where results, training runs and the document are kept, below one folder."""

    root: Path = Path()

    def results(self, scale: Scale) -> Path:
        return self.root / "results" / "reproduction" / scale

    def runs(self, scale: Scale) -> Path:
        return self.root / "runs" / "reproduction" / scale

    def document(self, scale: Scale) -> Path:
        """The quick check has a document of its own: its numbers must not be mistaken for results."""
        return (
            self.root / "docs" / "reproduction.md" if scale == "full" else self.results(scale) / "README.md"
        )

    def picture(self, scale: Scale, name: str) -> Path:
        folder = self.root / "docs" / "images" if scale == "full" else self.results(scale) / "images"
        return folder / f"reproduction-{name}.png"


@dataclass(frozen=True)
class Cell:
    """One number or picture of one experiment; repeats from another seed have ``@SEED`` after their name."""

    experiment: Experiment
    scale: Scale
    protocol: str
    column: str
    row: str
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.protocol}/{self.column}/{self.row}{self.mark}"

    @property
    def mark(self) -> str:
        """The suffix of the name: the seed, unless it is the first."""
        return f"@{self.seed}" if self.seed else ""

    @property
    def key(self) -> str:
        """Where it is kept within its scale; experiments that share cells share keys."""
        return f"{self.experiment.cells}/{self.name}"

    @property
    def command(self) -> str:
        return f"gln reproduce {self.experiment.name} --scale {self.scale} --cell {self.name}"

    @property
    def settings(self) -> Settings:
        return self.experiment.settings(self.scale, self.protocol, self.column, self.row)

    def path(self, places: Places) -> Path:
        return places.results(self.scale) / f"{self.key}.json"

    def read(self, places: Places) -> dict[str, Any] | None:
        """What was measured, or ``None``."""
        path = self.path(places)
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def is_measured(self, places: Places) -> bool:
        kept = self.read(places)
        return kept is not None and "cannot" not in kept

    def picture(self, places: Places) -> Path:
        return places.picture(self.scale, f"{self.experiment.name}-{self.name.replace('/', '-')}")

    def run_folder(self, places: Places) -> Path:
        """The folder of its training; a system as given in ``systems.yaml`` is trained once for all experiments.

        It is kept under the column that it learns from; rows that read it out after different steps share it.
        """
        own, settings = self.experiment.rows[self.protocol][self.row], self.settings
        row = f"{own['system']}-{settings.trained_steps}" if settings.trained_steps else self.row
        name = f"{self.experiment.cells}-{row}" if own else row
        if settings.shipped and self.seed:  # one model serves several columns
            return places.runs(self.scale) / "shipped" / f"{settings.shipped}{self.mark}"
        column = settings.trained_on or self.column
        return places.runs(self.scale) / self.protocol / column / f"{name}{self.mark}"


def cells_of(experiment: Experiment, scale: Scale) -> Iterator[Cell]:
    """Every cell; those on the same graphs are adjacent."""
    for protocol, rows in experiment.rows.items():
        for group in experiment.columns.values():
            for column in group:
                for row in rows:
                    for seed in experiment.seeds(scale, column, row):
                        yield Cell(experiment, scale, protocol, column, row, seed)


def choose(names: list[str], scale: Scale, pattern: str | None) -> list[Cell]:
    """The cells of the experiments ``names`` (all if empty) whose name is, or ends with, ``pattern``."""
    known = experiments()
    for name in names:
        if name not in known:
            raise GLNError(f"There is no experiment {name!r}; choose from {', '.join(known)}.")
    cells: dict[str, Cell] = {}
    for name in names or list(known):
        for cell in cells_of(known[name], scale):
            cells.setdefault(cell.key, cell)  # the first experiment that lists a shared cell runs it
    chosen = list(cells.values())
    if pattern is None:
        return chosen
    found = [cell for cell in chosen if f"/{cell.name}".endswith(f"/{pattern}")]
    if not found:
        raise GLNError(
            f"There is no cell {pattern!r}; expected PROTOCOL/COLUMN/ROW or its end, as in {chosen[0].name}."
        )
    return found


def run_cells(
    cells: list[Cell], places: Places, again: bool = False, say: Callable[[str], None] = print, jobs: int = 1
) -> int:
    """Run the cells that are not measured yet, or all of them with ``again``; returns how many were run.

    With ``jobs``, that many run side by side, in processes that print their own lines.
    """
    missing = [cell for cell in cells if again or not cell.is_measured(places)]
    if jobs == 1:
        for cell in missing:
            run_cell(cell, places, say)
    else:
        from gln.experiments.side_by_side import run_side_by_side

        run_side_by_side(missing, places, jobs)
    return len(missing)


def run_cell(cell: Cell, places: Places, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Measure one cell and store it; one that cannot be measured is stored with the reason."""
    from gln.experiments.data import SEED, parts_of
    from gln.experiments.measures import MEASURES, Task
    from gln.storage.provenance import write_result
    from gln.workflows.methods import out_of_memory

    start, settings = time.perf_counter(), cell.settings
    where: dict[str, Any] = {"scale": cell.scale, "protocol": cell.protocol}
    where |= {"column": cell.column, "row": cell.row, "training_seed": cell.seed}
    seed = SEED
    try:
        if settings.cannot is not None:
            raise GLNError(settings.cannot)
        parts = parts_of(cell.scale, cell.protocol, cell.column)
        if settings.trained_on is not None:
            parts = parts.taught_by(parts_of(cell.scale, cell.protocol, settings.trained_on))
        seed, options = parts.seed, cell.experiment.options.get(cell.scale, {})
        title, folder = columns()[cell.column].title, cell.run_folder(places)
        task = Task(settings, title, parts, folder, cell.picture(places), options, cell.seed)
        found = {"family": str(parts.family), "test_graphs": len(parts.test)}
        found |= MEASURES[cell.experiment.measure](task)
    except GLNError as error:
        found = {"cannot": str(error)}
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        found = {"cannot": "there is not enough memory on this machine"}
    measured = {"experiment": cell.experiment.name, **where, **found}
    measured["seconds"] = round(time.perf_counter() - start, 2)
    before = cell.read(places)
    if before is None or "cannot" in before or "cannot" not in measured:  # a failure never replaces a number
        write_result(cell.path(places), cell.command, seed, measured)
    say(f"{cell.experiment.name} {cell.name}: {outcome(measured)}, {measured['seconds']:.1f} s")
    return measured


def outcome(measured: dict[str, Any]) -> str:
    """One line on what was measured."""
    if "cannot" in measured:
        return f"cannot run: {measured['cannot']}"
    if "picture" in measured:
        return f"drew {measured['picture']}"
    if "shares" in measured:
        return f"{len(measured['shares'])} shares of A⁰"
    shown = ("iou", "dice", "mmd_degree", "mmd_clustering", "mmd_orbit", "novelty")
    return ", ".join(f"{name} {measured['scores'][name]:.4g}" for name in shown if name in measured["scores"])
