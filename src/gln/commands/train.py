"""``gln train``."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands import flags
from gln.commands.flags import Skips, remark
from gln.commands.look import write_shown
from gln.errors import GLNError, escaped
from gln.files import check_page
from gln.training.config import SEVERAL, FitConfig

ANY_METHOD = ("seed", "progress")  # the settings of FitConfig that a baseline has too


def train(
    data: Annotated[
        Positional[tuple[str, ...]], arg(metavar="FAMILY|DATA", help_behavior_hint="(one or more)")
    ],
    output: Annotated[Path, arg(aliases=["-o"], metavar="RUN")],
    model: Annotated[str | None, arg(metavar="MODEL")] = None,
    count: flags.Whole = None,
    patches: flags.Whole = None,
    group: flags.Word = None,
    val: Annotated[tuple[str, ...] | None, arg(metavar="FILES")] = None,
    test: Annotated[tuple[str, ...] | None, arg(metavar="FILES|none")] = None,
    recipe: flags.File = None,
    from_recipe: flags.File = None,
    edge_loss: Literal["balanced", "literal", "plain", "released"] | None = None,
    structure_loss: Literal["dice", "iou", "none"] | None = None,
    every_step: flags.Maybe = None,
    turned: flags.Maybe = None,
    resume: bool = False,
    view: flags.PagePath = None,
    read: OmitArgPrefixes[flags.ReadFlags] = flags.ReadFlags(),  # noqa: B008 - frozen
    settings: OmitArgPrefixes[flags.FitFlags] = flags.FitFlags(),  # noqa: B008 - frozen
) -> None:
    """Train a model on a family or on your own files.

    Of the graphs, 80 % are for training (a tenth of these for validation) and 20 % for testing, but at least one each:
    of three, one is left to train on. Files that --val and --test name are not trained on. The seed determines the
    graphs, split, initial weights and order. Ctrl-C keeps what was learned; --resume continues. Train on one or a few
    large graphs, such as meshes, with --patches: each is then divided into areas. Test graphs are predicted whole, and
    simple rules are scored beside the model. The samples of a baseline that generates graphs are compared with the test
    graphs as a whole. RUN/report.html shows the results.

    Examples: gln train community -o runs/community --epochs 20; gln train meshes/ -o runs/meshes --patches 100

    Args:
        data: A family (surfaces:points=400), or files of graphs with edges; also folders and patterns.
        output: The run folder to write.
        model: GLN, PaperGLN, Set2Graph, GraphFlow (which generates graphs) or a baseline (see gln list), with settings
            as in GLN:width=64,steps=3 or neighbours:rule=gabriel. If omitted, GLN, sized to fit the files.
        count: Number of graphs to draw from a family; if omitted, the paper's number, or else 1200.
        patches: Cut training graphs from files into local patches of this many nodes.
        group: Column of what must not be both in training and in test, such as a record or a patient.
        val: Files to validate on; if omitted, some of DATA.
        test: Files to test on, or none; if omitted, some of DATA.
        recipe: Save the choices made for the files as JSON.
        from_recipe: Use the choices saved in this recipe.
        edge_loss: How edges and non-edges are weighted; if omitted, balanced, and plain for GraphFlow.
        structure_loss: How the graph is compared as a whole; if omitted, dice, and none for GraphFlow.
        every_step: Apply the loss to every step, not just the last; if omitted, only for GLN and GraphFlow.
        turned: Turn and mirror training graphs at random; if omitted, where files give fewer than ten with 2 or 3
            positions per node.
        resume: Continue the run in RUN exactly where it stopped.
    """
    from gln.storage.runs import refuse_run
    from gln.workflows.divide import check_patches
    from gln.workflows.methods import find_method
    from gln.workflows.recipe import Recipe, check_new_recipe
    from gln.workflows.training_data import check_graphs, find_data, is_family

    config = FitConfig(**vars(settings))
    several = bool(SEVERAL & os.environ.keys())  # processes, of which one may have begun already
    if output.is_file():
        raise GLNError(f"{output} is a file; give the name of a run folder.")
    if not resume and not several:
        refuse_run(output)
    if recipe is not None and not several:
        check_new_recipe(recipe, resume)
    if view is not None:
        check_page(view)
    for_files = {"patches": patches, "group": group, "recipe": recipe, "from_recipe": from_recipe}
    for_files |= vars(read)
    held: dict[str, Any] = {"val": val or None, "test": () if test == ("none",) else test or None}
    if is_family(data):
        _refuse(for_files | held, "files")
    else:
        _refuse({"count": count}, "families")
    if from_recipe is not None:
        chosen = {"model": model, "turned": turned, **for_files, "from_recipe": None}
        _refuse(chosen, "choosing settings, which --from-recipe already does")
    ready = None if from_recipe is None else Recipe.load(from_recipe)
    spec, is_baseline = find_method((model or "GLN") if ready is None else ready.model)
    losses = {"edge_loss": edge_loss, "structure_loss": structure_loss, "every_step": every_step}
    if is_baseline:
        _refuse_for_baseline(vars(config) | losses | {"turned": turned})
    for words in filter(None, held.values()):
        find_data(words)
    check_patches(patches)
    options, skip = replace(read.options(), group=group), Skips()
    asked = ready or Recipe(options, patches, config.seed, spec, config.batch_size, turned=turned)
    check_graphs(data, asked.read, count, skip=skip)
    if count is not None and count < 3:
        raise GLNError(f"Got --count {count}; expected at least 3 graphs: to train, to validate and to test.")
    from gln.viewing.reports import write_report
    from gln.workflows.train import train as train_on

    report = train_on(
        data,
        output,
        asked,
        config,
        say=remark,
        skip=skip,
        count=count,
        **held,
        ready=ready is not None,
        recipe=recipe,
        losses={name.removesuffix("_loss"): value for name, value in losses.items() if value is not None},
        resume=resume,
        typed=sys.argv[2:],
    )
    if report is None:  # the first process reports
        return
    page = write_report(output / "report.html", report)
    print(f"Wrote {escaped(str(page))}.")
    if view is not None and (judged := report.judged) is not None:
        predicts, graphs = (report.method, judged.graphs) if judged.paired else (None, judged.made)
        write_shown(view, predicts, graphs, f"{output}, {'test' if judged.paired else 'sampled'} graphs")
    skip.end()


def _refuse_for_baseline(given: dict[str, Any]) -> None:
    usual = vars(flags.FitFlags())
    changed = {
        name: value for name, value in given.items() if name not in ANY_METHOD and value != usual.get(name)
    }
    _refuse(changed, "networks, whereas a baseline's settings follow its name, as in graphrnn:epochs=9")


def _refuse(asked: dict[str, Any], purpose: str) -> None:
    """A flag that has no effect here is a mistake; do not ignore it silently."""
    given = [name for name, value in asked.items() if value is not None and value is not False]
    if given:
        raise GLNError(f"Got --{given[0].replace('_', '-')}, which is for {purpose}; leave it out.")
