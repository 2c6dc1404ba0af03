"""``gln evaluate``, ``gln generate`` and ``gln export``: what is done with a trained model besides predicting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, arg

from gln.commands import flags
from gln.commands.flags import Skips, remark
from gln.commands.look import SHOWN, show_views, write_shown
from gln.errors import GLNError, escaped
from gln.files import FORMATS, check_page, refuse_existing
from gln.seeds import TEST_SEED


def evaluate(
    model: flags.ModelPath,
    on: Annotated[str, arg(metavar="FAMILY|DATA")],
    count: int = 240,
    seed: int = TEST_SEED,
    steps: flags.Steps = None,
    largest_component: bool = False,
    view: flags.PagePath = None,
    read: OmitArgPrefixes[flags.ReadFlags] = flags.ReadFlags(),  # noqa: B008 - frozen
) -> None:
    """Score a model on graphs it has not seen: edge scores and MMD (for a family, with its floor).

    Files that cannot be read are named and skipped, and the exit code is then 1.

    Example: gln evaluate runs/community --on community

    Args:
        on: A family to draw test graphs from, or files with true edges.
        count: Number of test graphs to draw from a family.
        seed: Seed of the test graphs; use one that training has not seen.
        largest_component: Compute MMD on largest components only, as the paper does.
    """
    from gln.inference.choice import Choice
    from gln.workflows.methods import options_for
    from gln.workflows.training_data import check_graphs

    if view is not None:
        check_page(view)
    options, choice, skip = options_for(model, read.options()), Choice(steps=steps), Skips()
    check_graphs((on,), options, count, seed, model=model, skip=skip)
    from gln.workflows.judge import evaluate_on

    method, true, scores = evaluate_on(
        model, on, options, count, seed, choice, largest_component, skip, remark
    )
    print(scores)
    if view is not None:
        write_shown(view, method, true, f"{model} on {on}", steps)
    skip.end()


def generate(
    model: flags.ModelPath,
    output: Annotated[Path, arg(aliases=["-o"], metavar="PATH")],
    count: int = 100,
    seed: flags.Seed = 0,
    against: Annotated[str | None, arg(metavar="FAMILY")] = None,
    sampling_steps: flags.Whole = None,
    stochasticity: flags.Number = None,
    device: str = "auto",
    force: bool = False,
) -> None:
    """Generate graphs: a flow (GraphFlow) or a baseline samples them, any other model turns noise into them.

    A flow trades fidelity for variety: the higher its stochasticity, the more often it revises what it has drawn, so
    that more graphs are valid, but the less they vary, and the more steps it needs. 0 revises nothing.

    Examples: gln generate planar --count 100 -o graphs.npz; gln generate planar --count 4 -o forming.html

    Args:
        output: Write graphs (.npz, .safetensors), a picture (.png, .pdf, .svg), or a page (.html) that shows how a flow
            gets from noise to each graph.
        count: Number of graphs.
        against: Compare with this family by MMD, novelty and uniqueness, and validity where there is a rule.
        sampling_steps: Of a flow: from noise to a graph; more are better and slower. As the model says if omitted.
        stochasticity: Of a flow: how much it revises, such as 0, 25 or 100. As the model says if omitted.
        device: Where to compute: auto, cpu, cuda, cuda:1, ….
        force: Replace graphs that exist; a picture or page is always replaced.
    """
    from gln.families import parse_family
    from gln.graphs.check import check_whole
    from gln.seeds import check_seed
    from gln.storage.models import find_saved
    from gln.workflows.methods import check_device

    pictured = output.suffix.lstrip(".").lower() in FORMATS
    on_page = output.suffix.lower() == ".html"
    if not pictured and not on_page and output.suffix not in (".npz", ".safetensors"):
        raise GLNError(
            f"Got {output.name!r}; expected a name that ends in .npz, .safetensors, .png, .pdf, .svg or .html."
        )
    check_device(device)
    if on_page:
        check_page(output)
    elif not pictured:
        refuse_existing(output, force)
    family = None if against is None else parse_family(against)
    find_saved(model)
    check_whole("generate", "count", count, 1)
    check_seed("generate", seed)
    from gln.evaluation import mmd, novelty
    from gln.evaluation.generation import GROUP, VALID, generation_scores
    from gln.graphs import save_graphs
    from gln.inference.generate import generate_graphs
    from gln.io.writing import write_graphs
    from gln.models.chain import Sampling
    from gln.viewing import save_gallery
    from gln.workflows.methods import load_for, put_on
    from gln.workflows.views import KEPT, views_of_made

    chain = Sampling(sampling_steps, stochasticity)
    drawing = put_on(load_for("sample", model), device)
    others = [] if family is None else family.graphs(2 * count, seed=seed)
    graphs = generate_graphs(drawing, count, seed, how=chain, progress=True, keep=KEPT if on_page else 0)
    if on_page:
        show_views(output, views_of_made(graphs[:SHOWN]), f"{model}: from noise to graphs")
    elif pictured:
        name = getattr(drawing, "name", None)  # of a baseline
        how = f"sampled by {name}" if name else "generated from noise"
        save_gallery(graphs[:12], output, f"{model}: {how}")
    elif output.suffix == ".npz":
        write_graphs(graphs, output, force)
    else:
        save_graphs(graphs, output)
    if not on_page:
        print(f"Wrote {escaped(str(output))}.")
    if others:
        print(mmd(others[:count], graphs, floor=others[count:]))
        print(novelty(others, graphs))
    if family is not None and family.name in VALID and count >= GROUP:
        print(generation_scores(others[count:], others[:count], graphs, VALID[family.name]))


def export(
    model: flags.ModelPath,
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
