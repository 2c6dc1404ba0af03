"""Users' files: reading sets of nodes, writing edges.

:func:`read_items` streams: it holds one graph of a file at a time where the format allows it. Reading a file never
runs code, opens files other than those named and the edges or labels beside them, or takes memory out of proportion
to the size of the file.
"""

from gln.io.items import Item, ReadOptions, Skipped
from gln.io.reading import READABLE, find_files, read_items
from gln.io.tables import EdgeTable
from gln.io.writing import WRITABLE, Writer, open_writer

__all__ = [
    "READABLE",
    "WRITABLE",
    "EdgeTable",
    "Item",
    "ReadOptions",
    "Skipped",
    "Writer",
    "find_files",
    "open_writer",
    "read_items",
]
