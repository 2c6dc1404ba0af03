"""One set of nodes from a user's file, and what every reader shares."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gln.errors import GLNError, escaped, quote, whole_text
from gln.files import read_regular
from gln.graphs.check import check_graph, far_from
from gln.graphs.record import Graph
from gln.io.csvfile import BrokenTable
from gln.io.file_edges import FileEdges, Values, node_fields
from gln.later import torch

T = TypeVar("T")

MAX_BYTES = 2**28  # limit for files that are read whole: meshes, images, XML, JSON


@dataclass(frozen=True)
class Item:
    """One set of nodes from a file.

    Attributes:
        name: unique and readable: ``mesh.ply``, ``table.csv#17`` (graph id), ``mols.xyz#3`` (counted from 0).
        path: the file.
        graph: checked; ``pos`` and/or ``x`` and ``num_nodes``; ``edge_index`` only if the file gives it.
        labelled: whether the file gives true edges, to train on.
        ids: the user's own node ids, if the file names nodes; ``None``: 0 … n−1.
        part: which graph of the file, as in ``name``; ``None`` if it is the only one.
        x_names: what the columns of ``x`` stand for, where they are classes.
        origin: what was subtracted from the positions of the file, where float32 could not hold them as they are.
        label: its name in outputs: the user's own name of the graph if only one file is read, otherwise ``name``.
        title: what else the file calls it, as the first line of a molecule in an SDF.
        symbols: what its nodes are, to be drawn beside them: the elements of atoms.
        groups: what the column ``ReadOptions.group`` says of each node, if it was asked for.
    """

    name: str
    path: Path
    graph: Graph
    labelled: bool
    ids: Sequence[str] | None
    part: str | None = None
    origin: tuple[float, ...] | None = None
    x_names: Sequence[str] | None = None
    label: str = ""
    title: str = ""
    symbols: Sequence[str] | None = None
    groups: Sequence[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name)

    @property
    def caption(self) -> str:
        """The label and the title, for a reader."""
        return f"{self.label} · {self.title}" if self.title else self.label

    def skipped(self, error: object) -> Skipped:
        """That it was left out, and why."""
        return Skipped(self.path, f"{'' if self.part is None else f'graph {self.part}: '}{error}")

    def numbers(self) -> dict[str, int]:
        """The number of every node by its id."""
        return numbers_of(self.ids, self.graph.num_nodes)

    def rows(self) -> dict[str, np.ndarray]:
        """``pos`` and ``x`` as in the file."""
        found = {name: rows.numpy(force=True) for name, rows in self.graph.rows().items()}
        return found if self.origin is None else found | {"pos": found["pos"] + np.array(self.origin)}


@dataclass(frozen=True)
class ReadOptions:
    """What files do not say about themselves; ``None``: guess, and report the guess.

    Args:
        pos: columns of a table (or node attributes of a network file) that give a node's position.
        x: columns or node attributes that give its features; an empty tuple for none.
        graph: column that names the graph of a row.
        id: column that holds the node's id.
        group: column of what must not be both in training and in test, such as a record or a patient.
        edges: table of true edges for a node table, with columns graph (if there are several), source and target.
        labels: label image of an image; for several, a folder, or a path in which * stands for the image's name.
        elements: chemical elements that get a feature each; all others share one more.
        only_elements: all others have no feature at all.
        image_size: shrink images to this many pixels along the longer side.
        max_nodes: refuse larger graphs.
        types: column or attribute of the edges that says their type, a word or a whole number from 0.
        weights: column or attribute of the edges with their weights, positive numbers.
        directed: an edge leads from its source to its target; otherwise both directions are one edge.
        node_types: column or attribute of the nodes that says their type.
        threshold_weights: keep the edges with at least this weight, and drop the weights.
        kinds_if_there: types and weights of this name are read where a file has them, not required.
    """

    pos: tuple[str, ...] | None = None
    x: tuple[str, ...] | None = None
    graph: str | None = None
    id: str | None = None
    group: str | None = None
    edges: Path | None = None
    labels: Path | None = None
    elements: tuple[str, ...] | None = None
    only_elements: bool = False
    image_size: int | None = None
    max_nodes: int = 1_000_000
    types: str | None = None
    weights: str | None = None
    directed: bool = False
    node_types: str | None = None
    threshold_weights: float | None = None
    kinds_if_there: bool = False

    def __post_init__(self) -> None:
        for name in ("image_size", "max_nodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise GLNError(f"Got {name}={value}; expected at least 1.")


@dataclass(frozen=True)
class Skipped:
    """A file, or one graph of it, that could not be read, and why."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{escaped(str(self.path))}: {self.reason}"


