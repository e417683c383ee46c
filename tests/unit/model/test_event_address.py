# SPDX-License-Identifier: Apache-2.0
"""Event addresses: each pod manager has a token, and nobody makes one without the secret."""

import unittest

from valence_sched.errors import InputError
from valence_sched.model.podm_address import EventAddress

URL, SECRET = "https://scheduler.example.org:8790", "a secret of the site"


class TestEventAddress(unittest.TestCase):
    def setUp(self):
        self.address = EventAddress(URL + "/", SECRET)

    def token(self, name, address=None):
        return (address or self.address).destination(name).rpartition("/")[2]

    def test_a_token_names_its_pod_manager_in_every_process(self):
        for name in ("rack-7", "host/node", "ré", "a" * 1024, "b"):
            with self.subTest(name[:20]):
                self.assertTrue(self.address.destination(name).startswith(f"{URL}/v1/events/"))
                self.assertEqual(name, EventAddress(URL, SECRET).podm_of(self.token(name)))

    def test_a_token_of_another_secret_or_name_is_none(self):
        token = self.token("rack-7")
        name, _, digest = token.partition(".")
        other = self.token("rack-8")
        for wrong in (
            "", ".", "x", name, digest, f".{digest}", f"{other.partition('.')[0]}.{digest}",
            f"{name}.{digest[:-1]}", f"{name}.{digest}x", f"{name}.é", "é.é", f"{name}\0.{digest}",
            self.token("rack-7", EventAddress(URL, SECRET + "!")), "." * 100_000,
        ):  # fmt: skip
            with self.subTest(wrong[:60]):
                self.assertIsNone(self.address.podm_of(wrong))

    def test_its_urls_are_its_own_and_no_others(self):
        self.assertTrue(self.address.owns(self.address.destination("p")))
        for url in ("", URL, f"{URL}/v1/podms/p", "https://other.example.org/v1/events/x"):
            self.assertFalse(self.address.owns(url), url)

    def test_what_is_no_url_and_no_secret_is_refused_without_repeating_it(self):
        for url in ("", "scheduler", "ftp://a/", "https://u:pw@a/", "http://a/?x", "http://a b/"):
            with self.subTest(url), self.assertRaisesRegex(InputError, "receiver: url") as caught:
                EventAddress(url, SECRET)
            self.assertNotIn("pw", str(caught.exception))
        with self.assertRaisesRegex(InputError, "at least 16 characters") as caught:
            EventAddress(URL, "hunter2")
        self.assertNotIn("hunter2", str(caught.exception))
        self.assertNotIn(SECRET, repr(self.address))
