"""Users' files: sets of nodes in, edges out.

Reading streams: :func:`read_items` holds one graph of a file at a time where the format allows it. Nothing that is
read can run code, open another file than those named, or take memory that the size of the file does not explain.
"""

from gln.io.edge_tables import EdgeTable
from gln.io.items import Item, ReadOptions, Skipped
from gln.io.reading import READABLE, find_files, read_items
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
