"""What all families share: parameters, seeds, workers, the cache and the registry.

A family is a frozen dataclass with one method, :meth:`Family.draw`. To add one::

    @register("rings")
    @dataclass(frozen=True, kw_only=True)
    class Rings(Family):
        points: int = 50

        def draw(self, rng, count):
            return [ring(rng, self.points) for _ in range(count)]
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from gln.errors import GLNError
from gln.files import digest_of, read_safetensors, write_atomically
from gln.graphs import pack, unpack
from gln.graphs.check import as_record, check_choice, check_whole, whole_number
from gln.graphs.record import Graph
from gln.later import safetensors, torch
from gln.registry import Registered, Registry, parse_spec
from gln.seeds import check_seed
from gln.threads import clean_processes

if TYPE_CHECKING:
    from torch import Tensor

    Packed = dict[str, Tensor]
    from torch_geometric.data import Data

# Graphs are drawn in blocks: block b of a seed has its own random stream and is always drawn whole. Hence
# sample(10) is the start of sample(100), and neither workers nor vectorisation can change a graph.
# A multiple of six, so that a block holds the six kinds of surface equally often.
BLOCK = 30

Order = Literal["set", "ordered"]


@dataclass(frozen=True, kw_only=True)
class Family(Registered, ABC):
    """A recipe for graphs; equal parameters and equal seeds give equal graphs.

    Args:
        order: ``"set"`` shuffles the nodes of every graph independently, so that only the points determine the
            edges; ``"ordered"`` keeps the generator's own order, as the paper did.
    """

    order: Order = "set"

    version: ClassVar[int] = 1  # raise it when the graphs of a seed change: caches depend on it
    orders: ClassVar[tuple[Order, ...]] = ("set",)
    paper_count: ClassVar[int | None] = None  # how many graphs the paper used
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # parameters that are one of a few words
    least: ClassVar[Mapping[str, int]] = {}  # parameters that are whole numbers, and the smallest allowed
    block: ClassVar[int] = BLOCK  # fewer where a graph takes long to draw
    val_share: ClassVar[float] = 0.1  # of the graphs that are not for testing

    def __post_init__(self) -> None:
        for name, known in {"order": self.orders, **self.choices}.items():
            check_choice(self.name, name, getattr(self, name), known)
        for name, least in self.least.items():
            self._keep_whole(name, least)

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> Sequence[Graph | Data]:
        """Draw ``count`` graphs in canonical form; all randomness comes from ``rng``."""

    def sample(
        self, count: int, seed: int = 0, workers: int = 1, cache: Path | str | None = None
    ) -> list[Data]:
        """Draw ``count`` graphs of this family.

        Args:
            count: number of graphs; with one seed, ``sample(10)`` is the start of ``sample(100)``.
            seed: the same seed gives the same graphs, in any process and with any number of workers.
            workers: number of processes; with more than one, a script must make the call under
                ``if __name__ == "__main__"``, because every process imports the script again.
            cache: folder in which to cache the graphs, under a hash of all parameters, count, seed and version.
        """
        return [graph.to_data() for graph in self.graphs(count, seed, workers, cache)]

    def graphs(
        self, count: int, seed: int = 0, workers: int = 1, cache: Path | str | None = None
    ) -> list[Graph]:
        """As :meth:`sample`, in our own record of a graph."""
        count = check_whole("sample", "count", count, 1)
        seed = check_seed("sample", seed)
        workers = check_whole("sample", "workers", workers, 1)
        if cache is None:
            return self._sample(count, seed, workers)
        key = {"family": self.spec(), "version": self.version, "count": count, "seed": seed}
        return unpack(load_or_make(Path(cache), key, lambda: pack(self._sample(count, seed, workers))))

    def spec(self) -> dict[str, Any]:
        """Name and every parameter, as plain data; ``family(**spec)`` rebuilds the family."""
        return {"name": self.name, **self.settings()}

    def caption(self, graph: Graph | Data) -> str:
        """Caption for a picture of ``graph``."""
        edges = graph.num_edges if graph.get("directed") else graph.num_edges // 2
        return f"{graph.num_nodes:,} nodes, {edges:,} edges"

    def _sample(self, count: int, seed: int, workers: int) -> list[Graph]:
        blocks = range(-(-count // self.block))
        if workers == 1 or len(blocks) == 1:
            drawn = (self._block(seed, block) for block in blocks)
            return [graph for graphs in drawn for graph in graphs][:count]
        share = -(-len(blocks) // (4 * workers))  # of a worker at a time
        try:
            with ProcessPoolExecutor(workers, mp_context=clean_processes("gln.families")) as pool:
                packed = pool.map(_draw_packed, repeat(self), repeat(seed), blocks, chunksize=share)
                parts = [{key: torch.from_numpy(value) for key, value in part.items()} for part in packed]
        except BrokenProcessPool:
            raise GLNError(
                f"The {workers} worker processes ended before drawing their graphs; "
                "put the call under if __name__ == '__main__' or use workers=1."
            ) from None
        return [graph for part in parts for graph in unpack(part)][:count]

    def _keep_whole(self, name: str, least: int, expected: str = "") -> None:
        """Store a parameter as an int (NumPy's too), or refuse it if it is not a whole number of at least ``least``."""
        object.__setattr__(self, name, check_whole(self.name, name, getattr(self, name), least, expected))

    def _keep_range(self, name: str, least: int, example: tuple[int, int]) -> None:
        """Store a whole number of at least ``least`` or, for a range, two of them as a tuple; or refuse it."""
        given = getattr(self, name)
        several = isinstance(given, tuple | list)  # a list is a spec that has been through JSON
        ends = tuple(whole_number(end) or 0 for end in (given if several else (given, given)))
        if len(ends) != 2 or not least <= ends[0] <= ends[1]:
            low, high = example
            raise GLNError(
                f"{self.name} got {name}={given!r}; expected a whole number of at least {least}, or two of them with "
                f"the smaller first, such as {example} ({low}-{high} on the command line)."
            )
        object.__setattr__(self, name, ends if several else ends[0])

    def _node_orders(self, rng: np.random.Generator, count: int, nodes: int) -> np.ndarray:
        """The order of the nodes of ``count`` graphs, ``[count, nodes]``: random for sets, else the generator's own."""
        order = np.tile(np.arange(nodes), (count, 1))
        return rng.permuted(order, axis=1) if self.order == "set" else order

    def _block(self, seed: int, block: int) -> list[Graph]:
        drawn = self.draw(np.random.default_rng([seed, block]), self.block)
        return [graph if isinstance(graph, Graph) else as_record(graph) for graph in drawn]


def _draw_packed(family: Family, seed: int, block: int) -> dict[str, np.ndarray]:
    """A block as a worker sends it back: a few large arrays instead of many small tensors."""
    return {key: value.numpy() for key, value in pack(family._block(seed, block)).items()}


#: Every registered family by name.
FAMILIES: Registry[Family] = Registry("family", "parameter")
#: Class decorator that registers a family for :func:`family`, the command line and the common tests.
register = FAMILIES.register


def family(name: str, **parameters: Any) -> Family:
    """Create a family by name: ``family("surfaces", points=400, kind="torus")``."""
    return FAMILIES.build(name, parameters)


def parse_family(text: str) -> Family:
    """Create a family from its short form: ``surfaces:points=400,kind=torus``, ``delaunay:points=20-80``."""
    name, parameters = parse_spec(text)
    return family(name, **parameters)


def load_or_make(folder: Path, key: dict[str, Any], make: Callable[[], Packed]) -> Packed:
    """Load the tensors stored for ``key``; make and store them if they are absent or damaged.

    Two processes may ask for the same key at once: each makes the same graphs, and one whole file remains.
    """
    description = json.dumps(key, sort_keys=True)
    fingerprint = hashlib.sha256(description.encode()).hexdigest()[:20]
    path = folder / f"{key['family']['name']}-{fingerprint}.safetensors"
    stored = _load(path, description)
    if stored is not None:
        return stored
    with _writable(folder):  # before the work, so that a bad folder is reported at once
        folder.mkdir(parents=True, exist_ok=True)
    packed = make()
    with _writable(folder):
        write_atomically(path, safetensors.save(packed, {"key": description, "digest": digest_of(packed)}))
    return packed


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GLNError(
            f"Cannot write to the cache folder {folder} ({error.strerror}); choose a folder that can "
            "be created and written to."
        ) from None


def _load(path: Path, description: str) -> Packed | None:
    """The tensors in ``path``, or ``None`` if it is missing, damaged or belongs to another key."""
    try:
        packed, header = read_safetensors(path)
    except (OSError, ValueError):
        return None
    intact = header.get("key") == description and header.get("digest") == digest_of(packed)
    return packed if intact else None
