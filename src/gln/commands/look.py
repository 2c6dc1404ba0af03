"""``gln list`` and ``gln show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from gln.commands.benchmarks import BENCHMARKS
from gln.commands.flags import FamilySpec, Seed


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
