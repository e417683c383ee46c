# SPDX-License-Identifier: Apache-2.0
"""URLs of pod managers, and the URLs of their event destinations."""

import unittest

from valence_sched.errors import InputError
from valence_sched.model.podm_address import (
    EventAddress,
    endpoint_key,
    is_unencrypted,
    strip_service_root,
    url_problem,
)


class TestUrl(unittest.TestCase):
    """A URL is an address, and nothing else."""

    def test_http_and_https_with_a_host_are_urls_of_pod_managers(self):
        for url in (
            "http://h",
            "https://h:8443/",
            "https://[::1]:8443/redfish/v1/",
            "http://h/redfish",
        ):
            self.assertIsNone(url_problem(url), url)

    def test_a_url_with_a_user_or_password_is_refused_and_not_repeated(self):
        for url in ("https://u:hunter2@h", "https://hunter2@h/", "ftp://u:hunter2@h", "hunter2@h",
                    "https:u:hunter2@h", "https://h/@hunter2"):  # fmt: skip
            found = url_problem(url)
            self.assertIn("user or password", found)
            self.assertNotIn("hunter2", found)

    def test_what_is_no_url_is_refused(self):
        for url, words in (
            ("", "http://HOST"), ("h", "http://HOST"), ("h:8000", "http://HOST"),
            ("ftp://h", "http://HOST"), ("file:///etc/passwd", "http://HOST"),
            ("https://", "http://HOST"), ("https:///x", "http://HOST"),
            ("https://h:99999", "an invalid URL"), ("https://h:x", "an invalid URL"),
            ("https://[::1", "an invalid URL"),
            ("http://::1:8000", "an invalid URL: an IPv6 address has brackets, as in https://[fd00::7]"),
            ("https://h:0", "a colon and no port"), ("https://h:/", "a colon and no port"),
            ("https://h/?a=1", "query"), ("https://h/#a", "query"),
            ("https://h /", "characters"), ("https://h\n", "characters"),
            ("https://h/podm1", "path '/podm1'"), ("https://h/podm1/redfish/v1", "of its own"),
            ("https://h/redfish/v1/Systems", "path"),
            ("https://h\\x", "characters"), ("https://h\x1b[2J", "characters"),
        ):  # fmt: skip
            with self.subTest(url):
                self.assertIn(words, url_problem(url) or "")

    def test_the_path_of_the_service_root_is_left_out(self):
        for url in ("https://h", "https://h/", "https://h/redfish/v1", "https://h/redfish/v1/",
                    "https://h/redfish"):  # fmt: skip
            self.assertEqual("https://h", strip_service_root(url))

    def test_two_urls_lead_to_one_place_whatever_is_left_out(self):
        self.assertEqual(endpoint_key("https://H:443/redfish/v1/"), endpoint_key("https://h"))
        self.assertNotEqual(endpoint_key("https://h"), endpoint_key("http://h"))
        self.assertNotEqual(endpoint_key("https://h:8443"), endpoint_key("https://h"))

    def test_only_plain_http_to_another_host_is_in_the_clear(self):
        for url in ("http://10.0.0.1", "http://podm.example.com:8000", "http://[2001:db8::1]/"):
            self.assertTrue(is_unencrypted(url), url)
        for url in ("https://10.0.0.1", "http://127.0.0.1:8000", "http://127.1.2.3", "http://[::1]",
                    "http://localhost:8000", "http://a.localhost"):  # fmt: skip
            self.assertFalse(is_unencrypted(url), url)


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
