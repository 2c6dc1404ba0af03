"""Reading a CSV file row by row: separator, header, row numbers, and a way back to a row; cells that are harmless."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gln.errors import GLNError, quote
from gln.files import open_regular

LONGEST = 2**20  # bytes in a line
MOST_COLUMNS = 2**16
SEPARATORS = (",", ";", "\t", " ")
EMPTY = "the table is empty; expected a header and one row per node."
NAMELESS = "(no name)"  # the index that pandas writes first, or what follows a comma at the end of every row
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
FORMULA = re.compile(r"'*[=+\-@\t\r]")


class BrokenTable(GLNError):
    """A row that cannot be split into cells, after which no row can be trusted."""


class RowStart(NamedTuple):
    """Where a row begins: its first byte, and its number as a text editor shows it."""

    offset: int
    row: int


Row = tuple[RowStart, list[str]]


@dataclass(frozen=True)
class CSVFile:
    """Rows of equally many cells under distinct names; if the first row is all numbers, there is no header."""

    path: Path
    separator: str
    columns: tuple[str, ...]
    named: bool  # the file has a header; otherwise the columns are called 1, 2, …
    start: RowStart

    @classmethod
    def open(cls, path: Path) -> CSVFile:
        """Read the first row; the file does not stay open."""
        with open_regular(path) as file:
            first = next((line for line in _Lines(file, RowStart(0, 1)) if line.strip()), None)
        if first is None:
            raise BrokenTable(EMPTY)
        # A row with decimal commas between semicolons may have more commas than semicolons.
        decimal = ";" in first and all(reads_as_number(cell.replace(",", ".")) for cell in first.split(";"))
        separator = ";" if decimal else max(SEPARATORS[:3], key=first.count)
        if separator not in first and " " in first.strip():
            separator = " "
        plain = cls(path, separator, (), False, RowStart(0, 1))
        records = plain._records(plain.start)
        header = next(records, None)
        if header is None:  # only rows of empty cells
            raise BrokenTable(EMPTY)
        place, cells = header
        if len(cells) > MOST_COLUMNS:
            raise BrokenTable(
                f"row {place.row} has {len(cells):,} cells; expected at most {MOST_COLUMNS:,}: save fewer columns."
            )
        names = tuple(cell.strip() for cell in cells)
        if all(reads_as_number(name) for name in names):
            columns = tuple(str(number) for number in range(1, len(names) + 1))
            return cls(path, separator, columns, False, place)
        plain._refuse_decimal_comma(place, names)
        names = (names[0].removeprefix("# "), *names[1:])  # as numpy.savetxt writes a header
        if names.count("") == 1 and len(names) > 1 and "" in (names[0], names[-1]):
            names = tuple(name or NAMELESS for name in names)
        if "" in names:
            raise BrokenTable(
                f"row {place.row}: column {names.index('') + 1} has no name; name every column."
            )
        if len(set(names)) < len(names):
            repeated = Counter(names).most_common(1)[0][0]
            raise BrokenTable(f"row {place.row}: two columns are called {quote(repeated)}; rename one.")
        after = next(records, None)
        start = after[0] if after else RowStart(path.stat().st_size, place.row + 1)
        return cls(path, separator, names, True, start)

    @cached_property
    def at(self) -> dict[str, int]:
        """The place of every column."""
        return {name: place for place, name in enumerate(self.columns)}

    def rows(self, place: RowStart | None = None) -> Iterator[Row]:
        """The rows from ``place`` on, each with where it begins; blank rows are skipped."""
        for here, cells in self._records(place or self.start):
            if len(cells) != len(self.columns):
                raise BrokenTable(
                    f"row {here.row} has {len(cells)} cells; expected {len(self.columns)}, as in the first row."
                )
            yield here, cells

    def key(self, column: str | None) -> Callable[[Row], str]:
        """A function from a row to its cell in ``column``; without a column, all rows have the same key."""
        if column is None:
            return lambda row: ""
        at = self.at[column]
        return lambda row: row[1][at].strip()

    def numeric(self) -> list[str]:
        """Named columns whose first value that is not blank is a number, judged by the first 100 rows."""
        first = dict.fromkeys(self.columns, "")
        for place, cells in islice(self.rows(), 100):
            self._refuse_decimal_comma(place, cells)
            for name, cell in zip(self.columns, cells, strict=True):
                first[name] = first[name] or cell.strip()
        return [name for name, value in first.items() if name != NAMELESS and reads_as_number(value)]

    def places(self, column: str | None) -> dict[str, RowStart]:
        """Where each graph named in ``column`` begins; refuses a table in which the rows of a graph are apart."""
        found: dict[str, RowStart] = {}
        for part, rows in groupby(self.rows(), self.key(column)):
            place, _ = next(rows)
            if part in found:
                raise GLNError(
                    f"row {place.row}: graph {quote(part)} already appeared above, before another one; "
                    "sort the table by graph."
                )
            found[part] = place
        return found

    def _refuse_decimal_comma(self, place: RowStart, cells: Sequence[str]) -> None:
        wrong = next((cell for cell in cells if DECIMAL_COMMA.fullmatch(cell.strip())), None)
        if wrong is not None and self.separator != ",":  # between commas it is quoted text
            raise BrokenTable(
                f"row {place.row}: {quote(wrong)} has a decimal comma; write numbers with a point, "
                f"{quote(wrong.strip().replace(',', '.'))}."
            )

    def _records(self, place: RowStart) -> Iterator[Row]:
        with open_regular(self.path) as file:
            file.seek(place.offset)
            lines = _Lines(file, place)
            reader = csv.reader(lines, delimiter=self.separator, strict=True, skipinitialspace=True)
            while True:
                here = lines.place
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    raise BrokenTable(f"row {here.row} is not readable as CSV ({error}).") from None
                if len(cells) > 1 or "".join(cells).strip():
                    yield here, cells


class _Lines:
    """The lines of a file as text, knowing where the next one begins."""

    def __init__(self, file: BinaryIO, place: RowStart) -> None:
        self.file, self.place = file, place

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        offset, row = self.place
        line = self.file.readline(LONGEST + 1)
        if not line:
            raise StopIteration
        if len(line) > LONGEST:
            raise BrokenTable(f"row {row} is longer than {LONGEST:,} bytes; this is not a table.")
        self.place = RowStart(offset + len(line), row + 1)
        try:
            return line.decode("utf-8-sig" if offset == 0 else "utf-8")
        except UnicodeDecodeError:
            raise BrokenTable(f"row {row} is not UTF-8 text; save the table as UTF-8.") from None


def reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # which Python ignores: 1_0 is a name, not ten


def harmless(text: str) -> str:
    """``text`` as a cell that no spreadsheet runs as a formula: with an apostrophe before it, it is taken for text.

    So is a cell that begins with apostrophes before ``=`` or the like: nothing is ambiguous.
    """
    return f"'{text}" if FORMULA.match(text) and not reads_as_number(text) else text


def plain(cell: str) -> str:
    """What :func:`harmless` was given."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
