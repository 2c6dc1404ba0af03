"""The tables of the pages, made from cells; a table is a list of rows, the first of which is the header."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from statistics import mean, stdev
from typing import Any

from gln.evaluation.metrics import METRICS, number
from reproduction.cells import Places, cells_of, choose
from reproduction.specs import Experiment, Scale, columns, experiments

Measured = dict[str, dict[str, Any]]  # by cell name
Table = list[list[str]]

MISSING, CANNOT, NONE = "·", "n/a", "–"
DIGITS = 8  # a published number of up to this many characters is shown as printed
MAIN = ("community-2", "community-4", "surfaces-400-all", "surfaces-100-all", "figures")
IOU_ROWS = [("ordered", row) for row in ("constant", "stabilised", "gln")]
IOU_ROWS += [("set", row) for row in ("constant", "knn", "gln")]
MMD_ROWS = [("ordered", row) for row in ("copy", "constant", "stabilised", "gln")]
MMD_ROWS += [("set", row) for row in ("floor", "knn", "gln")]
UNCERTAIN_ROWS = [("ordered", row) for row in ("constant", "equations-1", "stabilised", "released", "gln")]
UNCERTAIN_ROWS += [("set", row) for row in ("knn", "gln")]
MMD = ("mmd_degree", "mmd_clustering", "mmd_orbit")
COMPARED = ("table-mmd", "table-scores", "table-ablation")  # what the paper gives numbers for


def make_tables(scale: Scale, places: Places) -> dict[str, str]:
    """Every table in Markdown by its name: one for each experiment, and those over several experiments."""
    cells = {name: read_cells(one, scale, places) for name, one in experiments().items()}
    tables = {}
    for name, one in experiments().items():
        tables[name] = TABLES.get(one.measure, score_tables)(one, cells[name])
    tables["reproduction-iou"] = {"": main_table(cells, "table-scores", ("iou",), IOU_ROWS)}
    tables["reproduction-mmd"] = {"": main_table(cells, "table-mmd", MMD, MMD_ROWS)}
    tables["uncertainty"] = {"": main_columns(cells, UNCERTAIN_ROWS, _with_bounds)}
    tables["paper-network"] = {"": network_table(cells)}
    tables["compared"] = {"": compared(cells)}
    tables["commands"] = {"": commands(scale, places)}
    return {name: _markdown(titled) for name, titled in tables.items()}


def read_cells(experiment: Experiment, scale: Scale, places: Places) -> Measured:
    """What was measured, by cell name."""
    found = {cell.name: cell.read(places) for cell in cells_of(experiment, scale)}
    return {name: measured for name, measured in found.items() if measured is not None}


def score_tables(experiment: Experiment, measured: Measured) -> dict[str, Table]:
    """By title, a table per protocol and group of columns: a row for each system, all metrics in one entry."""
    tables = {}
    for protocol, rows in experiment.rows.items():
        for group, names in experiment.columns.items():
            table = [["", *(columns()[name].title for name in names)]]
            if protocol == next(iter(experiment.rows)):  # the paper's own protocol comes first
                for row, numbers in experiment.published.items():
                    title = f"*{experiment.title_of(protocol, row)}, published*"
                    table.append([title, *(_published(numbers.get(name, ())) for name in names)])
            for row in rows:
                found = (of_all_seeds(measured, f"{protocol}/{name}/{row}") for name in names)
                entries = (_entry(cells, experiment.metrics, _with_spread) for cells in found)
                table.append([experiment.title_of(protocol, row), *entries])
            tables[f"{group}, {protocol}"] = table
    return tables


def robustness_tables(experiment: Experiment, measured: Measured) -> dict[str, Table]:
    """By protocol: the mean over runs, for each share of all pairs in the initial structure."""
    tables: dict[str, Table] = {}
    for cell in (cell for cell in measured.values() if "shares" in cell):
        header = ["share of all pairs in A⁰", *(f"{entry['share']:.0%}" for entry in shares_of(cell))]
        title = f"{experiment.title_of(cell['protocol'], cell['row'])}, {columns()[cell['column']].title}"
        means = (
            " / ".join(number(mean(run[metric] for run in entry["runs"])) for metric in experiment.metrics)
            for entry in shares_of(cell)
        )
        tables.setdefault(cell["protocol"], [header]).append([title, *means])
    return tables


def shares_of(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """The shares of all pairs in A⁰ with their runs; an empty A⁰, of which there is only one, has share 0."""
    empty = [{"share": 0.0, "runs": [cell["empty"]]}] if "empty" in cell else []
    return [*empty, *cell["shares"]]


def gallery_table(experiment: Experiment, measured: Measured) -> dict[str, Table]:
    """The edges right, missing and extra in all graphs of each picture."""
    table = [["", "nodes", "graphs", "edges right", "missing", "extra"]]
    for cell in (cell for cell in measured.values() if "graphs" in cell):
        title = f"{experiment.title_of(cell['protocol'], cell['row'])}, {columns()[cell['column']].title}"
        counts = (sum(graph[key] for graph in cell["graphs"]) for key in ("right", "missing", "extra"))
        table.append([title, cell["protocol"], *map(str, (len(cell["graphs"]), *counts))])
    return {"": table}


TABLES = {
    "robustness": robustness_tables,
    "robustness_trained": robustness_tables,
    "gallery": gallery_table,
}


def main_table(
    cells: dict[str, Measured], name: str, metrics: tuple[str, ...], rows: list[tuple[str, str]]
) -> Table:
    """The main columns, published and measured, averaged over seeds."""
    printed = (_published([published(name, column, metric) for metric in metrics]) for column in MAIN)
    header, *table = main_columns(cells, rows, lambda seeds: _entry(seeds, metrics, _four_decimals))
    return [header, ["*GLN, published*", "ordered", *printed], *table]


def main_columns(
    cells: dict[str, Measured],
    rows: list[tuple[str, str]],
    entry: Callable[[list[dict[str, Any]]], str],
) -> Table:
    """The main columns: an ``entry`` for the seeds of each row."""
    experiment, measured = experiments()["table-mmd"], cells["table-mmd"]  # which has all rows and all scores
    table = [["", "nodes", *(columns()[column].title for column in MAIN)]]
    for protocol, row in rows:
        title = experiment.title_of(protocol, row)
        entries = (entry(of_all_seeds(measured, f"{protocol}/{column}/{row}")) for column in MAIN)
        table.append([f"**{title}**" if row == "gln" else title, protocol, *entries])
    return table


def _with_bounds(seeds: list[dict[str, Any]]) -> str:
    """IoU: the mean over seeds, their deviation, and what other test graphs could have given."""
    text = _entry(seeds, ("iou",), _with_spread)
    bounds = [cell["intervals"]["iou"] for cell in seeds if "intervals" in cell]
    return text + (f" [{bounds[0][0]:.4f}, {bounds[0][1]:.4f}]" if bounds else "")


def network_table(cells: dict[str, Measured]) -> Table:
    """IoU of the paper's network on ordered nodes, column by column; where there are several seeds, each of them."""
    one, readings = experiments()["table-scores"], experiments()["table-readings"]
    measured = cells["table-scores"] | cells["table-readings"]
    titles = {
        row: readings.title_of("ordered", row) for row in ("equations", "equations-1", "equations-longer")
    }
    shown = {"constant": "constant", **titles, "stabilised": "stabilised", "released": "released"}
    table = [["", "published", *(title.removeprefix("PaperGLN ") for title in shown.values())]]
    for name in (name for group in one.columns.values() for name in group):
        found = [of_all_seeds(measured, f"ordered/{name}/{row}") for row in shown]
        entries = [_entry(seeds, ("iou",), _each) for seeds in found]
        table.append([columns()[name].title, str(published("table-scores", name, "iou")), *entries])
    return table


