"""Markdown from cells: tables, and how they compare with the published numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from statistics import mean, stdev
from typing import Any

from gln.evaluation.metrics import METRICS, number
from gln.experiments.runner import Cell, Places, cells_of
from gln.experiments.specs import Experiment, Printed, Scale, columns, experiments

MISSING, CANNOT = "·", "n/a"
PUBLISHED = {"gln": "GLN"}  # titles of published rows, which a table need not run itself
DIGITS = 8  # a published number of up to this many characters is shown as printed
LISTED = 6  # how many worse-than-published numbers are named per row

Measured = dict[str, dict[str, Any]]  # by cell name


def read_cells(experiment: Experiment, scale: Scale, places: Places) -> Measured:
    """What was measured, by cell name."""
    found = {cell.name: cell.read(places) for cell in cells_of(experiment, scale)}
    return {name: measured for name, measured in found.items() if measured is not None}


def read_all(scale: Scale, places: Places) -> dict[str, Measured]:
    """What was measured, by experiment name."""
    return {name: read_cells(experiment, scale, places) for name, experiment in experiments().items()}


def score_tables(experiment: Experiment, measured: Measured) -> list[str]:
    """One table per protocol and group of columns: a row for each system, all metrics in one entry."""
    lines = [
        f"Each entry is {' / '.join(f'{METRICS[m].title} {METRICS[m].arrow}' for m in experiment.metrics)}.",
        "",
    ]
    for protocol, rows in experiment.rows.items():
        for group, names in experiment.columns.items():
            lines += [f"**{group}, {protocol}**", ""]
            table = [["", *(columns()[name].title for name in names)]]
            if protocol == next(iter(experiment.rows)):  # the paper's own protocol comes first
                for row, numbers in experiment.published.items():
                    label = experiment.title_of(protocol, row) if row in rows else PUBLISHED.get(row, row)
                    table.append(
                        [f"*{label}, published*", *(_published(numbers.get(name)) for name in names)]
                    )
            for row in rows:
                entries = (
                    _entry(of_all_seeds(measured, f"{protocol}/{name}/{row}"), experiment.metrics)
                    for name in names
                )
                table.append([experiment.title_of(protocol, row), *entries])
            lines += [*markdown(table), ""]
    return lines


def robustness_tables(experiment: Experiment, measured: Measured) -> list[str]:
    """The mean over runs, for each share of all pairs in the initial structure."""
    lines = [
        f"Each entry is {' / '.join(METRICS[m].title for m in experiment.metrics)}, averaged over runs.",
        "",
    ]
    for protocol in experiment.rows:
        found = [
            cell for name, cell in measured.items() if name.startswith(f"{protocol}/") and "shares" in cell
        ]
        if not found:
            continue
        shares = sorted({entry["share"] for cell in found for entry in shares_of(cell)})
        table = [["share of all pairs in A⁰", *(f"{share:.0%}" for share in shares)]]
        for cell in found:
            means = {
                entry["share"]: " / ".join(
                    number(mean(run[metric] for run in entry["runs"])) for metric in experiment.metrics
                )
                for entry in shares_of(cell)
            }
            label = f"{experiment.title_of(protocol, cell['row'])}, {columns()[cell['column']].title}"
            table.append([label, *(means.get(share, MISSING) for share in shares)])
        lines += [f"**{protocol}**", "", *markdown(table), ""]
    return lines


def shares_of(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """The shares of all pairs in A⁰ with their runs; an empty A⁰, of which there is only one, has share 0."""
    empty = [{"share": 0.0, "runs": [cell["empty"]]}] if "empty" in cell else []
    return [*empty, *cell.get("shares", ())]


@dataclass(frozen=True)
class Compared:
    """A measured row against a published one."""

    title: str
    published: str
    total: int  # numbers that both rows have
    worse: list[str]  # those in which the measured row is worse, as text

    @property
    def good(self) -> int:
        return self.total - len(self.worse)


def compared(experiment: Experiment, measured: Measured) -> list[Compared]:
    """Every measured row against the published row of its name, or else against the reference."""
    found = []
    for protocol, rows in experiment.rows.items():
        for row in rows:
            published = experiment.published_for(protocol, row)
            pairs = [] if published is None else list(_pairs(experiment, measured, protocol, row, published))
            if published is not None and pairs:
                label = PUBLISHED.get(published) or experiment.title_of(protocol, published)
                worse = [text for text, good in pairs if not good]
                found.append(Compared(experiment.title_of(protocol, row), label, len(pairs), worse))
    return found


def comparison(experiment: Experiment, measured: Measured) -> list[str]:
    """How many numbers of each row are as good as published, and which are worse."""
    table = [["measured", "against published", "numbers", "as good or better", "worse"]]
    for row in compared(experiment, measured):
        more = f"; and {len(row.worse) - LISTED} more" if len(row.worse) > LISTED else ""
        worse = "; ".join(row.worse[:LISTED]) + more
        table.append([row.title, row.published, str(row.total), str(row.good), worse])
    return [*markdown(table), ""] if len(table) > 1 else []


def _pairs(
    experiment: Experiment, measured: Measured, protocol: str, row: str, published: str
) -> Iterable[tuple[str, bool]]:
    for column, numbers in experiment.published[published].items():
        for metric, there in zip(experiment.metrics, numbers, strict=False):
            here = mean_of(measured, f"{protocol}/{column}/{row}", metric)
            if here is not None:
                title = METRICS[metric].title
                text = f"{columns()[column].title} {title} {number(here)} (published {_printed(there)})"
                yield text, as_good(here, there, METRICS[metric].higher_is_better)


def as_good(here: float, published: Printed, higher_is_better: bool) -> bool:
    """Whether ``here``, rounded to the published digits, is at least as good."""
    exponent = Decimal(str(published)).as_tuple().exponent
    rounded = round(here, -int(exponent))
    return rounded >= published if higher_is_better else rounded <= published


def provenance(experiment: Experiment, scale: Scale, measured: Measured) -> list[str]:
    """The command, seeds, device, seconds and commit of every cell, and the cells still to be run."""
    table = [["command", "graph seed", "training seed", "device", "seconds", "training seconds", "commit"]]
    missing: defaultdict[str, list[Cell]] = defaultdict(list)
    never: defaultdict[str, list[str]] = defaultdict(list)
    for cell in cells_of(experiment, scale):
        found = measured.get(cell.name)
        if reason := cannot(cell, found):
            never[reason].append(cell.name)
        elif found is None:
            missing[f"{cell.protocol}, {experiment.title_of(cell.protocol, cell.row)}"].append(cell)
        else:
            training = found.get("system", {}).get("training_seconds", "")
            table.append(
                [f"`{found['command']}`", str(found["seed"]), str(cell.seed), found["device"],
                 str(found["seconds"]), str(training), short_commit(found["commit"])]
            )  # fmt: skip
    lines = [f"- {CANNOT}: {', '.join(names)}: {reason}." for reason, names in never.items()]
    for label, cells in missing.items():
        lines.append(
            f"- {MISSING} not measured yet: {label} ({len(cells)}), `{cells[0].command}`{_more(cells)}"
        )
    if lines:
        lines = ["Not in the tables:", "", *lines]
    if (source := source_of(experiment, scale)) is not None:
        lines += ["", f"The commands are those of `{source}`, whose cells these are."]
    elif len(table) > 1:
        lines += [
            "",
            "<details><summary>The command behind every number</summary>",
            "",
            *markdown(table),
            "",
            "</details>",
        ]
    return [*lines, ""]


def source_of(experiment: Experiment, scale: Scale) -> str | None:
    """The name of an earlier experiment with all the cells of this one, if there is one."""
    keys = {cell.key for cell in cells_of(experiment, scale)}
    earlier = takewhile(lambda other: other.name != experiment.name, experiments().values())
    return next((o.name for o in earlier if keys <= {cell.key for cell in cells_of(o, scale)}), None)


def cannot(cell: Cell, found: dict[str, Any] | None) -> str | None:
    """Why there is no such number: found out when it was tried, or known before; ``None`` if there can be one."""
    return cell.settings.cannot if found is None else found.get("cannot")


def short_commit(commit: str | None) -> str:
    """Twelve digits, and whether there were uncommitted changes."""
    head, dash, rest = (commit or "unknown").partition("-")
    return head[:12] + dash + rest


def markdown(table: list[list[str]]) -> list[str]:
    """The lines of a table whose first row is the header."""
    header, *rows = [f"| {' | '.join(row)} |" for row in table]
    return [header, "|" + " --- |" * len(table[0]), *rows]


def _more(cells: list[Cell]) -> str:
    others = ", ".join(f"{cell.column}{cell.mark}" for cell in cells[1:])
    return f" and likewise for {others}" if others else ""


def of_all_seeds(measured: Measured, name: str) -> list[dict[str, Any]]:
    """The cell of this name and its repeats from other seeds."""
    return [cell for key, cell in measured.items() if key == name or key.startswith(f"{name}@")]


def values_of(cells: list[dict[str, Any]], metric: str) -> list[float]:
    return [cell["scores"][metric] for cell in cells if metric in cell.get("scores", {})]


def mean_of(measured: Measured, name: str, metric: str) -> float | None:
    """The mean of a cell over the seeds that were run."""
    values = values_of(of_all_seeds(measured, name), metric)
    return mean(values) if values else None


def _entry(cells: list[dict[str, Any]], metrics: Iterable[str]) -> str:
    if not cells:
        return MISSING
    if all("cannot" in cell for cell in cells):
        return CANNOT
    return " / ".join(_with_spread(values_of(cells, metric)) for metric in metrics)


def _with_spread(values: list[float]) -> str:
    """The mean and, with several seeds, their standard deviation."""
    if len(values) < 2:
        return number(values[0]) if values else "–"
    return f"{number(mean(values))} ± {number(stdev(values))}"


def _published(numbers: list[Any] | None) -> str:
    return "–" if numbers is None else " / ".join(map(_printed, numbers))


def _printed(value: Printed | list[Printed]) -> str:
    """As in the paper, unless that is more digits than anyone reads."""
    bounds = value if isinstance(value, list) else [value]
    return "–".join(str(bound) if len(str(bound)) <= DIGITS else f"{bound:.6f}" for bound in bounds)
