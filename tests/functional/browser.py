# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for tests of pages."""

import importlib.util
import os
import shutil
import unittest
from collections.abc import Iterator
from typing import Any

from tests.functional.programs import Case

REQUIRED = "VALENCE_SCHED_REQUIRE_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"
#: Traces of a script that is not part of the page, or of a name that became an element.
INTRUDERS = (
    "document.querySelectorAll('script:not(body > script:last-child), img, [onmouseover], "
    "[onerror]').length"
)


def missing() -> str:
    """Return the missing software for a browser, empty if it is complete."""
    for module in ("playwright", "axe_core_python"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed: pip install 'valence-sched[browser]'"
    if not any(map(shutil.which, NAMES)):
        return "there is no Chromium: apt-get install chromium"
    return ""


class BrowserCase(Case):
    """A test case with one browser for the tests of a class."""

    browser: Any

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if problem := missing():
            if os.environ.get(REQUIRED):
                raise AssertionError(problem)
            raise unittest.SkipTest(problem)
        from playwright.sync_api import sync_playwright

        driver = sync_playwright().start()
        cls.addClassCleanup(driver.stop)
        path = next(filter(None, map(shutil.which, NAMES)))
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        cls.browser = driver.chromium.launch(executable_path=path, args=arguments)
        cls.addClassCleanup(cls.browser.close)

    def check_accessible(self, opened: Any) -> None:
        from axe_core_python.sync_playwright import Axe

        # without the elements that pass, which take most of the time
        checked = Axe().run(opened, options={"resultTypes": ["violations"]})
        found = [f"{one['id']}: {node['target']} {node['html'][:120]}"
                 for one in checked["violations"] for node in one["nodes"]]  # fmt: skip
        self.assertEqual([], found)

    def schemes(self, opened: Any) -> Iterator[str]:
        """Show a page in light colours on a wide screen, then in dark ones on a telephone."""
        for scheme, width in (("light", 1280), ("dark", 375)):
            opened.set_viewport_size({"width": width, "height": 900})
            opened.emulate_media(color_scheme=scheme)
            yield scheme

    def check_fits(self, opened: Any) -> None:
        """Check that nothing on the page is wider than the screen."""
        content, window = opened.evaluate(WIDTHS)
        self.assertLessEqual(content, window)
