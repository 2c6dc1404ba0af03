"""``gln list``, ``gln show``, ``gln view``, ``gln report`` and ``gln play``: what there is to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands import flags
from gln.commands.flags import Skips, count_of, open_page, remark
from gln.errors import escaped
from gln.files import check_page, check_picture
from gln.seeds import TEST_SEED

if TYPE_CHECKING:
    from gln.graphs.record import Graph
    from gln.workflows.views import View

SHOWN = 12  # graphs on the page of gln train and gln evaluate


def list_() -> None:
    """List the graph families, models, baselines and shipped models."""
    from gln.baselines import BASELINES
    from gln.families import FAMILIES
    from gln.models import MODELS
    from gln.storage.facts import read_facts
    from gln.storage.models import find_saved, shipped
    from gln.workflows.methods import FROM_DATA

    print("Families (set a parameter with FAMILY:name=value,...)\n")
    for name, family in sorted(FAMILIES.items()):
        _describe(name, family.summary(), family.defaults())
    print("Models to train (gln train DATA --model NAME:setting=value,...)\n")
    for name in sorted(MODELS):
        settings = MODELS.settings(name)
        own = {key: value for key, value in settings.items() if key not in FROM_DATA}
        _describe(name, MODELS.summary(name), own)
    print(
        "Baselines (used likewise; a sampler works with gln generate, not with gln evaluate or gln predict)\n"
    )
    for name, baseline in sorted(BASELINES.items()):
        kind = {"predict": "predictor", "sample": "sampler"}[baseline.kind]
        _describe(name, baseline.summary(), baseline.defaults(), f"{kind}; {baseline.fitted}")
    print("Shipped models (gln predict MODEL FILE -o OUT; gln generate MODEL -o OUT)\n")
    for name in shipped():
        config = read_facts(find_saved(name) / "model.json")["config"]
        pos, x = config["pos_channels"], config["in_channels"]
        reads = f"reads {count_of(pos, 'position')} and {count_of(x, 'feature')} per node"
        print(f"  {name:<16}{reads if pos or x else 'generates graphs over bare nodes'}")


def _describe(name: str, summary: str, settings: dict[str, Any], *more: str) -> None:
    from gln.registry import write_value

    values = ", ".join(f"{key}={write_value(value)}" for key, value in settings.items())
    lines = [part for text in (summary.replace("``", ""), *more, values) for part in wrap(text, 100)]
    for number, line in enumerate(lines):
        print(f"  {'' if number else name:<12}{line}")
    print()


def show(
    family: flags.FamilySpec,
    output: Annotated[Path | None, arg(aliases=["-o"], metavar="PATH")] = None,
    count: int = 6,
    seed: flags.Seed = 0,
) -> None:
    """Draw several graphs of a family into one picture.

    Example: gln show surfaces:kind=torus -o torus.png

    Args:
        output: Picture to write (.png, .pdf or .svg); FAMILY.png if omitted.
        count: Number of graphs.
    """
    from gln.families import parse_family

    chosen = parse_family(family)
    picture = check_picture(output or f"{chosen.name}.png")
    graphs = chosen.graphs(count, seed=seed)
    from gln.viewing import save_gallery

    captions = [chosen.caption(graph) for graph in graphs]
    save_gallery(graphs, picture, str(chosen), captions)
    print(f"Wrote {escaped(str(picture))}.")


def view(
    source: Annotated[
        Positional[tuple[str, ...]], arg(metavar="FAMILY|FILE|RUN", help_behavior_hint="(one or more)")
    ],
    output: Annotated[Path, arg(aliases=["-o"], metavar="PAGE")] = Path("page.html"),
    model: Annotated[str | None, arg(metavar="RUN|MODEL")] = None,
    predicted: flags.File = None,
    count: int = 6,
    seed: int = TEST_SEED,
    threshold: flags.Number = None,
    steps: flags.Steps = None,
    clusters: flags.Clusters = None,
    open: bool = False,
    read: OmitArgPrefixes[flags.ReadFlags] = flags.ReadFlags(),  # noqa: B008 - frozen
) -> None:
    """Show graphs on one offline page: truth against prediction, the steps of the recurrence, any threshold.

    Files that cannot be read are named and skipped, and the exit code is then 1.

    Examples: gln view surfaces:points=400 --model surfaces -o page.html; gln view points.csv --predicted edges.csv

    Args:
        source: A family, files of graphs or predictions, or a run folder (its model on graphs it has not seen).
        output: The page to write: one self-contained .html file.
        model: Show what this model predicts, step by step, against the true edges if there are any.
        predicted: Show these predictions over FILE: a .csv or .npz from gln predict.
        count: Number of graphs.
        seed: Seed of graphs drawn from a family; use one that training has not seen.
        threshold: Initial position of the slider; the model's own threshold if omitted.
        clusters: Also colour the nodes by which belong together: auto, linkage, louvain or components.
        open: Open the page in the browser.
    """
    from gln.inference.choice import Choice
    from gln.workflows.methods import options_for
    from gln.workflows.training_data import check_view

    check_page(output)
    options, choice = read.options(), Choice(threshold, steps=steps)
    if model is not None:
        options = options_for(model, options)
    check_view(source, options, count, seed, model, predicted)
    from gln.workflows.views import views_from

    skip = Skips()
    views, title = views_from(source, options, count, seed, skip, remark, model, predicted, choice)
    if clusters is not None:
        views = [view.clustered(clusters) for view in views]
    show_views(output, views, title)
    if open:
        open_page(output)
    skip.end()


def report(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    output: Annotated[Path | None, arg(aliases=["-o"], metavar="PAGE")] = None,
) -> None:
    """Write the report of a run: curves, scores, its best and worst test graphs, settings, and how to repeat it.

    The report is one offline page, which gln train also writes when it ends. Here the test graphs are drawn or read
    again and predicted again.

    Example: gln report runs/community -o report.html

    Args:
        run: A run folder, finished or not.
        output: The page to write (.html); RUN/report.html if omitted.
    """
    from gln.workflows.runs import read_run

    page = check_page(output or run / "report.html")
    read_run(run)
    from gln.viewing.reports import write_report
    from gln.workflows.judge import judge_run

    skip = Skips()
    write_report(page, judge_run(run, skip, remark))
    print(f"Wrote {escaped(str(page))}.")
    skip.end()


def play(
    models: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="RUN|MODEL", help_behavior_hint="(default: delaunay-small surfaces)"),
    ] = ("delaunay-small", "surfaces"),
    output: Annotated[Path, arg(aliases=["-o"], metavar="PAGE")] = Path("play.html"),
    open: bool = False,
) -> None:
    """Write a page where points are placed and dragged, and the graph forms at once: one file, no server.

    The models run in the browser, offline. Points can also be dropped as a CSV, edges downloaded, and a link shared
    that holds the points.

    Examples: gln play; gln play runs/mine delaunay -o play.html --open

    Args:
        models: GLNs that read 2 or 3 coordinates: run folders, saved models, or names of shipped ones.
        output: The page to write: one self-contained .html file.
        open: Open the page in the browser.
    """
    from gln.files import check_page
    from gln.storage.models import find_saved

    check_page(output)
    for model in models:
        find_saved(model)
    from gln.viewing.play import write_play
    from gln.workflows.playable import playable

    write_play(output, [playable(model) for model in models])
    print(f"Wrote {escaped(str(output))}: {count_of(len(models), 'model')}, {output.stat().st_size:,} bytes.")
    if open:
        open_page(output)


def write_shown(page: Path, model: Any, graphs: list[Graph], title: str, steps: int | None = None) -> None:
    """Write the page of a command that has a model and true graphs, or only graphs; shows the first of them."""
    from gln.workflows.views import views_of, watch, within_reach

    shown = within_reach(views_of(graphs[:SHOWN]), remark)
    show_views(page, shown if model is None else watch(model, shown, steps=steps, progress=True), title)


def show_views(page: Path, views: Sequence[View], title: str) -> None:
    """Write a page and say so."""
    from gln.viewing.pages import write_page

    write_page(page, views, title)
    print(f"Wrote {escaped(str(page))}: {count_of(len(views), 'graph')}.")
