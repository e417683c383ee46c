# SPDX-License-Identifier: Apache-2.0
"""Files of pod managers: their content, and that errors repeat no secret."""

import unittest

from tests.unit.config.refusal import refusal
from valence_sched.config.podms_file import check_registration, parse_podms
from valence_sched.model.codec import load_yaml
from valence_sched.model.registration import PasswordReference, Registration

WHOLE = """
podms:
  rack-7:
    url: https://h:8443/redfish/v1/
    driver: redfish
    username: op
    password: {env: RACK_7}
    auth: basic
    cacert: ca.pem
    cert: cert.pem
    key: key.pem
    enabled: false
    zone: east
    aggregates: [gold]
    capabilities: {fabric: [pcie, cxl], class: a}
    traits: [T]
    location: dc1/row-3
    facts: {power_w: 12000, tags: [a, b], owner: me}
    max_blocks: {Compute: 2}
    parallel_composes: 8
    hosts: free
    reserved: {'GPU-1*': repair}
    taints: {'GPU-2*': ['team=a:NoPlace']}
"""


class TestPodms(unittest.TestCase):
    """The content of a file."""

    def read(self, text: str) -> list[Registration]:
        return parse_podms(load_yaml(text.encode(), "f"), "f")

    def refused(self, text: str) -> str:
        line = refusal(self.read, text)
        self.assertNotIn("hunter2", line)
        self.assertNotIn("\n", line)
        return line

    def test_every_field_is_read(self):
        (found,) = self.read(WHOLE)
        self.assertEqual(
            Registration(
                name="rack-7",
                url="https://h:8443",
                driver="redfish",
                username="op",
                password=PasswordReference(env="RACK_7"),
                auth="basic",
                cacert="ca.pem",
                cert="cert.pem",
                key="key.pem",
                enabled=False,
                zone="east",
                aggregates=("gold",),
                capabilities={"fabric": ("pcie", "cxl"), "class": ("a",)},
                traits=("T",),
                facts={
                    "power_w": 12000.0,
                    "tags": ("a", "b"),
                    "owner": "me",
                    "location": "dc1/row-3",
                },
                max_blocks={"Compute": 2},
                parallel_composes=8,
                hosts="free",
                reserved={"GPU-1*": "repair"},
                taints={"GPU-2*": ("team=a:NoPlace",)},
            ),
            found,
        )

    def test_a_number_of_blocks_is_that_of_each_whole_compute_unit(self):
        (found,) = self.read("podms: {a: {url: 'https://h', max_blocks: 2}}")
        self.assertEqual({"Compute": 2, "ComputerSystem": 2}, found.max_blocks)
        for wrong in ("0", "two", "{Compute: 0}", "{Teapot: 1}"):
            self.assertIn("max_blocks", self.refused(
                f"podms: {{a: {{url: 'https://h', max_blocks: {wrong}}}}}"))  # fmt: skip

    def test_capabilities_may_be_a_text(self):
        (found,) = self.read("podms: {a: {url: 'https://h', capabilities: 'x=1;2, y=3'}}")
        self.assertEqual({"x": ("1", "2"), "y": ("3",)}, found.capabilities)

    def test_what_may_be_a_password_is_refused_and_never_repeated(self):
        for entry, words in (
            ("{url: 'https://h', username: u, password: hunter2}", "found a password"),
            ("{url: 'https://h', username: u, password: [hunter2]}", "found a password"),
            ("{url: 'https://h', username: u, password: {value: hunter2}}", "field 'value'"),
            ("{url: 'https://h', username: u, password: {env: 'hunter2!'}}", "environment variab"),
            (
                "{url: 'https://h', username: u, password: {env: [hunter2]}}",
                "a value other than text",
            ),
            ("{url: 'https://h', username: u, password: {env: A, file: hunter2}}", "2 references"),
            ("{url: 'https://h', username: u, password: {}}", "0 references"),
            ("{url: 'https://u:hunter2@h'}", "user or password"),
            ("https://u:hunter2@h", "no map"),
            ("{url: 'https://h', passwrd: hunter2}", "did you mean 'password'?"),
        ):
            with self.subTest(entry):
                self.assertIn(words, self.refused(f"podms: {{a: {entry}}}"))

    def test_an_unknown_field_gets_the_nearest_and_its_place(self):
        line = self.refused("podms: {a: {url: 'https://h', usrname: u}}")
        self.assertEqual("f: $.podms.a: found unknown field 'usrname' (did you mean 'username'?)",
                         line)  # fmt: skip

    def test_what_is_no_such_file_is_refused(self):
        for text, words in (
            ("", "no map 'podms'"), ("7", "no map 'podms'"), ("podms: [a]", "no map 'podms'"),
            ("podms: {}\nother: 1", "unknown field 'other'"),
            ("podms: {7: {url: 'https://h'}}", 'the int \'7\' as a key'),
            ("podms: {'': {url: 'https://h'}}", "found '', expected a name"),
            ("podms: {'-x': {url: 'https://h'}}", "printable characters"),
            ("podms: {' x': {url: 'https://h'}}", "printable characters"),
            ("podms: {a: {}}", "field 'url'"),
            ("podms: {a: {url: 7}}", "found 7, expected str"),
            ("podms: {a: {url: 'https://h', auth: digest}}", "digest"),
            ("podms: {a: {url: 'https://h', password: {env: A}}}", "without a username"),
            ("podms: {a: {url: 'https://h', cacert: x, insecure: true}}", "both cacert and"),
            ("podms: {a: {url: 'https://h', key: x}}", "a key without a certificate"),
            ("podms: {a: {url: 'https://h', cert: '-----BEGIN CERTIFICATE-----'}}",
             "a certificate or a key, expected the file that holds it"),
            ("podms: {a: {url: 'https://h', location: x, facts: {location: y}}}", "facts.location"),
            ("podms: {a: {url: 'https://h', capabilities: fast}}", ", expected key=value"),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertIn(words, self.refused(text))

    def test_a_name_that_commands_a_terminal_is_refused(self):
        strange = Registration(name="a\x1b[2J", url="https://h")
        self.assertNotIn("\x1b", refusal(check_registration, strange))
