"""The command line: parse, call, print. Everything heavy is imported inside a command, so ``--help`` is instant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg
from tyro.extras import SubcommandApp

from gln.errors import GLNError

app = SubcommandApp()

FamilySpec = Annotated[
    Positional[str],
    arg(metavar="FAMILY", help="A family, with parameters after a colon: surfaces:points=400,kind=torus."),
]


@app.command(name="list")
def list_() -> None:
    """List the graph families, their parameters and defaults."""
    from gln.families import FAMILIES
    from gln.families.base import write_value

    print("Families (change a parameter with FAMILY:name=value,...)\n")
    for name, cls in sorted(FAMILIES.items()):
        print(f"  {name:<12}{cls.summary().replace('``', '')}")
        settings = [f"{key}={write_value(value)}" for key, value in cls.defaults().items()]
        print(f"  {'':<12}{', '.join(settings)}\n")


@app.command
def show(
    family: FamilySpec,
    output: Annotated[
        Path | None,
        arg(
            aliases=["-o"],
            metavar="PATH",
            help="Picture to write: .png, .pdf or .svg; FAMILY.png if left out.",
        ),
    ] = None,
    count: Annotated[int, arg(help="How many graphs.")] = 6,
    seed: Annotated[int, arg(help="The same seed draws the same graphs.")] = 0,
) -> None:
    """Look at a family: draw several of its graphs into one picture.

    Example: gln show surfaces:kind=torus -o torus.png
    """
    from gln.families import parse_family
    from gln.viewing import save_gallery

    chosen = parse_family(family)
    graphs = chosen.sample(count, seed=seed)
    captions = [chosen.caption(graph) for graph in graphs]
    path = save_gallery(graphs, output or Path(f"{chosen.name}.png"), str(chosen), captions)
    print(f"Wrote {path}")


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2, Ctrl-C is exit code 130."""
    try:
        app.cli(prog="gln", description="Predict the graph over a set of nodes from the nodes themselves.")
    except GLNError as error:
        sys.exit(_complain(str(error), 2))
    except KeyboardInterrupt:
        sys.exit(_complain("interrupted.", 130))
    except BrokenPipeError:  # the reader of our output, head for instance, has seen enough
        sys.stderr.close()


def _complain(message: str, code: int) -> int:
    print(f"gln: {message}", file=sys.stderr)
    return code
