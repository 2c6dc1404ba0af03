"""Molecules: .xyz (no bonds), SDF/MOL (bonds are the true edges), and ligands of PDB and mmCIF files (no bonds).

An atom has a position and an element. PDB and mmCIF files are read by gemmi, of ``gln[molecules]``.

In an SDF, the type of a bond may be its ``order``, and the type of an atom its formal ``charge``.

An .xyz whose rows are nothing but numbers is a cloud of points, as scanners write it.
"""

from __future__ import annotations

from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from gln.decoding.valences import BONDS, SYMBOLS
from gln.errors import GLNError, needed, quote
from gln.files import open_regular
from gln.graphs.convert import components
from gln.io.csvfile import reads_as_number
from gln.io.file_edges import FileEdges, Numbered
from gln.io.items import Item, ReadOptions, Skipped, Source, decoding, floats, ints, load, shown
from gln.later import spatial

if TYPE_CHECKING:
    from gemmi import Residue, Structure

ELEMENTS = ("H", "C", "N", "O", "F", "P", "S", "Cl", "Br", "I")
CHARGES = (0, 3, 2, 1, 0, -1, -2, -3)  # by the code in the row of an atom
LONGEST = 2**16  # bytes in a line
JOINED = 1.9  # ångström: residues with heavy atoms so near are one molecule

Row = tuple[int, bytes]


def read_xyz(source: Source) -> Iterator[Item | Skipped]:
    """Read frames one after another: the number of atoms, a comment, and for each atom its element, x, y, z."""
    with open_regular(source.path) as file:
        first = next((line.split() for _, line in _rows(file) if line.strip()), [])
        file.seek(0)
        if len(first) < 3 or not all(reads_as_number(word.decode("latin-1")) for word in first):
            yield from _numbered(source, _frames(source, _rows(file)))
            return
        points = array("d")
        for row, line in _rows(file):
            if words := line.split():
                if len(words) < 3:
                    raise GLNError(f"row {row} has {len(words)} numbers; expected x, y, z.")
                points.extend(floats(words[:3], row))
    source.say("a cloud of points: pos = the first three numbers of a row")
    yield source.item(pos=np.array(points).reshape(-1, 3))


def read_sdf(source: Source) -> Iterator[Item | Skipped]:
    """Read records separated by lines ``$$$$``; a .mol file is a single one."""
    with open_regular(source.path) as file:
        yield from _numbered(source, _records(_rows(file)))


class Molecule(NamedTuple):
    """One molecule; each of the ``bonds``, if they are known, is two atoms and its order."""

    places: list[list[float]]
    symbols: list[str]
    title: str
    bonds: list[list[int]] | None = None
    charges: list[int] | None = None


Record = Callable[[], Molecule]  # reads one molecule of a file, or says why it cannot


def _numbered(source: Source, records: Iterator[Record]) -> Iterator[Item | Skipped]:
    """Items named by their number; a single one is named by its file alone, so the first waits for a second."""
    first = list(islice(records, 2))
    for number, record in enumerate(chain(first, records)):
        part = number if len(first) > 1 else None
        yield source.attempt(part, partial(_read, source, record, part))


def _read(source: Source, record: Record, part: int | None) -> Item:
    return item_of(source, record(), part)


def item_of(source: Source, molecule: Molecule, part: str | int | None) -> Item:
    """A molecule as an item; ``x`` is one-hot, of the elements that are known."""
    options = source.options
    known, only = _elements(options), options.only_elements
    if not only:
        source.say(f"x = element, one of {', '.join(known)}, other")
    symbols = molecule.symbols
    if others := ", ".join(symbol for symbol in dict.fromkeys(symbols) if symbol not in known):
        left = f"the model does not know {others}: left without bonds"
        source.say(left if only else f"no feature of their own, but one for all: {others}; see --elements")
    column = {symbol: number for number, symbol in enumerate(known)}
    names = list(known) if only else [*known, "other elements"]
    elements = np.eye(len(known) + 1, len(names), dtype=np.float32)
    return source.item(
        pos=np.array(molecule.places).reshape(-1, 3),
        x=elements[[column.get(symbol, len(known)) for symbol in symbols]],
        edges=_bonds(options, molecule.bonds),
        part=part,
        x_names=names,
        title=molecule.title,
        symbols=symbols,
        of_nodes=_charges(options, molecule.charges),
    )


