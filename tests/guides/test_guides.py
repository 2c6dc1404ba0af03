"""Every command of the guides runs, in the order of its page, in an empty folder.

As written, the pages train for a few minutes. By default smaller numbers stand in for theirs, so that a page takes
seconds; with ``GLN_SLOW=1`` the pages run to the letter, but for one that takes a quarter of an hour, and the F1 they
print must reach what they promise.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from gln.storage.models import shipped
from tests.docs.pages import ROOT, Block, blocks
from tests.docs.running import run_here

GUIDES = sorted(path.stem for path in (ROOT / "docs/guides").glob("*.md"))
PAGES = [name for name in GUIDES if name != "index"]
SLOW = os.environ.get("GLN_SLOW") == "1"
F1 = re.compile(r"^dice \(F1\) ↑ +(\d\.\d+)", re.MULTILINE)

NEEDS = {
    "molecules": ("rdkit",),
    "mesh": ("nilearn", "nibabel", "pymeshfix"),
    "image": ("sklearn", "PIL"),
    "table": ("sklearn",),
    "kinds": ("rdkit",),
}
MODELS = {"molecules": "molecules"}  # that a guide needs
SHORTER = {
    "molecules": {"write molecules": "write --count 20 molecules", "--epochs 5": "--epochs 1"},
    "mesh": {"write meshes": "write --count 150 meshes"},
    "image": {"--image-size 96": "--image-size 16"},
    "table": {"write digits": "write --count 20 digits", "--epochs 10": "--epochs 1"},
    "choosing": {"--count 40": "--count 4"},
    "generating": {
        "--count 8 -o planar": "--count 2 --sampling-steps 2 -o planar",
        "--count 2 -o forming": "--count 1 --sampling-steps 2 -o forming",
        "sample(8, seed=0)": "sample(2, seed=0, steps=2)",
        "--count 400 --epochs 60": "--count 12 --epochs 1",
        "--sampling-steps 300": "--sampling-steps 5",
        "sample(200, seed=1), epochs=20": "sample(8, seed=1), epochs=1",
        "sample(40, seed=1)": "sample(4, seed=1)",
        "steps=4 -o": "steps=4,sampling_steps=4 -o",
        "pair_width=32, steps=4)": "pair_width=32, steps=4, sampling_steps=4)",
        "pair_width=32, steps=3)": "pair_width=32, steps=3, sampling_steps=4)",
    },
    "kinds": {
        "write molecules": "write --count 20 molecules",
        "write kinds": "write --count 20 kinds",
        "--epochs 40": "--epochs 1",
    },
}  # fmt: skip
LONG = ("generating", "kinds")
PROMISED = {"molecules": 0.99, "mesh": 0.85, "table": 0.85}


@pytest.mark.parametrize("name", PAGES)
def test_commands_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    for package in NEEDS.get(name, ()):
        if find_spec(package) is None:
            pytest.skip(f"the guide uses {package}, which is not installed")
    if MODELS.get(name, "delaunay") not in shipped():
        pytest.skip(f"the guide uses the model {MODELS[name]}, which is not here")
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    monkeypatch.chdir(tmp_path)
    for block in to_be_run(name):
        text = block.text if SLOW and name not in LONG else shortened(name, block.text)
        if block.language == "python":
            exec(compile(text, f"{name}.md", "exec"), {})
        else:
            for command in Block("sh", text).commands:
                run_here(command)
    printed = capfd.readouterr().out
    if SLOW and name in PROMISED:
        assert min(float(value) for value in F1.findall(printed)) >= PROMISED[name]


@pytest.mark.parametrize("name", PAGES)
def test_stand_ins_are_on_their_page(name: str) -> None:
    text = "\n".join(block.text for block in to_be_run(name))
    assert text
    for written in SHORTER.get(name, {}):
        assert written in text


def to_be_run(name: str) -> list[Block]:
    """Fences without a language show what is printed."""
    return [block for block in blocks(f"guides/{name}") if block.language in ("sh", "python")]


def shortened(name: str, text: str) -> str:
    for written, shorter in SHORTER.get(name, {}).items():
        text = text.replace(written, shorter)
    return text
