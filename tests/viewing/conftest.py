"""A real browser for the tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
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
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if BROWSER is None or DRIVER is None:
        pytest.skip("there is no chromium (chromium-browser, google-chrome) with chromedriver on the PATH")
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
