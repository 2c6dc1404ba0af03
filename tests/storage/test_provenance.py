"""A result says which code it comes from."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gln.errors import GLNError
from gln.storage import provenance as facts


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a package, a recipe and a result, from which the package seems to run."""
    for name in ("src/gln/__init__.py", "src/gln/training/facts.py", "recipes/paper.py", "results/one.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    monkeypatch.setattr(facts, "__file__", str(tmp_path / "src/gln/training/facts.py"))
    (tmp_path / ".gitignore").write_text("scratch/\n")
    facts.commit.cache_clear()
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message=first")
    yield tmp_path
    facts.commit.cache_clear()


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("changed", "dirty"),
    [
        ("src/gln/training/facts.py", True),
        ("recipes/paper.py", True),
        ("recipes/new/one.py", True),
        ("results/one.json", False),
        ("results/new.json", False),
    ],
)
def test_a_commit_is_dirty_if_code_was_changed_and_not_if_a_result_was(
    repository: Path, changed: str, dirty: bool
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert facts.commit.__wrapped__() == head
    (repository / changed).parent.mkdir(exist_ok=True)
    (repository / changed).write_text("2\n")
    assert facts.commit.__wrapped__() == (f"{head}-dirty" if dirty else head)


def test_a_package_inside_another_repository_has_no_commit(repository: Path) -> None:
    git(repository, "rm", "--quiet", "--cached", "src/gln/__init__.py")
    assert facts.commit.__wrapped__() is None


def test_a_result_is_written_only_from_committed_code(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = repository / "results/two.json"
    facts.write_result(kept, "python recipes/paper.py", 0, {})
    assert json.loads(kept.read_text())["commit"] == git(repository, "rev-parse", "HEAD")
    (repository / "recipes/paper.py").write_text("2\n")
    facts.commit.cache_clear()
    with pytest.raises(GLNError, match=r"uncommitted code for .*two\.json.*commit first"):
        facts.write_result(kept, "python recipes/paper.py", 0, {})
    for scratch in (repository / "scratch/two.json", tmp_path_factory.mktemp("other") / "two.json"):
        facts.write_result(scratch, "python recipes/paper.py", 0, {})
        assert json.loads(scratch.read_text())["commit"].endswith("-dirty")
