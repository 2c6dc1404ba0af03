"""``gln view``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands.flags import ReadFlags, Steps, count_of, end_skipped, is_family, remark, skipper
from gln.errors import GLNError
from gln.seeds import TEST_SEED

if TYPE_CHECKING:
    from gln.graphs.record import Graph
    from gln.io import Skipped
    from gln.viewing import View

SHOWN = 12  # graphs on the page of gln train and gln evaluate

PagePath = Annotated[
    Path | None,
    arg(metavar="PAGE", help="Also write a page (.html) with the first graphs and their errors."),
]


def view(
    source: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="FAMILY|FILE|RUN",
            help="A family, files of graphs or predictions, or a run folder (its model on graphs it has not seen).",
        ),
    ],
    output: Annotated[
        Path,
        arg(aliases=["-o"], metavar="PAGE", help="The page to write: one self-contained .html file."),
    ] = Path("page.html"),
    model: Annotated[
        str | None,
        arg(
            metavar="RUN|MODEL",
            help="Show what this model predicts, step by step, against the true edges if there are any.",
        ),
    ] = None,
    predicted: Annotated[
        Path | None,
        arg(metavar="PATH", help="Show these predictions over FILE: a .csv or .npz from gln predict."),
    ] = None,
    count: Annotated[int, arg(help="Number of graphs.")] = 6,
    seed: Annotated[
        int, arg(help="Seed of graphs drawn from a family; use one that training has not seen.")
    ] = TEST_SEED,
    threshold: Annotated[
        float | None,
        arg(metavar="FLOAT", help="Initial position of the slider; the model's own threshold if omitted."),
    ] = None,
    steps: Steps = None,
    open: Annotated[bool, arg(help="Open the page in the browser.")] = False,
    read: OmitArgPrefixes[ReadFlags] = ReadFlags(),  # noqa: B008 - frozen
) -> None:
    """Show graphs on one offline page: truth against prediction, the steps of the recurrence, any threshold.

    Files that cannot be read are named and skipped, and the exit code is then 1.

    Examples: gln view surfaces:points=400 --model surfaces -o page.html; gln view points.csv --predicted edges.csv
    """
    from gln.inference.predict import Choice
    from gln.io.predictions import add_predictions
    from gln.viewing.pages import check_page, write_page
    from gln.viewing.views import within_reach
    from gln.workflows.sources import is_run

    check_page(output)
    Choice(threshold)
    if not source:
        raise GLNError("Got nothing to show; name a family, files or a run.")
    if count < 1:
        raise GLNError(f"Got count={count}; expected at least 1.")
    if model is not None and predicted is not None:
        raise GLNError(
            "Got both --model and --predicted; a page shows only one of them: leave the other out."
        )
    skipped: list[Skipped] = []
    title = " ".join(source)
    run = source[0] if len(source) == 1 and is_run(source[0]) else None
    views = within_reach(_read(source, run, read, count, seed, skipped), remark)
    if model is None and predicted is None:
        model = run
    if model is not None:
        views = _watched(model, views, steps, threshold)
        title = title if title == model else f"{model} on {title}"
    elif predicted is not None:
        views = add_predictions(views, predicted)
    write_page(output, views, title)
    print(f"Wrote {output}: {count_of(len(views), 'graph')}.")
    if open:
        import webbrowser

        webbrowser.open(output.resolve().as_uri())
    end_skipped(skipped)


def _read(
    source: tuple[str, ...], run: str | None, read: ReadFlags, count: int, seed: int, skipped: list[Skipped]
) -> list[View]:
    """Graphs that the run has not seen, or else those of a family or of files."""
    from gln.workflows.sources import family_views, file_views, run_views

    if run is not None:
        views = run_views(Path(run), count, seed, skipper(skipped), remark)
    elif is_family(source):
        views = family_views(source[0], count, seed)
    else:
        views = file_views(source, read.options(), count, skipper(skipped), remark)
    if not views:
        raise GLNError(f"There is no graph to show in {' '.join(source)}; nothing was written.")
    return views


def _watched(name: str, views: list[View], steps: int | None, threshold: float | None) -> list[View]:
    from gln.viewing.views import watch
    from gln.workflows.methods import load_for
    from gln.workflows.sources import check_fit

    model = load_for("predict", name)
    check_fit(model, views)
    return watch(model, views, steps=steps, threshold=threshold, progress=True)


def write_shown(page: Path, model: Any, graphs: list[Graph], title: str, steps: int | None = None) -> None:
    """Write the page of a command that has a model and true graphs, or only graphs; shows the first of them."""
    from gln.viewing import views_of, watch, write_page
    from gln.viewing.views import within_reach

    shown = within_reach(views_of(graphs[:SHOWN]), remark)
    write_page(page, shown if model is None else watch(model, shown, steps=steps, progress=True), title)
    print(f"Wrote {page}: {count_of(len(shown), 'graph')}.")
