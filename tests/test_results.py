"""Where numbers come from: every result and every shipped model names the committed code that made it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# Files from before this was asked for, to be measured again; the list may only get shorter.
LISTED = (ROOT / "results/uncommitted.txt").read_text().split()
COMMIT = re.compile(r"[0-9a-f]{40}")


def tracked(*patterns: str) -> list[str]:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", *patterns]
    try:
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a clone of the repository")
    return [name for name in listed.split("\0") if name and (ROOT / name).exists()]


def missing(name: str) -> list[str]:
    """What a reader needs to repeat a file, and does not find in it."""
    facts: dict[str, Any] = json.loads((ROOT / name).read_text(encoding="utf-8"))
    if name.startswith("src/"):  # a shipped model; its card has the command
        facts |= {"command": "in the card", "device": "in the card", "seed": facts["training"]["seed"]}
    found = [key for key in ("command", "device") if not isinstance(facts.get(key), str)]
    found += ["seed"] if not isinstance(facts.get("seed"), int) else []
    return found + ([] if COMMIT.fullmatch(str(facts.get("commit"))) else ["commit"])


def test_everything_new_comes_from_committed_code() -> None:
    files = tracked("results/*.json", "src/gln/shipped/*/model.json")
    assert len(files) > 100
    wrong = {name: found for name in files if name not in LISTED and (found := missing(name))}
    assert not wrong


def test_the_list_of_old_files_only_gets_shorter() -> None:
    assert sorted(set(LISTED)) == LISTED
    assert len(LISTED) <= 85, "lower this number, never raise it"
    assert not [name for name in LISTED if not (ROOT / name).exists()], "gone: take them off the list"
    assert not [name for name in LISTED if not missing(name)], "measured again: take them off the list"


def test_commits_are_of_this_repository() -> None:
    files = [name for name in tracked("results/*.json", "src/gln/shipped/*/model.json") if name not in LISTED]
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        pytest.skip("a shallow clone does not know older commits")
    commits = {json.loads((ROOT / name).read_text(encoding="utf-8"))["commit"] for name in files}
    known = subprocess.run(
        [*git, "cat-file", "--batch-check"],
        input="\n".join(commits),
        check=True,
        capture_output=True,
        text=True,
    )
    assert not [line for line in known.stdout.splitlines() if " commit " not in line]