def published(name: str, column: str, metric: str) -> Decimal:
    """GLN's number in a table of the paper."""
    table = experiments()[name]
    found: Decimal = table.published["gln"][column][table.metrics.index(metric)]
    return found


def compared(cells: dict[str, Measured]) -> Table:
    """How many numbers of each row on ordered nodes are as good as published under its name, or else for GLN."""
    counts: dict[tuple[str, str], dict[str, str]] = {}
    for experiment in map(experiments().__getitem__, COMPARED):
        for row in experiment.rows["ordered"]:
            other = row if row in experiment.published else "gln"
            if row == "floor" or other not in experiment.published:
                continue
            good = []
            for column, numbers in experiment.published[other].items():
                for metric, there in zip(experiment.metrics, numbers, strict=False):
                    here = mean_of(cells[experiment.name], f"ordered/{column}/{row}", metric)
                    if here is not None:
                        good.append(as_good(here, there, METRICS[metric].higher_is_better))
            titles = experiment.title_of("ordered", row), experiment.title_of("ordered", other)
            counts.setdefault(titles, {})[experiment.name] = (
                f"{sum(good)} of {len(good)}" if good else MISSING
            )
    header = ["measured", "against published", *(f"`{name}`" for name in COMPARED)]
    return [
        header,
        *([*titles, *(found.get(name, "") for name in COMPARED)] for titles, found in counts.items()),
    ]


