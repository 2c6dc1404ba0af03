"""Arguments shared by several commands."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg
from tyro.constructors import PrimitiveConstructorSpec

from gln.errors import GLNError, escaped
from gln.training.config import PATIENCE, FitConfig

if TYPE_CHECKING:
    from gln.io import ReadOptions, Skipped
    from gln.workflows.engines import Engine

REASONS = 8  # reasons in a summary

FamilySpec = Annotated[
    Positional[str],
    arg(
        metavar="FAMILY",
        help="A family, with parameters after a colon, as in surfaces:points=400,kind=torus.",
    ),
]
ModelPath = Annotated[
    Positional[str],
    arg(
        metavar="RUN|MODEL",
        help="A run folder, a saved model, an exported .onnx file, or the name of a shipped model.",
    ),
]
PagePath = Annotated[
    Path | None,
    arg(metavar="PAGE", help="Also write a page (.html) with the first graphs and their errors."),
]
Seed = Annotated[int, arg(help="The same seed draws the same graphs.")]


def _either(
    metavar: str, expected: str, words: dict[str, Any], number: Any = None
) -> PrimitiveConstructorSpec:
    """Reads one of ``words``, which stand for values, or a ``number``."""

    def read(given: list[str]) -> Any:
        if given[0].lower() in words:
            return words[given[0].lower()]
        try:
            return number(given[0])
        except (TypeError, ValueError):
            raise ValueError(f"got {given[0]!r}; expected {expected}.") from None

    def write(value: Any) -> list[str]:
        return [next((word for word, known in words.items() if known is value), str(value).lower())]

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=read,
        is_instance=lambda found: found is None or isinstance(found, int | float | str),
        str_from_instance=write,
    )


YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False, "none": None}

# The help of these is in the docstring of a command.
Maybe = Annotated[bool | None, _either("yes|no", "yes or no", YES_OR_NO)]
Whole = Annotated[int | None, _either("INT|none", "a whole number or none", {"none": None}, int)]
Number = Annotated[float | None, _either("FLOAT|none", "a number or none", {"none": None}, float)]
Devices = Annotated[
    int | Literal["auto"] | None, _either("INT|auto", "a whole number or auto", {"auto": "auto"}, int)
]
Steps = Annotated[Whole, arg(help="Steps of the recurrence; as trained if omitted.")]
Clusters = Annotated[Literal["auto", "linkage", "louvain", "components"] | None, arg(metavar="METHOD")]
File = Annotated[Path | None, arg(metavar="PATH")]
Word = Annotated[str | None, arg(metavar="COLUMN")]
Words = Annotated[str | None, arg(metavar="COLUMNS")]


@dataclass(frozen=True)
class FitFlags(FitConfig):
    __doc__ = FitConfig.__doc__

    clip: Number = 1.0
    patience: Whole = PATIENCE
    average: Number = None
    keep_last: Maybe = None

    def __post_init__(self) -> None:
        """Unchecked: raised inside the parser, our one-sentence errors would be printed in a box."""


@dataclass(frozen=True)
class ShareFlags:
    """Share the work among several processes; see the page on several machines.

    Args:
        devices: processes, each on its own GPU if there are any; auto: one per GPU, with ray one per core if there are
            none. If omitted, 1, and auto with ray.
        engine: processes on this machine, or ray for many machines.
        address: of a Ray cluster that runs already; without it, Ray is started here and stopped afterwards.
    """

    devices: Devices = None
    engine: Literal["processes", "ray"] = "processes"
    address: Annotated[str | None, arg(metavar="HOST:PORT")] = None

    def check(self) -> None:
        """Refuse what does not go together."""
        if isinstance(self.devices, int) and self.devices < 1:
            raise GLNError(f"Got devices={self.devices}; expected a whole number of at least 1, or auto.")
        if self.address is not None and self.engine != "ray":
            raise GLNError(f"Got --address {self.address}; it is for --engine ray.")

    def chosen(self) -> Engine:
        """The engine that computes the windows."""
        count = self.devices if isinstance(self.devices, int) else None
        if self.engine == "ray":
            from gln.adapters.ray import on_ray

            return on_ray(count, self.address)
        from gln.workflows.engines import in_processes, in_this_process

        if self.devices == "auto":
            from gln.later import torch

            count = torch.cuda.device_count()
        return in_processes(count) if count is not None and count > 1 else in_this_process


@dataclass(frozen=True)
class ReadFlags:
    """How to read files. Anything left out is guessed, and the guess is printed.

    Args:
        pos: columns of the position, separated by commas: x,y.
        x: columns of the features; none for no features.
        graph: column that says which graph a row belongs to.
        id: column with the name of a node.
        edges: table of the true edges: source, target, and graph if there are several graphs.
        labels: label image of the image; for several images, a folder or a path with * for the image's name.
        elements: chemical elements to distinguish: C,H,N,O.
        image_size: shrink images to this many pixels on the longer side.
        types: column or attribute of the edges with their type, a word or a whole number; order for bonds.
        weights: column or attribute of the edges with their weight.
        directed: an edge leads from its source to its target.
        node_types: column or attribute of the nodes with their type; charge for atoms.
        threshold_weights: keep the edges with at least this weight, and drop the weights.
    """

    pos: Words = None
    x: Words = None
    graph: Word = None
    id: Word = None
    edges: File = None
    labels: File = None
    elements: Annotated[str | None, arg(metavar="NAMES")] = None
    image_size: Whole = None
    types: Word = None
    weights: Word = None
    directed: bool = False
    node_types: Word = None
    threshold_weights: Number = None

    def options(self) -> ReadOptions:
        """The same, for a reader."""
        from gln.io import ReadOptions

        lists = {name: _words(getattr(self, name)) for name in ("pos", "x", "elements")}
        return ReadOptions(**vars(self) | lists)


def _words(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return () if text.lower() == "none" else tuple(word.strip() for word in text.split(","))


def count_of(number: int, what: str) -> str:
    """``1 graph``, ``1,000 graphs``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def remark(text: str) -> None:
    """Print a remark to stderr without breaking a progress bar."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    tqdm.write(f"gln: {escaped(text)}", file=sys.stderr)


def open_page(page: Path) -> None:
    """Show a page in the browser."""
    import webbrowser

    webbrowser.open(page.resolve().as_uri())


class Skips:
    """Reports each skipped file and its reason; at the end of a command, :meth:`end` exits with code 1 if any was."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def __call__(self, what: Skipped) -> None:
        self.reasons[what.reason] += 1
        remark(f"skipped {what}")

    def end(self) -> None:
        """Print how often each reason occurred, the most frequent first."""
        if not self.reasons:
            return
        counts = self.reasons.most_common()
        lines = [f"{count:>6} × {escaped(reason)}" for reason, count in counts[:REASONS]]
        if rest := sum(count for _, count in counts[REASONS:]):
            lines.append(f"{rest:>6} × other reasons, given above")
        print("\n".join([f"\nSkipped {self.reasons.total()}:", *lines]))
        sys.exit(1)
