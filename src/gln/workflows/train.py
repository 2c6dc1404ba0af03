"""Train a model or baseline on a family or on files, as ``gln train`` does: split, settings, fit, scores."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gln.baselines import Baseline, baseline, save_baseline
from gln.baselines.base import check_folder, mark_folder, run_facts
from gln.baselines.neighbours import fit_rules, save_rules
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs.features import feature_scale
from gln.graphs.record import Graph
from gln.inference.evaluate import best_threshold
from gln.models import build_model
from gln.models.contract import ScalesFeatures, kinds_of
from gln.storage.models import save
from gln.storage.runs import refuse_run
from gln.training import FitConfig, FitResult, Interrupted, fit
from gln.training.data import RandomRotation
from gln.training.losses import usual_loss
from gln.training.processes import is_first
from gln.workflows import Say, Skip, silent
from gln.workflows.divide import TrainValTest
from gln.workflows.judge import NO_TEST, RunReport, judge
from gln.workflows.methods import find_method, kinds_in_words
from gln.workflows.recipe import Recipe, check_new_recipe, choose_recipe
from gln.workflows.runs import noting_data, read_run
from gln.workflows.training_data import Held, family_data, file_data, is_family

WORSE = 0.1  # IoU that whole graphs may lose against pieces before it is said


def train(
    data: Sequence[str],
    run: Path,
    asked: Recipe,
    config: FitConfig,
    *,
    say: Say,
    skip: Skip,
    tell: Say = print,
    count: int | None = None,
    val: Held = None,
    test: Held = None,
    ready: bool = False,
    recipe: Path | None = None,
    losses: dict[str, Any] | None = None,
    resume: bool = False,
    typed: Sequence[str] | None = None,
) -> RunReport | None:
    """Train, and score on the test graphs, if there are any: what a report shows.

    Of several processes only the first speaks, scores and returns something. The arguments are those of ``gln train``;
    what ``asked`` leaves open is chosen for the files, unless it is ``ready``, and written to ``recipe``. ``typed`` are
    the words that these arguments were given in. ``tell`` receives what is chosen and what is reached, line by line.
    """
    first, from_files = is_first(config.num_nodes), not is_family(data)
    if not first:
        tell = say = skip = silent
    spec, is_baseline = find_method(asked.model)
    method: Any = baseline(spec) if is_baseline else None  # a mistake in its settings comes before any work
    if recipe is not None and first:
        check_new_recipe(recipe, resume)
    if from_files:
        graphs = file_data(data, val, test, asked, skip, say)
        title = f"{graphs.read:,} graph{'' if graphs.read == 1 else 's'} from files"
        if not ready:
            asked = choose_recipe(graphs.train, replace(asked, model=spec), config.accelerator, graphs.whole)
        warnings = [f"{'warning':<12}{words}" for words in graphs.remarks]
        tell("\n".join([f"{'split':<12}{graphs.how}", *warnings, *asked.lines()]))
        config = replace(config, batch_size=asked.batch_size)
    else:
        graphs = family_data(data[0], count, config.seed)
        title = f"{parse_family(data[0])}: {graphs.sizes()} graphs to train / validate / test"
    if not is_baseline:
        torch.manual_seed(config.seed)
        method = build_model(asked.model, [graph for part in graphs for graph in part])
    _tell_kinds(method, graphs.train, tell, say)
    if from_files and (words := scale_features(method, graphs.train)):
        tell(f"{'features':<12}{words}")
    if from_files and recipe is not None and first:
        asked.save(recipe)
    noting = noting_data(run, data, count, config.seed, asked if from_files else None, val, test, typed)
    with noting if first else nullcontext():
        if is_baseline:
            tell(f"{title}; {method}, {method.fitted}")
            fit_baseline(method, graphs.train, graphs.val, run, config.seed, resume, config.progress)
            tell(f"{run}\n")
        else:
            weights = sum(weight.numel() for weight in method.parameters())
            tell(f"{title}; {type(method).__name__}, {weights:,} weights")
            loss = usual_loss(method, **losses or {})
            turn = RandomRotation() if asked.turned else None
            more: dict[str, Any] = {"run": run, "resume": resume, "loss": loss, "augment": turn}
            result = fit(method, graphs.train, graphs.val, **more, config=config)
            words = whole_threshold(method, graphs.whole_val, result) if first and graphs.whole_val else ""
            tell(f"{result}\n{words}")
    return _score(method, graphs, run, config.seed, tell) if first else None  # once the others are done


def _tell_kinds(method: Any, train: Sequence[Graph], tell: Say, say: Say) -> None:
    """Say which kinds of edges are learned and which are not; refuse directions that a model cannot learn."""
    told, unused = kinds_in_words(kinds_of(method), train)
    if told:
        tell(f"{'kinds':<12}{told}")
    name = type(method).__name__
    if not unused or getattr(method, "sees_kinds", False):
        return
    if "directions" in unused and isinstance(method, nn.Module):
        raise GLNError(f"The graphs are directed, but {name} predicts no directions; leave out --directed.")
    say(f"{name} does not predict {' and '.join(unused)}, so these are not used.")


def _score(method: Any, graphs: TrainValTest, run: Path, seed: int, tell: Say) -> RunReport:
    """Score the trained ``method``, with rules fitted to the training graphs beside it, which the run keeps."""
    rules = fit_rules(graphs.whole or graphs.train)
    save_rules(run, rules)
    if not graphs.test:
        tell("There are no test graphs, so there are no scores.")
        return RunReport(read_run(run), method, why=NO_TEST)
    judged = judge(method, graphs, seed, rules)
    tell(judged.printed)
    return RunReport(read_run(run), method, judged)


def whole_threshold(model: nn.Module, val: list[Graph], result: FitResult) -> str:
    """Choose the threshold again in predictions of whole graphs, as users make them; what was chosen, in words.

    A patch has fewer nodes that could be joined, and a model that was trained for few epochs expects as few in a whole.
    """
    threshold, iou = best_threshold(model, val)
    model.threshold = threshold  # type: ignore[assignment]
    if result.run is not None:
        save(model, result.run)
    words = f"whole graphs: validation IoU {iou:.4f}, threshold {threshold:.2f}, which is kept\n"
    if iou < result.best_iou - WORSE:
        words += f"{'warning':<12}whole graphs are predicted worse than pieces; train longer or with larger patches\n"
    return words


def scale_features(model: nn.Module | Baseline, train: Sequence[Graph]) -> str | None:
    """Make the model standardise the features, and describe it in words; ``None`` if there is nothing to scale."""
    mean, deviation = feature_scale(train)
    if not isinstance(model, ScalesFeatures) or mean is None or deviation is None:
        return None
    scaled = sum(pair != (0, 1) for pair in zip(mean, deviation, strict=True))
    if not scaled:
        return None
    model.scale_features(mean, deviation)
    rest = len(mean) - scaled
    words = f"columns of x scaled to mean 0 and deviation 1 over the training nodes, in the model: {scaled}"
    return f"{words}; columns of zeros and ones, unchanged: {rest}" if rest else words


def fit_baseline(
    model: Baseline,
    train: Sequence[Graph],
    val: Sequence[Graph],
    run: Path,
    seed: int = 0,
    resume: bool = False,
    progress: bool = False,
) -> None:
    """Fit ``model`` and save it in the folder ``run``; with ``resume``, continue what is there, otherwise refuse to."""
    facts = run_facts(model, train, seed)
    if not resume:
        refuse_run(run)
    check_folder(run, facts, model.free)
    try:
        model.fit(train, val, seed=seed, progress=progress, folder=run)
    except KeyboardInterrupt:
        if not run.exists():
            raise
        raise Interrupted(f"fitting was interrupted; resume it from {run} with --resume.") from None
    save_baseline(model, run)
    mark_folder(run, facts)