def as_good(here: float, published: Decimal, higher_is_better: bool) -> bool:
    """Whether ``here``, rounded to the published digits, is at least as good."""
    rounded = Decimal(here).quantize(published)
    return rounded >= published if higher_is_better else rounded <= published


def commands(scale: Scale, places: Places) -> Table:
    """Where every cell comes from, or why there is none."""
    table = [["command", "seed of the graphs", "device", "seconds", "training seconds", "commit"]]
    for cell in choose([], scale):
        found = cell.read(places) or {"cannot": cell.settings.cannot or MISSING}
        if "cannot" in found:
            facts = ["", found["cannot"], "", "", ""]
        else:
            training = found.get("system", {}).get("training_seconds", "")
            head, dash, rest = (found["commit"] or "unknown").partition("-")
            facts = [found["seed"], found["device"], found["seconds"], training, head[:12] + dash + rest]
        table.append([f"`{cell.command}`", *map(str, facts)])
    return table


def of_all_seeds(measured: Measured, name: str) -> list[dict[str, Any]]:
    """The cell of this name and its repeats from other seeds."""
    return [cell for key, cell in measured.items() if key == name or key.startswith(f"{name}@")]


def mean_of(measured: Measured, name: str, metric: str) -> float | None:
    """The mean of a cell over the seeds that were run."""
    values = _values(of_all_seeds(measured, name), metric)
    return mean(values) if values else None


def _values(cells: list[dict[str, Any]], metric: str) -> list[float]:
    return [cell["scores"][metric] for cell in cells if metric in cell.get("scores", {})]


def _entry(cells: list[dict[str, Any]], metrics: Iterable[str], written: Any) -> str:
    if not cells:
        return MISSING
    if all("cannot" in cell for cell in cells):
        return CANNOT
    values = (_values(cells, metric) for metric in metrics)
    return " / ".join(written(found) if found else NONE for found in values)


def _with_spread(values: list[float]) -> str:
    """The mean and, with several seeds, their standard deviation."""
    return number(mean(values)) + (f" ± {number(stdev(values))}" if len(values) > 1 else "")


def _each(values: list[float]) -> str:
    """Every seed's value."""
    return ", ".join(f"{value:.4f}" for value in values)


def _four_decimals(values: list[float]) -> str:
    """The mean, without a minus sign on zero."""
    return f"{round(mean(values), 4) + 0.0:.4f}"


def _published(numbers: Iterable[Any]) -> str:
    return " / ".join(map(_printed, numbers)) or NONE


def _printed(value: Decimal | list[Decimal]) -> str:
    """As in the paper, unless that is more digits than anyone reads."""
    bounds = value if isinstance(value, list) else [value]
    return "–".join(str(bound) if len(str(bound)) <= DIGITS else f"{bound:.6f}" for bound in bounds)


def _markdown(tables: dict[str, Table]) -> str:
    """The tables below their titles."""
    parts = []
    for title, (header, *rows) in tables.items():
        lines = [header, ["---"] * len(header), *rows]
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        parts.append(f"\n**{title}**\n\n{table}" if title else f"\n{table}")
    return "".join(parts) + "\n"
