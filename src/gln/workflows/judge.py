"""Score a trained method on its test graphs, and choose what its report shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from gln.baselines.neighbours import FROM_TRAINING, Rules, fit_rules, load_rules, rules_of_scored
from gln.errors import GLNError, about
from gln.evaluation import Scores, edge_scores, mmd, novelty
from gln.families import parse_family
from gln.graphs.record import Graph
from gln.inference.evaluate import evaluated
from gln.inference.generate import generate_graphs
from gln.inference.predict import AS_TRAINED, Choice
from gln.inference.steps import Seen, every_step
from gln.io import ReadOptions
from gln.training.data import describe
from gln.workflows import Say, Skip, silent
from gln.workflows.divide import TrainValTest
from gln.workflows.methods import check_fit, comparable, load, load_for
from gln.workflows.runs import RunFacts, has_learned_from, read_run, run_data
from gln.workflows.training_data import find_data, is_family, read_labelled
from gln.workflows.views import View, name_of

EACH = 2  # test graphs shown of the best, the median and the worst
LARGEST = 5_000  # the most nodes of a graph that is shown
WATCHED = 1_000  # up to this many nodes in all graphs shown, every step is computed

NO_MODEL = "There is no model yet: the first epoch is not finished."
NO_DATA = (
    "This folder does not say what the run learned from, so its test graphs are unknown and there are no scores. "
    "gln train records it when training ends or is interrupted; gln.fit and older versions do not."
)
NO_TEST = "There are no test graphs (--test none), so there are no scores."
CHANGED = (
    "The files or the family that the run learned from have changed since. "
    "Which graphs it has not seen is unknown, so there are no scores."
)


@dataclass(frozen=True)
class Judged:
    """The scores of a method, and what was scored."""

    graphs: list[Graph]  # the test graphs
    true: list[Graph]  # the same, or what was scored of them
    made: list[Graph]  # as many made by the method: on the same nodes if ``paired``, otherwise sampled
    paired: bool
    scores: Scores  # those of :func:`gln.evaluate`, or MMD², novelty and uniqueness
    printed: str  # the tables that a command prints


def judge(method: Any, data: TrainValTest, seed: int = 0, rules: Rules | None = None) -> Judged:
    """Score a model or predictor as :func:`gln.evaluate` does, and a sampler by as many samples as test graphs."""
    train, _, test = data
    if getattr(method, "kind", "predict") == "predict":
        floor = None if data.whole else train  # patches are not like whole graphs
        true, made, scores = evaluated(method, test, floor, rules=rules)
        return Judged(test, true, made, True, scores, str(scores))
    made = generate_graphs(method, len(test), seed)
    distance, new = mmd(test, made, floor=train), novelty(train, made)
    scores = Scores(distance.named() | new, [distance.summary, *new.notes], floor=distance.floor)
    return Judged(test, test, made, False, scores, f"{distance}\n{new}")


def evaluate_on(
    model: str,
    on: str,
    options: ReadOptions,
    count: int,
    seed: int,
    choice: Choice,
    largest_component: bool,
    skip: Skip,
    say: Say,
) -> tuple[Any, list[Graph], Scores]:
    """The model of this name, the graphs it was scored on, of a family or from files, and its scores."""
    method, rules = load_for("predict", model), load_rules(model)
    floor, note = None, FROM_TRAINING
    if is_family((on,)):
        graphs = parse_family(on).graphs(2 * count, seed=seed)
        true, floor = graphs[:count], graphs[count:]
        if not rules:
            rules, note = fit_rules(floor), "k and radius are those that suit other graphs of the family best"
    else:
        paths = find_data([on])
        if words := has_learned_from(model, paths):
            say(words)
        true = []
        for graph in read_labelled(paths, options, skip, say):
            check_fit(method, graph, on)
            with about(graph.name):
                true.append(comparable(method, graph))
        if not rules:
            rules, note = rules_of_scored(true)
    _, _, scores = evaluated(method, true, floor, largest_component, choice, rules)
    scores.notes += (note,) if scores.rules else ()
    return method, true, scores


@dataclass(frozen=True)
class Gallery:
    """Graphs to show, a word on what each of them is, and a note for the reader."""

    words: list[str]
    views: list[View]
    note: str = ""


@dataclass(frozen=True)
class RunReport:
    """What the report of a run shows."""

    facts: RunFacts
    method: Any = None  # what was trained
    judged: Judged | None = None
    why: str = ""  # there are no scores

    @property
    def weights(self) -> int | None:
        """How many a network has."""
        network = isinstance(self.method, nn.Module)
        return sum(weight.numel() for weight in self.method.parameters()) if network else None

    @property
    def gallery(self) -> Gallery | None:
        """Some of the graphs that were scored."""
        return None if self.judged is None else choose_gallery(self.judged, self.method)


def judge_run(run: Path, skip: Skip = silent, say: Say = silent) -> RunReport:
    """What the report of a run shows, from its folder and from its model's predictions on the test graphs.

    Args:
        run: the run folder, finished or not.
        skip: receives each file that cannot be read.
        say: receives guesses and remarks about files.
    """
    facts = read_run(run)
    if not facts.model:
        return RunReport(facts, why=NO_MODEL)
    report = RunReport(facts, load(run))
    if not facts.data:
        return replace(report, why=NO_DATA)
    try:
        data = run_data(run, skip, say)
    except GLNError as error:
        why = f"The graphs of the run cannot be read, so there are no scores. {error}"
        return replace(report, why=why)
    known = facts.config.get("data", {})
    if describe(data.train) != (known if facts.baseline else known.get("train")):
        return replace(report, why=CHANGED)
    if not data.test:
        return replace(report, why=NO_TEST)
    judged = judge(report.method, data, int(facts.config.get("seed", 0)), load_rules(run))
    return replace(report, judged=judged)


def choose_gallery(judged: Judged, method: Any) -> Gallery:
    """The best, median and worst test graphs with what was predicted, or some test graphs beside some samples."""
    small = [i for i, graph in enumerate(judged.true) if graph.num_nodes <= LARGEST]
    if not small:
        note = f"The test graphs have more than {LARGEST:,} nodes each, too many for this page."
        return Gallery([], [], note)
    note = "" if len(small) == len(judged.true) else f"Among the test graphs of up to {LARGEST:,} nodes."
    if not judged.paired:
        drawn = [i for i, graph in enumerate(judged.made) if graph.num_nodes <= LARGEST][:3]
        views = [View(judged.true[i], name_of(judged.graphs[i], i)) for i in small[:3]]
        views += [View(judged.made[i], f"sample {i}") for i in drawn]
        return Gallery(["true"] * len(small[:3]) + ["sampled"] * len(drawn), views, note)
    dice = [edge_scores([judged.true[i]], [judged.made[i]])["dice"] for i in small]
    chosen = [(word, small[place]) for word, place in best_to_worst(dice)]
    seen, left_out = _seen(judged, method, [number for _, number in chosen])
    views = [
        View(judged.true[number], name_of(judged.graphs[number], number), seen=what)
        for (_, number), what in zip(chosen, seen, strict=True)
    ]
    return Gallery([word for word, _ in chosen], views, f"{note} {left_out}".strip())


def best_to_worst(scores: Sequence[float], each: int = EACH) -> list[tuple[str, int]]:
    """Some of the best, median and worst: a word and the place in ``scores`` of each; ties in order."""
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    if len(order) < 3:
        return list(zip(("best", "worst"), order, strict=False))
    each = min(each, len(order) // 3)
    middle = (len(order) - each) // 2
    groups = {"best": order[:each], "median": order[middle : middle + each], "worst": order[-each:]}
    return [(word, place) for word, places in groups.items() for place in places]


def _seen(judged: Judged, method: Any, numbers: list[int]) -> tuple[list[Seen], str]:
    """What was predicted for test graphs after every step, or only after the last if that would take long."""
    true = [judged.true[number] for number in numbers]
    made = [judged.made[number] for number in numbers]
    if not isinstance(method, nn.Module):  # all that it predicts are edges
        answers = [Seen.last(answer, 0.5) for answer in made]
        return [replace(answer, chances=np.ones_like(answer.chances)) for answer in answers], ""
    # A part alone would be predicted differently.
    whole = not any("judged" in judged.graphs[number] for number in numbers)
    if whole and sum(graph.num_nodes for graph in true) <= WATCHED:
        return [seen.decided() for seen in every_step(method, true)], ""
    cut = AS_TRAINED.cut(method)
    last = [Seen.last(answer, cut, floor=cut) for answer in made]
    return last, "After the last step; gln view shows the others."
