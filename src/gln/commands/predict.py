"""``gln predict``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands.flags import (
    Clusters,
    ModelPath,
    Number,
    PagePath,
    ReadFlags,
    ShareFlags,
    Skips,
    Steps,
    Whole,
    count_of,
    remark,
)
from gln.errors import GLNError, escaped
from gln.files import apart_from, check_page, open_regular, same_place
from gln.training.config import SEVERAL


def predict(
    model: ModelPath,
    files: Annotated[Positional[tuple[str, ...]], arg(metavar="FILE", help_behavior_hint="(one or more)")],
    output: Annotated[Path, arg(aliases=["-o"], metavar="OUT")],
    threshold: Number = None,
    top_k: Whole = None,
    known: Annotated[Path | None, arg(metavar="EDGES")] = None,
    steps: Steps = None,
    candidates: Whole = None,
    batch_size: int = 32,
    device: str = "auto",
    force: bool = False,
    view: PagePath = None,
    clusters: Clusters = None,
    tile_nodes: Whole = None,
    read: OmitArgPrefixes[ReadFlags] = ReadFlags(),  # noqa: B008 - frozen
    share: OmitArgPrefixes[ShareFlags] = ShareFlags(),  # noqa: B008 - frozen
) -> None:
    """Predict the edges over your own points, meshes, molecules, images or tables.

    Inputs that cannot be read are named and skipped, and the exit code is then 1. Files that contain true edges are
    also scored. OUT may lie in an input folder; it is not read. If OUT is a folder, edges are written there as Parquet
    files, one after another, and repeating the command computes only those that are missing. A single set that is too
    large for the memory is then predicted in tiles.

    Examples: gln predict delaunay points.csv -o edges.csv; gln predict delaunay huge.parquet -o edges/

    Args:
        files: Tables, arrays, meshes, molecules, images or graphs; also folders and patterns.
        output: Where to write the edges: .csv, .parquet, .npz, .graphml, .obj or .ply, or a folder; with --clusters
            .csv, and .png for the regions of images. Types of nodes go to NAME.nodes.csv beside a .csv.
        threshold: Lowest probability of an edge; the model's own threshold if omitted.
        top_k: Keep only the k most probable of these edges at every node; with --threshold 0, of all pairs.
        known: Table of known edges (source, target, graph, and type and weight if the model predicts them) to complete;
            they are kept.
        candidates: How many nearest nodes each node is paired with; fewer are faster but find fewer edges. If omitted,
            all pairs for up to 128 nodes, and the model's own number beyond.
        batch_size: Graphs at a time.
        device: Where to compute: auto, cpu, cuda, cuda:1, ….
        force: Replace OUT if it exists.
        clusters: Write which nodes belong together instead of the edges; auto is linkage for images (usual for .png)
            and louvain for all else.
        tile_nodes: Predict a large set in tiles of about so many nodes, each with all around it that its edges depend
            on; if omitted, as many as the memory allows, and only sets for which it is too small.
    """
    from gln.inference.choice import Choice
    from gln.io import find_files
    from gln.io.writing import check_output
    from gln.workflows.asked import check_device, check_nodes
    from gln.workflows.methods import options_for

    if view is not None:
        check_page(view)
    check_device(device)
    if output.suffix.lower() == ".png":
        clusters = clusters or "auto"
    choice = Choice(threshold, top_k, steps, candidates, batch_size)
    if any(Path(word).is_file() and same_place(Path(word), output) for word in files):
        raise GLNError(f"{output} is both input and output; choose another name for the output.")
    in_folder = output.is_dir() or not output.suffix
    share.check(in_folder)
    if in_folder:
        if clusters is not None:
            raise GLNError(f"Got the folder {output}; clusters are written to .csv or .png.")
        from gln.io.parquet import arrow

        arrow()
    paths = find_files(files)
    options = options_for(model, read.options())
    if known is not None:
        open_regular(known).close()
    if nodes := apart_from(paths, (output, known)):
        check_nodes(model, nodes, options, Skips(), known)
    if not in_folder:
        check_output(output, force, clusters is not None)
    from gln.models.contract import kinds_of
    from gln.workflows.engines import in_this_process
    from gln.workflows.methods import load_for, put_on
    from gln.workflows.predict_files import Job, predict_files
    from gln.workflows.rules import FROM_TRAINING, load_rules
    from gln.workflows.tiling import too_large

    if SEVERAL & os.environ.keys():
        from gln.training.processes import check_alone

        check_alone("start the command once: --devices and --engine ray share the work")
    engine, network = share.chosen(), load_for("predict", model)
    network = put_on(network, device, None if engine is in_this_process else 0)  # a mistake is found here
    # Of several processes, not all see the graphs that rules would be fitted on.
    rules = load_rules(model) or (None if engine is in_this_process else {})
    about = FROM_TRAINING if rules else ""
    job = Job(network, paths, output, options, choice, known, force, clusters, rules, about, device)
    if view is not None:
        from gln.workflows.views import job_items

        shown = job_items(job, view, remark)
    said: list[str] = []
    stream = too_large(job, tile_nodes, said.append)
    if stream is not None and not in_folder:
        raise GLNError(
            f"{stream.count:,} nodes are predicted in tiles; name a folder for the output, such as {output.stem}/."
        )
    if stream is not None:
        from gln.workflows.tiling import predict_tiles

        for text in said:
            remark(text)
        workers = share.devices if isinstance(share.devices, int) else 1
        outcome = predict_tiles(job, stream, engine, tile_nodes, workers, remark)
    elif in_folder:
        from gln.workflows.shards import predict_in_folder

        outcome = predict_in_folder(job, engine, remark, _complain)
    else:
        outcome = predict_files(job, engine=engine, say=remark, complain=_complain)
    what = count_of(outcome.edges, "edge") if clusters is None else count_of(outcome.clusters, "cluster")
    # Several graphs may be in files of their own.
    written = output if output.exists() else output.with_name(f"{output.stem}-*{output.suffix}")
    print(f"Wrote {escaped(str(written))}: {what} in {count_of(outcome.graphs, 'graph')}.")
    if output.suffix.lower() == ".csv" and clusters is None and kinds_of(network).node_types:
        print(f"Wrote {escaped(str(output.with_suffix('.nodes.csv')))}: the types of their nodes.")
    if view is not None:
        from gln.viewing.pages import write_page
        from gln.workflows.views import job_views

        write_page(view, job_views(job, shown), f"{model} on {' '.join(files)}")
        print(f"Wrote {escaped(str(view))}.")
    if outcome.labelled:
        from gln.evaluation.metrics import Scores
        from gln.workflows.runs import has_learned_from

        if words := has_learned_from(model, paths):
            remark(words)
        note = f"mean over {count_of(outcome.labelled, 'graph')} that came with true edges"
        notes = [note, *filter(None, [job.about_rules])]
        print(f"\n{Scores(outcome.scores, notes, rules=outcome.rules)}")
    if outcome.skipped:
        print(f"\nSkipped {len(outcome.skipped)}:\n{outcome.reasons()}")
        sys.exit(1)


def _complain(text: str) -> None:
    remark(f"skipped {text}")