@dataclass(frozen=True)
class Source:
    """A file as its reader sees it. A reader raises :class:`GLNError` without naming the file; its caller does."""

    path: Path
    name: str
    options: ReadOptions = ReadOptions()
    tell: Callable[[str], None] = lambda text: None
    memo: dict[Path, Any] = field(default_factory=dict)  # kept for the next file
    look: bool = False  # items hold unchecked arrays: enough to see what a file gives, without torch
    alone: bool = False  # no other file is read
    chances: bool = False  # predicted edges of an archive get their ``edge_prob``, and graphs their names

    def say(self, text: str) -> None:
        """Tell a guess or a remark about the file."""
        self.tell(escaped(f"{self.name}: {text}"))

    def check_count(self, nodes: int) -> None:
        if nodes > self.options.max_nodes:
            raise GLNError(
                f"a graph has {nodes:,} nodes; at most {self.options.max_nodes:,} are read, so cut it into parts."
            )

    def item(
        self,
        pos: Any = None,
        x: Any = None,
        edges: FileEdges | np.ndarray | None = None,
        part: str | int | None = None,
        ids: Sequence[str] | None = None,
        *,
        predicted: bool = False,
        of_nodes: Mapping[str, Values] | None = None,
        bare: int = 0,
        region: torch.Tensor | None = None,
        **about: Any,
    ) -> Item:
        """A checked item.

        Args:
            edges: as the file lists them, or only their pairs ``[m, 2]`` (int64); ``None``: the file gives none.
            part: which graph of the file, if it holds several: a word if the file names it, a number if it is counted.
            predicted: the edges carry probabilities: they are somebody's prediction and not the truth.
            of_nodes: what the file says of each node, by name, from which its type may be chosen.
            bare: how many nodes there are, if the file says so apart from ``pos`` and ``x``, which true edges may lack.
            region: the region ``[n]`` of every pixel.
            ids, about: as in :class:`Item`.
        """
        rows = {"pos": pos, "x": x}
        rows = {name: each for name, each in rows.items() if each is not None and np.shape(each)[1:] != (0,)}
        if not rows and (not bare or edges is None or predicted):
            raise GLNError("its nodes have no positions or features; edges are predicted from these.")
        nodes = next((len(each) if np.ndim(each) else 0 for each in rows.values()), bare)
        self.check_count(nodes)
        origin = far_from(rows["pos"]) if "pos" in rows else None
        if origin is not None:
            self.say(
                f"positions are centred on {', '.join(f'{value:g}' for value in origin)}: they are large"
            )
            rows["pos"] = np.asarray(rows["pos"], dtype=np.float64) - origin
        fields = node_fields(of_nodes or {}, self.options, self.say)
        if edges is not None:
            listed = edges if isinstance(edges, FileEdges) else FileEdges(edges, directed=False)
            fields |= listed.fields(nodes, self.options, self.say)
        if predicted:
            self.say("its edges are predictions, not the truth")
        if self.look:
            graph = Graph(nodes, **{name: np.asarray(each) for name, each in rows.items()})
        else:
            graph = check_graph(Graph(nodes, **rows, **as_tensors(fields), region=region))
            if edges is None:
                del graph.edge_index
        own = None if part is None else whole_text(str(part))
        label = own if own is not None and self.alone and isinstance(part, str) else ""
        ids = None if ids is None else tuple(map(whole_text, ids))
        labelled = edges is not None and not predicted
        return Item(self.named(own), self.path, graph, labelled, ids, own, origin, label=label, **about)

    def named(self, part: str | int | None) -> str:
        return self.name if part is None else f"{self.name}#{part}"

    def beside(self, path: Path) -> str:
        """The name of a companion file, with * for the name they share, so that many files report it only once."""
        shared = f"{self.path.stem}."
        return f"*.{path.name.removeprefix(shared)}" if path.name.startswith(shared) else path.name

    def attempt(self, part: str | int | None, make: Callable[[], Item]) -> Item | Skipped:
        """What ``make`` gives, or why it fails; a file whose only graph it is cannot be read at all."""
        try:
            return make()
        except GLNError as error:
            if part is None or isinstance(error, BrokenTable):
                raise
            return Skipped(self.path, f"graph {escaped(str(part))}: {error}")


Reader = Callable[[Source], Iterator[Item | Skipped]]


def numbers_of(ids: Sequence[str] | None, nodes: int) -> dict[str, int]:
    """The number of every node by its id; without ids, they are called by their numbers."""
    return {str(node): number for number, node in enumerate(ids or range(nodes))}


def load(path: Path) -> bytes:
    """The bytes of a file; refuses one that is empty or larger than ``MAX_BYTES``."""
    data = read_regular(path, MAX_BYTES)
    if not data.strip():
        raise GLNError("the file is empty.")
    return data


@contextmanager
def decoding(kind: str) -> Iterator[None]:
    """Turn whatever a third-party decoder raises into one sentence, and silence its warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except GLNError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of Rust
            raise
        raise GLNError(
            f"this is not a readable {kind} ({quote(str(error) or type(error).__name__)})."
        ) from None


def as_tensors(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays among ``fields`` as tensors."""
    return {
        name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in fields.items()
    }


LARGEST = 2**62  # keeps whole numbers far from the limits of int64

TextRow = tuple[int, list[bytes]]


def rows_of(data: bytes, first: int = 1) -> Iterator[TextRow]:
    """The words of every row that has any, with its number as a text editor shows it; # begins a comment."""
    comments = b"#" in data
    for row, line in enumerate(data.split(b"\n"), start=first):
        if words := (line.partition(b"#")[0] if comments else line).split():
            yield row, words


def shown(text: bytes) -> str:
    """Part of a file for a message."""
    return quote(text.decode("latin-1"))


def floats(words: list[bytes], row: int) -> list[float]:
    """Parse numbers in a row of text."""
    return _parsed(float, words, row, "numbers")


def ints(words: list[bytes], row: int) -> list[int]:
    """Parse whole numbers in a row of text."""
    numbers = _parsed(int, words, row, "whole numbers")
    if numbers and not -LARGEST < min(numbers) <= max(numbers) < LARGEST:
        raise GLNError(f"row {row}: got {shown(b' '.join(words))}; expected smaller whole numbers.")
    return numbers


def _parsed(kind: Callable[[bytes], T], words: list[bytes], row: int, expected: str) -> list[T]:
    if b"_" not in b"".join(words):  # Python takes 1_0 for ten, nobody else does
        with suppress(ValueError):
            return [kind(word) for word in words]
    raise GLNError(f"row {row}: got {shown(b' '.join(words))}; expected {expected}.")
