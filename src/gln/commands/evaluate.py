"""``gln evaluate`` and ``gln generate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, arg

from gln.commands.flags import ModelPath, ReadFlags, Seed, Steps, end_skipped, is_family, remark, skipper
from gln.commands.view import PagePath, write_shown
from gln.errors import GLNError
from gln.seeds import TEST_SEED

if TYPE_CHECKING:
    from gln.io import Skipped


def evaluate(
    model: ModelPath,
    on: Annotated[
        str,
        arg(metavar="FAMILY|DATA", help="A family to draw test graphs from, or files with true edges."),
    ],
    count: Annotated[int, arg(help="Number of test graphs to draw from a family.")] = 240,
    seed: Annotated[
        int, arg(help="Seed of the test graphs; use one that training has not seen.")
    ] = TEST_SEED,
    steps: Steps = None,
    largest_component: Annotated[
        bool, arg(help="Compute MMD on largest components only, as the paper does.")
    ] = False,
    view: PagePath = None,
    read: OmitArgPrefixes[ReadFlags] = ReadFlags(),  # noqa: B008 - frozen
) -> None:
    """Score a model on graphs it has not seen: edge scores and MMD (for a family, with its floor).

    Files that cannot be read are named and skipped, and the exit code is then 1.

    Example: gln evaluate runs/community --on community
    """
    from gln.families import parse_family
    from gln.inference.evaluate import evaluate as score
    from gln.viewing.pages import check_page
    from gln.workflows.fitness import misfit
    from gln.workflows.methods import load_for
    from gln.workflows.sources import learned_from
    from gln.workflows.train_files import find_data, read_labelled

    if view is not None:
        check_page(view)
    skipped: list[Skipped] = []
    judged = load_for("predict", model)
    if is_family((on,)):
        graphs = parse_family(on).graphs(2 * count, seed=seed)
        true, floor = graphs[:count], graphs[count:]
    else:
        paths = find_data([on])
        if learned_from(Path(model), paths):
            remark(
                f"{model} was trained on some of these files, so not all graphs are unseen; "
                f"gln report {model} scores its test graphs alone"
            )
        true, floor = read_labelled(paths, read.options(), skipper(skipped), remark), None
        wrong = next((reason for graph in true if (reason := misfit(judged, graph))), None)
        if wrong is not None:
            raise GLNError(f"{on}: {wrong}")
    print(score(judged, true, steps=steps, floor=floor, largest_component=largest_component))
    if view is not None:
        write_shown(view, judged, true, f"{model} on {on}", steps)
    end_skipped(skipped)


def generate(
    model: ModelPath,
    output: Annotated[
        Path,
        arg(
            aliases=["-o"],
            metavar="PATH",
            help="Write graphs (.safetensors) or a picture (.png, .pdf, .svg).",
        ),
    ],
    count: Annotated[int, arg(help="Number of graphs.")] = 100,
    seed: Seed = 0,
    against: Annotated[
        str | None, arg(metavar="FAMILY", help="Compare with this family by MMD, novelty and uniqueness.")
    ] = None,
    force: Annotated[bool, arg(help="Replace graphs that exist; a picture is always replaced.")] = False,
) -> None:
    """Generate graphs from noise, as in the paper; a baseline that samples graphs does so in its own way.

    Example: gln generate runs/community -o graphs.png --count 6 --against community
    """
    from gln.evaluation import mmd, novelty
    from gln.families import parse_family
    from gln.graphs import save_graphs
    from gln.inference.generate import generate_graphs
    from gln.io.writing import refuse_existing
    from gln.viewing import FORMATS, save_gallery
    from gln.workflows.methods import load_for

    pictured = output.suffix.lstrip(".").lower() in FORMATS
    if not pictured and output.suffix != ".safetensors":
        raise GLNError(f"Got {output.name!r}; expected a name that ends in .safetensors, .png, .pdf or .svg.")
    if not pictured:
        refuse_existing(output, force)
    family = None if against is None else parse_family(against)
    drawing = load_for("sample", model)
    others = [] if family is None else family.graphs(2 * count, seed=seed)
    graphs = generate_graphs(drawing, count, seed)
    if pictured:
        name = getattr(drawing, "name", None)  # of a baseline
        save_gallery(
            graphs[:12], output, f"{model}: {f'sampled by {name}' if name else 'generated from noise'}"
        )
    else:
        save_graphs(graphs, output)
    print(f"Wrote {output}.")
    if others:
        print(mmd(others[:count], graphs, floor=others[count:]))
        print(novelty(others, graphs))
