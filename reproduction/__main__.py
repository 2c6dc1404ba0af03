"""``python -m reproduction``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional, arg

from gln.commands.cli import in_sentences
from gln.errors import GLNError


def reproduce(
    names: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="EXPERIMENT", help="One or more experiments, or all; without any, list them."),
    ] = (),
    scale: Annotated[
        Literal["smoke", "full"],
        arg(help="full: the paper's sizes; smoke: toy sizes, to check within a minute that everything runs."),
    ] = "full",
    cell: Annotated[
        str | None,
        arg(
            metavar="NAME", help="Run only this cell, as in set/figures/mmsb; the end of its name is enough."
        ),
    ] = None,
    again: Annotated[bool, arg(help="Measure cells again even if they are done.")] = False,
    jobs: Annotated[
        int,
        arg(metavar="N", help="Run N cells side by side: one small network leaves most of a GPU idle."),
    ] = 1,
    write_docs: Annotated[
        bool, arg(help="Fill the tables and draw the charts of the README and of docs/reproduction.md.")
    ] = False,
    root: Annotated[
        Path, arg(metavar="PATH", help="The root of the repository, which holds results/, runs/ and docs/.")
    ] = Path(),
) -> None:
    """Reproduce the paper's tables and figures cell by cell; results are kept under results/reproduction.

    Example: python -m reproduction table-mmd --cell ordered/community-2/mmsb
    """
    from reproduction.cells import Places, cells_of, choose
    from reproduction.page import write_pages
    from reproduction.runner import run_cells
    from reproduction.specs import experiments
    from reproduction.tables import read_cells

    if (cell or again) and not names:
        raise GLNError(f"Got {'--cell' if cell else '--again'} without an experiment; name one, or all.")
    if jobs < 1:
        raise GLNError(f"Got --jobs {jobs}; expected at least 1.")
    places = Places(root)
    if names:
        cells = choose([] if "all" in names else list(names), scale, cell)
        try:
            now = run_cells(cells, places, again, jobs=jobs)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; repeat the command to go on from there.") from None
        print(f"{now} of {len(cells)} cells run now; results are in {places.results(scale)}.")
    if write_docs or (names and scale == "smoke"):
        print(f"Wrote {' and '.join(write_pages(places, scale))}.")
    if not names and not write_docs:
        for name, one in experiments().items():
            total, done = len(list(cells_of(one, scale))), len(read_cells(one, scale, places))
            print(f"{name:<20} {done:>3} of {total:>3} cells at scale {scale}   {one.title}")


if __name__ == "__main__":
    in_sentences("reproduction", lambda: tyro.cli(reproduce, prog="python -m reproduction"))
