"""The pages that show what was reproduced: people write them, and the tables between their marks are filled here."""

from __future__ import annotations

import re

from gln.files import write_atomically
from reproduction.cells import Places
from reproduction.charts import OVER, panels_of, save_curves, save_iou, save_training
from reproduction.specs import Scale, experiments
from reproduction.tables import make_tables, read_cells

PAGES = ("README.md", "docs/reproduction.md", "docs/paper-network.md")
MARKS = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
TRAINED = ("community-2", "community-4", "surfaces-100-torus")  # whose trainings are drawn
SMOKE = "# Quick check\n\nToy sizes: this shows that the code runs, nothing about the paper.\n\n"


def fill(text: str, tables: dict[str, str]) -> str:
    """The page with these tables between their marks; other tables stay as they are."""
    return MARKS.sub(lambda match: f"{match[1]}{tables.get(match[2], match[3])}{match[4]}", text)


def write_pages(places: Places, scale: Scale) -> list[str]:
    """Fill the tables of the pages and draw their charts; the quick check has a page of its own. The pages written."""
    tables = make_tables(scale, places)
    if scale == "full":
        pages = {name: fill((places.root / name).read_text("utf-8"), tables) for name in PAGES}
    else:
        page = (places.results(scale) / "README.md").relative_to(places.root).as_posix()
        pages = {page: SMOKE + "".join(f"## {name}\n{table}" for name, table in tables.items())}
        places.results(scale).mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        write_atomically(places.root / name, text.encode())
    _draw_charts(places, scale)
    return list(pages)


def _draw_charts(places: Places, scale: Scale) -> None:
    cells = {name: read_cells(one, scale, places) for name, one in experiments().items()}
    for name, one in experiments().items():
        if one.picture and (panels := panels_of(name, cells[name], cells["table-mmd"])):
            save_curves(panels, OVER[one.picture], places.picture(scale, f"{name}.svg"))
    save_iou(cells["table-mmd"], places.picture(scale, "iou.svg"))
    curves = {
        name: cell for name, cell in cells["table-readings"].items() if "curve" in cell.get("system", {})
    }
    if drawn := [name for name in TRAINED if any(cell["column"] == name for cell in curves.values())]:
        save_training(curves, drawn, places.picture(scale, "equations.svg"))
