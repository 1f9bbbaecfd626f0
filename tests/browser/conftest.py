"""A real run's report, and a real browser to open it in. What is missing fails, with what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).parents[2]
SCREENSHOTS = "PYTEST_NGRAM_SCREENSHOTS"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it cannot be had as root, as in a container
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
RUN_S, LOAD_S = 300.0, 60.0


def found(names: tuple[str, ...]) -> str:
    """The path of a program; without it these tests tell nothing, so they fail."""
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.fail(
            f"none of {', '.join(names)} is on PATH: install Chromium and its driver (Debian and Ubuntu: "
            "apt-get install chromium chromium-driver)",
            pytrace=False,
        )
    return path


class Browser:
    """A page of a width in light or dark, and what it said and asked for."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int = 1280, scheme: str = "light") -> None:
        """Open a page anew; what was said before is forgotten."""
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(page.as_uri())
        WebDriverWait(self.driver, LOAD_S).until(
            lambda driver: driver.execute_script("return document.readyState") == "complete"
        )

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page, and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """What the console was told."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened, the page's own too."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium with an empty profile."""
    options = webdriver.ChromeOptions()
    options.binary_location = found(BROWSERS)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(found(("chromedriver",))))
    yield Browser(driver)
    driver.quit()


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory, session_cache: Path) -> Path:
    """The folder of a run on a real server: `report.html` and `run.json`."""
    folder = tmp_path_factory.mktemp("run")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", str(ROOT / "bench"), "-p", "no:cacheprovider"),
            *("-k", "tiny-moe/ and (none/ or mtp1/ or mtp3/ or ngram-simple/)", f"--rootdir={folder}"),
            *(f"--ngram-matrix={ROOT / 'bench' / 'matrix.yaml'}", f"--ngram-journal={folder / 'j.jsonl'}"),
            *("--benchmark-quiet", f"--benchmark-json={folder / 'run.json'}"),
            f"--ngram-report={folder / 'report.html'}",
        ],
        capture_output=True,
        text=True,
        cwd=folder,  # not the checkout: what is installed is tested
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return folder


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go, to be looked at."""
    named = os.environ.get(SCREENSHOTS)
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
