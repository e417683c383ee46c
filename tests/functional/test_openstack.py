# SPDX-License-Identifier: Apache-2.0
"""What the plug-in is to the rest of OpenStackClient: versions of its API, and nobody's trouble."""

import unittest

from tests.functional.programs import run

FLAVORS = ("podm", "flavor", "list", "-f", "json")
OTHER = ("token", "issue")


class TestVersions(unittest.TestCase):
    """``--os-podm-api-version`` and the variable."""

    def test_every_name_of_the_version_has_the_commands(self):
        for name in ("1", "1.0", "latest"):
            with self.subTest(name):
                done = run("openstack", "--os-podm-api-version", name, *FLAVORS)
                self.assertEqual((0, ""), (done.code, done.err))
                done = run("openstack", *FLAVORS, OS_PODM_API_VERSION=name)
                self.assertEqual((0, ""), (done.code, done.err))

    def test_a_version_that_does_not_exist_is_told_to_our_commands_only(self):
        usual = run("openstack", *OTHER)
        for name in ("7", "latest", "1.0", "x y"):
            with self.subTest(name):
                self.assertEqual(usual, run("openstack", *OTHER, OS_PODM_API_VERSION=name))
        done = run("openstack", *FLAVORS, OS_PODM_API_VERSION="7")
        line = "OS_PODM_API_VERSION: no API version '7': 1, 1.0, latest\n"
        self.assertEqual((2, "", line), done)
        done = run("openstack", "--os-podm-api-version", "1", *FLAVORS, OS_PODM_API_VERSION="7")
        self.assertEqual(0, done.code, done.err)
        done = run("openstack", "--os-podm-api-version", "7", *FLAVORS)
        self.assertEqual((2, ""), (done.code, done.out))
        self.assertIn("no API version '7': 1, 1.0, latest", done.err)


if __name__ == "__main__":
    unittest.main()