def _bonds(options: ReadOptions, bonds: list[list[int]] | None) -> FileEdges | None:
    if bonds is None:
        return None
    rows = np.array(bonds, dtype=np.int64).reshape(-1, 3)
    order = rows[:, 2]
    odd = np.flatnonzero((order < 1) | (order > len(BONDS)))
    if options.types == "order" and odd.size:
        raise GLNError(
            f"bond {odd[0] + 1} has order {order[odd[0]]}; expected 1 to {len(BONDS)}: {', '.join(BONDS)}."
        )
    return FileEdges(rows[:, :2], {"order": Numbered(order - 1, BONDS)}, directed=False)


def _charges(options: ReadOptions, charges: list[int] | None) -> dict[str, Numbered]:
    """The formal charge of every atom, if one has any or it was asked for."""
    if charges is None or (options.node_types is None and not any(charges)):
        return {}
    values, numbers = np.unique(charges, return_inverse=True)
    words = tuple(f"{value:+d}" if value else "0" for value in values)
    return {"charge": Numbered(numbers.astype(np.int64), words)}


def _elements(options: ReadOptions) -> tuple[str, ...]:
    if options.elements is None:
        return ELEMENTS
    elements = tuple(name.capitalize() for name in options.elements)
    wrong = [name for name in elements if name not in SYMBOLS]
    if wrong or len(set(elements)) < len(elements):
        raise GLNError(
            f"the elements {', '.join(options.elements)} must be distinct symbols such as H, C, Cl."
        )
    return elements


def _frames(source: Source, rows: Iterator[Row]) -> Iterator[Record]:
    for row, line in rows:
        if not line.strip():
            continue
        words = line.split()
        if len(words) != 1 or not words[0].isdigit():
            raise GLNError(
                f"row {row} is {shown(line)}; expected the number of atoms, or x, y, z in every row."
            )
        (count,) = ints(words, row)
        source.check_count(count)
        _, comment = next(rows, (row, b""))
        if b"Lattice=" in comment:
            source.say("its lattice is not used: atoms on opposite sides of the cell are far from each other")
        atoms = list(islice(rows, count))
        if len(atoms) < count:
            raise GLNError(f"row {row} claims {count} atoms, but the file ends after {len(atoms)}.")
        yield partial(_frame, row, comment, atoms)


def _frame(row: int, comment: bytes, atoms: list[Row]) -> Molecule:
    if b"Properties=" in comment and b"Properties=species:S:1:pos:R:3" not in comment:
        raise GLNError(f"row {row + 1}: expected Properties=species:S:1:pos:R:3, then any others.")
    places, symbols = [], []
    for number, line in atoms:
        words = line.split()
        if len(words) < 4:
            raise GLNError(f"row {number} is {shown(line)}; expected an element and x, y, z.")
        places.append(floats(words[1:4], number))
        symbols.append(_symbol(words[0], number))
    return Molecule(places, symbols, _title(comment))


def _symbol(word: bytes, row: int) -> str:
    """The element in an atom's row, a symbol or an atomic number."""
    return element(word.decode("latin-1"), f"row {row}")


def element(name: str, where: str) -> str:
    """The symbol of an element by its name in a file."""
    name = name.capitalize()
    if name in ("D", "T"):  # heavy hydrogen
        return "H"
    if name.isdecimal() and len(name) <= 3 and 1 <= int(name) <= len(SYMBOLS):
        return SYMBOLS[int(name) - 1]
    if name not in SYMBOLS:
        raise GLNError(f"{where}: {quote(name)} is not a chemical element.")
    return name


