"""A real Chromium: pages in sizes and themes, screenshots, and axe's judgement on accessibility."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.waiting import PATIENCE

T = TypeVar("T")

AXE = Path(__file__).with_name("axe") / "axe.min.js"
SCREENSHOTS_VARIABLE = "MILLRACE_SCREENSHOTS"
LIMIT_S = 60 * PATIENCE
SERIOUS = {"serious", "critical"}
_LONGEST_SHOT = 5_000


@dataclass(frozen=True)
class Look:
    """How a page is looked at.

    Args:
        width: of the window, pixels.
        theme: ``light`` or ``dark``.
    """

    width: int
    theme: str

    def __str__(self) -> str:
        return f"{self.width}-{self.theme}"


LOOKS = tuple(Look(width, theme) for width in (1280, 390) for theme in ("light", "dark"))


class Browser:
    """One Chromium.

    Args:
        address: where Airflow is.
        screenshots: where pictures go.
    """

    def __init__(self, address: str, screenshots: Path) -> None:
        chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
        assert chromium, "chromium was not found: scripts/setup.sh --tests installs it"
        assert chromedriver, "chromedriver was not found: scripts/setup.sh --tests installs it"
        self.address = address
        self._screenshots = screenshots
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
            options.add_argument(f"--{argument}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # Whatever proxy the machine has, Airflow is on this host.
        options.add_argument("--no-proxy-server")
        self.driver = webdriver.Chrome(options=options, service=Service(chromedriver))
        self.driver.set_script_timeout(LIMIT_S)
        self.driver.set_page_load_timeout(2 * LIMIT_S)

    def sign_in(self, token: str) -> None:
        """Be the person of a token from now on."""
        self.driver.get(f"{self.address}/api/v2/version")
        self.driver.delete_all_cookies()
        self.driver.add_cookie({"name": "_token", "value": token, "path": "/"})

    def look(self, look: Look) -> None:
        """Change the size of the window and the system's theme."""
        metrics = {"width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": look.width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": look.theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, path: str) -> None:
        """Open a page of this Airflow."""
        self.driver.switch_to.default_content()
        self.driver.get(f"{self.address}{path}")

    def find(self, selector: str) -> WebElement:
        """The first element of a CSS selector, as soon as it is there and can be seen."""

        def shown(driver: webdriver.Chrome) -> WebElement | None:
            found = driver.find_elements(By.CSS_SELECTOR, selector)
            return found[0] if found and found[0].is_displayed() else None

        # The page replaces its parts now and then.
        wait = WebDriverWait(self.driver, LIMIT_S, ignored_exceptions=(StaleElementReferenceException,))
        try:
            element = wait.until(shown)
        except TimeoutException as error:
            raise self._not_shown(selector) from error
        assert element is not None
        return element

    def on(self, selector: str, act: Callable[[WebElement], T]) -> T:
        """What ``act`` gives of the first element; it is found again where the page has replaced it meanwhile."""
        wait = WebDriverWait(self.driver, LIMIT_S, ignored_exceptions=(StaleElementReferenceException,))
        (result,) = wait.until(lambda _: (act(self.find(selector)),))
        return result

    def click(self, selector: str) -> None:
        """Click the first element."""
        self.on(selector, lambda element: element.click())

    def text(self, selector: str) -> str:
        """The text of the first element."""
        return self.on(selector, lambda element: element.text)

    def all(self, selector: str) -> list[WebElement]:
        """All elements of a CSS selector now."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait_for_text(self, selector: str, text: str) -> None:
        """Wait until an element has a text in it."""
        script = (
            "const e = document.querySelector(arguments[0]); return e ? e.textContent.includes(arguments[1]) : false"
        )
        try:
            WebDriverWait(self.driver, LIMIT_S).until(lambda driver: driver.execute_script(script, selector, text))
        except TimeoutException as error:
            raise self._not_shown(f"{text!r} in {selector}") from error

    def _not_shown(self, what: str) -> AssertionError:
        page = self.driver.find_element(By.TAG_NAME, "body").text
        return AssertionError(f"no {what} on {self.driver.current_url}, which shows:\n{page}")

    def screenshot(self, name: str) -> Path:
        """A picture of the whole page, or of what a frame shows of it."""
        page = "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        width, height = self.driver.execute_script(page)
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, _LONGEST_SHOT), "scale": 1}
        answer = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path = self._screenshots / f"{name}.png"
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def violations(self) -> list[str]:
        """What axe finds serious or critical on the page, with the elements."""
        self.driver.execute_script(AXE.read_text())
        result: dict[str, Any] = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run().then(done, (e) => done({error: String(e)}))"
        )
        assert "error" not in result, result
        return [
            f"{each['id']} ({each['impact']}): {each['help']}: {[node['html'][:150] for node in each['nodes'][:3]]}"
            for each in result["violations"]
            if each["impact"] in SERIOUS
        ]

    def is_wider_than_the_window(self) -> bool:
        """Whether the page as a whole must be scrolled sideways."""
        return bool(
            self.driver.execute_script(
                "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
        )

    def complaints(self) -> list[str]:
        """What the console says about our pages: refused by the policy, or an error of the script."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE"
            and ("/millrace/" in entry["message"] or "Content Security" in entry["message"])
        ]

    def quit(self) -> None:
        """End it."""
        self.driver.quit()


def screenshots_directory(default: Path) -> Path:
    """Where pictures are kept: as the environment says, else ``default``."""
    directory = Path(os.environ.get(SCREENSHOTS_VARIABLE) or default)
    directory.mkdir(parents=True, exist_ok=True)
    return directory
