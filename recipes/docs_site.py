"""Hooks for mkdocs: equations become MathML, linked files of the repository are copied, and a page is there to play.

The pages can also be read in the repository, so their equations are TeX between dollar signs, and they link to files
outside ``docs/``, such as ``../results/delaunay.json``. In the site the equations are MathML, which every browser
renders without a script, and the linked files are under ``repository/``.
"""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.utils import get_relative_url

from gln.viewing.play import write_play
from gln.workflows.playable import playable

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Pages to play with: a small one, which the front page embeds, and that of gln play.
PLAY = {"play-small.html": ("delaunay-small",), "play.html": ("delaunay-small", "surfaces")}
SHELF = "repository"  # where the site keeps files from outside docs/
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)")
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
SHIM = re.compile(r'src="?https://unpkg\.com/iframe-worker/shim"?')
NAME = re.compile(r"<mo>([A-Za-z]{2,})</mo>")
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add every file of the repository that a page links to, and what those files link to."""
    waiting = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    taken: set[Path] = set()
    while waiting:
        page = waiting.pop()
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            path = _outside(page, target)
            if path is None or path in taken:
                continue
            taken.add(path)
            place = f"{SHELF}/{path.relative_to(ROOT).as_posix()}"
            level = InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, place, abs_src_path=str(path), inclusion=level))
            if path.suffix == ".md":
                waiting.append(path)
    for name, models in PLAY.items():
        content, level = _play(name, models), InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, name, content=content, inclusion=level))
    return files


def _play(name: str, models: tuple[str, ...]) -> str:
    with TemporaryDirectory(prefix="gln-") as place:
        page = write_play(Path(place) / name, [playable(model) for model in models])
        return page.read_text(encoding="utf-8")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links that leave ``docs/`` to the file's place in the site."""
    source, here = Path(page.file.abs_src_path), Path(page.file.src_uri).parent

    def moved(match: re.Match[str]) -> str:
        path = (source.parent / match[1]).resolve()
        outside = _outside(source, match[1])
        if outside is not None:
            return os.path.relpath(f"{SHELF}/{outside.relative_to(ROOT).as_posix()}", here)
        # A page outside docs/ may link into it.
        return os.path.relpath(path.relative_to(DOCS), here) if path.is_relative_to(DOCS) else match[1]

    return LINK.sub(moved, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Convert TeX to MathML."""
    html = BLOCK.sub(lambda match: _mathml(match[1], "block"), html)
    return INLINE.sub(lambda match: _mathml(match[1], "inline"), html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Replace the Worker shim that the theme would fetch from a server by the one in the site."""
    return SHIM.sub(f'src="{get_relative_url("file-worker.js", page.url)}"', output)


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """The same for the 404 page."""
    return SHIM.sub('src="file-worker.js"', output_content)


def _mathml(tex: str, display: str) -> str:
    """Turn function names into identifiers: operators would be spaced away from their brackets."""
    return NAME.sub(r"<mi>\1</mi>", convert(unescape(tex).strip(), display=display))


def _outside(page: Path, target: str) -> Path | None:
    """The file of the repository, but not of ``docs/``, that ``target`` on ``page`` means; else ``None``."""
    path = (page.parent / target).resolve()
    inside = path.is_relative_to(ROOT) and not path.is_relative_to(DOCS)
    return path if inside and path.is_file() else None
