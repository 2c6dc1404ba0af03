"""A real browser for the tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "headless=new",
    "no-sandbox",
    "disable-gpu",
    "disable-quic",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
    "enable-unsafe-swiftshader",  # WebGL without a graphics card
)
SIZES = {"desktop": (1280, 800), "phone": (360, 740)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if BROWSER is None or DRIVER is None:
        pytest.skip("there is no chromium (chromium-browser, google-chrome) with chromedriver on the PATH")
    with started() as driver:
        yield driver


@contextmanager
def started() -> Iterator[Any]:
    """A browser without a window, with an empty profile."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in FLAGS:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def cpu_seconds(driver: Any) -> float:
    """Processor time of the browser with all its processes so far; what else the machine does hardly changes it."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(path.parent.name)], used[int(path.parent.name)] = (
            int(words[1]),
            sum(map(int, words[11:15])),
        )
    ours = {driver.service.process.pid}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[one] for one in ours) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page at a size; whatever the test does with it, the console stays empty."""

    def opened(page: Path, size: str = "desktop", dark: bool = False) -> Any:
        width, height = SIZES[size]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        media = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        browser.get(page.as_uri())
        # Until its canvas has the size of the finished layout.
        browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        return browser

    browser.get_log("browser")
    yield opened
    said = [entry["message"] for entry in browser.get_log("browser")]
    assert [words for words in said if "GPU stall due to ReadPixels" not in words] == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
