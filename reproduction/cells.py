"""Cells: which ones exist, and where each is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gln.errors import GLNError
from reproduction.specs import Experiment, Scale, Settings, experiments


@dataclass(frozen=True)
class Places:
    """Where results, training runs and the pages are kept, below one folder."""

    root: Path = Path()

    def results(self, scale: Scale) -> Path:
        return self.root / "results" / "reproduction" / scale

    def runs(self, scale: Scale) -> Path:
        return self.root / "runs" / "reproduction" / scale

    def picture(self, scale: Scale, name: str) -> Path:
        """The quick check has pictures of its own: they must not be mistaken for results."""
        folder = self.root / "docs" / "images" if scale == "full" else self.results(scale) / "images"
        return folder / f"reproduction-{name}"


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
        return f"python -m reproduction {self.experiment.name} --scale {self.scale} --cell {self.name}"

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
        name = f"{self.experiment.name}-{self.name.replace('/', '-')}"
        return places.picture(self.scale, f"{name}.png")

    def run_folder(self, places: Places) -> Path:
        """The folder of its training; a system as given in ``systems.yaml`` is trained once for all experiments.

        It is kept under the column that it learns from; rows that read it out after different steps share it.
        """
        own, settings = self.experiment.rows[self.protocol][self.row], self.settings
        row = f"{own['system']}-{settings.trained_steps}" if settings.trained_steps else self.row
        row = settings.continues or row
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


def choose(names: list[str], scale: Scale, pattern: str | None = None) -> list[Cell]:
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
