"""The graphs that ``gln train`` learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gln.commands.flags import ReadFlags, count_of, remark, skipper

if TYPE_CHECKING:
    from gln.io import Skipped
    from gln.pipeline.recipe import Recipe
    from gln.pipeline.training import Parts
    from gln.training.config import FitConfig


def from_family(spec: str, count: int | None, seed: int) -> tuple[str, Parts]:
    """A title, and the graphs of a family in three parts."""
    from gln.families import parse_family
    from gln.viewing.sources import family_parts

    parts = family_parts(spec, count, seed)
    sizes = " / ".join(str(len(part)) for part in parts)
    return f"{parse_family(spec)}: {sizes} graphs to train / validate / test", parts


def from_files(
    words: tuple[str, ...],
    model: str,
    patches: int | None,
    ready: Recipe | None,
    read: ReadFlags,
    fit: FitConfig,
    skipped: list[Skipped],
    aloud: bool,
) -> tuple[str, Parts, Recipe]:
    """A title, the graphs in three parts, and the recipe for them; each choice is printed.

    Inputs that cannot be read are added to ``skipped``, and named if ``aloud``.
    """
    from gln.pipeline.recipe import choose_recipe
    from gln.pipeline.training import divide, find_data, has_gpu, read_labelled

    options = read.options() if ready is None else ready.read
    patches, seed = (patches, fit.seed) if ready is None else (ready.patches, ready.seed)
    skip, say = (skipper(skipped), remark) if aloud else (skipped.append, _nothing)
    graphs = read_labelled(find_data(words), options, skip, say)
    parts, how = divide(graphs, patches, seed)
    gpu = has_gpu(fit.accelerator)
    whole = graphs if patches else None
    chosen = ready or choose_recipe(parts[0], options, patches, seed, model, fit.batch_size, gpu, whole)
    print(f"{'split':<12}{how}")
    for line in chosen.lines():
        print(line)
    return f"{count_of(len(graphs), 'graph')} from files", parts, chosen


def _nothing(text: str) -> None:
    """Print nothing: the first process does."""
