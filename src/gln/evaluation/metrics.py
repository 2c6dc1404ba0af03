"""The metrics: the name, better direction, range and reference of each.

Every metric that the package computes has an entry in :data:`METRICS`, and
``tests/evaluation/test_metrics.py`` fails until it has a test there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat


@dataclass(frozen=True)
class MetricInfo:
    """How to read one metric."""

    name: str
    title: str
    higher_is_better: bool
    low: float
    high: float
    reference: str

    @property
    def arrow(self) -> str:
        """The direction of better values."""
        return "↑" if self.higher_is_better else "↓"


_RETRIEVAL = "Manning, Raghavan, Schütze 2008, Introduction to Information Retrieval, ch. 8"
_CALIBRATION = "Naeini, Cooper, Hauskrecht 2015"
_NOVELTY = "Weisfeiler, Leman 1968, then exact isomorphism"
_GRAPHRNN = "Gretton et al. 2012, A Kernel Two-Sample Test; You et al. 2018, GraphRNN"
_SPECTRE = "Martinkus et al. 2022, SPECTRE"
_RAND = "Hubert, Arabie 1985, Comparing Partitions"

METRICS: Mapping[str, MetricInfo] = {
    metric.name: metric
    for metric in (
        MetricInfo("accuracy", "accuracy", True, 0, 1, _RETRIEVAL),
        MetricInfo("iou", "IoU", True, 0, 1, "Jaccard 1901"),
        MetricInfo("dice", "dice (F1)", True, 0, 1, "Dice 1945"),
        MetricInfo("precision", "precision", True, 0, 1, _RETRIEVAL),
        MetricInfo("recall", "recall", True, 0, 1, _RETRIEVAL),
        MetricInfo("average_precision", "average precision", True, 0, 1, _RETRIEVAL),
        MetricInfo("exact", "graphs exactly right", True, 0, 1, "Serviansky et al. 2020, Set2Graph"),
        MetricInfo("calibration_error", "calibration error", False, 0, 1, _CALIBRATION),
        # Below 0 only by chance: the unbiased estimator, or a kernel that is not positive definite.
        MetricInfo("mmd_degree", "MMD² degree", False, -2, 2, _GRAPHRNN),
        MetricInfo("mmd_clustering", "MMD² clustering", False, -2, 2, _GRAPHRNN),
        MetricInfo("mmd_orbit", "MMD² orbit", False, -2, 2, f"{_GRAPHRNN}; Hočevar, Demšar 2014, ORCA"),
        MetricInfo("mmd_spectrum", "MMD² spectrum", False, -2, 2, "Liao et al. 2019, GRAN"),
        MetricInfo("mmd_wavelet", "MMD² wavelet", False, -2, 2, _SPECTRE),
        MetricInfo("mmd_ratio", "MMD² by that of training graphs", False, 0, math.inf, _SPECTRE),
        MetricInfo("ari_components", "adjusted Rand, components", True, -1, 1, _RAND),
        MetricInfo("ari_regions", "adjusted Rand, true regions", True, -1, 1, _RAND),
        MetricInfo("type_accuracy", "pairs with the right type", True, 0, 1, _RETRIEVAL),
        MetricInfo("type_f1_micro", "F1 of types, micro", True, 0, 1, _RETRIEVAL),
        MetricInfo("type_f1_macro", "F1 of types, macro", True, 0, 1, _RETRIEVAL),
        MetricInfo("type_calibration_error", "calibration error of types", False, 0, 1, _CALIBRATION),
        MetricInfo("directions", "directions right", True, 0, 1, _RETRIEVAL),
        MetricInfo(
            "weight_error", "weights, mean absolute error", False, 0, math.inf, "Willmott, Matsuura 2005"
        ),
        MetricInfo("weight_r2", "weights, R²", True, -math.inf, 1, "Wright 1921, Correlation and Causation"),
        MetricInfo("node_accuracy", "nodes with the right type", True, 0, 1, _RETRIEVAL),
        MetricInfo(
            "exact_kinds", "graphs exactly right, with kinds", True, 0, 1, "Serviansky et al. 2020, Set2Graph"
        ),
        MetricInfo("valid", "valid graphs", True, 0, 1, _SPECTRE),
        MetricInfo("vun", "valid, unique and novel graphs", True, 0, 1, _SPECTRE),
        MetricInfo("novelty", "novel graphs", True, 0, 1, _NOVELTY),
        MetricInfo("uniqueness", "distinct graphs", True, 0, 1, _NOVELTY),
    )
}

POOLED = "pooled_"  # prefix of a score over the entries of all graphs together


class Scores(dict[str, float]):
    """Scores by metric name that print as a table; ``notes`` are printed under it.

    A key is a name in :data:`METRICS`, with the prefix ``pooled_`` where all graphs count as one.

    ==============  =================================================================================
    ``intervals``   the ends of the 95 % intervals of some scores
    ``rules``       the scores of simple rules on the same graphs, by the words for the rule
    ``tables``      what is printed below: a :class:`gln.evaluation.TypeTable` where edges have types
    ``floor``       the MMD² between graphs of one distribution, by descriptor
    ==============  =================================================================================
    """

    def __init__(
        self,
        scores: Mapping[str, SupportsFloat],
        notes: Sequence[str] = (),
        intervals: Mapping[str, tuple[float, float]] | None = None,
        rules: Mapping[str, Mapping[str, float]] | None = None,
        tables: Sequence[object] = (),
        floor: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__({name: float(value) for name, value in scores.items()})
        self.notes = tuple(notes)
        self.intervals, self.floor = dict(intervals or {}), dict(floor or {})
        self.tables = tuple(tables)
        self.rules = {words: dict(values) for words, values in (rules or {}).items()}

    @property
    def verdict(self) -> str:
        """That a rule reaches a higher F1, if one does."""
        best = max(self.rules, key=lambda words: self.rules[words]["dice"], default=None)
        if best is None or self.rules[best]["dice"] <= self["dice"]:
            return ""
        theirs, ours = number(self.rules[best]["dice"]), number(self["dice"])
        if theirs == ours:
            return ""
        return f"A simple rule does better: {best} reaches F1 {theirs}, the model {ours}."

    def rows(self) -> list[dict[str, Any]]:
        """A row for each score: title, direction, value, interval, pooled value, floor, and the value of each rule."""
        rows = []
        for name in self:
            if name.removeprefix(POOLED) in self and name.startswith(POOLED):
                continue  # it stands in the row of the other
            info = METRICS.get(name.removeprefix(POOLED))
            row = {
                "name": name,
                "title": info.title if info else name,
                "arrow": info.arrow if info else "",
                "value": self[name],
                "interval": self.intervals.get(name),
                "pooled": self.get(POOLED + name),
                "rules": [values.get(name) for values in self.rules.values()],
                "floor": self.floor.get(name.removeprefix("mmd_")),
            }
            rows.append(row)
        return rows

    def __repr__(self) -> str:
        shown, legend = self.rows(), []
        columns = {"value": [number(row["value"]) for row in shown]}
        if self.intervals:
            columns["95 % interval"] = [interval(row["interval"]) for row in shown]
        if any(row["pooled"] is not None for row in shown):
            columns["pooled"] = [number(row["pooled"]) for row in shown]
            legend = [
                "value: mean over graphs where a pooled score is given; pooled: all graphs counted as one"
            ]
        for place, words in enumerate(self.rules):
            columns[words] = [number(row["rules"][place]) for row in shown]
        titles = [f"{row['title']} {row['arrow']}".rstrip() for row in shown]
        rows = zip(titles, *columns.values(), strict=True)
        scores = table(["metric", *columns], rows, [*legend, *self.notes])
        printed = "\n\n".join([scores, *map(str, self.tables)])
        return f"{self.verdict}\n\n{printed}" if self.verdict else printed


def number(value: float | None) -> str:
    """A value with four decimals, or three digits where it is tiny; empty for ``None``."""
    if value is None:
        return ""
    return f"{value:.4f}" if value == 0 or abs(value) >= 1e-3 else f"{value:.3g}"


def interval(ends: tuple[float, float] | None) -> str:
    """The ends of an interval; empty for ``None``."""
    return "" if ends is None else f"{number(ends[0])} – {number(ends[1])}"


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = (), words: int = 1
) -> str:
    """Text columns under a header, with notes below; the first ``words`` columns are aligned left."""
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["─" * width for width in widths])
    for line in lines:
        for column, width in enumerate(widths):
            line[column] = line[column].ljust(width) if column < words else line[column].rjust(width)
    return "\n".join([*("  ".join(line).rstrip() for line in lines), *notes])
