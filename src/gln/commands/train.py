"""``gln train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands.flags import File, FitFlags, PagePath, ReadFlags, Skips, Whole, remark
from gln.commands.look import write_shown
from gln.errors import GLNError, escaped
from gln.training.config import FitConfig

ANY_METHOD = ("seed", "progress")  # the settings of FitConfig that a baseline has too


def train(
    data: Annotated[Positional[tuple[str, ...]], arg(metavar="FAMILY|DATA")],
    output: Annotated[Path, arg(aliases=["-o"], metavar="RUN")],
    model: Annotated[str | None, arg(metavar="MODEL")] = None,
    count: Whole = None,
    patches: Annotated[int | None, arg(metavar="NODES")] = None,
    recipe: File = None,
    from_recipe: File = None,
    edge_loss: Literal["balanced", "literal", "plain", "released"] = "balanced",
    structure_loss: Literal["dice", "iou", "none"] = "dice",
    every_step: Annotated[bool | None, arg(metavar="BOOL")] = None,
    resume: bool = False,
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

    Args:
        data: A family (surfaces:points=400), or files of graphs with edges; also folders and patterns.
        output: The run folder to write.
        model: GLN, PaperGLN, Set2Graph or a baseline (see gln list), with settings as in GLN:width=64,steps=3 or
            neighbours:rule=gabriel. If omitted, GLN, sized to fit the files.
        count: Number of graphs to draw from a family; if omitted, the paper's number, or else 1200.
        patches: Cut graphs from files into local patches of this many nodes.
        recipe: Save the choices made for the files as JSON.
        from_recipe: Use the choices saved in this recipe.
        edge_loss: How edges and non-edges are weighted.
        structure_loss: How the graph is compared as a whole.
        every_step: Apply the loss to every step, not just the last; if omitted, only for GLN.
        resume: Continue the run in RUN exactly where it stopped.
    """
    from gln.viewing.paths import check_page
    from gln.workflows.asked import check_graphs
    from gln.workflows.methods import find_method
    from gln.workflows.recipe import Recipe
    from gln.workflows.training_data import is_family

    config = settings.config()
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
    losses = {"edge": edge_loss, "structure": structure_loss} | (
        {} if every_step is None else {"every_step": every_step}
    )
    if is_baseline:
        usual = vars(FitConfig()) | {"edge_loss": "balanced", "structure_loss": "dice", "every_step": None}
        given = {"edge_loss": edge_loss, "structure_loss": structure_loss, "every_step": every_step}
        given |= {name: value for name, value in vars(config).items() if name not in ANY_METHOD}
        changed = {name: value for name, value in given.items() if value != usual[name]}
        _refuse(changed, "networks, whereas a baseline's settings follow its name, as in graphrnn:epochs=9")
    check_graphs(data, count)
    options = read.options()
    from gln.viewing.reports import write_report
    from gln.workflows.judge import report_of
    from gln.workflows.runs import read_run
    from gln.workflows.train import train as train_on

    skip = Skips()
    trained = train_on(
        data,
        output,
        spec,
        config,
        say=remark,
        skip=skip,
        count=count,
        read=options,
        patches=patches,
        recipe=recipe,
        ready=ready,
        losses=losses,
        resume=resume,
    )
    if trained is None:  # the first process reports
        return
    method, judged = trained
    page = write_report(output / "report.html", report_of(read_run(output), method, judged))
    print(f"Wrote {escaped(str(page))}.")
    if view is not None and judged.paired:
        write_shown(view, method, judged.true, f"{output}, test graphs")
    elif view is not None:
        write_shown(view, None, judged.made, f"{output}, sampled graphs")
    skip.end()


def _refuse(flags: dict[str, Any], purpose: str) -> None:
    """A flag that has no effect here is a mistake; do not ignore it silently."""
    given = [name for name, value in flags.items() if value is not None]
    if given:
        raise GLNError(f"Got --{given[0].replace('_', '-')}, which is for {purpose}; leave it out.")
