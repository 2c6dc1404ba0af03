"""The page is what the kept cells say, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gln.experiments import Places, cells_of, choose, experiment, experiments
from gln.experiments.document import document
from gln.experiments.specs import Printed
from gln.experiments.tables import as_good, cannot, comparison, score_tables, short_commit, source_of

ROOT = Path(__file__).parents[2]
KEPT = sorted((ROOT / "results/reproduction/full").rglob("*.json"))


def test_the_page_in_docs_is_made_from_the_kept_cells() -> None:
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    assert page == document(Places(ROOT), "full"), "run: gln reproduce --write-docs"


def test_pictures_on_the_page_exist() -> None:
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    names = [part.partition(")")[0] for part in page.split("](images/")[1:]]
    assert names
    assert all((ROOT / "docs/images" / name).exists() for name in names)


def test_every_kept_cell_belongs_to_an_experiment_and_says_where_it_comes_from() -> None:
    known = {
        cell.path(Places(ROOT)): cell for one in experiments().values() for cell in cells_of(one, "full")
    }
    assert KEPT
    for path in KEPT:
        kept, cell = json.loads(path.read_text(encoding="utf-8")), known[path]
        assert kept["scale"] == "full"
        assert {"seed", "device", "seconds", "commit", "command"} <= set(kept)
        assert (kept["protocol"], kept["column"], kept["row"]) == (cell.protocol, cell.column, cell.row)
        assert kept["command"].endswith(f"--cell {cell.name}")


def test_no_number_of_the_quick_check_reaches_the_page(tmp_path: Path) -> None:
    path = choose(["table-mmd"], "smoke", "ordered/community-2/constant")[0].path(Places(tmp_path))
    path.parent.mkdir(parents=True)
    kept = {"command": "c", "seed": 0, "device": "d", "seconds": 1, "commit": None}
    path.write_text(json.dumps(kept | {"scores": dict.fromkeys(("mmd_degree", "mmd_orbit"), 0.123456)}))
    assert "0.1235" in document(Places(tmp_path), "smoke")
    assert "0.1235" not in document(Places(tmp_path), "full")


def test_a_changed_cell_changes_the_page(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results/reproduction/full", tmp_path / "results/reproduction/full")
    path = choose(["table-scores"], "full", "ordered/community-2/constant")[0].path(Places(tmp_path))
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["scores"]["iou"] = 0.7654
    path.write_text(json.dumps(kept))
    summary, _, tables = document(Places(tmp_path), "full").partition("## How to read the tables")
    assert (
        sum("0.7654" in line for line in tables.splitlines()) == 2
    )  # in the table, and as worse than published
    assert "| constant | ordered | 0.7654 |" in summary


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
    assert as_good(here, Printed(published), higher) is good
    assert Printed(published) == float(published)


def test_an_experiment_whose_cells_another_lists_says_so() -> None:
    assert source_of(experiment("table-scores"), "full") == "table-mmd"
    assert all(
        source_of(one, "full") is None for name, one in experiments().items() if name != "table-scores"
    )


def test_published_numbers_are_shown_as_printed() -> None:
    row = next(line for line in score_tables(experiment("table-mmd"), {}) if "*GraphRNN, published*" in line)
    assert "0.00228 / 0.0001 / 0.00150" in row


def test_comparison_counts_and_names_what_is_worse() -> None:
    scores = {"accuracy": 0.9975, "iou": 0.98, "recall": 0.994, "precision": 1.0, "dice": 0.99}
    lines = comparison(experiment("table-scores"), {"ordered/community-2/constant": {"scores": scores}})
    assert lines[2] == "| constant | GLN | 4 | 3 | Community 2 IoU 0.9800 (published 0.993) |"


def test_tables_keep_the_protocols_apart_and_mark_what_is_missing() -> None:
    one = experiment("table-scores")
    cells = {"set/figures/gln": {"scores": {"iou": 0.5}}, "ordered/figures/gln": {"cannot": "no"}}
    text = "\n".join(score_tables(one, cells))
    ordered, _, sets = text.partition("**Community and Figures, set**")
    assert "| GLN | · | · | n/a |" in ordered
    assert "| GLN | · | · | – / 0.5000 / – / – / – |" in sets
    assert "published" in ordered
    assert "published" not in sets


def test_a_cell_that_can_never_be_is_not_still_to_be_measured() -> None:
    cells = {cell.name: cell for cell in cells_of(experiment("table-mmd"), "full")}
    impossible = cells["ordered/surfaces-400-all/released@1"]
    assert impossible.settings.cannot
    assert cannot(impossible, None) == impossible.settings.cannot
    assert cannot(cells["ordered/community-2/released"], None) is None
    assert cannot(cells["ordered/community-2/released"], {"cannot": "no memory"}) == "no memory"


def test_commits_are_short_but_say_whether_the_code_was_changed() -> None:
    assert short_commit("0123456789abcdef-dirty") == "0123456789ab-dirty"
    assert short_commit(None) == "unknown"
