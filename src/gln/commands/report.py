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
        arg(aliases=["-o"], metavar="PAGE", help="The page to write (.html); RUN/report.html if left out."),
    ] = None,
) -> None:
    """Write the report of a run: curves, scores, its best and worst test graphs, settings, the command to repeat it.

    gln train writes it at its end. Test graphs are drawn or read again and predicted again. One offline page.

    Example: gln report runs/community -o report.html
    """
    from gln.viewing.reports import report_run

    skipped: list[Skipped] = []
    page = report_run(run, output or run / "report.html", skipper(skipped), remark)
    print(f"Wrote {page}.")
    end_skipped(skipped)
