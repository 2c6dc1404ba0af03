"""From paths to items: which files, which reader, what to do about a bad one.

Edges that ``gln predict`` wrote are read back for the graphs they were predicted for.
"""

from __future__ import annotations

import glob
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gln.errors import GLNError, quote, whole_text
from gln.graphs.record import Graph
from gln.io.arrays import members_of, read_npy, read_npz
from gln.io.csvfile import CSVFile
from gln.io.images import labels_of, read_image
from gln.io.items import Item, Reader, ReadOptions, Skipped, Source, numbers_of
from gln.io.meshes import read_mesh
from gln.io.molecules import read_sdf, read_structure, read_xyz
from gln.io.networks import read_gexf, read_gml, read_graphml, read_json
from gln.io.streams import read_las, read_parquet
from gln.io.tables import EdgeTable, edges_of, read_table

SUFFIXES: list[tuple[Reader, str]] = [
    (read_table, ".csv .tsv .txt"),
    (read_npy, ".npy"),
    (read_npz, ".npz"),
    (read_parquet, ".parquet .arrow .feather"),
    (read_las, ".las .laz"),
    (read_mesh, ".ply .obj .stl .off .vtk .pcd"),
    (read_xyz, ".xyz"),
    (read_sdf, ".sdf .mol"),
    (read_structure, ".pdb .ent .cif .mmcif"),
    (read_image, ".png .jpg .jpeg"),
    (read_graphml, ".graphml"),
    (read_gexf, ".gexf"),
    (read_gml, ".gml"),
    (read_json, ".json"),
]
READERS = {suffix: reader for reader, suffixes in SUFFIXES for suffix in suffixes.split()}
READABLE = tuple(READERS)
PREDICTED = ("graph", "source", "target", "probability")  # columns
GLANCE = 2**20  # bytes: more take longer to read than torch to be imported


def find_files(patterns: Sequence[str | Path]) -> list[Path]:
    """Find the files that paths, folders and globs name, sorted and without duplicates.

    A folder, also one that a glob matches, stands for every readable file in it and below it, except hidden ones and
    .txt. A file named in full is returned whatever its suffix.
    """
    found: set[Path] = set()
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            files = _files_below(path)
            if not files:
                raise GLNError(f"{path} holds no readable file; readable are {' '.join(READABLE)}.")
        elif path.exists():
            files = [path]
        elif glob.has_magic(str(pattern)):
            matches = [Path(match) for match in _matches(str(pattern))]
            files = [file for match in matches if match.is_dir() for file in _files_below(match)]
            named = _readable if str(pattern).lower().endswith(".txt") else _gathered
            files += [match for match in matches if named(match) and match.is_file()]
            if not files:
                raise GLNError(
                    f"No readable file matches {str(pattern)!r}; check the pattern and the folder."
                )
        else:
            raise GLNError(f"{path} does not exist; check the path.")
        found.update(files)
    if not found:
        raise GLNError("Got no files; name files, folders or patterns.")
    return sorted(found)


def _matches(pattern: str) -> Iterator[str]:
    """As ``glob.glob`` with ``recursive=True``, but ``**`` follows no links: these may lead in circles."""
    found = re.search(r"(?:^|(?<=/))\*\*(?:/(?:\*\*/)*|$)", pattern)
    if found is None:
        yield from glob.iglob(pattern)
        return
    before, after = pattern[: found.start()], pattern[found.end() :]
    for start in glob.iglob(before) if before else [""]:
        for parent, _, files in _walk(Path(start)):
            inside = "" if parent == "." and not before else parent
            if after:
                yield from _matches(os.path.join(glob.escape(inside), after))
            else:
                yield from (os.path.join(inside, name) for name in files)


def _files_below(folder: Path) -> list[Path]:
    found = (Path(parent, name) for parent, _, files in _walk(folder) for name in files)
    return list(filter(_gathered, found))


def _walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """``os.walk`` without what is hidden."""

    def stop(error: OSError) -> None:
        raise error  # an unreadable folder is not an empty one

    for parent, folders, files in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield parent, folders, [name for name in files if not name.startswith(".")]


def _readable(path: Path) -> bool:
    return path.suffix.lower() in READERS


def _gathered(path: Path) -> bool:
    """Whether a folder stands for this file; most .txt in a folder hold no points, so these are to be named."""
    return _readable(path) and path.suffix.lower() != ".txt"


def read_items(
    paths: Sequence[Path],
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    *,
    on_bad: Callable[[Skipped], None] | None = None,
    say: Callable[[str], None] | None = None,
    chances: bool = False,
) -> Iterator[Item]:
    """Read the sets of nodes in ``paths`` lazily, one after another.

    Files that only accompany another one (its edges, its labels) are skipped.

    Args:
        on_bad: called with each file or graph that cannot be read, and reading goes on; without it, the first
            one raises :class:`GLNError`.
        say: called with each guess in words (``table.csv: pos = x, y; graph = frame``), the same guess only once.
        chances: as in :class:`Source`.
    """
    for item in read_all(paths, options, say, chances=chances):
        if isinstance(item, Item):
            yield item
        elif on_bad is None:
            raise GLNError(str(item))
        else:
            on_bad(item)


def read_all(
    paths: Sequence[Path],
    options: ReadOptions,
    say: Callable[[str], None] | None = None,
    look: bool = False,
    chances: bool = False,
) -> Iterator[Item | Skipped]:
    """As :func:`read_items`, with each file or graph that cannot be read in its place; ``look``: see ``Source``."""
    files = node_files(paths, options)
    base = os.path.commonpath([_place(path).parent for path in files])
    tell, alone = once(say or (lambda text: None)), len(files) == 1
    memo: dict[Path, object] = {}
    for path in files:
        name = whole_text(_place(path).relative_to(base).as_posix())
        yield from _read(Source(path, name, options, tell, memo, look, alone, chances))


