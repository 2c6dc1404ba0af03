"""How published tables judge a generator of graphs: valid, unique and novel graphs, and MMD against training graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from gln.errors import GLNError
from gln.evaluation.counting import Device
from gln.evaluation.descriptors import DESCRIPTORS
from gln.evaluation.intervals import Ends, students, wilsons
from gln.evaluation.kernels import Kernel, estimate
from gln.evaluation.metrics import Scores
from gln.evaluation.novelty import as_undirected, tell_apart
from gln.evaluation.validity import Valid
from gln.graphs.convert import CheckedGraphs

TABLES = ("degree", "clustering", "orbit", "spectrum", "wavelet")
GROUP = 40  # graphs that the tables compare with the test graphs
DIGITS = 4  # of the training graphs' MMD² in the ratio, as published; one of 0, as of trees' clustering, is left out


def generation_scores(
    train: Iterable[Any],
    test: Iterable[Any],
    made: Iterable[Any],
    valid: Valid | Sequence[bool] | None = None,
    *,
    group: int = GROUP,
    device: Device = None,
) -> Scores:
    """The scores of published tables (SPECTRE, DiGress, DeFoG, …), with intervals.

    ====================  ======================================================================================
    ``valid``             the share of graphs that are valid
    ``uniqueness``        distinct graphs by graphs, and ``novelty``: as in :func:`gln.novelty`
    ``vun``               distinct graphs that are valid and new, by graphs
    ``mmd_degree``, …     MMD² to the test graphs in groups of ``group``: Gaussian of total variation, biased
    ``mmd_ratio``         the mean over descriptors of this MMD² by that of the training graphs; 1 is perfect
    ====================  ======================================================================================

    Args:
        train: the graphs that the generator learned from.
        test: those that it is compared with.
        made: what it generated; graphs beyond the last whole group do not enter the MMD².
        valid: whether a graph is valid, or whether each of ``made`` is; ``None``: there is no rule.
        group: graphs compared with the test graphs at a time: a biased MMD² depends on how many there are.
        device: where to compute.
    """
    known, reference, graphs = (
        as_undirected(some, name) for some, name in ((train, "train"), (test, "test"), (made, "made"))
    )
    if len(graphs) < group:
        raise GLNError(f"Got {len(graphs)} generated graphs; expected at least {group}, or a smaller group.")
    scores, ends, notes = _distances(known, reference, graphs, group, device)
    kind_of, new, undecided = tell_apart(known, graphs)
    shares = {
        "uniqueness": len(set(kind_of)) / len(graphs),
        "novelty": sum(kind in new for kind in kind_of) / len(graphs),
    }
    if valid is not None:
        fit = [valid(graph) for graph in graphs] if callable(valid) else list(valid)
        shares = {"valid": float(np.mean(fit))} | shares
        shares["vun"] = sum(fit[kind] for kind in new) / len(graphs)
    if undecided:
        notes.append(f"{undecided} pairs were too hard to tell apart and count as the same graph")
    ends |= {name: wilsons(share, len(graphs)) for name, share in shares.items()}
    return Scores(shares | scores, notes, ends)


def _distances(
    train: CheckedGraphs, test: CheckedGraphs, made: CheckedGraphs, group: int, device: Device
) -> tuple[dict[str, float], dict[str, Ends], list[str]]:
    """MMD² and ratio, their intervals over groups, and notes."""
    sets = (test, train, made)
    everything = CheckedGraphs(graph for some in sets for graph in some)
    groups = len(made) // group
    member = torch.zeros(groups, len(made), dtype=torch.float64)
    member[torch.arange(groups * group) // group, torch.arange(groups * group)] = 1
    each: dict[str, np.ndarray] = {}
    floor: dict[str, float] = {}
    for name in TABLES:
        descriptor = DESCRIPTORS[name]
        kernel = Kernel("tv", descriptor.kernel.sigma)
        x, t, y = descriptor.compute(everything, device).split([len(some) for some in sets])
        xx = kernel(x, x)
        one = xx.new_ones(1, len(x))
        floor[name] = float(
            estimate(xx, kernel(x, t), kernel(t, t), one, xx.new_ones(1, len(t)), "biased").abs()
        )
        found = estimate(
            xx, kernel(x, y), kernel(y, y), one.expand(groups, -1), member.to(xx.device), "biased"
        )
        each[name] = found.abs().numpy(force=True)  # the tables take the absolute value
    base = {name: round(value, DIGITS) for name, value in floor.items() if round(value, DIGITS)}
    values = {f"mmd_{name}": found for name, found in each.items()}
    if base:
        values["mmd_ratio"] = np.mean([each[name] / value for name, value in base.items()], axis=0)
    ends = {name: students(found, np.inf) for name, found in values.items()} if groups > 1 else {}
    notes = [
        f"{len(made)} generated, {len(test)} test and {len(train)} training graphs; MMD²: Gaussian TV, biased, mean "
        f"over {groups} groups of {group}",
        "MMD² of the training graphs: " + ", ".join(f"{name} {floor[name]:.2g}" for name in TABLES),
    ]
    return {name: float(found.mean()) for name, found in values.items()}, ends, notes
