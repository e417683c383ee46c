# SPDX-License-Identifier: Apache-2.0
"""Where the files of a person are."""

import os
import pwd
import sys
import unittest
from pathlib import Path

import platformdirs

from valence_sched.config.settings import HOME_VARIABLES, Homes

USUAL = {"config": ".config", "state": ".local/state", "cache": ".cache"}


class TestHomes(unittest.TestCase):
    """The environment first, then the platform."""

    def setUp(self):
        before = {name: os.environ.pop(name, None) for name in HOME_VARIABLES.values()}
        self.addCleanup(os.environ.update, {k: v for k, v in before.items() if v is not None})

    def test_a_variable_of_the_environment_wins(self):
        for kind, variable in HOME_VARIABLES.items():
            with self.subTest(kind):
                homes = Homes({variable: "/elsewhere"})
                self.assertEqual(Path("/elsewhere/valence-sched"), getattr(homes, kind))

    def test_without_one_the_usual_folders_are_below_the_home_of_the_user(self):
        for environ in ({}, dict.fromkeys(HOME_VARIABLES.values(), "")):
            for kind, folder in USUAL.items():
                with self.subTest(kind, environ=environ):
                    expected = Path("~").expanduser() / folder / "valence-sched"
                    self.assertEqual(expected, getattr(Homes(environ), kind))

    def test_a_test_has_no_folder_of_the_person_who_runs_it(self):
        own = Path(pwd.getpwuid(os.getuid()).pw_dir)
        self.assertEqual([], [kind for kind in USUAL if own in getattr(Homes({}), kind).parents])

    @unittest.skipUnless(sys.platform == "linux", "other platforms have no folders of our own")
    def test_the_usual_folders_are_those_that_platformdirs_names(self):
        for kind in USUAL:
            with self.subTest(kind):
                named = getattr(platformdirs, f"user_{kind}_path")("valence-sched")
                self.assertEqual(named, getattr(Homes({}), kind))
