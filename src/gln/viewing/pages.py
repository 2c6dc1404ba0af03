"""Pages: single HTML files that need neither a server nor a network."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from gln.errors import GLNError
from gln.files import write_atomically
from gln.viewing.colours import DARK_PAGE, LIGHT_PAGE
from gln.viewing.packing import embed, pack
from gln.viewing.views import View

SUFFIXES = (".html", ".htm")


def write_page(path: Path | str, views: Sequence[View], title: str = "gln") -> Path:
    """Write a page that shows ``views``: the graphs, truth against prediction, and the recurrence step by step.

    The page contains all its data, and its content security policy forbids every request.
    """
    path = check_page(path)
    if not views:
        raise GLNError("Got no graphs; a page shows at least one.")
    page = assemble(
        "page.html",
        ["common.css", "page.css"],
        ["common.js", "graph.js", "drawing.js", "canvas.js", "page.js"],
        embed(pack(views, title)),
        title,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page.encode())
    return path


def check_page(path: Path | str) -> Path:
    """Refuse a path that is not a page, before any work is done for it."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise GLNError(f"Got {path.name!r}; pages are written as .html.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise GLNError(f"{path} cannot be written; choose a file name in a folder you can write to.")
    return path


def assemble(template: str, styles: Sequence[str], scripts: Sequence[str], data: str, title: str) -> str:
    """Assemble a page from the files in ``page/``: style, script and data in one text.

    The policy in its head allows exactly this style and this script, by their hashes, and forbids every request.
    """
    style = "\n".join([_variables(), *map(_part, styles)])
    script = "\n".join(['"use strict";', *map(_part, scripts)])
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    page = _part(template)
    slots = {"policy": policy, "title": escape(title), "style": style, "script": script, "data": data}
    first, *rest = page.split("{{")
    pieces = [first]
    for piece in rest:  # in one pass, so that inserted text is never taken for a slot
        name, _, after = piece.partition("}}")
        pieces += [slots[name], after]
    return "".join(pieces)


def _part(name: str) -> str:
    return (files("gln.viewing") / "page" / name).read_text(encoding="utf-8")


def _variables() -> str:
    """The colours as variables of the style sheet."""

    def block(selector: str, colours: Mapping[str, str]) -> str:
        return f"{selector} {{ {' '.join(f'--{name}: {value};' for name, value in colours.items())} }}"

    return f"{block(':root', LIGHT_PAGE)}\n{block(':root[data-theme=dark]', DARK_PAGE)}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
