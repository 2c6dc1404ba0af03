"""``gln list`` and ``gln show``."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

from tyro.conf import arg

from gln.commands.flags import FamilySpec, Seed

FROM_DATA = (
    "nodes",
    "in_channels",
    "pos_channels",
    "x_mean",
    "x_std",
)  # settings that the training graphs determine


def list_() -> None:
    """List the graph families, models, baselines and shipped models."""
    from inspect import signature

    from gln.baselines import BASELINES
    from gln.families import FAMILIES
    from gln.models import MODELS
    from gln.storage.models import shipped

    print("Families (set a parameter with FAMILY:name=value,...)\n")
    for name, family in sorted(FAMILIES.items()):
        _describe(name, family.summary(), family.defaults())
    print("Models to train (gln train DATA --model NAME:setting=value,...)\n")
    for name, model in sorted(MODELS.items()):
        settings = {key: value.default for key, value in signature(model).parameters.items()}
        summary = (model.__doc__ or "").strip().split("\n")[0]
        _describe(name, summary, {key: settings[key] for key in settings if key not in FROM_DATA})
    print(
        "Baselines (used likewise; a sampler works with gln generate, not with gln evaluate or gln predict)\n"
    )
    for name, baseline in sorted(BASELINES.items()):
        kind = {"predict": "predictor", "sample": "sampler"}[baseline.kind]
        _describe(name, baseline.summary(), baseline.defaults(), f"{kind}; {baseline.fitted}")
    print(f"Shipped models: {', '.join(shipped()) or 'none yet'}")


def _describe(name: str, summary: str, settings: dict[str, Any], *more: str) -> None:
    from gln.registry import write_value

    values = ", ".join(f"{key}={write_value(value)}" for key, value in settings.items())
    lines = [part for text in (summary.replace("``", ""), *more, values) for part in wrap(text, 100)]
    for number, line in enumerate(lines):
        print(f"  {'' if number else name:<12}{line}")
    print()


def show(
    family: FamilySpec,
    output: Annotated[
        Path | None,
        arg(
            aliases=["-o"],
            metavar="PATH",
            help="Picture to write (.png, .pdf or .svg); FAMILY.png if omitted.",
        ),
    ] = None,
    count: Annotated[int, arg(help="Number of graphs.")] = 6,
    seed: Seed = 0,
) -> None:
    """Draw several graphs of a family into one picture.

    Example: gln show surfaces:kind=torus -o torus.png
    """
    from gln.families import parse_family
    from gln.viewing import save_gallery

    chosen = parse_family(family)
    graphs = chosen.graphs(count, seed=seed)
    captions = [chosen.caption(graph) for graph in graphs]
    print(f"Wrote {save_gallery(graphs, output or Path(f'{chosen.name}.png'), str(chosen), captions)}.")
