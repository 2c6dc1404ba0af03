"""Experiments as data: what the paper says, and what is run here.

Every file in ``experiments/`` is an experiment; ``columns.yaml`` names the graphs they run on, ``systems.yaml`` what is
compared, and ``repeats.yaml`` what is repeated from other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml  # type: ignore[import-untyped]

from gln.registry import parse_spec, write_spec

HERE = Path(__file__).parent
Scale = Literal["smoke", "full"]
BATCH = 20  # graphs predicted at a time; it changes only what the released variant predicts


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a system is made for one cell; see ``systems.yaml``."""

    title: str
    baseline: str | None = None
    model: str | None = None
    shipped: str | None = None
    fit: dict[str, Any] = field(default_factory=dict)
    loss: dict[str, Any] = field(default_factory=dict)
    steps: int | None = None  # after how many steps a network is read out
    trained_steps: int | None = None  # how many it is trained with; the same number if None
    trained_on: str | None = None  # the column whose training graphs it learns from; its own if None
    # Trained with batches of one on all graphs outside the test set and read at the last epoch with threshold 0.5:
    # nothing is chosen on validation graphs; see reproduction/together.py.
    last: bool = False
    continues: str | None = None  # the row whose training goes on here, for more epochs
    standardise: bool = False  # features to mean 0 and deviation 1 over the training graphs
    paired: bool = False  # a sampler whose graphs list their nodes in the order of the test graphs
    kept: bool = False  # a baseline whose fit is worth keeping in a folder
    cannot: str | None = None  # why there is no such cell

    @property
    def network(self) -> str:
        """The model with the steps that it is trained with."""
        assert self.model is not None
        name, options = parse_spec(self.model)
        steps = self.trained_steps or self.steps
        return write_spec(name, options | ({} if steps is None else {"steps": steps}))

    @property
    def is_floor(self) -> bool:
        """Whether the training graphs themselves are measured."""
        return not (self.baseline or self.model or self.shipped)


@dataclass(frozen=True, kw_only=True)
class Column:
    """Graphs to run on; see ``columns.yaml``."""

    title: str
    full: str
    smoke: str
    count: int | None = None
    parts: tuple[int, int, int] | None = None
    shares: tuple[float, float] | None = None  # for validation and testing, if not the usual
    diagonal: bool = False  # whether scores count its n entries as edges


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table or figure."""

    name: str
    title: str  # what it shows
    measure: str  # what a cell measures: a name in reproduction.measures.MEASURES
    cells: str  # the folder of its cells, which experiments may share
    columns: dict[str, list[str]]  # by table title: names in columns.yaml
    # By protocol: names in systems.yaml, or new names with a ``system`` and changed settings.
    rows: dict[str, dict[str, dict[str, Any]]]
    metrics: tuple[str, ...] = ()  # the numbers that its table shows
    # By row and column: the paper's numbers in the order of ``metrics``; [low, high] for bounds.
    published: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    options: dict[str, dict[str, Any]] = field(default_factory=dict)  # by scale: settings of the measure
    picture: str | None = None  # the x-axis of its curves

    def settings(self, scale: Scale, protocol: str, column: str, row: str) -> Settings:
        """How the system of one cell is made."""
        changed = dict(self.rows[protocol][row])
        base = dict(systems()[changed.pop("system", row)])
        for entry in base.pop("where", []):
            if fnmatchcase(f"{scale}/{protocol}/{column}", entry["at"]):
                base = _changed(base, {key: value for key, value in entry.items() if key != "at"})
        return Settings(**_changed(base, changed))

    def seeds(self, scale: Scale, column: str, row: str) -> list[int]:
        """The seeds (of weights, order and samples) that a cell is measured from; only one in the quick check."""
        again = repeats().get(self.cells)
        if scale == "full" and again and column in again["columns"] and row in again["rows"]:
            return [0, *again["seeds"]]
        return [0]

    def title_of(self, protocol: str, row: str) -> str:
        """What a table calls the row; a row that is only published has its name as title."""
        if row not in self.rows[protocol]:
            return row
        return str(self.rows[protocol][row].get("title") or self.system_title(protocol, row))

    def system_title(self, protocol: str, row: str) -> str:
        """What runs in a row, whatever settings the row changes."""
        return str(systems()[self.rows[protocol][row].get("system", row)]["title"])


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by name."""
    return {path.stem: _experiment(path) for path in sorted((HERE / "experiments").glob("*.yaml"))}


@cache
def systems() -> dict[str, dict[str, Any]]:
    """Every system by name, as written in the file."""
    return _read(HERE / "systems.yaml")


@cache
def columns() -> dict[str, Column]:
    """Every column by name."""
    return {name: Column(**entry) for name, entry in _read(HERE / "columns.yaml").items()}


@cache
def repeats() -> dict[str, dict[str, Any]]:
    """Which rows are repeated in which columns from which other seeds, by the folder of their cells."""
    return _read(HERE / "repeats.yaml")


class _AsPrinted(yaml.SafeLoader):
    """Keeps the digits of numbers: 1.6690 is not 1.669."""


_AsPrinted.add_constructor("tag:yaml.org,2002:float", lambda _, node: Decimal(node.value))


def _experiment(path: Path) -> Experiment:
    found = _read(path)
    rows = {
        protocol: {row: {} for row in given} if isinstance(given, list) else given
        for protocol, given in found.pop("rows").items()
    }
    found["published"] = _read(path, _AsPrinted).get("published", {})
    return Experiment(name=path.stem, rows=rows, **found)


def _read(path: Path, how: type[yaml.SafeLoader] = yaml.SafeLoader) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), how)
    return found


def _changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``; within ``fit`` and ``loss``, only the named settings change."""
    nested = {key: base.get(key, {}) | changes[key] for key in ("fit", "loss") if key in changes}
    return base | changes | nested
