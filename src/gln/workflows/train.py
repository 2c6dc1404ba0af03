"""Train a model or baseline on a family or on files, as ``gln train`` does: split, settings, fit, scores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.utilities import rank_zero_only
from torch import nn

from gln.baselines import BASELINES, Baseline, baseline, save_baseline
from gln.baselines.base import check_folder, mark_folder, run_facts
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs.features import feature_scale
from gln.graphs.record import Graph
from gln.io import ReadOptions
from gln.models import MODELS, build_model
from gln.models.gln import GLN
from gln.registry import parse_spec, write_spec
from gln.training import FitConfig, Interrupted, fit
from gln.training.losses import Edge, Loss, Structure
from gln.workflows.judge import Judged, judge
from gln.workflows.recipe import Recipe, choose_recipe
from gln.workflows.runs import noting_data
from gln.workflows.training_data import (
    Say,
    Skip,
    TrainValTest,
    divide,
    family_data,
    find_data,
    is_family,
    read_labelled,
)


@dataclass(frozen=True)
class Training:
    """What ``gln train`` is asked for.

    Attributes:
        data: a family, or files.
        run: the run folder.
        model: a model or baseline with its settings, as registered; a recipe replaces it.
        count: graphs to draw from the family.
        patches: nodes of the pieces that graphs from files are cut into.
        read: how files are read.
        recipe: where to write the recipe that is chosen for files.
        ready: a recipe to follow instead.
        edge_loss, structure_loss, every_step: as in :class:`gln.Loss`; ``every_step`` is the model's own if ``None``.
        resume: continue the run.
        config: the settings of the fit.
    """

    data: Sequence[str]
    run: Path
    model: str = "GLN"
    count: int | None = None
    patches: int | None = None
    read: ReadOptions = field(default_factory=ReadOptions)
    recipe: Path | None = None
    ready: Recipe | None = None
    edge_loss: Edge = "balanced"
    structure_loss: Structure = "dice"
    every_step: bool | None = None
    resume: bool = False
    config: FitConfig = field(default_factory=FitConfig)


def train(asked: Training, tell: Say, say: Say, skip: Skip) -> tuple[Any, Judged] | None:
    """Train, and score on the test graphs: the method and its scores.

    Of several processes only the first tells, scores and returns something.

    Args:
        tell: receives what is chosen and what is reached, line by line.
        say: receives guesses and remarks about files.
        skip: receives each file that cannot be read.
    """
    config, recipe = asked.config, None
    first = is_first(config.num_nodes)
    if not first:
        tell = say = skip = _ignore
    spec, is_baseline = find_method(asked.model if asked.ready is None else asked.ready.model)
    method: Any = baseline(spec) if is_baseline else None  # a mistake in its settings comes before any work
    if asked.recipe is not None and first:
        _check_new_recipe(asked.recipe, asked.resume)
    if is_family(asked.data):
        data = family_data(asked.data[0], asked.count, config.seed)
        title = f"{parse_family(asked.data[0])}: {data.sizes()} graphs to train / validate / test"
    else:
        title, data, recipe = _from_files(asked, spec, tell, say, skip)
        spec, config = recipe.model, replace(config, batch_size=recipe.batch_size)
    if not is_baseline:
        torch.manual_seed(config.seed)
        method = build_model(spec, [graph for part in data for graph in part])
    if recipe is not None and (words := scale_features(method, data.train)):
        tell(f"{'features':<12}{words}")
    if asked.recipe is not None and recipe is not None and first:
        recipe.save(asked.recipe)
    noting = noting_data(asked.run, asked.data, asked.count, config.seed, recipe)
    with noting if first else nullcontext():
        if is_baseline:
            tell(f"{title}; {method}, {method.fitted}")
            fit_baseline(method, data.train, data.val, asked.run, config.seed, asked.resume, config.progress)
            tell(f"{asked.run}\n")
        else:
            weights = sum(weight.numel() for weight in method.parameters())
            tell(f"{title}; {type(method).__name__}, {weights:,} weights")
            own = getattr(method, "every_step", False)
            every_step = own if asked.every_step is None else asked.every_step
            loss = Loss(asked.edge_loss, asked.structure_loss, every_step=every_step)
            options: dict[str, Any] = {"run": asked.run, "resume": asked.resume, "loss": loss}
            tell(f"{fit(method, data.train, data.val, config=config, **options)}\n")
    if not first:  # which goes on once the others are done
        return None
    judged = judge(method, data, config.seed)
    tell(judged.printed)
    return method, judged


def _ignore(what: Any) -> None:
    """The first process speaks."""


def is_first(machines: int) -> bool:
    """Whether this is the first of the processes that train together."""
    machine = os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", "0"))
    return getattr(rank_zero_only, "rank", 0) == 0 and (machines == 1 or machine == "0")


def _from_files(
    asked: Training, spec: str, tell: Say, say: Say, skip: Skip
) -> tuple[str, TrainValTest, Recipe]:
    """A title, the graphs of the files, and the recipe for them; tells each choice."""
    ready, config = asked.ready, asked.config
    read, patches, seed = asked.read, asked.patches, config.seed
    if ready is not None:
        read, patches, seed = ready.read, ready.patches, ready.seed
    graphs = read_labelled(find_data(asked.data), read, skip, say)
    data, how = divide(graphs, patches, seed)
    if ready is None:
        gpu = config.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
        whole = graphs if patches else None
        ready = choose_recipe(data.train, read, patches, seed, spec, config.batch_size, gpu, whole)
    tell("\n".join([f"{'split':<12}{how}", *ready.lines()]))
    return f"{len(graphs):,} graph{'' if len(graphs) == 1 else 's'} from files", data, ready


def _check_new_recipe(path: Path, resume: bool) -> None:
    """Refuse to replace a file; a resumed run may write its recipe again."""
    if path.suffix.lower() != ".json":
        raise GLNError(f"Got --recipe {path}; expected a name that ends in .json.")
    if path.exists() and not resume:
        raise GLNError(f"{path} already exists; choose another name, or follow it with --from-recipe.")
    if path.exists():
        Recipe.load(path)


def find_method(spec: str) -> tuple[str, bool]:
    """``spec`` with its registered name, whatever its case, and whether it is a baseline."""
    asked, settings = parse_spec(spec)
    names = {name.lower(): name for name in (*MODELS, *BASELINES)}
    if asked.lower() not in names:
        raise GLNError(
            f"There is no model {asked!r}; choose from {', '.join(sorted(MODELS))}, "
            f"or from the baselines {', '.join(sorted(BASELINES))}."
        )
    name = names[asked.lower()]
    return write_spec(name, settings), name in BASELINES


def scale_features(model: nn.Module | Baseline, train: Sequence[Graph]) -> str | None:
    """Make GLN standardise the features, and describe it in words; ``None`` if there is nothing to scale."""
    mean, deviation = feature_scale(train)
    if not isinstance(model, GLN) or mean is None or deviation is None:
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
    if not resume and any((run / name).exists() for name in ("config.json", "model.json")):
        raise GLNError(f"{run} already holds a run; resume it with --resume or choose another folder.")
    check_folder(run, facts, model.free)
    try:
        model.fit(train, val, seed=seed, progress=progress, folder=run)
    except KeyboardInterrupt:
        if not run.exists():
            raise
        raise Interrupted(f"fitting was interrupted; resume it from {run} with --resume.") from None
    save_baseline(model, run)
    mark_folder(run, facts)
