"""``gln train``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands.flags import FitFlags, ReadFlags, count_of, end_skipped, is_family, remark, skipper
from gln.commands.view import PagePath, write_shown
from gln.errors import GLNError
from gln.training.config import FitConfig

if TYPE_CHECKING:
    from torch import nn

    from gln.baselines import Baseline
    from gln.io import Skipped
    from gln.training.config import FitConfig
    from gln.workflows.recipe import Recipe
    from gln.workflows.train_files import Parts


ANY_METHOD = ("seed", "progress")  # the settings of FitConfig that a baseline has too
USUAL_LOSSES = {"edge_loss": "balanced", "structure_loss": "dice", "every_step": None}  # the flags' defaults


def train(
    data: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="FAMILY|DATA",
            help="A family (surfaces:points=400), or files of graphs with edges; also folders and patterns.",
        ),
    ],
    output: Annotated[Path, arg(aliases=["-o"], metavar="RUN", help="The run folder to write.")],
    model: Annotated[
        str | None,
        arg(
            metavar="MODEL",
            help="GLN, PaperGLN, Set2Graph or a baseline (see gln list), with settings as in GLN:width=64,steps=3 or "
            "neighbours:rule=gabriel. If omitted, GLN, sized to fit the files.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="Number of graphs to draw from a family; if omitted, the paper's number, or else 1200.",
        ),
    ] = None,
    patches: Annotated[
        int | None, arg(metavar="NODES", help="Cut graphs from files into local patches of this many nodes.")
    ] = None,
    recipe: Annotated[
        Path | None, arg(metavar="PATH", help="Save the choices made for the files as JSON.")
    ] = None,
    from_recipe: Annotated[
        Path | None, arg(metavar="PATH", help="Use the choices saved in this recipe.")
    ] = None,
    edge_loss: Annotated[
        Literal["balanced", "literal", "plain", "released"], arg(help="How edges and non-edges are weighted.")
    ] = "balanced",
    structure_loss: Annotated[
        Literal["dice", "iou", "none"], arg(help="How the graph is compared as a whole.")
    ] = "dice",
    every_step: Annotated[
        bool | None,
        arg(
            metavar="BOOL",
            help="Apply the loss to every step, not just the last; if omitted, only for GLN.",
        ),
    ] = None,
    resume: Annotated[bool, arg(help="Continue the run in RUN exactly where it stopped.")] = False,
    view: PagePath = None,
    read: OmitArgPrefixes[ReadFlags] = ReadFlags(),  # noqa: B008 - frozen
    settings: OmitArgPrefixes[FitFlags] = FitFlags(),  # noqa: B008 - frozen
) -> None:
    """Train a model on a family or on your own files.

    Of the graphs, 80 % are for training (a tenth of these for validation) and 20 % for testing. The seed determines
    the graphs, split, initial weights and order. Ctrl-C keeps what was learned; --resume continues. Train on a single
    large graph, such as a mesh, with --patches. The samples of a baseline that generates graphs are compared with the
    test graphs as a whole. RUN/report.html shows the results.

    Examples: gln train community -o runs/community --epochs 20; gln train meshes/ -o runs/meshes --patches 100
    """
    from gln.baselines import baseline
    from gln.viewing.pages import check_page
    from gln.workflows.methods import find_method
    from gln.workflows.recipe import Recipe
    from gln.workflows.sources import noting_data

    fit = settings.config()
    if output.is_file():
        raise GLNError(f"{output} is a file; give the name of a run folder.")
    if view is not None:
        check_page(view)
    for_files = {"patches": patches, "recipe": recipe, "from_recipe": from_recipe, **vars(read)}
    if is_family(data):
        _refuse(for_files, "files")
    else:
        _refuse({"count": count}, "families")
    if from_recipe is not None:
        chosen = {"model": model, **for_files, "from_recipe": None}
        _refuse(chosen, "choosing settings, which --from-recipe already does")
    ready = None if from_recipe is None else Recipe.load(from_recipe)
    spec, is_baseline = find_method((model or "GLN") if ready is None else ready.model)
    losses = {"edge_loss": edge_loss, "structure_loss": structure_loss, "every_step": every_step}
    method: Any = None
    if is_baseline:
        method = baseline(spec)
        _refuse_for_baseline(losses | vars(fit))

    skipped: list[Skipped] = []
    with _speaking(fit.num_nodes) as first:
        if recipe is not None and first:
            _check_new_recipe(recipe, resume)
        if is_family(data):
            title, parts = from_family(data[0], count, fit.seed)
        else:
            title, parts, ready = from_files(data, spec, patches, ready, read, fit, skipped, first)
            spec, fit = ready.model, replace(fit, batch_size=ready.batch_size)
        if not is_baseline:
            method = _new_network(spec, parts, fit.seed, scaled=ready is not None)
        if recipe is not None and ready is not None and first:
            ready.save(recipe)
        with noting_data(output, data, count, fit.seed, ready) if first else nullcontext():
            if is_baseline:
                _fit_baseline(method, title, parts, output, resume, fit)
            else:
                _fit_network(method, title, parts, output, resume, losses, fit)
        if first:  # the other processes are done
            _finish(method, parts, output, fit.seed, view)
            end_skipped(skipped)


@contextmanager
def _speaking(machines: int) -> Iterator[bool]:
    """Whether this is the first of the processes that train together; the others print nothing."""
    from gln.training.processes import is_first

    first = is_first(machines)
    with ExitStack() as stack:
        if not first:
            stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        yield first


def _new_network(spec: str, parts: Parts, seed: int, scaled: bool) -> nn.Module:
    """A network for these graphs; ``scaled``: to the features of those it trains on, which is printed."""
    import torch

    from gln.models import build_model
    from gln.workflows.methods import scale_features

    torch.manual_seed(seed)
    network = build_model(spec, [graph for part in parts for graph in part])
    if scaled and (words := scale_features(network, parts[0])):
        print(f"{'features':<12}{words}")
    return network


def _fit_network(
    network: nn.Module,
    title: str,
    parts: Parts,
    run: Path,
    resume: bool,
    losses: dict[str, Any],
    config: FitConfig,
) -> None:
    from gln.training import fit
    from gln.training.losses import Loss

    weights = sum(weight.numel() for weight in network.parameters())
    print(f"{title}; {type(network).__name__}, {weights:,} weights")
    asked = losses["every_step"]
    every_step = getattr(network, "every_step", False) if asked is None else asked
    loss = Loss(losses["edge_loss"], losses["structure_loss"], every_step=every_step)
    print(f"{fit(network, parts[0], parts[1], run=run, resume=resume, loss=loss, config=config)}\n")


def _fit_baseline(
    method: Baseline, title: str, parts: Parts, run: Path, resume: bool, config: FitConfig
) -> None:
    from gln.workflows.methods import fit_baseline

    print(f"{title}; {method}, {method.fitted}")
    fit_baseline(method, parts[0], parts[1], run, seed=config.seed, resume=resume, progress=config.progress)
    print(f"{run}\n")


def _finish(method: Any, parts: Parts, run: Path, seed: int, view: Path | None) -> None:
    """Score a model by its predicted edges, or a sampler by as many samples as test graphs; write the pages."""
    from gln.viewing.reports import write_report
    from gln.workflows.judge import judge
    from gln.workflows.runs import read_run

    judged = judge(method, parts, seed)
    print(judged.printed)
    print(f"Wrote {write_report(run / 'report.html', read_run(run), judged, method)}.")
    if view is not None and judged.paired:
        write_shown(view, method, judged.true, f"{run}, test graphs")
    elif view is not None:
        write_shown(view, None, judged.made, f"{run}, sampled graphs")


def _check_new_recipe(path: Path, resume: bool) -> None:
    """Refuse to replace a file; a resumed run may write its recipe again."""
    from gln.workflows.recipe import Recipe

    if path.suffix.lower() != ".json":
        raise GLNError(f"Got --recipe {path}; expected a name that ends in .json.")
    if path.exists() and not resume:
        raise GLNError(f"{path} already exists; choose another name, or follow it with --from-recipe.")
    if path.exists():
        Recipe.load(path)


def _refuse(flags: dict[str, Any], purpose: str) -> None:
    """A flag that has no effect here is a mistake; do not ignore it silently."""
    given = [name for name, value in flags.items() if value is not None]
    if given:
        raise GLNError(f"Got --{given[0].replace('_', '-')}, which is for {purpose}; leave it out.")


def _refuse_for_baseline(flags: dict[str, Any]) -> None:
    """The same for settings that only a network has."""
    usual = USUAL_LOSSES | vars(FitConfig())
    changed = {name: flags[name] for name in usual if name not in ANY_METHOD and flags[name] != usual[name]}
    _refuse(changed, "networks, whereas a baseline's settings follow its name, as in graphrnn:epochs=9")


def from_family(spec: str, count: int | None, seed: int) -> tuple[str, Parts]:
    """A title, and the graphs of a family in three parts."""
    from gln.families import parse_family
    from gln.workflows.sources import family_parts

    parts = family_parts(spec, count, seed)
    sizes = " / ".join(str(len(part)) for part in parts)
    return f"{parse_family(spec)}: {sizes} graphs to train / validate / test", parts


def from_files(
    words: tuple[str, ...],
    model: str,
    patches: int | None,
    ready: Recipe | None,
    read: ReadFlags,
    fit: FitConfig,
    skipped: list[Skipped],
    aloud: bool,
) -> tuple[str, Parts, Recipe]:
    """A title, the graphs in three parts, and the recipe for them; each choice is printed.

    Inputs that cannot be read are added to ``skipped``, and named if ``aloud``.
    """
    from gln.workflows.recipe import choose_recipe
    from gln.workflows.train_files import divide, find_data, has_gpu, read_labelled

    options = read.options() if ready is None else ready.read
    patches, seed = (patches, fit.seed) if ready is None else (ready.patches, ready.seed)
    skip, say = (skipper(skipped), remark) if aloud else (skipped.append, _nothing)
    graphs = read_labelled(find_data(words), options, skip, say)
    parts, how = divide(graphs, patches, seed)
    gpu = has_gpu(fit.accelerator)
    whole = graphs if patches else None
    chosen = ready or choose_recipe(parts[0], options, patches, seed, model, fit.batch_size, gpu, whole)
    print(f"{'split':<12}{how}")
    for line in chosen.lines():
        print(line)
    return f"{count_of(len(graphs), 'graph')} from files", parts, chosen


def _nothing(text: str) -> None:
    """Print nothing: the first process does."""
