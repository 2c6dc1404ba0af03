"""The site builds in strict mode, and needs no network: neither when it is built nor when it is read."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_tables import load

for _package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
    pytest.importorskip(_package, reason="make docs installs what builds the site")

FETCHED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=["']?(?:https?:)?//[^"' >]*""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every page of the built site."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | nowhere | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.suffix in (".html", ".js", ".json") and path.parent.name != "javascripts"
    }


def test_nothing_is_fetched(site: dict[str, str]) -> None:
    for name, text in site.items():
        if name.endswith(".html"):
            assert not FETCHED.findall(text), name


def test_a_small_page_to_play_with_is_on_the_front_page(site: dict[str, str]) -> None:
    (name,) = re.findall(r'<iframe class="play" src="([^"]+)"', site["index.html"])
    assert '"name":"delaunay-small"' in site[name]
    assert len(site[name]) < 1e6
    assert f'href="{(larger := "play.html")}"' in site["index.html"]
    assert '"name":"surfaces"' in site[larger]


def test_equations_are_drawn_by_the_browser(site: dict[str, str]) -> None:
    page = site["how-it-works.html"]
    assert page.count('display="block"') > 10
    for name, text in site.items():
        assert "arithmatex" not in text, name


def test_linked_files_of_the_repository_come_along(site: dict[str, str]) -> None:
    for link in re.findall(r'href="(repository/[^"#]+\.json)"', site["how-it-works.html"]):
        assert site[link] == (ROOT / link.removeprefix("repository/")).read_text(encoding="utf-8")


def test_the_reference_shows_functions_and_no_markup_of_sphinx(site: dict[str, str]) -> None:
    for name in ("mmd", "novelty", "split"):  # these share their name with a module
        page = next(text for text in site.values() if f'id="gln.{name}"' in text)
        assert f'id="gln.{name}.{name}"' not in page
    for path, text in site.items():
        if path.startswith("api/"):
            assert not re.search(r":(?:func|class|meth|mod|data):|=====", text), path


def test_docstrings_become_markdown() -> None:
    to_markdown = load("docs_docstrings").to_markdown
    assert to_markdown("See :func:`gln.fit` and :class:`~gln.models.GLN`.") == "See `gln.fit` and `GLN`."
    body = "a     one\n      more\nb     x | `y|z`\n"
    rule, made = "====  =====\n", ["| --- | --- |", "| a | one more |", "| b | x \\| `y|z` |"]
    assert to_markdown(f"{rule}{body}{rule}\nText.").splitlines() == ["|  |  |", *made, "", "Text."]
    assert to_markdown(f"{rule}k     v\n{rule}{body}{rule}").splitlines() == ["| k | v |", *made]
    assert to_markdown("To add one::\n\n    a = 1\n\n    b = 2\n\nThen.") == (
        "To add one:\n\n```python\na = 1\n\nb = 2\n```\n\nThen."
    )
