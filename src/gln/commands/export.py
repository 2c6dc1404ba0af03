"""``gln export`` and ``gln play``: models outside Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from gln.commands.flags import ModelPath, remark
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
    from gln.io.writing import refuse_existing
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
