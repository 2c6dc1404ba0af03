"""The pages of the documentation, and the blocks of code on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {"README": ROOT / "README.md"} | {
    path.relative_to(ROOT / "docs").with_suffix("").as_posix(): path
    for path in sorted((ROOT / "docs").rglob("*.md"))
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = ("gln", "make", "git", "pip", "python", "torchrun", "srun", "sbatch", "source")


@dataclass(frozen=True)
class Block:
    """One fenced block; ``language`` is sh where a block without one holds commands."""

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block, continued ones joined, without comments."""
        lines = re.sub(r"\\\n\s*", "", self.text).split("\n")
        kept = [re.sub(r"\s+# .*$", "", line).strip() for line in lines if not line.startswith("#")]
        return [line for line in kept if line]


def text_of(name: str) -> str:
    return PAGES[name].read_text(encoding="utf-8")


def blocks(name: str) -> list[Block]:
    """All blocks of a page, in order."""
    found = []
    for language, text in FENCE.findall(text_of(name)):
        shell = language == "" and text.split()[:1] and text.split()[0] in PROGRAMS
        found.append(Block("sh" if shell or language == "bash" else language, text))
    return found


def commands(name: str) -> list[str]:
    """The shell commands of a page, in order."""
    return [line for block in blocks(name) if block.language == "sh" for line in block.commands]


def python(name: str) -> str:
    """The Python of a page as one program."""
    return "\n".join(block.text for block in blocks(name) if block.language == "python")
