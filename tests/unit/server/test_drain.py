# SPDX-License-Identifier: Apache-2.0
"""The drain hook in the settings of a service."""

import tempfile
import unittest
from pathlib import Path

from valence_sched.errors import CredentialError, InputError
from valence_sched.model.node_change import DrainSettings
from valence_sched.model.registration import PasswordReference
from valence_sched.server.engine_pool import selection_of
from valence_sched.server.wiring import configuration_problems
from valence_sched.service.settings import DEFAULT_SETTINGS, read_settings


class TestSettings(unittest.TestCase):
    """The hook comes only from the settings, and is checked before the service starts."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def read(self, text):
        path = self.folder / "settings.yaml"
        path.write_text(f"drain: {text}\nstate: {self.folder / 'state.sqlite'}\n")
        return read_settings(str(path))

    def test_the_engines_of_a_service_have_the_hook_of_its_settings(self):
        settings = self.read("{url: https://host/drain, key: {env: HOOK_KEY}, deadline_s: 120}")
        key = PasswordReference(env="HOOK_KEY")
        drain = DrainSettings(url="https://host/drain", key=key, deadline_s=120)
        self.assertEqual(drain, selection_of(settings).drain)
        self.assertIsNone(selection_of(DEFAULT_SETTINGS).drain)

    def test_an_invalid_hook_is_one_line(self):
        for text, words in (
            ("{}", r"settings.yaml: \$.drain: found neither command nor url"),
            ("{command: [a], url: http://b}", r"\$.drain: found both"),
            ("{url: ftp://host}", r"\$.drain.url: found an invalid URL"),
            ("{url: http://host, key: {stored: true}}", r"\$.drain.key: found no reference"),
            ("{command: [a], deadline_s: 0}", r"\$.drain.deadline_s: found 0"),
        ):
            with self.subTest(text), self.assertRaisesRegex(InputError, words):
                self.read(text)

    def test_a_key_that_is_missing_is_a_problem_of_the_settings(self):
        settings = self.read("{url: http://host, key: {env: HOOK_KEY}}")
        environ = {"XDG_CONFIG_HOME": str(self.folder)}
        (problem,) = configuration_problems(settings, environ)
        self.assertIsInstance(problem, CredentialError)
        self.assertRegex(str(problem), "^drain: key: .*HOOK_KEY")
        self.assertEqual([], [*configuration_problems(settings, {**environ, "HOOK_KEY": "k"})])
