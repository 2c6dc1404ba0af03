"""Convert docstrings to Markdown for the API reference: the source writes roles and tables in Sphinx style.

Loaded by mkdocstrings (see mkdocs.yml) as it reads the source, which is not imported.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Alias, Extension, Module, Object

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`(~?)([^`]+)`")
BAR = re.compile(r"(`+[^`]*`+)|\|")  # outside code, a bar would end the cell
LITERAL = re.compile(r"^(.*\S)::\n\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)  # text::, then an indented block
# Rows between two equal rules; three rules, the second below the header
TABLE = re.compile(r"^(=+(?: +=+)+)\n(.*?)^\1$(?:\n((?:(?!\1$)[^\n]+\n)+)^\1$)?", re.MULTILINE | re.DOTALL)


class MarkdownDocstrings(Extension):
    """Rewrites every docstring before it is parsed into sections."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """If a function has the name of its module, such as ``gln.evaluation.mmd``, let the name mean the function."""
        for module in (*pkg.modules.values(), pkg):
            for name in map(str, module.exports or ()):
                found = module.members.get(name)
                if found is not None and found.is_module and name in found.members:
                    module.members[name] = Alias(name, found.members[name], parent=module)


def to_markdown(text: str) -> str:
    """Roles become code, ruled tables become pipe tables, ``::`` blocks become fenced ones."""
    text = ROLE.sub(lambda match: f"`{match[2].split('.')[-1] if match[1] else match[2]}`", text)
    text = TABLE.sub(_pipes, text)
    return LITERAL.sub(_fence, f"{text}\n").rstrip("\n")


def _fence(match: re.Match[str]) -> str:
    block = "\n".join(line[4:] for line in match[2].rstrip("\n").split("\n"))
    return f"{match[1]}:\n\n```python\n{block}\n```\n\n"


def _pipes(match: re.Match[str]) -> str:
    starts = [rule.start() for rule in re.finditer("=+", match[1])]
    header = _rows(match[2], starts)[0] if match[3] else [""] * len(starts)
    rows = [header, ["---"] * len(starts), *_rows(match[3] or match[2], starts)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _rows(text: str, starts: list[int]) -> list[list[str]]:
    rows: list[list[str]] = []
    for line in text.splitlines():
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        cells = [BAR.sub(lambda match: match[1] or "\\|", cell) for cell in cells]
        if rows and not cells[0]:  # continues the row above
            rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
    return rows
