"""A result says which code it comes from."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gln.errors import GLNError
from gln.storage import provenance as facts


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package, a recipe and a result, from which the package seems to run."""
    code = ("src/gln/__init__.py", "src/gln/training/facts.py", "recipes/paper.py", "benchmarks/step.py")
    for name in (*code, "results/one.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    monkeypatch.setattr(facts, "__file__", str(tmp_path / "src/gln/training/facts.py"))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message=first")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("changed", "dirty"),
    [
        ("src/gln/training/facts.py", True),
        ("recipes/paper.py", True),
        ("benchmarks/step.py", True),
        ("results/one.json", False),
    ],
)
def test_a_commit_is_dirty_if_code_was_changed_and_not_if_a_result_was(
    repository: Path, changed: str, dirty: bool
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert facts.commit.__wrapped__() == head
    (repository / changed).write_text("2\n")
    assert facts.commit.__wrapped__() == (f"{head}-dirty" if dirty else head)


def test_a_package_inside_another_repository_has_no_commit(repository: Path) -> None:
    git(repository, "rm", "--quiet", "--cached", "src/gln/__init__.py")
    assert facts.commit.__wrapped__() is None


def test_a_result_to_keep_is_written_from_committed_code_only(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "commit", facts.commit.__wrapped__)
    facts.write_result(repository / "results" / "two.json", "measure", 0, {})
    (repository / "recipes/paper.py").write_text("2\n")
    with pytest.raises(GLNError, match="not committed; commit it first"):
        facts.write_result(repository / "results" / "three.json", "measure", 0, {})
    assert not (repository / "results" / "three.json").exists()
    facts.write_result(tmp_path_factory.mktemp("elsewhere") / "three.json", "measure", 0, {})


ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("not_committed.txt")


def commits(value: Any) -> Iterator[str]:
    """Every commit that is named anywhere in a result."""
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        if name == "commit":
            yield str(part)
        elif isinstance(part, dict | list):
            yield from commits(part)


def test_results_and_shipped_models_come_from_committed_code() -> None:
    try:
        known = set(git(ROOT, "rev-list", "--all").split())
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the repository")
    if git(ROOT, "rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("needs the whole history")
    paths = [*ROOT.glob("results/**/*.json"), *ROOT.glob("src/gln/shipped/*/model.json")]
    assert len(paths) > 100
    found = {str(path.relative_to(ROOT)): set(commits(json.loads(path.read_text()))) for path in paths}
    others = {name for name, named in found.items() if not named or named - known}
    listed = set(LISTED.read_text().split())  # those of before this rule; the list only shrinks
    assert not others - listed, "commit the code first, then measure"
    assert not listed - others, "remove these from the list"
