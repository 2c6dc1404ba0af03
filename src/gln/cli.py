"""The command line: parse, call, print.

Everything heavy is imported inside a command, so that ``--help`` is instant.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg
from tyro.extras import SubcommandApp

from gln import __version__
from gln.errors import GLNError
from gln.training.config import FitConfig

app = SubcommandApp()

FamilySpec = Annotated[
    Positional[str],
    arg(metavar="FAMILY", help="A family, with parameters after a colon: surfaces:points=400,kind=torus."),
]
ModelPath = Annotated[
    Positional[str], arg(metavar="RUN|MODEL", help="A run folder, a saved model, or a shipped model's name.")
]
Seed = Annotated[int, arg(help="The same seed draws the same graphs.")]


@app.command(name="list")
def list_() -> None:
    """List the graph families with their parameters, and the models that come with the package."""
    from gln.families import FAMILIES
    from gln.specs import write_value
    from gln.training import shipped

    print("Families (change a parameter with FAMILY:name=value,...)\n")
    for name, cls in sorted(FAMILIES.items()):
        settings = [f"{key}={write_value(value)}" for key, value in cls.defaults().items()]
        print(f"  {name:<12}{cls.summary().replace('``', '')}")
        print(f"  {'':<12}{', '.join(settings)}\n")
    print(f"Shipped models: {', '.join(shipped()) or 'none yet'}")
    print("Models to train: GLN (any sets), PaperGLN (the paper's network, one size and one order)")
    print(f"Benchmarks: {', '.join(sorted(BENCHMARKS))}")


@app.command
def show(
    family: FamilySpec,
    output: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="PATH", help="Picture: .png, .pdf or .svg; FAMILY.png if left out."),
    ] = None,
    count: Annotated[int, arg(help="How many graphs.")] = 6,
    seed: Seed = 0,
) -> None:
    """Look at a family: draw several of its graphs into one picture.

    Example: gln show surfaces:kind=torus -o torus.png
    """
    from gln.families import parse_family
    from gln.viewing import save_gallery

    chosen = parse_family(family)
    graphs = chosen.sample(count, seed=seed)
    captions = [chosen.caption(graph) for graph in graphs]
    print(f"Wrote {save_gallery(graphs, output or Path(f'{chosen.name}.png'), str(chosen), captions)}")


@app.command
def train(
    family: FamilySpec,
    output: Annotated[Path, arg(aliases=["-o"], metavar="RUN", help="The run folder to write.")],
    model: Annotated[
        str, arg(help="GLN or PaperGLN, with settings: GLN:width=64,steps=3, PaperGLN:variant=released.")
    ] = "GLN",
    count: Annotated[
        int | None, arg(metavar="INT", help="Graphs to draw; the paper's number, or 1200, if left out.")
    ] = None,
    edge_loss: Annotated[
        Literal["balanced", "literal", "plain", "released"], arg(help="How edges and non-edges are weighted.")
    ] = "balanced",
    structure_loss: Annotated[
        Literal["dice", "iou", "none"], arg(help="How the graph is compared as a whole.")
    ] = "dice",
    every_step: Annotated[
        bool | None,
        arg(metavar="BOOL", help="Loss on every step instead of the last; GLN does, PaperGLN does not."),
    ] = None,
    resume: Annotated[bool, arg(help="Go on where the run in RUN stands, exactly.")] = False,
    fit: OmitArgPrefixes[FitConfig] = FitConfig(),  # noqa: B008 - frozen
) -> None:
    """Train a model on a family: 80 % of the graphs train (a tenth of them validates), 20 % test.

    The seed decides graphs, split, first weights and order alike. Ctrl-C keeps what was learned; --resume goes on.

    Example: gln train community -o runs/community --epochs 20
    """
    import torch

    from gln.families import parse_family
    from gln.graphs import split
    from gln.losses import Loss
    from gln.models import build_model
    from gln.training import evaluate
    from gln.training import fit as fit_model

    chosen = parse_family(family)
    total = (chosen.paper_count or 1200) if count is None else count
    graphs = chosen.sample(total, seed=fit.seed)
    parts = split(graphs, seed=fit.seed)
    torch.manual_seed(fit.seed)
    network = build_model(model, graphs)
    everywhere = getattr(network, "every_step", False) if every_step is None else every_step
    loss = Loss(edge=edge_loss, structure=structure_loss, every_step=everywhere)
    weights = sum(weight.numel() for weight in network.parameters())
    sizes = " / ".join(str(len(part)) for part in parts)
    print(
        f"{chosen}: {sizes} graphs to train / validate / test; {type(network).__name__}, {weights:,} weights"
    )
    result = fit_model(network, parts[0], parts[1], run=output, resume=resume, loss=loss, config=fit)
    print(f"{result}\n")
    print(evaluate(network, parts[2], floor=parts[0]))


@app.command
def evaluate(
    model: ModelPath,
    on: Annotated[str, arg(metavar="FAMILY", help="The family to draw test graphs from.")],
    count: Annotated[int, arg(help="How many test graphs.")] = 240,
    seed: Annotated[int, arg(help="Of the test graphs; use one that training has not seen.")] = 1_000_003,
    steps: Annotated[
        int | None, arg(metavar="INT", help="Steps of the recurrence; as trained if left out.")
    ] = None,
    largest_component: Annotated[
        bool, arg(help="MMD over largest components only, as the paper did.")
    ] = False,
) -> None:
    """Score a model on graphs it has not seen: edge scores, and MMD with its floor.

    Example: gln evaluate runs/community --on community
    """
    from gln.families import parse_family
    from gln.training import evaluate as score
    from gln.training import load

    graphs = parse_family(on).sample(2 * count, seed=seed)
    true, floor = graphs[:count], graphs[count:]
    print(score(load(model), true, steps=steps, floor=floor, largest_component=largest_component))


@app.command
def generate(
    model: ModelPath,
    output: Annotated[
        Path,
        arg(aliases=["-o"], metavar="PATH", help="Graphs as .safetensors, or a picture (.png, .pdf, .svg)."),
    ],
    count: Annotated[int, arg(help="How many graphs.")] = 100,
    seed: Seed = 0,
    against: Annotated[
        str | None, arg(metavar="FAMILY", help="Compare with this family: MMD, novelty and uniqueness.")
    ] = None,
) -> None:
    """Noise in, graphs out: the paper's generator mode.

    Example: gln generate runs/community -o graphs.png --count 6 --against community
    """
    from gln.evaluation import mmd, novelty
    from gln.families import parse_family
    from gln.graphs import save_graphs
    from gln.training import generate as draw
    from gln.training import load
    from gln.viewing import FORMATS, save_gallery

    pictured = output.suffix.lstrip(".").lower() in FORMATS
    if not pictured and output.suffix != ".safetensors":
        raise GLNError(
            f"Got {output.name!r}; generated graphs are written as .safetensors, .png, .pdf or .svg."
        )
    others = [] if against is None else parse_family(against).sample(2 * count, seed=seed)
    graphs = draw(load(model), count, seed)
    if pictured:
        save_gallery(graphs[:12], output, f"{model}: what it sees in noise")
    else:
        save_graphs(graphs, output)
    print(f"Wrote {output}")
    if others:
        print(mmd(others[:count], graphs, floor=others[count:]))
        print(novelty(others, graphs))


BENCHMARKS = {"mmd": "mmd", "orbits": "orbits", "paper-step": "paper_step"}


@app.command
def bench(
    name: Annotated[Positional[str], arg(metavar="NAME", help=f"One of: {', '.join(sorted(BENCHMARKS))}.")],
    output: Annotated[
        Path | None, arg(aliases=["-o"], metavar="PATH", help="Also keep the figures as JSON.")
    ] = None,
) -> None:
    """Speed against a peer, side by side in one process; prints the ratio.

    Example: gln bench mmd
    """
    from importlib import import_module

    if name not in BENCHMARKS:
        raise GLNError(f"There is no benchmark {name!r}; choose from {', '.join(sorted(BENCHMARKS))}.")
    row = import_module(f"gln.bench.{BENCHMARKS[name]}").run()
    for key, value in row["settings"].items():
        print(f"{key:<24}{value}")
    print(f"{'ours':<24}{row['ours_seconds']:.4f} s")
    print(f"{'peer':<24}{row['peer_seconds']:.4f} s")
    print(f"{'peer / ours':<24}{row['ratio']:.1f}×")
    if output is not None:
        from gln.training.facts import write_result

        write_result(output, f"gln bench {name}", row["settings"]["seed"], row)


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2, Ctrl-C is exit code 130."""
    if sys.argv[1:] == ["--version"]:
        print(f"gln {__version__}")
        return
    try:
        app.cli(prog="gln", description="Predict the graph over a set of nodes from the nodes themselves.")
        sys.stdout.flush()
    except GLNError as error:
        sys.exit(_complain(str(error), 2))
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output, head for instance, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        sys.exit(_complain(f"{error.filename or 'a file'}: {error.strerror or error}.", 2))
    except MemoryError:
        sys.exit(_complain("there is not enough memory for this; ask for fewer or smaller graphs.", 2))
    except KeyboardInterrupt as stop:
        sys.exit(_complain(str(stop) or "interrupted.", 130))


def _complain(message: str, code: int) -> int:
    print(f"gln: {message}", file=sys.stderr)
    return code
