"""Where a page or a picture may be written: checked before any work is done for it."""

from __future__ import annotations

import os
from pathlib import Path

from gln.errors import GLNError

PAGES = (".html", ".htm")
FORMATS = ("png", "pdf", "svg")


def check_page(path: Path | str) -> Path:
    """Refuse a path that is not a page."""
    path = Path(path)
    if path.suffix.lower() not in PAGES:
        raise GLNError(f"Got {path.name!r}; pages are written as .html.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise GLNError(f"{path} cannot be written; choose a file name in a folder you can write to.")
    return path


def check_picture(path: Path | str) -> Path:
    """Refuse a path that is not a picture."""
    path = Path(path)
    if path.suffix.lstrip(".").lower() not in FORMATS:
        raise GLNError(f"Got {path.name!r}; pictures are written as .png, .pdf or .svg.")
    return path
