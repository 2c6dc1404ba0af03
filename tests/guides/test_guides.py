"""Every command of the guides runs, in the order of its page, in an empty folder.

As written, the pages train for a few minutes. By default smaller numbers stand in for theirs, so that a page takes
seconds; with ``GLN_SLOW=1`` the pages run to the letter, and the F1 they print must reach what they promise.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = {path.stem: path for path in sorted((ROOT / "docs/guides").glob("*.md"))}
PAGES = [name for name in GUIDES if name != "index"]
SLOW = os.environ.get("GLN_SLOW") == "1"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
F1 = re.compile(r"^dice \(F1\) ↑ +(\d\.\d+)", re.MULTILINE)

NEEDS = {
    "molecules": ("rdkit",),
    "mesh": ("nilearn", "nibabel", "pymeshfix"),
    "image": ("sklearn", "PIL"),
    "table": ("sklearn",),
}
SHORTER = {
    "molecules": {"write molecules": "write --count 20 molecules", "--epochs 5": "--epochs 1"},
    "mesh": {"write meshes": "write --count 150 meshes"},
    "image": {"--image-size 96": "--image-size 16"},
    "table": {"write digits": "write --count 20 digits", "--epochs 10": "--epochs 1"},
    "choosing": {"--count 40": "--count 4"},
}  # fmt: skip
PROMISED = {"molecules": 0.99, "mesh": 0.85, "table": 0.85}


@pytest.mark.parametrize("name", PAGES)
def test_commands_run(name: str, tmp_path: Path) -> None:
    for package in NEEDS.get(name, ()):
        if find_spec(package) is None:
            pytest.skip(f"the guide uses {package}, which is not installed")
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    printed = "".join(run(command, tmp_path) for command in commands(name))
    if SLOW and name in PROMISED:
        assert min(float(value) for value in F1.findall(printed)) >= PROMISED[name]


@pytest.mark.parametrize("name", GUIDES)
def test_links_lead_somewhere(name: str) -> None:
    targets = LINK.findall(GUIDES[name].read_text(encoding="utf-8"))
    assert targets
    for target in targets:
        assert (GUIDES[name].parent / target).exists(), target


@pytest.mark.parametrize("name", PAGES)
def test_stand_ins_are_on_their_page(name: str) -> None:
    text = "\n".join(block for _, block in blocks(name))
    assert text
    for written in SHORTER.get(name, {}):
        assert written in text


def blocks(name: str) -> list[tuple[str, str]]:
    """Language and text of what is to be run; fences without a language show what is printed."""
    found = FENCE.findall(GUIDES[name].read_text(encoding="utf-8"))
    return [(language, block) for language, block in found if language in ("sh", "python")]


def commands(name: str) -> list[list[str]]:
    made = []
    for language, block in blocks(name):
        for written, shorter in ({} if SLOW else SHORTER.get(name, {})).items():
            block = block.replace(written, shorter)
        start = ["bash", "-euc"] if language == "sh" else [sys.executable, "-c"]
        made.append([*start, block])
    return made


def run(command: list[str], folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout
