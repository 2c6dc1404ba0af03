"""``gln train``."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands.flags import FitFlags, ReadFlags, count_of, end_skipped, is_family, remark, skipper
from gln.errors import GLNError
from gln.training.config import FitConfig

if TYPE_CHECKING:
    from torch import nn

    from gln.baselines import Baseline
    from gln.io import Skipped
    from gln.losses import Loss
    from gln.pipeline.recipe import Recipe
    from gln.pipeline.training import Parts

ANY_METHOD = ("seed", "progress")  # what of FitConfig a baseline knows too


def train(
    data: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="FAMILY|DATA",
            help="A family (surfaces:points=400), or files of graphs with their edges; folders and patterns, too.",
        ),
    ],
    output: Annotated[Path, arg(aliases=["-o"], metavar="RUN", help="The run folder to write.")],
    model: Annotated[
        str | None,
        arg(
            metavar="MODEL",
            help="GLN, PaperGLN, Set2Graph or a baseline (gln list), with settings: GLN:width=64,steps=3, or "
            "neighbours:rule=gabriel. If left out: GLN, sized for the files.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        arg(metavar="INT", help="Graphs to draw from a family; the paper's number, or 1200, if left out."),
    ] = None,
    patches: Annotated[
        int | None, arg(metavar="NODES", help="Cut graphs from files into local patches of so many nodes.")
    ] = None,
    recipe: Annotated[
        Path | None, arg(metavar="PATH", help="Keep what was chosen for the files as JSON.")
    ] = None,
    from_recipe: Annotated[
        Path | None, arg(metavar="PATH", help="Choose nothing: do as this recipe says.")
    ] = None,
    edge_loss: Annotated[
        Literal["balanced", "literal", "plain", "released"], arg(help="How edges and non-edges are weighted.")
    ] = "balanced",
    structure_loss: Annotated[
        Literal["dice", "iou", "none"], arg(help="How the graph is compared as a whole.")
    ] = "dice",
    every_step: Annotated[
        bool | None,
        arg(metavar="BOOL", help="Loss on every step instead of the last; GLN does, PaperGLN does not."),
    ] = None,
    resume: Annotated[bool, arg(help="Go on where the run in RUN stands, exactly.")] = False,
    read: OmitArgPrefixes[ReadFlags] = ReadFlags(),  # noqa: B008 - frozen
    settings: OmitArgPrefixes[FitFlags] = FitFlags(),  # noqa: B008 - frozen
) -> None:
    """Train a model on a family or on your own files: 80 % of the graphs train (a tenth of them validates), 20 % test.

    The seed decides graphs, split, first weights and order alike. Ctrl-C keeps what was learned; --resume goes on.
    A single large graph, a mesh say, is trained on in --patches. A baseline that samples graphs is compared with the
    test graphs as a whole.

    Examples: gln train community -o runs/community --epochs 20; gln train meshes/ -o runs/meshes --patches 100
    """
    import torch

    from gln.baselines import baseline
    from gln.losses import Loss
    from gln.models import build_model
    from gln.pipeline.methods import find_method, scale_features
    from gln.pipeline.recipe import Recipe

    fit = settings.config()
    if is_family(data):
        _refuse({"patches": patches, "recipe": recipe, "from_recipe": from_recipe, **vars(read)}, "files")
    else:
        _refuse({"count": count}, "families")
    if from_recipe is not None:
        chosen = {"model": model, "patches": patches, "recipe": recipe, **vars(read)}
        _refuse(chosen, "choosing, and --from-recipe chooses nothing")
    ready = None if from_recipe is None else Recipe.load(from_recipe)
    spec, is_baseline = find_method((model or "GLN") if ready is None else ready.model)
    method: Any = baseline(spec) if is_baseline else None
    if is_baseline:
        losses = {"edge_loss": (edge_loss, "balanced"), "structure_loss": (structure_loss, "dice")}
        _refuse_for_baseline(fit, losses | {"every_step": (every_step, None)})

    skipped: list[Skipped] = []
    if is_family(data):
        title, parts = _from_family(data[0], count, fit.seed)
    else:
        title, parts, ready = _from_files(data, spec, patches, ready, read, fit, skipped)
        spec, fit = ready.model, replace(fit, batch_size=ready.batch_size)
    if not is_baseline:
        torch.manual_seed(fit.seed)
        method = build_model(spec, [graph for part in parts for graph in part])
        if ready is not None and (words := scale_features(method, parts[0])):
            print(f"{'features':<12}{words}")
    if recipe is not None and ready is not None:
        ready.save(recipe)
    if is_baseline:
        _fit_baseline(method, title, parts, output, resume, fit)
    else:
        everywhere = getattr(method, "every_step", False) if every_step is None else every_step
        loss = Loss(edge=edge_loss, structure=structure_loss, every_step=everywhere)
        _fit_network(method, title, parts, output, resume, loss, fit)
    end_skipped(skipped)


def _fit_network(
    network: nn.Module, title: str, parts: Parts, run: Path, resume: bool, loss: Loss, config: FitConfig
) -> None:
    from gln.training import evaluate, fit

    weights = sum(weight.numel() for weight in network.parameters())
    print(f"{title}; {type(network).__name__}, {weights:,} weights")
    print(f"{fit(network, parts[0], parts[1], run=run, resume=resume, loss=loss, config=config)}\n")
    print(evaluate(network, parts[2], floor=parts[0]))


def _fit_baseline(
    method: Baseline, title: str, parts: Parts, run: Path, resume: bool, config: FitConfig
) -> None:
    """Fit, and score a predictor by its edges and a sampler by as many samples as there are test graphs."""
    from gln.baselines import Predictor, Sampler
    from gln.evaluation import mmd, novelty
    from gln.pipeline.methods import fit_baseline
    from gln.training import evaluate, generate

    train, val, test = parts
    print(f"{title}; {method}, {method.fitted}")
    fit_baseline(method, train, val, run, seed=config.seed, resume=resume, progress=config.progress)
    print(f"{run}\n")
    if isinstance(method, Predictor):
        print(evaluate(method, test, floor=train))
    elif isinstance(method, Sampler):
        drawn = generate(method, len(test), config.seed)
        print(mmd(test, drawn, floor=train))
        print(novelty(train, drawn))


def _refuse(flags: dict[str, Any], purpose: str) -> None:
    """Flags that say nothing here are a mistake, not to be passed over."""
    given = [name for name, value in flags.items() if value is not None]
    if given:
        raise GLNError(f"Got --{given[0].replace('_', '-')}, which is for {purpose}; leave it out.")


def _refuse_for_baseline(config: FitConfig, losses: dict[str, tuple[Any, Any]]) -> None:
    """The same for what only a network is trained with: a value and its default by name."""
    settings = {
        field.name: (getattr(config, field.name), field.default)
        for field in fields(config)
        if field.name not in ANY_METHOD
    }
    changed = {name: value for name, (value, usual) in (losses | settings).items() if value != usual}
    _refuse(changed, "networks, while settings of a baseline follow its name, as in graphrnn:epochs=9")


def _from_family(spec: str, count: int | None, seed: int) -> tuple[str, Parts]:
    from gln.families import parse_family
    from gln.graphs import split

    family = parse_family(spec)
    total = (family.paper_count or 1200) if count is None else count
    parts = split(family.sample(total, seed=seed), seed=seed)
    sizes = " / ".join(str(len(part)) for part in parts)
    return f"{family}: {sizes} graphs to train / validate / test", parts


def _from_files(
    words: tuple[str, ...],
    model: str,
    patches: int | None,
    ready: Recipe | None,
    read: ReadFlags,
    fit: FitConfig,
    skipped: list[Skipped],
) -> tuple[str, Parts, Recipe]:
    """A title, the graphs of the three parts and the recipe for them; each choice is printed."""
    from gln.pipeline.recipe import choose_recipe
    from gln.pipeline.training import divide, find_data, has_gpu, read_labelled

    options = read.options() if ready is None else ready.read
    patches, seed = (patches, fit.seed) if ready is None else (ready.patches, ready.seed)
    graphs = read_labelled(find_data(words), options, skipper(skipped), remark)
    parts, how = divide(graphs, patches, seed)
    gpu = has_gpu(fit.accelerator)
    whole = graphs if patches else None
    chosen = ready or choose_recipe(parts[0], options, patches, seed, model, fit.batch_size, gpu, whole)
    print(f"{'split':<12}{how}")
    for line in chosen.lines():
        print(line)
    return f"{count_of(len(graphs), 'graph')} from files", parts, chosen
