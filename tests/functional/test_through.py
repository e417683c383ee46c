# SPDX-License-Identifier: Apache-2.0
"""Repeats functional tests with commands sent through a service: the answers are the same."""

import importlib
import unittest
from typing import Any

from tests.functional.through import ThroughService, is_chosen

#: Modules whose commands a service can answer; readings of live pod managers are excluded.
MODULES = (
    "bad_input", "capacity", "claims", "columns", "compose", "edits", "explain", "groups", "near",
    "plans", "registry", "requests", "schedule", "stats", "zones",
)  # fmt: skip

#: Tests that apply only to a scheduler in the process. A service reads its pod managers and files
#: and polls its child zones by itself, opens its state at the start and names no file of it, and
#: has its zone in its settings; variables of a command do not change its sources. The last tests
#: start a program themselves.
HERE_ONLY = (
    "test_the_line_names_the_variable",
    "test_the_very_blocks_are_composed_once",
    "test_a_state_that_is_none_is_refused_in_one_line",
    "test_the_usual_state_is_in_the_state_directory_for_its_owner_alone",
    "test_everything_can_be_said_when_one_is_added_and_is_shown",
    "test_the_list_is_a_table_that_says_why_a_zone_is_not_active",
    "test_without_routing_zones_are_listed_and_not_changed",
    "test_a_zone_without_pod_managers_tells_its_name_and_capabilities",
    "test_what_is_read_is_not_written_over",
    "test_a_reader_that_has_seen_enough_is_no_error",
    "test_a_pipe_that_closes_early_leaves_no_trace",
    "test_on_a_terminal_the_table_comes_first_and_the_outcome_last",
    "test_without_a_terminal_a_line_says_what_else_there_is",
    "test_who_breaks_it_off_is_told_what_stays_and_what_to_do",
)


def _again(name: str) -> dict[str, type[unittest.TestCase]]:
    """Return the test cases of a module, run through a service."""
    module = importlib.import_module(f"tests.functional.test_{name}")
    cases: dict[str, type[unittest.TestCase]] = {}
    for case in vars(module).values():
        if isinstance(case, type) and case.__module__ == module.__name__ and _has_tests(case):
            title = f"{case.__name__}Of{name.title().replace('_', '')}"
            words: dict[str, Any] = {"__module__": __name__, "__doc__": case.__doc__}
            words |= {name: None for name in HERE_ONLY if hasattr(case, name)}
            words |= {name: None for name in dir(case) if not is_chosen(title, name)}
            cases[title] = type(title, (ThroughService, case), words)
    return cases


def _has_tests(case: type) -> bool:
    return issubclass(case, unittest.TestCase) and any(
        word.startswith("test") for word in dir(case)
    )


for _name in MODULES:
    globals().update(_again(_name))