def once(say: Callable[[str], None]) -> Callable[[str], None]:
    """Says what it is given, but nothing twice, not even about several files."""
    said: set[str] = set()

    def say_once(text: str) -> None:
        what = text.partition(": ")[2] or text
        if what not in said:
            said.add(what)
            say(text)

    return say_once


def reasons_against(
    paths: Sequence[Path], options: ReadOptions, unfit: Callable[[Item], str | None]
) -> list[Skipped]:
    """Why none of the files can be used, before torch is imported; empty if one can, or if a look takes long.

    ``unfit`` says why a graph that can be read cannot be used; ``None`` if it can.
    """
    files = node_files(paths, options)
    beside = {file for path in files for file in _companion(path, options) if file.is_file()}
    large = sum(path.stat().st_size for path in {*files, *beside} if path.is_file()) > GLANCE
    if large or any(READERS.get(path.suffix.lower()) is read_image for path in files):
        return []
    found: dict[Skipped, None] = {}  # each once, however many graphs of a file it is about
    for item in read_all(files, options, look=True):
        reason = item if isinstance(item, Skipped) else unfit(item)
        if reason is None:
            return []
        found[reason if isinstance(reason, Skipped) else Skipped(item.path, reason)] = None
    return list(found)


def node_files(paths: Sequence[Path], options: ReadOptions) -> list[Path]:
    """The distinct ``paths`` that hold nodes, without those that only accompany one (its edges, its labels)."""
    files = list(dict.fromkeys(Path(path) for path in paths))
    companions = {_place(file) for path in files for file in _companion(path, options)}
    files = [path for path in files if _place(path) not in companions]
    if not files:
        raise GLNError("Got only files of edges or labels; name the files of the nodes too.")
    return files


def _companion(path: Path, options: ReadOptions) -> list[Path]:
    reader, found = READERS.get(path.suffix.lower()), None
    if reader is read_table:
        found = edges_of(path, options)
    elif reader is read_image:
        found = labels_of(path, options)
    return [] if found is None else [_place(found)]


def _place(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _read(source: Source) -> Iterator[Item | Skipped]:
    """The items of the file; the last may be the reason why the rest cannot be read."""
    path = source.path
    try:
        if path.exists() and not path.is_file():
            raise GLNError("this is not a file.")
        if not _readable(path):
            raise GLNError(f"the suffix {path.suffix!r} is not supported; readable are {' '.join(READABLE)}.")
        if source.options.edges is not None and READERS[path.suffix.lower()] is not read_table:
            raise GLNError(
                "--edges goes with tables of nodes; give the nodes as .csv, or the edges in the file itself."
            )
        empty = True
        for item in READERS[path.suffix.lower()](source):
            empty = False
            yield item
        if empty:
            raise GLNError("the file holds no nodes.")
    except GLNError as error:
        yield Skipped(path, str(error))
    except OSError as error:
        where = "" if error.filename in (None, str(path)) else f"{error.filename}: "
        yield Skipped(path, f"{where}cannot be read ({error.strerror or error}).")


def is_archive(path: Path) -> bool:
    """Whether this is an .npz with edge probabilities."""
    return path.suffix.lower() == ".npz" and zipfile.is_zipfile(path) and "edge_prob" in members_of(path)


def is_table(path: Path) -> bool:
    """Whether this is a .csv of predicted edges."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    with suppress(GLNError):  # no table at all
        return CSVFile.open(path).columns[:4] == PREDICTED
    return False


def read_archive(path: Path) -> list[Item]:
    """The graphs of an .npz of ``gln predict``, whose edges have ``edge_prob``."""
    options = ReadOptions(
        types="edge_type",
        weights="edge_weight",
        node_types="node_type",
        directed="directed" in members_of(path),
        kinds_if_there=True,
    )
    return list(read_items([path], options, chances=True))


class Predictions:
    """The predicted edges in ``path``, a .csv or .npz of ``gln predict``, by the ``names`` of their graphs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if is_archive(path):
            self.graphs = {item.label: item.graph for item in read_archive(path)}
            self.names = list(self.graphs)
            return
        if path.suffix.lower() != ".csv":
            raise GLNError(f"{path}: predictions are read from the .csv or .npz that gln predict wrote.")
        if not is_table(path):
            raise GLNError(
                f"{path}: expected the columns {', '.join(PREDICTED)}, as gln predict writes them."
            )
        directed = "direction" in CSVFile.open(path).columns
        options = ReadOptions(types="type", weights="weight", directed=directed, kinds_if_there=True)
        self.table = EdgeTable(path, options, chances=True)
        self.names = list(self.table.places)

    def of(self, name: str, nodes: Graph, ids: Sequence[str] | None) -> Graph:
        """The edges of the graph ``name``, with their probabilities and kinds; ``nodes`` are called ``ids``."""
        count = nodes.num_nodes
        if self.path.suffix.lower() == ".csv":
            return self.table.graph((None, name), numbers_of(ids, count))
        if self.graphs[name].num_nodes != count:
            raise GLNError(
                f"{self.path} has {self.graphs[name].num_nodes} nodes in {quote(name)}, which has {count}; give the "
                "file that these edges were predicted for."
            )
        return self.graphs[name]
