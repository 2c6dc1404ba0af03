"""No link leads nowhere: files, anchors, images and their descriptions, in the README and in docs/."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

import gln
from tests.docs.pages import FENCE, PAGES, ROOT, text_of

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
API = re.compile(r"^::: (\S+)$", re.MULTILINE)


def links(name: str) -> list[tuple[bool, str, str]]:
    """Whether it is an image, its text and its target; outside of code."""
    text = re.sub(r"`[^`\n]*`", "code", FENCE.sub("", text_of(name)))
    return [(mark == "!", words, target) for mark, words, target in LINK.findall(text)]


@cache
def anchors(path: Path) -> set[str]:
    """What may stand behind a # to this page."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {slug(heading) for heading in HEADING.findall(text)} | set(API.findall(text))


def slug(heading: str) -> str:
    """As mkdocs and GitHub make it of plain headings: letters and digits, hyphens for spaces."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading)
    heading = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = PAGES[name]
    for _, _, target in links(name):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{target} is no file of the repository"
        if anchor:
            assert anchor in anchors(file), f"{target}: there are {sorted(anchors(file))}"


@pytest.mark.parametrize("name", PAGES)
def test_images_say_what_they_show(name: str) -> None:
    for image, words, target in links(name):
        if image:
            assert len(words.split()) > 1, f"{target} has no description"


def test_every_image_is_shown_and_not_too_large() -> None:
    shown = {
        (PAGES[name].parent / target).resolve()
        for name in PAGES
        for image, _, target in links(name)
        if image or target.endswith(".pdf")
    }
    for path in (ROOT / "docs/images").iterdir():
        assert path.resolve() in shown, f"no page shows {path.name}"
        if path.name.startswith("how-"):
            assert path.stat().st_size <= 200_000


def test_the_reference_lists_every_public_name_once() -> None:
    listed = [entry for name in PAGES if name.startswith("api/") for entry in API.findall(text_of(name))]
    assert len(listed) == len(set(listed))
    assert {f"gln.{name}" for name in gln.__all__} <= set(listed)
    overview = text_of("api/index")
    for name in gln.__all__:
        assert f"[`{name}`](" in overview


def test_the_navigation_lists_every_page() -> None:
    import yaml

    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/-]+\.md", str(yaml.safe_load(text)["nav"])))
    assert named == {f"{name}.md" for name in PAGES if name != "README"}
