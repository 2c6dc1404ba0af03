"""Experiments as data: what the paper says, and what is run here.

Every ``*.yaml`` beside this file is an experiment; ``shared/columns.yaml`` names the graphs they run on,
``shared/systems.yaml`` what is compared, and ``shared/repeats.yaml`` what is repeated from other seeds.
An experiment has

=============  ========================================================================================
``title``      what it shows
``source``     where in the paper it is
``measure``    what a cell measures: a name in ``gln.experiments.measures.MEASURES``
``cells``      the folder of its cells, which experiments may share
``metrics``    the numbers that its table shows
``columns``    by table title: names in ``columns.yaml``
``rows``       by protocol: names in ``systems.yaml``, or new names with a ``system`` and changed settings
``published``  by row and column: the paper's numbers in the order of ``metrics``; ``[low, high]`` for bounds
``reference``  the published row to compare with for rows that have none of their own
``options``    by scale: settings of the measure
``picture``    the x-axis of its curves
``notes``      what the paper leaves open or contradicts
``why``        why numbers agree or do not
=============  ========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml  # type: ignore[import-untyped]

from gln.errors import GLNError

HERE = Path(__file__).parent
Scale = Literal["smoke", "full"]


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
    standardise: bool = False  # features to mean 0 and deviation 1 over the training graphs
    paired: bool = False  # a sampler whose graphs list their nodes in the order of the test graphs
    kept: bool = False  # a baseline whose fit is worth keeping in a folder
    cannot: str | None = None  # why there is no such cell

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


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Which cells are repeated from other seeds; see ``repeats.yaml``."""

    seeds: list[int] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table or figure; see the top of this module."""

    name: str
    title: str
    source: str
    measure: str
    cells: str
    columns: dict[str, list[str]]
    rows: dict[str, dict[str, dict[str, Any]]]
    metrics: tuple[str, ...] = ()
    published: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    reference: str | None = "gln"
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    picture: str | None = None
    notes: tuple[str, ...] = ()
    why: tuple[str, ...] = ()

    def settings(self, scale: Scale, protocol: str, column: str, row: str) -> Settings:
        """How the system of one cell is made."""
        changed = dict(self.rows[protocol][row])
        base = dict(systems()[changed.pop("system", row)])
        where = base.pop("where", [])
        for entry in where:
            if fnmatchcase(f"{scale}/{protocol}/{column}", entry["at"]):
                base = _changed(base, {key: value for key, value in entry.items() if key != "at"})
        return Settings(**_changed(base, changed))

    def seeds(self, scale: Scale, column: str, row: str) -> list[int]:
        """The seeds (of weights, order and samples) that a cell is measured from; only one in the quick check."""
        repeats = all_repeats().get(self.cells, Repeats())
        again = scale == "full" and column in repeats.columns and row in repeats.rows
        return [0, *repeats.seeds] if again else [0]

    def title_of(self, protocol: str, row: str) -> str:
        """What a table calls the row."""
        own = self.rows[protocol][row]
        return str(own.get("title") or systems()[own.get("system", row)]["title"])

    def published_for(self, protocol: str, row: str) -> str | None:
        """The published row to compare ``row`` with; none for *set*, because the paper's nodes are ordered."""
        if protocol != "ordered" or row == "floor":
            return None
        name = row if row in self.published else self.reference
        return name if name in self.published else None


def experiment(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in experiments():
        raise GLNError(f"There is no experiment {name!r}; choose from {', '.join(experiments())}.")
    return experiments()[name]


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by name: the tables first, then the figures, then what is not in the paper."""
    kinds = ("table", "figure", "generator", "benchmark")

    def place(path: Path) -> tuple[int, bool, str]:
        return kinds.index(path.stem.split("-")[0]), "ablation" in path.stem, path.stem

    paths = sorted(HERE.glob("*.yaml"), key=place)
    return {path.stem: _experiment(path) for path in paths}


@cache
def systems() -> dict[str, dict[str, Any]]:
    """Every system by name, as written in the file."""
    return _read(HERE / "shared" / "systems.yaml")


@cache
def columns() -> dict[str, Column]:
    """Every column by name."""
    found = _read(HERE / "shared" / "columns.yaml")
    return {name: Column(**_checked(Column, entry, name)) for name, entry in found.items()}


@cache
def all_repeats() -> dict[str, Repeats]:
    """Every repeat, by the folder of its cells."""
    found = _read(HERE / "shared" / "repeats.yaml")
    return {name: Repeats(**_checked(Repeats, entry, name)) for name, entry in found.items()}


class Printed(float):
    """A number that is written as in the paper: 1.6690, not 1.669."""

    text: str

    def __new__(cls, text: str) -> Printed:
        self = super().__new__(cls, text)
        self.text = text
        return self

    def __str__(self) -> str:
        return self.text


class _AsPrinted(yaml.SafeLoader):
    """Reads the numbers of a file as they are written there."""


_AsPrinted.add_constructor("tag:yaml.org,2002:float", lambda _, node: Printed(node.value))


def _experiment(path: Path) -> Experiment:
    found = _checked(Experiment, _read(path) | {"name": path.stem}, path.name)
    if "published" in found:
        found["published"] = _read(path, _AsPrinted)["published"]
    rows = {
        protocol: {row: {} for row in given} if isinstance(given, list) else given
        for protocol, given in found.pop("rows").items()
    }
    for name in ("metrics", "notes", "why"):
        found[name] = tuple(found.get(name, ()))
    return Experiment(rows=rows, **found)


def _read(path: Path, how: type[yaml.SafeLoader] = yaml.SafeLoader) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), how)
    return found


def _checked(kind: type, entry: dict[str, Any], where: str) -> dict[str, Any]:
    known = {field.name for field in fields(kind)}
    for key in entry:
        if key not in known:
            raise GLNError(f"{where} has no setting {key!r}; choose from {', '.join(sorted(known))}.")
    return entry


def _changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``; within ``fit`` and ``loss``, only the named settings change."""
    nested = {key: base.get(key, {}) | changes[key] for key in ("fit", "loss") if key in changes}
    return base | changes | nested
