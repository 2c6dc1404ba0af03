"""The pages say what the kept cells say, and every number in their tables has a file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import tyro

from reproduction.__main__ import reproduce
from reproduction.cells import Places, cells_of, choose
from reproduction.page import MARKS, PAGES, fill
from reproduction.specs import columns, experiments
from reproduction.tables import MMD, as_good, compared, main_table, make_tables, score_tables

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results/reproduction/full"
KEPT = {path: json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.rglob("*.json"))}
TEXTS = {page: (ROOT / page).read_text("utf-8") for page in PAGES}
COLUMNS = {column.title: name for name, column in columns().items()}
SCORES = r"-?\d+\.\d{4}\b|\d+(?:\.\d+)?e-\d+"


@pytest.fixture(scope="module")
def tables() -> dict[str, str]:
    return make_tables("full", Places(ROOT))


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_a_page_are_those_of_the_kept_cells(page: str, tables: dict[str, str]) -> None:
    assert fill(TEXTS[page], tables) == TEXTS[page], "run: python -m reproduction --write-docs"


def test_every_table_is_on_the_page_and_every_mark_is_known(tables: dict[str, str]) -> None:
    placed = [name for page in PAGES[1:] for _, name, _, _ in MARKS.findall(TEXTS[page])]
    assert sorted(placed) == sorted(tables)


def test_tables_of_others_are_left_alone() -> None:
    page = "<!-- table: mine -->\nold\n<!-- end --> text <!-- table: other -->\nkept\n<!-- end -->"
    assert fill(page, {"mine": "new\n"}) == page.replace("old", "new")


# These three read the page and look its numbers up in the files, without the functions that make tables.


@pytest.mark.parametrize(
    "name", [name for name, one in experiments().items() if one.measure in ("scores", "generator")]
)
def test_every_score_has_a_file(name: str) -> None:
    one, checked = experiments()[name], 0
    for title, (_, *titles), *lines in tables_on_the_page(name):
        protocol = title.split(", ")[-1]
        rows = {one.title_of(protocol, row): row for row in one.rows[protocol]}
        for label, *entries in (line for line in lines if "published" not in line[0]):
            for column, entry in zip(titles, entries, strict=True):
                if entry == "·":  # not measured yet
                    continue
                folder = RESULTS / one.cells / protocol / COLUMNS[column]
                found = [
                    KEPT[path] for path in KEPT if path.parent == folder and KEPT[path]["row"] == rows[label]
                ]
                assert found
                for metric, shown in zip(one.metrics, entry.split(" / "), strict=False):
                    if shown not in ("n/a", "–"):
                        assert_mean(shown.split(" ± ")[0], [cell["scores"][metric] for cell in found])
                        checked += 1
    assert checked > 5


def test_every_share_has_a_file() -> None:
    rows = {"GLN": "gln", "PaperGLN stabilised": "stabilised"}
    for protocol, (_, *shares), *lines in tables_on_the_page("figure-robustness"):
        for label, *entries in lines:
            system, column = label.split(", ")
            kept = KEPT[RESULTS / "robustness" / protocol / COLUMNS[column] / f"{rows[system]}.json"]
            runs = {"0%": [kept["empty"]]} | {f"{part['share']:.0%}": part["runs"] for part in kept["shares"]}
            assert list(runs) == shares
            for share, entry in zip(shares, entries, strict=True):
                for metric, shown in zip(MMD, entry.split(" / "), strict=True):
                    assert_mean(shown, [run[metric] for run in runs[share]])


@pytest.mark.parametrize("name", ["figure-community", "figure-geometric", "figure-surfaces"])
def test_every_count_of_edges_has_a_file(name: str) -> None:
    ((_, _, *lines),) = tables_on_the_page(name)
    for label, protocol, *counts in lines:
        graphs = KEPT[RESULTS / "gallery" / protocol / COLUMNS[label.split(", ")[1]] / "gln.json"]["graphs"]
        sums = [sum(graph[key] for graph in graphs) for key in ("right", "missing", "extra")]
        assert [int(count) for count in counts] == [len(graphs), *sums]


def tables_on_the_page(name: str) -> list[list[Any]]:
    """The title of each table, then its lines."""
    (text,) = (text for _, there, text, _ in MARKS.findall(TEXTS["docs/reproduction.md"]) if there == name)
    found = []
    for title, table in re.findall(r"(?:\*\*(.+)\*\*\n\n)?((?:\|.*\n)+)", text):
        header, _, *lines = [line[2:-2].split(" | ") for line in table.splitlines()]
        found.append([title, header, *lines])
    return found


def assert_mean(shown: str, values: list[float]) -> None:
    assert float(shown) == pytest.approx(mean(values), rel=5e-3, abs=5e-5)


def test_scores_in_the_text_are_scores_in_the_tables(tables: dict[str, str]) -> None:
    shown = set(re.findall(SCORES, "".join(tables.values()))) | {"0.0001"}  # the paper's smallest MMD²
    found = re.findall(SCORES, MARKS.sub("", TEXTS["docs/reproduction.md"]))
    assert len(found) > 5
    assert set(found) <= shown


def test_every_kept_cell_belongs_to_an_experiment_and_says_where_it_comes_from() -> None:
    known = {cell.path(Places(ROOT)): cell for cell in choose([], "full")}
    for path, kept in KEPT.items():
        cell = known[path]
        assert kept["command"] == cell.command
        assert {"seed", "device", "seconds", "commit"} <= set(kept)
        where = (cell.scale, cell.protocol, cell.column, cell.row)
        assert (kept["scale"], kept["protocol"], kept["column"], kept["row"]) == where


def test_the_commits_of_all_cells_are_known() -> None:
    commits = {kept["commit"].removesuffix("-dirty") for kept in KEPT.values()}
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits)
    here = subprocess.run(
        ["git", "cat-file", "--batch-check"],
        input="\n".join(commits),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if here.returncode or (ROOT / ".git/shallow").exists():
        pytest.skip("the history of the repository is not here")
    assert {line.split()[1] for line in here.stdout.splitlines()} == {"commit"}


def test_commands_on_the_pages_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        line
        for text in TEXTS.values()
        for line in re.findall(r"^python -m reproduction(?!\.)(.*)$", text, re.M)
    ]
    assert len(found) > 4
    for line in found:
        words = line.partition("#")[0].split()
        with pytest.raises(SystemExit) as stop:  # a flag that is not known ends with 2
            tyro.cli(reproduce, args=[*words, "--help"])
        assert stop.value.code == 0
        cell = words[words.index("--cell") + 1] if "--cell" in words else None
        names = [word for word in words[:1] if word != "all" and not word.startswith("-")]
        assert choose(names, "full", cell)


def test_no_number_of_the_quick_check_reaches_the_page(tmp_path: Path) -> None:
    path = choose(["table-mmd"], "smoke", "ordered/community-2/constant")[0].path(Places(tmp_path))
    path.parent.mkdir(parents=True)
    kept = {"command": "c", "seed": 0, "device": "d", "seconds": 1, "commit": None}
    path.write_text(json.dumps(kept | {"scores": dict.fromkeys(("mmd_degree", "mmd_orbit"), 0.123456)}))
    assert "0.1235" in make_tables("smoke", Places(tmp_path))["table-mmd"]
    assert "0.1235" not in "".join(make_tables("full", Places(tmp_path)).values())


def test_a_changed_cell_changes_its_tables(tmp_path: Path, tables: dict[str, str]) -> None:
    shutil.copytree(RESULTS, tmp_path / "results/reproduction/full")
    path = choose(["table-scores"], "full", "ordered/community-2/constant")[0].path(Places(tmp_path))
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["scores"]["iou"] = 0.7654
    path.write_text(json.dumps(kept))
    now = make_tables("full", Places(tmp_path))
    changed = [name for name in now if now[name] != tables[name]]
    expected = [
        "compared",
        "paper-network",
        "reproduction-iou",
        "table-readings",
        "table-scores",
        "uncertainty",
    ]
    assert sorted(changed) == expected
    assert "| constant | ordered | 0.7654 |" in now["reproduction-iou"]
    assert "| constant | GLN | 43 of 51 | 58 of 68 |" in now["compared"]


@pytest.mark.parametrize(
    ("here", "published", "higher", "good"),
    [
        (0.9930, "0.993", True, True),
        (0.99251, "0.993", True, True),  # rounds to the published digits
        (0.9924, "0.993", True, False),
        (1.6694, "1.669", False, True),
        (1.6694, "1.6690", False, False),  # a printed zero is a digit
        (0.01214, "0.0121", False, True),
        (0.0122, "0.0121", False, False),
        (0.00004, "0.0001", False, True),
        (1.0, "0.999", True, True),
    ],
)
def test_as_good_is_meant_to_the_published_digits(
    here: float, published: str, higher: bool, good: bool
) -> None:
    assert as_good(here, Decimal(published), higher) is good


def test_published_numbers_are_shown_as_printed() -> None:
    rows = score_tables(experiments()["table-mmd"], {})["Community and Figures, ordered"]
    (row,) = (row for row in rows if row[0] == "*GraphRNN, published*")
    assert row[-1] == "0.00228 / 0.0001 / 0.00150"


def test_what_is_as_good_as_published_is_counted() -> None:
    scores = {"accuracy": 0.9975, "iou": 0.98, "recall": 0.994, "precision": 1.0, "dice": 0.99}
    cells: dict[str, Any] = {name: {} for name in experiments()}
    cells["table-scores"]["ordered/community-2/constant"] = {"scores": scores}
    table = compared(cells)
    assert ["constant", "GLN", "·", "3 of 4", ""] in table
    assert ["IoU", "IoU", "", "", "·"] in table


def test_tables_keep_the_protocols_apart_and_mark_what_is_missing() -> None:
    one = experiments()["table-scores"]
    cells = {"set/figures/gln": {"scores": {"iou": 0.5}}, "ordered/figures/gln": {"cannot": "no"}}
    ordered, sets = (score_tables(one, cells)[f"Community and Figures, {name}"] for name in one.rows)
    assert ["GLN", "·", "·", "n/a"] in ordered
    assert ["GLN", "·", "·", "– / 0.5000 / – / – / –"] in sets
    assert [sum("published" in row[0] for row in table) for table in (ordered, sets)] == [1, 0]


def test_main_columns_show_the_mean_over_seeds_with_four_decimals() -> None:
    names = ("ordered/community-2/gln", "ordered/community-2/gln@1")
    scores = ({"mmd_degree": -2e-6, "mmd_clustering": 0.01}, {"mmd_degree": 0.0, "mmd_clustering": 0.02})
    cells = {"table-mmd": {name: {"scores": found} for name, found in zip(names, scores, strict=True)}}
    _, published, row = main_table(cells, "table-mmd", MMD, [("ordered", "gln")])
    assert published[:3] == ["*GLN, published*", "ordered", "0.0121 / 0.0098 / 0.6248"]
    assert row[:4] == ["**GLN**", "ordered", "0.0000 / 0.0150 / –", "·"]


def test_a_cell_that_can_never_be_says_why() -> None:
    cells = {cell.name: cell for cell in cells_of(experiments()["table-mmd"], "full")}
    impossible = cells["ordered/surfaces-400-all/released@1"]
    assert f"| `{impossible.command}` |  | {impossible.settings.cannot} |" in TEXTS["docs/reproduction.md"]
