"""Text that a spreadsheet would run as a formula, written so that it does not, and back.

A cell that begins with ``=``, ``+``, ``-`` or ``@`` and is not a number gets an apostrophe before it, by which a
spreadsheet takes it for text. So does a cell that begins with apostrophes before one of these: nothing is ambiguous.
"""

from __future__ import annotations

import re

from gln.io.csvfile import reads_as_number

FORMULA = re.compile(r"'*[=+\-@\t\r]")


def harmless(text: str) -> str:
    """``text`` as a cell that no spreadsheet runs."""
    return f"'{text}" if FORMULA.match(text) and not reads_as_number(text) else text


def plain(cell: str) -> str:
    """What :func:`harmless` was given."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
