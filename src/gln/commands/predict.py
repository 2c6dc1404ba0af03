"""``gln predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands.flags import ModelPath, ReadFlags, Steps, count_of, remark
from gln.errors import GLNError


def predict(
    model: ModelPath,
    files: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="FILE",
            help="Tables, arrays, meshes, molecules, images or graphs; folders and patterns, too.",
        ),
    ],
    output: Annotated[
        Path, arg(aliases=["-o"], metavar="OUT", help="Edges as .csv, .npz, .graphml, .obj or .ply.")
    ],
    threshold: Annotated[
        float | None,
        arg(metavar="FLOAT", help="Probability from which a pair is an edge; the model's own if left out."),
    ] = None,
    top_k: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="Of these edges keep the k most probable of every node; with --threshold 0, of all pairs.",
        ),
    ] = None,
    known: Annotated[
        Path | None,
        arg(
            metavar="EDGES",
            help="Table of edges that are known (source, target, graph), to be completed: they stay.",
        ),
    ] = None,
    steps: Steps = None,
    batch_size: Annotated[int, arg(help="Graphs at a time.")] = 32,
    device: Annotated[str, arg(help="Where to compute: auto, cpu, cuda, cuda:1, ….")] = "auto",
    force: Annotated[bool, arg(help="Replace OUT if it exists.")] = False,
    read: OmitArgPrefixes[ReadFlags] = ReadFlags(),  # noqa: B008 - frozen
) -> None:
    """Predict the edges over your own points, meshes, molecules, images or tables.

    What cannot be read is named and skipped; then the exit code is 1. Files that say what their edges are also get
    scores. OUT may lie in a folder of the input; it is not read.

    Example: gln predict delaunay points.csv -o edges.csv
    """
    from gln.io import find_files
    from gln.pipeline.device import put_on
    from gln.pipeline.methods import load_for
    from gln.pipeline.predicting import Choice, predict_files

    options, choice = read.options(), Choice(threshold, top_k, steps, batch_size)
    if any(Path(word).is_file() and Path(word).resolve() == output.resolve() for word in files):
        raise GLNError(f"{output} is both input and output; choose another name for what is written.")
    paths = find_files(files)
    outcome = predict_files(
        put_on(load_for("predict", model), device),
        paths,
        output,
        options,
        choice,
        known=known,
        force=force,
        say=remark,
        complain=lambda text: remark(f"skipped {text}"),
    )
    print(f"Wrote {output}: {count_of(outcome.edges, 'edge')} in {count_of(outcome.graphs, 'graph')}.")
    if outcome.labelled:
        from gln.evaluation.metrics import Scores

        note = f"mean over {count_of(outcome.labelled, 'graph')} that came with true edges"
        print(f"\n{Scores(outcome.scores, [note])}")
    if outcome.skipped:
        print(f"\nSkipped {len(outcome.skipped)}:\n{outcome.reasons()}")
        sys.exit(1)
