"""``gln predict``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from gln.commands import flags
from gln.commands.flags import Skips, count_of, remark
from gln.commands.look import show_views
from gln.errors import escaped
from gln.files import check_page
from gln.training.config import SEVERAL

if TYPE_CHECKING:
    from gln.workflows.answers import Outcome
    from gln.workflows.predict_files import Job


def predict(
    model: flags.ModelPath,
    files: Annotated[Positional[tuple[str, ...]], arg(metavar="FILE", help_behavior_hint="(one or more)")],
    output: Annotated[Path, arg(aliases=["-o"], metavar="OUT")],
    threshold: flags.Number = None,
    top_k: flags.Whole = None,
    known: Annotated[Path | None, arg(metavar="EDGES")] = None,
    steps: flags.Steps = None,
    candidates: flags.Whole = None,
    batch_size: int = 32,
    device: str = "auto",
    force: bool = False,
    view: flags.PagePath = None,
    clusters: flags.Clusters = None,
    faces: Annotated[Literal["auto", "closed", "open", "no"], arg(metavar="auto|closed|open|no")] = "auto",
    tile_nodes: flags.Whole = None,
    read: OmitArgPrefixes[flags.ReadFlags] = flags.ReadFlags(),  # noqa: B008 - frozen
    share: OmitArgPrefixes[flags.ShareFlags] = flags.ShareFlags(),  # noqa: B008 - frozen
) -> None:
    """Predict the edges over your own points, meshes, molecules, images or tables.

    Inputs that cannot be read are named and skipped, and the exit code is then 1. Files that contain true edges are
    also scored. OUT may lie in an input folder; it is not read. If OUT is a folder, edges are written there as Parquet
    files, one after another, and repeating the command computes only those that are missing. A single set that is too
    large for the memory is then predicted in tiles.

    Examples: gln predict delaunay points.csv -o edges.csv; gln predict delaunay huge.parquet -o edges/;
    gln predict molecules ligands/*.xyz -o ligands.sdf; gln predict shapes scan.ply -o mesh.ply

    Args:
        files: Tables, arrays, meshes, molecules, images or graphs; also folders and patterns.
        output: Where to write the edges: .csv, .parquet, .npz, .graphml, .obj or .ply, or a folder; molecules also as
            .sdf or .smi, meshes also as .stl, .off or .glb; with --clusters .csv, and .png for the regions of images.
            Types of nodes go to NAME.nodes.csv beside a .csv.
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
        faces: Write a triangle mesh: closed, or open, which keeps boundaries; no writes edges. By default closed for
            .stl, .off and .glb, and for .ply and .obj if the model was trained on surfaces.
        tile_nodes: Predict a large set in tiles of about so many nodes, each with all around it that its edges depend
            on; if omitted, as many as the memory allows, and only sets for which it is too small.
    """
    from gln.inference.choice import Choice
    from gln.storage.models import saved_facts
    from gln.workflows.forms import Meshing, check_molecules
    from gln.workflows.methods import as_molecules, check_prediction, options_for

    if view is not None:
        check_page(view)
    if output.suffix.lower() == ".png":
        clusters = clusters or "auto"
    choice = Choice(threshold, top_k, steps, candidates, batch_size)
    if as_molecules(output):
        check_molecules(model, saved_facts(model), choice)
    meshing = Meshing.of(faces, output, saved_facts(model), model)
    share.check()
    options = options_for(model, read.options())
    paths = check_prediction(
        model, files, output, options, known, clusters is not None, force, device, Skips()
    )
    from gln.baselines.neighbours import load_rules
    from gln.workflows.engines import in_this_process
    from gln.workflows.methods import load_for, put_on
    from gln.workflows.predict_files import Job
    from gln.workflows.tiling import predict_job

    if SEVERAL & os.environ.keys():
        from gln.training.processes import check_alone

        check_alone("start the command once: --devices and --engine ray share the work")
    engine, network = share.chosen(), load_for("predict", model)
    network = put_on(network, device, None if engine is in_this_process else 0)  # a mistake is found here
    # Of several processes, not all see the graphs that rules would be fitted on.
    rules = load_rules(model) or (None if engine is in_this_process else {})
    job = Job(network, paths, output, options, choice, known, force, clusters, rules, device, meshing)
    if view is not None:
        from gln.workflows.views import job_items

        shown = job_items(job, view, remark)
    workers = share.devices if isinstance(share.devices, int) else 1
    skip = Skips()
    outcome = predict_job(job, engine, tile_nodes, workers, remark, skip)
    _tell_written(job, outcome)
    if view is not None:
        from gln.workflows.views import job_views

        show_views(view, job_views(job, shown), f"{model} on {' '.join(files)}")
    if outcome.labelled:
        _tell_scores(job, outcome, model)
    skip.end()


def _tell_written(job: Job, outcome: Outcome) -> None:
    from gln.models.contract import kinds_of
    from gln.workflows.methods import as_molecules

    output, graphs = job.output, count_of(outcome.graphs, "graph")
    what = count_of(outcome.edges, "edge") if job.clusters is None else count_of(outcome.clusters, "cluster")
    if as_molecules(output):
        what, graphs = count_of(outcome.graphs, "molecule"), f"{outcome.sure:,} of them more than 99 % sure"
    elif job.form is not None:
        what = "the mesh" if outcome.graphs == 1 else "the meshes"
        graphs = "the points" if outcome.graphs == 1 else f"{outcome.graphs:,} sets of points"
    # Several graphs may be in files of their own.
    written = output if output.exists() else output.with_name(f"{output.stem}-*{output.suffix}")
    between = "," if as_molecules(output) else " in" if job.form is None else " of"
    print(f"Wrote {escaped(str(written))}: {what}{between} {graphs}.")
    if output.suffix.lower() == ".csv" and job.clusters is None and kinds_of(job.model).node_types:
        print(f"Wrote {escaped(str(output.with_suffix('.nodes.csv')))}: the types of their nodes.")


def _tell_scores(job: Job, outcome: Outcome, model: str) -> None:
    from gln.evaluation.metrics import Scores
    from gln.workflows.runs import has_learned_from

    if words := has_learned_from(model, job.paths):
        remark(words)
    note = f"mean over {count_of(outcome.labelled, 'graph')} that came with true edges"
    notes = [note, *filter(None, [job.about_rules])]
    print(f"\n{Scores(outcome.scores, notes, rules=outcome.rules)}")
