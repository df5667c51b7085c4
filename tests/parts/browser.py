"""A real browser: Debian's Chromium without a screen, driven through its own driver. The only importer of `selenium`.

Knows: how it is started so that it asks nobody but us, whom it trusts. Must not know: any page.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.parts.process import wait_until

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
#: Seconds for a page; a browser on two slow cores takes its time.
PAGE_LIMIT = 60.0
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip
# Left to itself it tells strangers which passwords were typed, and lays a bubble over the page.
PREFERENCES = {"credentials_enable_service": False, "profile.password_manager_leak_detection": False}


class Browser:
    """One browser with a profile of its own, until `close`. It trusts the key of `certificate`, and nobody else new."""

    def __init__(self, profile: Path, certificate: Path, *, javascript: bool = True, dark: bool = False) -> None:
        options = ChromeOptions()
        options.binary_location = CHROMIUM
        for word in (
            *QUIET,
            f"--user-data-dir={profile}",
            f"--ignore-certificate-errors-spki-list={_key_digest(certificate)}",
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        ):
            options.add_argument(word)
        scripts = {} if javascript else {"profile.managed_default_content_settings.javascript": 2}
        options.add_experimental_option("prefs", {**PREFERENCES, **scripts})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self._driver = Chrome(options, Service(DRIVER))
        self._driver.set_page_load_timeout(PAGE_LIMIT)
        self._driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        self.size(1000, 900)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._driver.quit()

    @property
    def url(self) -> str:
        return self._driver.current_url

    @property
    def text(self) -> str:
        """What a reader sees."""
        return self._driver.find_element(By.TAG_NAME, "body").text

    @property
    def source(self) -> str:
        return self._driver.page_source

    def open(self, url: str) -> None:
        self._driver.get(url)

    def size(self, width: int, height: int) -> None:
        """Of the page, in CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def find(self, selector: str) -> WebElement:
        """The first element of a CSS selector. Raises `NoSuchElementException`."""
        return self._driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self._driver.find_elements(By.CSS_SELECTOR, selector)

    def type(self, selector: str, text: str) -> None:
        """Into an empty field."""
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def press(self, label: str) -> None:
        """The button or link with this text; the page that it leads to is waited for by what it holds."""
        (one,) = [each for each in self.all("button, a, summary") if each.text == label]
        one.click()

    def until(self, text: str) -> None:
        """Wait until a reader sees this."""
        wait_until(lambda: text in self._seen(), PAGE_LIMIT, f"{text!r} on the page (it is {self._seen()!r})")

    def script(self, code: str) -> Any:
        """What JavaScript gives, also where the page itself may run none."""
        return self._driver.execute_cdp_cmd("Runtime.evaluate", {"expression": code, "returnByValue": True})[
            "result"
        ].get("value")

    def permit_clipboard(self, origin: str) -> None:
        permissions = {"origin": origin, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
        self._driver.execute_cdp_cmd("Browser.grantPermissions", permissions)

    def clipboard(self) -> str:
        """What was copied last, as a page may read it."""
        return str(self._driver.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])"))

    def cookies(self) -> dict[str, dict[str, Any]]:
        """All cookies of the page's host, by name."""
        return {cookie["name"]: cookie for cookie in self._driver.get_cookies()}

    def forget(self) -> None:
        """All cookies, and what is in its logs."""
        self._driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.open("about:blank")
        self.complaints()
        self.hosts_asked()

    def complaints(self) -> list[str]:
        """What the browser wrote to its console since it was asked last: violations of the policy, things not found."""
        return [str(entry["message"]) for entry in self._log("browser")]

    def until_complaints(self, about: str, count: int) -> None:
        """Wait until that many complaints that name it were written: another process writes them, in its own time."""
        seen: list[str] = []

        def enough() -> bool:
            seen.extend(line for line in self.complaints() if about in line)
            return len(seen) >= count

        wait_until(enough, PAGE_LIMIT, f"{count} complaints about {about!r}")
        assert len(seen) == count, seen

    def hosts_asked(self) -> set[str]:
        """The hosts of all requests that pages made since they were asked for last."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        urls = [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]
        return {url.split("/")[2] for url in urls if url.startswith("http")}

    def picture(self, file: Path) -> None:
        """The whole page as PNG."""
        size = self._driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        shot = self._driver.execute_cdp_cmd(
            "Page.captureScreenshot",
            {
                "captureBeyondViewport": True,
                "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
            },
        )
        file.write_bytes(base64.b64decode(shot["data"]))

    def is_wider_than_its_window(self) -> bool:
        """Whether a reader has to move the page sideways."""
        metrics = self._driver.execute_cdp_cmd("Page.getLayoutMetrics", {})
        return bool(metrics["cssContentSize"]["width"] > metrics["cssLayoutViewport"]["clientWidth"])

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._driver.get_log(kind)  # type: ignore[no-untyped-call]
        return entries

    def _seen(self) -> str:
        try:
            return self.text
        except WebDriverException:  # between two pages, which it says in several ways
            return ""


StartBrowser = Callable[..., Browser]


def _key_digest(certificate: Path) -> str:
    """As the browser compares it: base64 of SHA-256 over the public key."""
    public = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    raw = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(raw).digest()).decode()
