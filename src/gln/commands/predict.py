"""``gln predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands.flags import ModelPath, ReadFlags, ShareFlags, Steps, count_of, remark
from gln.commands.view import PagePath
from gln.errors import GLNError

if TYPE_CHECKING:
    from gln.training.processes import Place
    from gln.workflows.predict_files import Job, Outcome


def predict(
    model: ModelPath,
    files: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="FILE",
            help="Tables, arrays, meshes, molecules, images or graphs; also folders and patterns.",
        ),
    ],
    output: Annotated[
        Path,
        arg(
            aliases=["-o"],
            metavar="OUT",
            help="Where to write the edges: .csv, .npz, .graphml, .obj or .ply.",
        ),
    ],
    threshold: Annotated[
        float | None,
        arg(metavar="FLOAT", help="Lowest probability of an edge; the model's own threshold if omitted."),
    ] = None,
    top_k: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="Keep only the k most probable of these edges at every node; with --threshold 0, of all pairs.",
        ),
    ] = None,
    known: Annotated[
        Path | None,
        arg(
            metavar="EDGES",
            help="Table of known edges (source, target, graph) to complete; they are kept.",
        ),
    ] = None,
    steps: Steps = None,
    candidates: Annotated[
        int | None,
        arg(
            metavar="INT",
            help="How many nearest nodes each node is paired with; fewer are faster but find fewer edges. If omitted, "
            "all pairs for up to 128 nodes, and the model's own number beyond.",
        ),
    ] = None,
    batch_size: Annotated[int, arg(help="Graphs at a time.")] = 32,
    device: Annotated[str, arg(help="Where to compute: auto, cpu, cuda, cuda:1, ….")] = "auto",
    force: Annotated[bool, arg(help="Replace OUT if it exists.")] = False,
    view: PagePath = None,
    read: OmitArgPrefixes[ReadFlags] = ReadFlags(),  # noqa: B008 - frozen
    share: OmitArgPrefixes[ShareFlags] = ShareFlags(),  # noqa: B008 - frozen
) -> None:
    """Predict the edges over your own points, meshes, molecules, images or tables.

    Inputs that cannot be read are named and skipped, and the exit code is then 1. Files that contain true edges are
    also scored. OUT may lie in an input folder; it is not read. With --devices, several processes share the graphs:
    partial results stay in OUT.parts until all are done, and --resume continues from them.

    Example: gln predict delaunay points.csv -o edges.csv
    """
    from gln.io import find_files
    from gln.training.processes import find_place
    from gln.workflows.device import put_on
    from gln.workflows.methods import load_for
    from gln.workflows.predict_files import Choice, Job

    if view is not None:
        from gln.viewing.pages import check_page

        check_page(view)
    options, choice = read.options(), Choice(threshold, top_k, steps, candidates, batch_size)
    if any(Path(word).is_file() and Path(word).resolve() == output.resolve() for word in files):
        raise GLNError(f"{output} is both input and output; choose another name for the output.")
    place = find_place(share.per_machine(), share.num_nodes) if share.given() else None
    paths = find_files(files)
    local = place.local if place is not None and place.world > 1 else None
    job = Job(put_on(load_for("predict", model), device, local), paths, output, options, choice, known, force)
    outcome = _alone(job) if place is None else _share(job, place, share)
    if outcome is not None:
        print(f"Wrote {output}: {count_of(outcome.edges, 'edge')} in {count_of(outcome.graphs, 'graph')}.")
        if view is not None:
            _show(job, view, f"{model} on {' '.join(files)}")
        _report(outcome)


def _complain(text: str) -> None:
    remark(f"skipped {text}")


def _alone(job: Job) -> Outcome:
    from gln.training.processes import check_alone
    from gln.workflows.predict_files import predict_files

    check_alone()
    return predict_files(job, say=remark, complain=_complain)


def _share(job: Job, place: Place, share: ShareFlags) -> Outcome | None:
    """The outcome, in the first process; the others return ``None`` and leave the report to it."""
    from gln.workflows.sharing import Explained, Shared

    try:
        if place.rank:
            Shared(job, place, share.per_machine()).follow()
            return None
        return Shared(job, place, share.per_machine(), remark, _complain).lead(share.resume)
    except Explained:
        sys.exit(2)


def _show(job: Job, page: Path, title: str) -> None:
    from gln.workflows.sources import page_of_files

    if page_of_files(job, page, title, remark) is not None:
        print(f"Wrote {page}.")


def _report(outcome: Outcome) -> None:
    if outcome.labelled:
        from gln.evaluation.metrics import Scores

        note = f"mean over {count_of(outcome.labelled, 'graph')} that came with true edges"
        print(f"\n{Scores(outcome.scores, [note])}")
    if outcome.skipped:
        print(f"\nSkipped {len(outcome.skipped)}:\n{outcome.reasons()}")
        sys.exit(1)
