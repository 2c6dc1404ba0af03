"""``gln report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from gln.commands.flags import end_skipped, remark, skipper

if TYPE_CHECKING:
    from gln.io import Skipped


def report(
    run: Annotated[Positional[Path], arg(metavar="RUN", help="A run folder, finished or not.")],
    output: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="PAGE", help="The page to write (.html); RUN/report.html if omitted."),
    ] = None,
) -> None:
    """Write the report of a run: curves, scores, its best and worst test graphs, settings, and how to repeat it.

    The report is one offline page, which gln train also writes when it ends. Here the test graphs are drawn or read
    again and predicted again.

    Example: gln report runs/community -o report.html
    """
    from gln.viewing.reports import report_run

    skipped: list[Skipped] = []
    page = report_run(run, output or run / "report.html", skipper(skipped), remark)
    print(f"Wrote {page}.")
    end_skipped(skipped)
