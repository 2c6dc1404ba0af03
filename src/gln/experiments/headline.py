"""Short tables of the paper's main columns, also shown in the README, and the bar that GLN has to clear."""

from __future__ import annotations

from collections.abc import Iterable

from gln.evaluation.metrics import METRICS
from gln.experiments.specs import Printed, all_repeats, columns, experiment
from gln.experiments.tables import CANNOT, MISSING, Measured, as_good, mean_of, of_all_seeds, values_of

MAIN = ("community-2", "community-4", "surfaces-400-all", "surfaces-100-all", "figures")
IOU, MMD = ("iou",), ("mmd_degree", "mmd_clustering", "mmd_orbit")
TABLES: dict[tuple[str, ...], str] = {IOU: "table-scores", MMD: "table-mmd"}
ROWS: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {
    IOU: {"ordered": ("constant", "stabilised", "gln"), "set": ("constant", "knn", "gln")},
    MMD: {"ordered": ("copy", "constant", "stabilised", "gln"), "set": ("floor", "knn", "gln")},
}
SHOWN = 4  # decimals, as the paper prints its MMD²


def iou_table(cells: dict[str, Measured]) -> list[list[str]]:
    """IoU in the main columns, published and measured."""
    return _table(cells, IOU)


def mmd_table(cells: dict[str, Measured]) -> list[list[str]]:
    """MMD² of degrees, clustering and orbits in the main columns, published and measured."""
    return _table(cells, MMD)


def bar_table(cells: dict[str, Measured]) -> list[list[str]]:
    """Whether GLN on ordered nodes reaches the published numbers and beats the constant, for each main column."""
    lines = {
        "IoU at least published": [_yes(has_published(cells, column, "gln", IOU)) for column in MAIN],
        "IoU above the constant": [_yes(above(cells, column, "gln", "constant")) for column in MAIN],
        "MMD² at most published (degree / clustering / orbit)": [
            _once([_yes(has_published(cells, column, "gln", (metric,))) for metric in MMD]) for column in MAIN
        ],
    }
    return [_header("GLN, ordered"), *([title, *entries] for title, entries in lines.items())]


def behind(cells: dict[str, Measured]) -> str:
    """How many test graphs, and how many seeds of each network, the means are taken over."""
    graphs = [cells["table-mmd"].get(f"ordered/{column}/constant", {}).get("test_graphs") for column in MAIN]
    table, parts = experiment(TABLES[IOU]), []
    for protocol, rows in ROWS[IOU].items():
        for row in (row for row in rows if row in all_repeats()[table.cells].rows):
            found = (of_all_seeds(_both(cells), f"{protocol}/{column}/{row}") for column in MAIN)
            counts = list(dict.fromkeys(str(len(values_of(seeds, "iou"))) for seeds in found))
            parts.append(f"{table.title_of(protocol, row)}, {protocol} ({' or '.join(counts)})")
    listed = ", ".join(MISSING if count is None else str(count) for count in graphs)
    return f"Test graphs per column: {listed}. Seeds: {'; '.join(parts)}; other rows (1)."


def published(column: str, metric: str) -> Printed:
    """GLN's number in the paper."""
    table = experiment(TABLES[MMD if metric in MMD else IOU])
    number: Printed = table.published["gln"][column][table.metrics.index(metric)]
    return number


def score(cells: dict[str, Measured], protocol: str, column: str, row: str, metric: str) -> float | None:
    """What was measured for the paper's tables, averaged over seeds; ``None`` if nothing was."""
    return mean_of(_both(cells), f"{protocol}/{column}/{row}", metric)


def has_published(cells: dict[str, Measured], column: str, row: str, metrics: Iterable[str]) -> bool | None:
    """Whether all of these numbers are as good as GLN's in the paper, at the published digits."""
    found = [(metric, score(cells, "ordered", column, row, metric)) for metric in metrics]
    good = [
        None if here is None else as_good(here, published(column, metric), METRICS[metric].higher_is_better)
        for metric, here in found
    ]
    return None if None in good else all(good)


def above(
    cells: dict[str, Measured], column: str, row: str, other: str, protocol: str = "ordered"
) -> bool | None:
    """Whether the IoU of ``row``, as shown, is higher than that of ``other``."""
    ours, theirs = (score(cells, protocol, column, name, "iou") for name in (row, other))
    return None if ours is None or theirs is None else round(ours, SHOWN) > round(theirs, SHOWN)


def short(value: float) -> str:
    """Four decimals, without a minus sign on zero."""
    return f"{round(value, SHOWN) + 0.0:.{SHOWN}f}"


def _both(cells: dict[str, Measured]) -> Measured:
    """The cells of both tables, which share a folder but not all rows."""
    return cells["table-scores"] | cells["table-mmd"]


def _table(cells: dict[str, Measured], metrics: tuple[str, ...]) -> list[list[str]]:
    table = experiment(TABLES[metrics])
    printed = (" / ".join(f"{published(column, m):.{_digits(m)}f}" for m in metrics) for column in MAIN)
    lines = [_header("", "nodes"), ["*GLN, published*", "ordered", *printed]]
    for protocol, rows in ROWS[metrics].items():
        for row in rows:
            title = table.title_of(protocol, row)
            entries = [_entry(cells, f"{protocol}/{column}/{row}", metrics) for column in MAIN]
            lines.append([f"**{title}**" if row == "gln" else title, protocol, *entries])
    return lines


def _entry(cells: dict[str, Measured], name: str, metrics: tuple[str, ...]) -> str:
    measured = _both(cells)
    found = of_all_seeds(measured, name)
    if found and all("cannot" in cell for cell in found):
        return CANNOT
    means = [mean_of(measured, name, metric) for metric in metrics]
    if all(value is None for value in means):
        return MISSING
    return " / ".join("–" if value is None else short(value) for value in means)


def _digits(metric: str) -> int:
    return 3 if metric in IOU else SHOWN


def _header(*first: str) -> list[str]:
    return [*first, *(columns()[column].title for column in MAIN)]


def _yes(answer: bool | None) -> str:
    return MISSING if answer is None else "yes" if answer else "**no**"


def _once(words: list[str]) -> str:
    return words[0] if len(set(words)) == 1 else " / ".join(words)
