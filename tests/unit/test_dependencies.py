# SPDX-License-Identifier: Apache-2.0
"""The dependencies: each one is used, and the page Install states its purpose."""

import configparser
import re
import sys
import unittest
from importlib import metadata

from tests.unit.structure import ROOT, every_import

PAGE = (ROOT / "doc" / "source" / "howto" / "install.rst").read_text(encoding="utf-8")
#: The extras of developers, whose packages a user does not need.
OF_DEVELOPERS = {"audit", "benchmark", "browser", "dist", "docs", "lint", "mutants", "test"}
NAME = re.compile(r"[\w.-]+")


def names(requirements):
    return [NAME.match(line)[0] for line in requirements.split("\n") if line]


def config():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def imported():
    """Return the names of all modules that the packages import, without those of submodules."""
    return {one.library for one in every_import()} - sys.stdlib_module_names


class TestDependencies(unittest.TestCase):
    def test_the_page_states_the_purpose_of_each_and_of_no_other(self):
        table = PAGE.partition("\nDependencies\n")[2].partition("Extras add packages")[0]
        described = re.findall(r"^   \* - ([\w.-]+)$", table, re.MULTILINE)[1:]
        self.assertEqual(names(config()["options"]["install_requires"]), described)

    def test_the_page_states_the_purpose_of_each_extra_of_users(self):
        table = PAGE.partition("Extras add packages")[2]
        described = re.findall(r"^   \* - ``(\w+)``$", table, re.MULTILINE)
        extras = {*config()["options.extras_require"]}
        self.assertLessEqual(OF_DEVELOPERS, extras)
        self.assertEqual(sorted(extras - OF_DEVELOPERS), sorted(described))

    def test_each_is_imported(self):
        used = imported()
        modules = metadata.packages_distributions()
        of = {name: {one for one, owners in modules.items() if name in owners}
              for name in names(config()["options"]["install_requires"])}  # fmt: skip
        self.assertEqual([], [name for name, found in of.items() if not found & used])


if __name__ == "__main__":
    unittest.main()
