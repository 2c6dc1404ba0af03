"""``gln train``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands.flags import ReadFlags, count_of, is_family, remark, remark_skipped
from gln.errors import GLNError
from gln.training.config import FitConfig

if TYPE_CHECKING:
    from gln.io import Skipped
    from gln.pipeline.recipe import Recipe


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
            help="GLN or PaperGLN, with settings: GLN:width=64,steps=3. If left out: GLN, sized for the files.",
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
    fit: OmitArgPrefixes[FitConfig] = FitConfig(),  # noqa: B008 - frozen
) -> None:
    """Train a model on a family or on your own files: 80 % of the graphs train (a tenth of them validates), 20 % test.

    The seed decides graphs, split, first weights and order alike. Ctrl-C keeps what was learned; --resume goes on.
    A single large graph, a mesh say, is trained on in --patches.

    Examples: gln train community -o runs/community --epochs 20; gln train meshes/ -o runs/meshes --patches 100
    """
    import torch

    from gln.losses import Loss
    from gln.models import build_model
    from gln.training import evaluate
    from gln.training import fit as fit_model

    skipped: list[Skipped] = []
    ready: Recipe | None = None
    if is_family(data):
        _refuse({"patches": patches, "recipe": recipe, "from-recipe": from_recipe, **vars(read)}, "files")
        title, parts = _from_family(data[0], count, fit.seed)
        spec = model or "GLN"
    else:
        _refuse({"count": count}, "families")
        chosen = {"model": model, "patches": patches, "recipe": recipe} if from_recipe else {}
        _refuse(chosen | (vars(read) if from_recipe else {}), "choosing, and --from-recipe chooses nothing")
        title, parts, ready = _from_files(data, model or "GLN", patches, from_recipe, read, fit, skipped)
        spec, fit = ready.model, replace(fit, batch_size=ready.batch_size)
    torch.manual_seed(fit.seed)
    network = build_model(spec, [graph for part in parts for graph in part])
    if recipe is not None and ready is not None:
        ready.save(recipe)
    everywhere = getattr(network, "every_step", False) if every_step is None else every_step
    loss = Loss(edge=edge_loss, structure=structure_loss, every_step=everywhere)
    weights = sum(weight.numel() for weight in network.parameters())
    print(f"{title}; {type(network).__name__}, {weights:,} weights")
    result = fit_model(network, parts[0], parts[1], run=output, resume=resume, loss=loss, config=fit)
    print(f"{result}\n")
    print(evaluate(network, parts[2], floor=parts[0]))
    if skipped:
        print(f"\nSkipped {len(skipped)} of the input, as said above.")
        sys.exit(1)


def _refuse(flags: dict[str, Any], purpose: str) -> None:
    """Flags that say nothing here are a mistake, not to be passed over."""
    given = [name for name, value in flags.items() if value is not None]
    if given:
        raise GLNError(f"Got --{given[0].replace('_', '-')}, which is for {purpose}; leave it out.")


def _from_family(spec: str, count: int | None, seed: int) -> tuple[str, Any]:
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
    read_from: Path | None,
    read: ReadFlags,
    fit: FitConfig,
    skipped: list[Skipped],
) -> tuple[str, Any, Recipe]:
    """A title, the graphs of the three parts and the recipe for them; each choice is printed."""
    from gln.pipeline.recipe import Recipe, choose_recipe
    from gln.pipeline.training import divide, find_data, has_gpu, read_labelled, wild_features

    def skip(what: Skipped) -> None:
        skipped.append(what)
        remark_skipped(what)

    ready = None if read_from is None else Recipe.load(read_from)
    options = read.options() if ready is None else ready.read
    patches, seed = (patches, fit.seed) if ready is None else (ready.patches, ready.seed)
    graphs = read_labelled(find_data(words), options, skip, remark)
    parts, how = divide(graphs, patches, seed)
    gpu = has_gpu(fit.accelerator)
    chosen = ready or choose_recipe(parts[0], options, patches, seed, model, fit.batch_size, gpu)
    if warning := wild_features(parts[0]):
        remark(warning)
    print(f"{'split':<12}{how}")
    for line in chosen.lines():
        print(line)
    return f"{count_of(len(graphs), 'graph')} from files", parts, chosen
