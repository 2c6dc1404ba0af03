"""``gln export`` and ``gln play``: models outside Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gln.commands.flags import ModelPath, count_of, open_page, remark
from gln.errors import escaped


def export(
    model: ModelPath,
    output: Annotated[Path, arg(aliases=["-o"], metavar="FILE")],
    force: bool = False,
) -> None:
    """Export a model to ONNX, for any program in any language; gln predict reads it too.

    FILE scores all pairs of a set. Of a GLN, a second file beside it, NAME.candidates.onnx, scores lists of candidates,
    for large sets. Both are run and compared with torch before they are kept.

    Example: gln export delaunay -o delaunay.onnx

    Args:
        output: The file to write: .onnx.
        force: Replace FILE if it exists.
    """
    from gln.files import refuse_existing
    from gln.storage.models import find_saved

    refuse_existing(output, force)
    find_saved(model)
    from gln.adapters.onnx import TOLERANCE, check_target, export
    from gln.workflows.methods import load_for

    check_target(output)
    network = load_for("predict", model)
    remark("exporting and comparing with torch; this takes a minute.")
    for path in export(network, output):
        print(f"Wrote {escaped(str(path))}: {path.stat().st_size:,} bytes, within {TOLERANCE:g} of torch.")


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
