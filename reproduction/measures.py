"""What a cell measures, by name; each measure returns plain data for the cell's JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gln import edge_scores, generate, mmd, novelty, predict
from gln.baselines import Sampler
from gln.evaluation.edges import ratios
from reproduction.data import SEED, Parts
from reproduction.last import (
    CHOSEN,
    Start,
    Training,
    kept,
    predictions_of,
    started,
    starts_of,
    train,
    usual_device,
)
from reproduction.making import make_system
from reproduction.specs import BATCH, Column, Settings


@dataclass(frozen=True)
class Task:
    """One cell to measure."""

    settings: Settings
    column: Column
    parts: Parts
    run: Path  # the folder that keeps a training
    picture: Path  # where a gallery is drawn
    options: dict[str, Any]
    seed: int = SEED  # of weights, order and samples

    def make(self) -> tuple[Any, Parts, dict[str, Any]]:
        """:func:`reproduction.making.make_system`."""
        return make_system(self.settings, self.parts, self.run, self.seed)

    def last(self, start: Start | None = None) -> tuple[list[Data], dict[str, Any]]:
        """What a network predicts at its last epoch, trained now if it was not; and facts about its training."""
        folder, seed = (self.run, self.seed) if start is None else (started(self.run, start), start.run)
        epoch = self.settings.fit["epochs"]
        training = Training(folder, self.settings, self.parts, seed, (epoch,), start)
        if not training.finished and (
            failed := [job for job in train([training], usual_device()) if job.failed]
        ):
            raise RuntimeError(failed[0].failed)
        return predictions_of(folder, epoch, self.parts.test)


def measure_scores(task: Task) -> dict[str, Any]:
    """Edge scores over all n² entries and MMD² over largest components, as in the paper; for samplers only MMD²."""
    settings, parts = task.settings, task.parts
    if settings.is_floor:
        return {"scores": _mmd(parts.test, parts.known)}
    paired, probable = True, False
    if settings.last:
        made, facts = task.last()
    elif kept(task.run, CHOSEN).exists():  # trained elsewhere
        made, facts = predictions_of(task.run, CHOSEN, parts.test)
    else:
        probable = True
        system, shown, facts = task.make()
        if isinstance(system, Sampler):
            made = generate(system, len(parts.test), task.seed)
            paired = settings.paired and parts.family.order == "ordered"
        else:
            made = predict(system, shown.test, steps=settings.steps, batch_size=BATCH)
    found: dict[str, Any] = {"system": facts, "scores": _mmd(parts.test, made)}
    if paired:
        rows = edge_rows(parts.test, made, task.column.diagonal)
        scores = {name: float(row.mean()) for name, row in rows.items()}
        if not task.column.diagonal:
            scores = edge_scores(parts.test, made, entries="all")
        if not probable:  # only edges are kept
            scores.pop("average_precision", None)
        found["scores"] = scores | found["scores"]
        found["intervals"] = {name: bootstrap(row) for name, row in rows.items()}
    return found


def edge_rows(true: list[Data], made: list[Data], diagonal: bool) -> dict[str, np.ndarray]:
    """The edge scores of every graph ``[G]`` over all n² entries, by name; with ``diagonal``, its n entries are edges.

    The paper's Figures column counts them so: its accuracy and IoU together need more entries than there are edges.
    """
    counts = []
    for truth, guess in zip(true, made, strict=True):
        nodes = truth.num_nodes
        ours, theirs = (graph.edge_index[0] * nodes + graph.edge_index[1] for graph in (guess, truth))
        extra = nodes if diagonal else 0
        hits = int(torch.isin(ours, theirs).sum())
        counts.append([hits + extra, len(ours) + extra, len(theirs) + extra, nodes**2])
    return {name: row.numpy() for name, row in ratios(*torch.tensor(counts).T).items()}


def bootstrap(values: np.ndarray, draws: int = 2000) -> list[float]:
    """The middle 95 % of the mean over graphs drawn again with replacement: what another test set could have given."""
    rng = np.random.default_rng(SEED)
    means = values[rng.integers(len(values), size=(draws, len(values)))].mean(1)
    return [round(float(bound), 5) for bound in np.quantile(means, (0.025, 0.975))]


def measure_robustness_trained(task: Task) -> dict[str, Any]:
    """MMD² of networks trained and tested with random initial structures, one for every share and run.

    ``{"shares": [{"share", "runs": [scores, …]}, …]}``, with the mean IoU among the scores.
    """
    runs, facts = [], dict[str, Any]()
    for start in starts_of(task.options):
        made, facts = task.last(start)
        iou = float(edge_rows(task.parts.test, made, False)["iou"].mean())
        runs.append((start.share, _mmd(task.parts.test, made) | {"iou": iou}))
    facts.pop("curve")
    return {"system": facts, "shares": _by_share(runs)}


def measure_robustness(task: Task) -> dict[str, Any]:
    """MMD² with an empty and with random initial structures.

    ``{"empty": scores, "shares": [{"share", "runs": [scores, …]}, …]}``
    """
    model, shown, facts = task.make()

    def scores(start: Start) -> dict[str, float]:
        starts = list(start.pairs(graph.num_nodes for graph in shown.test))
        return _mmd(task.parts.test, predict(model, shown.test, known=starts, batch_size=BATCH))

    runs = [(start.share, scores(start)) for start in starts_of(task.options)]
    return {"system": facts, "empty": scores(Start(0.0, 0, 0)), "shares": _by_share(runs)}


def _by_share(runs: list[tuple[float, dict[str, float]]]) -> list[dict[str, Any]]:
    return [
        {"share": share, "runs": [scores for _, scores in group]}
        for share, group in groupby(runs, itemgetter(0))
    ]


def measure_generator(task: Task) -> dict[str, Any]:
    """MMD², novelty and uniqueness of graphs generated from noise, or drawn by a sampler."""
    if task.settings.is_floor:
        return {"scores": _mmd(task.parts.test, task.parts.known)}
    system, shown, facts = task.make()
    made = generate(system, len(task.parts.test), task.seed, like=shown.known, batch_size=BATCH)
    new = novelty(task.parts.known, made)
    return {"system": facts, "scores": _mmd(task.parts.test, made) | dict(new), "notes": list(new.notes)}


def measure_gallery(task: Task) -> dict[str, Any]:
    """A picture of the first test graphs as predicted, and how many edges are right, missing and extra in each."""
    from reproduction.gallery import save_errors  # here, as only pictures need matplotlib

    model, shown, facts = task.make()
    count, parts = task.options["graphs"], task.parts
    chosen = _one_of_each_kind(parts.test)[:count]
    made = predict(model, [shown.test[number] for number in chosen], batch_size=BATCH)
    truths = [parts.test[number] for number in chosen]
    captions = [parts.family.caption(truth).split(",")[0] for truth in truths]
    with_states = model if task.options.get("states") else None
    title = f"{task.settings.title} on {task.column.title}, {parts.family.order} protocol"
    errors = save_errors(made, truths, captions, title, task.picture, with_states)
    rows = [{"test_graph": number, **row} for number, row in zip(chosen, errors, strict=True)]
    return {"system": facts, "picture": task.picture.name, "graphs": rows}


def _one_of_each_kind(graphs: list[Data]) -> list[int]:
    """The numbers of the graphs: the first of each kind of surface, then the second of each, and so on."""
    kinds: dict[int, list[int]] = {}
    for number, graph in enumerate(graphs):
        kinds.setdefault(int(graph.get("kind", 0)), []).append(number)
    turns = zip_longest(*(numbers for _, numbers in sorted(kinds.items())))
    return [number for turn in turns for number in turn if number is not None]


def _mmd(test: list[Data], made: list[Data]) -> dict[str, float]:
    return mmd(test, made, largest_component=True).named()


MEASURES: dict[str, Callable[[Task], dict[str, Any]]] = {
    "scores": measure_scores,
    "robustness": measure_robustness,
    "robustness_trained": measure_robustness_trained,
    "generator": measure_generator,
    "gallery": measure_gallery,
}