def _records(rows: Iterator[Row]) -> Iterator[Record]:
    while True:
        record: list[Row] = []
        for row, line in rows:
            if line.startswith(b"$$$$"):
                break
            # V2000 has at most 999 atoms and 999 bonds; data fields may be long.
            if len(record) < 4000 or (b"V3000" in record[3][1] and line.startswith(b"M  V30")):
                record.append((row, line))
        else:
            if not any(line.strip() for _, line in record):
                return
        yield partial(_molecule, record)


def _molecule(record: list[Row]) -> Molecule:
    """The atoms and bonds of a V2000 record, whose columns have fixed widths."""
    if len(record) < 4:
        where = f"row {record[-1][0]}" if record else "the file"
        raise GLNError(f"{where} ends a record before its counts line, which is the fourth.")
    row, counts = record[3]
    if b"V3000" in counts:
        return _free_columns(record)
    if b"V2000" not in counts:
        raise GLNError(f"row {row} is {shown(counts)}; expected a V2000 or V3000 counts line.")
    atoms, bonds = ints([counts[0:3], counts[3:6]], row)
    if atoms < 1 or bonds < 0 or len(record) < 4 + atoms + bonds:
        raise GLNError(f"row {row} claims {atoms} atoms and {bonds} bonds, which the record does not hold.")
    pos, symbols, found, codes = [], [], [], []
    for row, line in record[4 : 4 + atoms]:
        pos.append(floats([line[0:10], line[10:20], line[20:30]], row))
        symbols.append(_symbol((line[31:34].split() or [b"?"])[0], row))
        codes.append(_digit(line[36:39]))
    for row, line in record[4 + atoms : 4 + atoms + bonds]:
        pair = ints([line[0:3], line[3:6]], row)
        if min(pair) < 1 or max(pair) > atoms or pair[0] == pair[1]:
            raise GLNError(
                f"row {row}: a bond joins {pair[0]} and {pair[1]}; the atoms are numbered 1 to {atoms}."
            )
        found.append([pair[0] - 1, pair[1] - 1, _digit(line[6:9])])
    stated = [(row, line) for row, line in record[4 + atoms + bonds :] if line.startswith(b"M  CHG")]
    charges = [0 if stated or code >= len(CHARGES) else CHARGES[code] for code in codes]
    for row, line in stated:  # these replace the codes in the rows of the atoms
        words = ints(line.split()[3:], row)
        for atom, charge in zip(words[::2], words[1::2], strict=False):
            if not 1 <= atom <= atoms:
                raise GLNError(f"row {row} charges atom {atom}; the atoms are numbered 1 to {atoms}.")
            charges[atom - 1] = charge
    return Molecule(pos, symbols, _title(record[0][1]), found, charges)


def _free_columns(record: list[Row]) -> Molecule:
    """The atoms and bonds of a V3000 record, whose columns are separated by spaces."""
    place: dict[bytes, int] = {}
    pos: list[list[float]] = []
    symbols, bonds, charges = [], [], []
    block, before = b"", b""
    for row, line in record[4:]:
        if not line.startswith(b"M  V30 "):
            continue
        text = before + line[7:].strip()
        before = text[:-1] if text.endswith(b"-") else b""
        words = [] if before else text.split()
        if words[:1] in ([b"BEGIN"], [b"END"]):
            block = words[1] if words[0] == b"BEGIN" and len(words) > 1 else b""
        elif block == b"ATOM" and words:
            if len(words) < 6 or words[0] in place:
                raise GLNError(f"row {row}: expected the number of an atom, its element and x, y, z.")
            place[words[0]] = len(pos)
            pos.append(floats(words[2:5], row))
            symbols.append(_symbol(words[1], row))
            stated = [word[4:] for word in words[6:] if word.startswith(b"CHG=")]
            charges.append(ints(stated, row)[0] if stated else 0)
        elif block == b"BOND" and words:
            ends = [place.get(word, -1) for word in words[2:4]]
            if len(ends) < 2 or min(ends) < 0 or ends[0] == ends[1]:
                raise GLNError(f"row {row}: a bond joins atoms that the record does not hold.")
            bonds.append([*ends, _digit(words[1])])
    if not pos:
        raise GLNError(f"row {record[3][0]}: the record holds no atoms.")
    return Molecule(pos, symbols, _title(record[0][1]), bonds, charges)


