"""MMD results: how they were computed, and how they print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gln.evaluation.estimators import TITLES, Estimator
from gln.evaluation.metrics import number, table


class Interval(NamedTuple):
    """MMD² over random subsets: the mean, and the middle 95 % of the values."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Settings:
    """How an MMD² was computed."""

    kernels: Mapping[str, str]
    estimator: Estimator
    reference: int
    predicted: int
    floor: int
    largest_component: bool
    subsets: int
    subset_size: int


class MMDResult(dict[str, float]):
    """MMD² by descriptor; prints as a table that says how it was computed.

    ``floor`` holds the MMD² between the floor graphs and the reference, ``intervals`` the results on random
    subsets, both by descriptor and empty unless requested.
    """

    def __init__(
        self,
        values: Mapping[str, float],
        settings: Settings,
        floor: Mapping[str, float],
        intervals: Mapping[str, Interval],
    ) -> None:
        super().__init__(values)
        self.settings, self.floor, self.intervals = settings, dict(floor), dict(intervals)

    def named(self) -> dict[str, float]:
        """The values by their names in :data:`gln.evaluation.METRICS`: ``mmd_degree`` and so on."""
        return {f"mmd_{name}": value for name, value in self.items()}

    @property
    def summary(self) -> str:
        """One line that says how the values were computed, for tables that show them beside other scores."""
        kernels = (f"{name}: {kernel}" for name, kernel in self.settings.kernels.items())
        return "; ".join([self._how(), *kernels])

    def _how(self) -> str:
        made = self.settings
        graphs = f"{made.reference} reference and {made.predicted} predicted graphs"
        scope = ", largest components only" if made.largest_component else ""
        return f"MMD squared, {TITLES[made.estimator]}, {graphs}{scope}"

    def __repr__(self) -> str:
        made = self.settings
        header = ["descriptor", "kernel", "MMD² ↓"]
        rows = [[name, made.kernels[name], number(value)] for name, value in self.items()]
        notes = [self._how()]
        if self.floor:
            header.append("floor")
            for row in rows:
                row.append(number(self.floor[row[0]]))
            notes.append(f"floor: the same between {made.floor} floor graphs and the reference")
        if self.intervals:
            header += ["subsets", "95 % of them"]
            for row in rows:
                mean, low, high = map(number, self.intervals[row[0]])
                row += [mean, f"{low} … {high}"]
            size = f"{made.subset_size} graphs of each set"
            notes.append(f"subsets: mean over {made.subsets} random draws of {size}")
        return table(header, rows, notes, words=2)
