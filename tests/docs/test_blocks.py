"""Every block of code in the README and in docs/ runs, in the order of its page, in an empty folder.

A page is one Python program; its shell commands run between its blocks. Commands that train, and those that need what
was trained, are read by the command line's parser only, unless ``GLN_SLOW=1``. What is never run is in ``NOT_RUN``.
The guides have tests of their own, in ``tests/guides``. A block ``text`` is what the block before it prints.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from tyro.extras import SubcommandApp

from gln.baselines import BASELINES
from gln.commands import cli
from gln.families import FAMILIES
from gln.io import read_items
from gln.models import MODELS
from tests.docs.pages import PAGES, Block, blocks, commands
from tests.docs.prepared import files, variables
from tests.docs.printed import assert_printed
from tests.docs.running import run_here
from tests.guides.test_guides import GUIDES

SLOW = os.environ.get("GLN_SLOW") == "1"
LANGUAGES = ("python", "sh", "text", "json", "yaml", "")  # without a language: to be looked at

NOT_RUN = {
    "git clone": "needs a network and the place of the repository",
    "make ": "sets up or tests this very repository; .ci/run does it",
    "source ": "changes the shell it stands in",
    "python -m reproduction": "takes hours; tests/reproduction run it at scale smoke, and .ci/run all of it",
    "python -m benchmarks": "times for minutes; tests/benchmarks run each at a small size",
}
# Pages whose commands and programs other tests run: what stands there is parsed.
ELSEWHERE = {"several-machines": "starts processes; the tests of several processes do"}
# What a page says is large; the letters of the page are kept where it is not.
SHORTER = {
    "anywhere": {"export delaunay -o": "export delaunay-small -o"},
    "README": {
        "--count 8 -o": "--count 8 --sampling-steps 2 -o",
        "--model GraphFlow -o": "--model GraphFlow:width=16,pair_width=8,steps=1 --epochs 1 -o",
        "--count 100 -o": "--count 2 --sampling-steps 2 -o",
        "points=100)": "points=16)",
        "view surfaces:points=400": "view surfaces:points=64",
        "sample(1200": "sample(20",
        "epochs=20": "epochs=1",
        "--patches 80": "--patches 30 --epochs 2",
    },
}
RUNNABLE = [
    name
    for name in PAGES
    if not name.startswith("guides/") and any(block.language in ("python", "sh") for block in blocks(name))
]


@pytest.fixture(autouse=True)
def _names_as_before() -> Iterator[None]:
    """What a page registers is gone afterwards."""
    registries: list[dict[str, Any]] = [FAMILIES, BASELINES, MODELS]
    before = [dict(registry) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):
        registry.clear()
        registry.update(names)


@pytest.mark.parametrize("name", RUNNABLE)
def test_blocks_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    files(tmp_path)
    namespace = variables(name)
    shorter = SHORTER.get(name, {})
    printed, later, as_written = "", [], True
    for written in blocks(name):
        if written.language == "text":
            if as_written:
                assert_printed(printed, written.text)
            continue
        capfd.readouterr()
        block = Block(written.language, shortened(written.text, shorter))
        as_written = block.text == written.text
        if block.language == "python":
            code = compile(block.text, f"{name}.md", "exec")
            if name not in ELSEWHERE:
                exec(code, namespace)
        elif block.language == "sh":
            later += [command for command in block.commands if not run_command(name, command)]
        elif block.language == "json":
            check_json(block, tmp_path)
        printed = capfd.readouterr().out
    for command in later:
        assert run_command(name, command), f"nothing on the page trains what {command!r} needs"


def shortened(text: str, shorter: dict[str, str]) -> str:
    for long, short in shorter.items():
        text = text.replace(long, short)
    return text


def run_command(name: str, command: str) -> bool:
    """Run or parse one command; False if it needs a run that does not exist yet."""
    arguments = gln_arguments(command)
    if arguments is not None and not arguments[0].startswith("-"):
        parse(arguments)
    if name in ELSEWHERE or any(command.startswith(start) for start in NOT_RUN):
        return True
    if arguments is not None:
        trained = [word for word in arguments if word.startswith("runs/")]
        if (trained or arguments[0] == "train") and not SLOW:
            return True
        if arguments[0] != "train" and not all(Path(run).exists() for run in trained):
            return False
    run_here(command)
    return True


def gln_arguments(command: str) -> list[str] | None:
    """What follows ``gln`` in a command, however it is started; ``None`` if nothing does."""
    found = re.search(r"^(?:\w+=\S+ +)*(?:(?:srun|torchrun|python)\b.*\s)?gln\s+(\S.*)$", command)
    if found is None:
        return None
    return shlex.split(re.sub(r"\$\{?\w+\}?", "2", found[1]))  # variables of the shell are numbers here


def parse(arguments: list[str]) -> None:
    """Have the command line read the arguments, and do nothing."""
    app = SubcommandApp()
    for name, command in cli.app._subcommands.items():
        app.command(name=name)(_idle(command.target))
    app.cli(prog="gln", args=arguments)


def _idle(function: Any) -> Any:
    @wraps(function)
    def idle(*args: Any, **kwargs: Any) -> None:
        return None

    return idle


def check_json(block: Block, folder: Path) -> None:
    json.loads(block.text)
    (folder / "network.json").write_text(block.text)
    (item,) = read_items([folder / "network.json"])
    assert item.graph.num_edges > 0


def test_languages_are_known() -> None:
    for name in PAGES:
        assert {block.language for block in blocks(name)} <= set(LANGUAGES), name


def test_guides_have_tests_of_their_own() -> None:
    assert {name for name in PAGES if name.startswith("guides/")} == {f"guides/{name}" for name in GUIDES}


def test_what_stands_in_for_numbers_is_on_its_page() -> None:
    for name, shorter in SHORTER.items():
        text = "\n".join(block.text for block in blocks(name))
        assert all(long in text for long in shorter), name


def test_a_command_that_the_command_line_does_not_know_is_found() -> None:
    with pytest.raises(SystemExit):
        parse(["predict", "delaunay", "points.csv", "-o", "edges.csv", "--no-such-flag"])


def test_printed_numbers_are_compared() -> None:
    assert_printed("F1 0.9991\nmore\nlast 3\n", "F1 0.9989\n…\nlast 3\n")
    for printed, expected in (
        ("F1 0.98\n", "F1 0.99\n"),
        ("one\ntwo\n", "one\n"),
        ("3 edges\n", "4 edges\n"),
    ):
        with pytest.raises(AssertionError, match="printed"):
            assert_printed(printed, expected)


def test_what_is_not_run_is_on_some_page() -> None:
    everything = [command for name in PAGES for command in commands(name)]
    for start in NOT_RUN:
        assert any(command.startswith(start) for command in everything), f"{start!r} is not needed any more"
