"""The report in a real browser: what can be read on it is what the run folder and Python say."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gln
from gln.viewing.reports import write_report
from gln.workflows.judge import RunReport
from gln.workflows.runs import read_run
from gln.workflows.training_data import family_data
from tests.viewing import decoding
from tests.viewing.conftest import SIZES
from tests.viewing.training import QUICK, train

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.keys import Keys

LABEL = "<img src=x onerror=window.hacked=1>"
FAMILY, COUNT = "surfaces:points=16", 40


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    train(folder, FAMILY, "-o", LABEL, "--count", str(COUNT), "--epochs", "4", *QUICK)
    return folder / LABEL / "report.html"


def texts(browser: Any, selector: str) -> list[str]:
    found = "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)"
    return browser.execute_script(found, selector)


def drawn(browser: Any) -> list[str]:
    return browser.execute_script("return report.tiles.map(tile => (tile.draw(), tile.canvas.toDataURL()))")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_everything_is_there_at_any_size(visit: Callable, made: Path, size: str, dark: bool) -> None:
    browser, data = visit(made, size, dark), decoding.data_of(made)
    assert browser.title == LABEL
    assert texts(browser, "h1") == [LABEL]
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return document.documentElement.scrollWidth") <= SIZES[size][0]
    assert browser.execute_script("return document.documentElement.dataset.theme") == (
        "dark" if dark else "light"
    )
    assert len(texts(browser, ".chart svg path.line")) == 4
    assert len(texts(browser, ".tile canvas")) == 6
    assert texts(browser, "#command code") == [data["command"]]
    assert not browser.find_element("id", "state").is_displayed()
    small = browser.execute_script(
        "return [...document.querySelectorAll('main button, fieldset label, summary')]"
        ".filter(one => one.getBoundingClientRect().height < 24).length"
    )
    assert small == 0


def test_scores_are_shown_with_their_direction_and_floor(visit: Callable, made: Path) -> None:
    browser, rows = visit(made), decoding.data_of(made)["scores"]["rows"]
    parts = family_data(FAMILY, COUNT, 0)
    scores = gln.evaluate(gln.load(made.parent), parts.test, floor=parts.train)
    for row in rows:
        title, value, interval, pooled, floor, *rules = texts(
            browser, f"#scores tr[data-name={row['name']}] > *"
        )
        assert (interval == "") == (row["interval"] is None)
        assert [bool(value) for value in rules] == [value is not None for value in row["rules"]]
        assert title == f"{row['title']}{row['arrow']}"
        assert float(value) == pytest.approx(scores[row["name"]], abs=0.50001e-4)
        partner = scores.get(f"pooled_{row['name']}")
        assert (pooled == "") if partner is None else float(pooled) == pytest.approx(partner, abs=0.50001e-4)
        assert (floor != "") == row["name"].startswith("mmd_")


def test_the_table_holds_every_number(visit: Callable, made: Path) -> None:
    browser, history = visit(made), read_run(made.parent).history
    browser.find_element("css selector", "#numbers summary").click()
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    names = [name.replace(" ", "_") for name in texts(browser, "#numbers thead th")]
    assert names == list(history[0])
    lines = texts(browser, "#numbers tbody tr > *")
    cells = [lines[start : start + len(names)] for start in range(0, len(lines), len(names))]
    assert len(cells) == len(history)
    for line, row in zip(cells, history, strict=True):
        for name, cell in zip(names, line, strict=True):
            assert float(cell) == pytest.approx(row[name], abs=0.0501 if name == "seconds" else 0.501e-4)


@pytest.mark.parametrize("axis", ["epoch", "step", "seconds"])
def test_pointing_at_a_curve_reads_it(visit: Callable, made: Path, axis: str) -> None:
    browser, history = visit(made), read_run(made.parent).history
    browser.execute_script("document.querySelector(`[name=axis][value=${arguments[0]}]`).click()", axis)
    for number, row in enumerate(history):
        tip = browser.execute_script(
            "const chart = report.charts[0], box = chart.svg.getBoundingClientRect();"
            "const clientX = box.left + chart.x(chart.series[0].at[arguments[1]][arguments[0]]) + 1;"
            "chart.svg.dispatchEvent(new PointerEvent('pointermove', {clientX, clientY: box.top + 30, bubbles: true}));"
            "return [...chart.tip.children].map(one => one.textContent)",
            number,
            axis,
        )
        assert tip[0] == f"epoch {row['epoch']}"
        assert tip[1].startswith(f"step {row['step']}, ")
        assert tip[2] == f"validation {row['val_loss']:.4f}"
        assert tip[3] == f"training {row['train_loss']:.4f}"
    shown = browser.execute_script(
        "return report.charts.map(chart => chart.marks.querySelectorAll('circle').length)"
    )
    assert shown == [2, 1, 1]
    places = browser.execute_script(
        "return report.charts[0].series[0].at.epoch.map(e => report.charts[0].x(e))"
    )
    assert places == sorted(places)


def test_a_curve_is_read_with_keys(visit: Callable, made: Path) -> None:
    browser, history = visit(made), read_run(made.parent).history
    chart = browser.find_elements("css selector", ".chart")[1]
    chart.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    said = browser.find_element("id", "said").get_attribute("textContent")
    assert said.startswith("epoch 2, ")
    assert said.endswith(f"IoU {history[1]['val_iou']:.4f}")
    chart.send_keys(Keys.ESCAPE)
    assert browser.execute_script("return report.charts.every(chart => chart.tip.hidden)")


def test_the_step_slider_shows_every_step_of_every_graph(visit: Callable, made: Path) -> None:
    browser, gallery = visit(made), decoding.data_of(made)["gallery"]
    model, test = gln.load(made.parent), family_data(FAMILY, COUNT, 0).test
    pictures = [drawn(browser)]
    for step in (2, 1, 0):
        browser.execute_script(
            "const input = document.getElementById('step'); input.value = arguments[0];"
            "input.dispatchEvent(new Event('input'))",
            step,
        )
        pictures.append(drawn(browser))
        for view, counts, f1 in zip(
            gallery["views"], texts(browser, ".tile .counts"), texts(browser, ".tile .f1"), strict=True
        ):
            true = test[int(view["name"].split()[-1])]
            nodes, right, missing, extra = map(int, re.findall(r"\d+", counts))
            assert nodes == true.num_nodes
            assert right + missing == true.num_edges // 2
            if step:
                guess = gln.predict(model, true, steps=step)
                assert right + extra == guess.num_edges // 2
                assert float(f1.split()[1]) == pytest.approx(
                    gln.edge_scores([true], [guess])["dice"], abs=0.50001e-4
                )
            else:
                assert right == extra == 0
    assert pictures[0] == pictures[1]
    assert all(first != second for first, second in zip(pictures[1], pictures[3], strict=True))


def test_a_solid_is_turned_and_the_page_still_scrolls(visit: Callable, made: Path) -> None:
    browser = visit(made)
    before = drawn(browser)
    tile = browser.find_elements("css selector", ".tile canvas")[0]
    ActionChains(browser).drag_and_drop_by_offset(tile, 60, 20).perform()
    turned = drawn(browser)
    assert turned[0] != before[0]
    assert turned[1:] == before[1:]
    browser.find_elements("css selector", ".tile canvas")[1].send_keys(Keys.ARROW_LEFT)
    assert drawn(browser)[1] != before[1]
    at = now = browser.execute_script("return scrollY")
    ActionChains(browser).scroll_from_origin(ScrollOrigin.from_element(tile), 0, 150).perform()
    for _ in range(40):
        now = browser.execute_script("return scrollY")
        if now > at:
            break
        time.sleep(0.05)
    assert now > at
    assert browser.execute_script("return getComputedStyle(arguments[0]).touchAction", tile) == "pan-y"


def test_the_theme_is_changed_with_the_button(visit: Callable, made: Path) -> None:
    browser = visit(made)
    before = drawn(browser)
    browser.find_element("id", "theme").click()
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    assert all(first != second for first, second in zip(before, drawn(browser), strict=True))


def test_a_report_without_scores_says_why(visit: Callable, made: Path, tmp_path: Path) -> None:
    why = f"No graphs {LABEL}."
    browser = visit(write_report(tmp_path / "a.html", RunReport(read_run(made.parent), why=why)))
    assert browser.find_element("id", "why").text == why
    assert not browser.find_element("id", "gallery").is_displayed()
    assert len(browser.find_elements("css selector", ".chart")) == 3
    assert browser.execute_script("return window.hacked") is None
