"""Score a trained method on its test graphs, and keep the graphs behind the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from gln.evaluation import METRICS, MMDResult, Scores, mmd, novelty
from gln.evaluation.metrics import POOLED
from gln.graphs.record import Graph
from gln.inference.evaluate import evaluated
from gln.inference.generate import generate_graphs
from gln.workflows.train_files import Parts


@dataclass(frozen=True)
class Judged:
    """The scores of a method, and what was scored.

    Attributes:
        true: the test graphs.
        made: as many graphs made by the method: on the same nodes if ``paired``, otherwise sampled.
        paired: ``made[i]`` was predicted for the nodes of ``true[i]``.
        scores: all scores by name: those of :func:`gln.evaluate`, or MMD², novelty and uniqueness.
        distance: the MMD² among them, with its floor.
        printed: the tables that a command prints.
    """

    true: list[Graph]
    made: list[Graph]
    paired: bool
    scores: Scores
    distance: MMDResult
    printed: str

    def rows(self) -> list[dict[str, Any]]:
        """A row for each score: title, direction, value, pooled value and floor."""
        rows = []
        for name, value in self.scores.items():
            if name.startswith(POOLED):
                continue
            info = METRICS[name]
            more = {
                "pooled": self.scores.get(POOLED + name),
                "floor": self.distance.floor.get(name.removeprefix("mmd_")),
            }
            rows.append({"name": name, "title": info.title, "arrow": info.arrow, "value": value, **more})
        return rows


def judge(method: Any, parts: Parts, seed: int = 0) -> Judged:
    """Score a model or predictor as :func:`gln.evaluate` does, and a sampler by as many samples as test graphs."""
    train, _, test = parts
    if isinstance(method, nn.Module) or hasattr(method, "predict"):
        scores, made, distance = evaluated(method, test, floor=train)
        return Judged(test, made, True, scores, distance, str(scores))
    made = generate_graphs(method, len(test), seed)
    distance, new = mmd(test, made, floor=train), novelty(train, made)
    scores = Scores(distance.named() | new, [distance.summary, *new.notes])
    return Judged(test, made, False, scores, distance, f"{distance}\n{new}")
