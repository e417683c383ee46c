# SPDX-License-Identifier: Apache-2.0
"""The functional tests with a service in the middle: each test again, and the same answers."""

import importlib
import unittest
from typing import Any

from tests.functional.through import ThroughService

#: Modules whose commands a service can answer; what reading live pod managers tells is not here.
MODULES = (
    "attributes", "bad_input", "capacity", "claims", "columns", "compose", "edits", "explain",
    "groups", "near", "plans", "quotas", "racks", "registry", "requests", "resources", "schedule",
    "stats",
)  # fmt: skip

#: What holds of a scheduler in the process alone: a service reads its pod managers by itself.
HERE_ONLY = ("test_the_very_blocks_are_composed_once",)


def _again(name: str) -> dict[str, type[unittest.TestCase]]:
    """Return the test cases of a module as they run through a service."""
    module = importlib.import_module(f"tests.functional.test_{name}")
    cases: dict[str, type[unittest.TestCase]] = {}
    for case in vars(module).values():
        if isinstance(case, type) and case.__module__ == module.__name__ and _has_tests(case):
            title = f"{case.__name__}Of{name.title().replace('_', '')}"
            words: dict[str, Any] = {"__module__": __name__, "__doc__": case.__doc__}
            words |= {name: None for name in HERE_ONLY if hasattr(case, name)}
            cases[title] = type(title, (ThroughService, case), words)
    return cases


def _has_tests(case: type) -> bool:
    return issubclass(case, unittest.TestCase) and any(
        word.startswith("test") for word in dir(case)
    )


for _name in MODULES:
    globals().update(_again(_name))