def _digit(word: bytes) -> int:
    """A small number in a column of fixed width; 0 where there is none."""
    return int(word) if word.strip().isdigit() else 0


def _title(line: bytes) -> str:
    """The first words of a line, safe to print."""
    words = line.decode("utf-8", errors="replace").split()
    return quote(" ".join(words))[1:-1]


def _rows(file: BinaryIO) -> Iterator[Row]:
    """Lines with their numbers, as a text editor counts them."""
    row = 0
    while line := file.readline(LONGEST + 1):
        row += 1
        if len(line) > LONGEST:
            raise GLNError(f"row {row} is longer than {LONGEST:,} bytes; this is not a table of atoms.")
        yield row, line.removeprefix(BOM_UTF8) if row == 1 else line


def read_structure(source: Source) -> Iterator[Item | Skipped]:
    """Read the molecules of a ``.pdb``, ``.ent``, ``.cif`` or ``.mmcif`` file.

    One with a protein or a nucleic acid gives its ligands: everything that is neither polymer nor water, residues that
    are bonded to each other as one molecule. Of any other file, all atoms of a model are one molecule. Of alternative
    locations the first is read.
    """
    gemmi = needed("gemmi", "PDB and mmCIF files", "molecules")
    text = load(source.path)
    pdb = source.path.suffix.lower() in (".pdb", ".ent")
    with decoding("PDB file" if pdb else "mmCIF file"):
        if pdb:
            structure = gemmi.read_pdb_string(text)
        else:
            structure = gemmi.make_structure_from_block(gemmi.cif.read_string(text).sole_block())
        structure.setup_entities()
        structure.remove_alternative_conformations()
        structure.remove_waters()
        found = list(_residues(structure))  # a name that is no text is decoded here
    if not found and _has_polymer(structure):
        raise GLNError(
            "it has a protein or a nucleic acid, but no ligand to read; give a molecule in a file of its own, as .xyz "
            "or .sdf."
        )
    for name, residues in found:
        part = name if len(found) > 1 else None
        yield source.attempt(part, partial(_of_residues, source, residues, part, name))


def _residues(structure: Structure) -> Iterator[tuple[str, list[Residue]]]:
    """The residues of every molecule, with a name."""
    polymers, several = _has_polymer(structure), len(structure) > 1
    for number, model in enumerate(structure, start=1):
        before = f"{number}/" if several else ""
        if not polymers:
            residues = [residue for chain in model for residue in chain if len(residue)]
            if residues:
                yield before + (residues[0].name if len(residues) == 1 else "all"), residues
            continue
        named = [
            (f"{before}{chain.name}/{residue.name}{residue.seqid}", residue)
            for chain in model
            for residue in chain.get_ligands()
            if len(residue)
        ]
        for group in _joined([residue for _, residue in named]):
            yield named[group[0]][0], [named[place][1] for place in group]


def _has_polymer(structure: Structure) -> bool:
    return any(len(chain.get_polymer()) for model in structure for chain in model)


def _joined(residues: list[Residue]) -> list[list[int]]:
    """Which residues belong to one molecule, by their distances."""
    owner, places = [], []
    for number, residue in enumerate(residues):
        heavy = [atom.pos.tolist() for atom in residue if not atom.is_hydrogen()]
        owner += [number] * len(heavy)
        places += heavy
    near = spatial.cKDTree(np.array(places)).query_pairs(JOINED, output_type="ndarray") if places else []
    group = components(np.array(owner, dtype=int)[near].reshape(-1, 2), len(residues))
    return [np.flatnonzero(group == number).tolist() for number in range(group.max(initial=-1) + 1)]


def _of_residues(source: Source, residues: list[Residue], part: str | None, title: str) -> Item:
    atoms: list[Any] = [atom for residue in residues for atom in residue]
    symbols = [element(atom.element.name, f"atom {atom.serial}") for atom in atoms]
    where = [atom.pos.tolist() for atom in atoms]
    return item_of(source, Molecule(where, symbols, title), part)
