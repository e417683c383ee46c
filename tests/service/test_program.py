# SPDX-License-Identifier: Apache-2.0
"""The program: its settings, its store, and its addresses."""

import contextlib
import json
import sqlite3
import unittest

from falcon import testing

from tests.service.application import RACK, ApplicationCase
from valence_sched.model.diagnostic import AuditQuery
from valence_sched.server.wsgi import loopback_only
from valence_sched.store.store import Store


class TestCheckConfig(ApplicationCase):
    def check_config(self, *words, settings=None):
        if settings is not None:
            path = self.folder / "service.yaml"
            path.write_text(settings)
            words = (*words, "--config", str(path))
        return self.run_program("check-config", "--state", self.state, *words)

    def test_settings_in_effect_are_printed(self):
        code, out, err = self.check_config("--port", "9000", settings="workers: 3\n")
        self.assertEqual((0, ""), (code, err))
        self.assertRegex(out, r"(?s)queue_s: 10.0.*port: 9000.*workers: 3")

    def test_settings_that_the_environment_names_are_refused_by_its_name(self):
        missing = str(self.folder / "none.yaml")
        for words in (["check-config"], ["store", "check"]):
            code, _, err = self.run_program(*words, VALENCE_SCHEDULER_CONFIG=missing)
            self.assertEqual(1, code)
            self.assertRegex(err, f"^VALENCE_SCHEDULER_CONFIG: {missing}: found no such")

    def test_a_file_of_none_is_the_defaults(self):
        self.assertEqual(0, self.check_config(settings="")[0])

    def test_what_is_wrong_is_one_line(self):
        for words, settings, code, text in (
            ((), "prot: 1\n", 1, r"\$: found unknown field 'prot' \(did you mean 'port'"),
            ((), "port: 99999\n", 1, r"\$.port: found 99999"),
            (("--port", "99999"), None, 2, r"the command line: \$.port: found 99999"),
            (("--config", ""), None, 2, "^--config: an empty name: name a file$"),
            (("--state", ""), None, 2, "^--state: an empty name: name a file$"),
            (("--inventory", ""), None, 2, "^--inventory: an empty name: name a file$"),
            (
                ("--host", "0.0.0.0"),
                None,
                2,
                "reachable from other machines without authentication",
            ),
            ((), "auth: basic\n", 2, "without a users_file"),
            ((), "auth: basic\nusers_file: /nope\n", 1, "/nope: found no such file"),
            (("--inventory", "/nope.json"), None, 1, "/nope.json: found no such file"),
            (("--config", "/nope.yaml"), None, 1, "/nope.yaml: found no such file"),
            ((), "policy_files: [/nope.yaml]\n", 1, "/nope.yaml"),
            ((), "certificate: /a\nprivate_key: /b\n", 1, "/a: found no such file"),
            ((), "near_maps: [/nope.yaml]\n", 1, "/nope.yaml: found no such file"),
            ((), "state: ''\n", 2, r"\.yaml: state: an empty name: name a file$"),
            ((), "inventories: ['']\n", 2, r"\.yaml: inventories: an empty name: name a file$"),
            ((), "limits: {queue_s: 1.0e+308}\n", 2, r"queue_s must be at most 9,.*, got 1e"),
            ((), f"threads: {2**70}\n", 2, r"yaml: threads must be at most 1,000, got 1\.18"),
            ((), f"audit_lines: {2**70}\n", 2, "audit_lines must be at most 1,000,000,000"),
            ((), f"rate_limits: {{changes: 5/{10**400} year}}\n", 1, "rate_limits: changes: found"),
            ((), "rate_limits: {changes: ''}\n", 2, "rate_limits: changes: an empty rate"),
        ):
            with self.subTest(text):
                found, out, err = self.check_config(*words, settings=settings)
                self.assertEqual((code, ""), (found, out))
                self.assertRegex(err, text)
                self.assertNotIn("Traceback", err)


class TestStore(ApplicationCase):
    """The commands that maintain the state."""

    def setUp(self):
        super().setUp()
        self.call("POST", "/v1/podms/r/stats", {"stats": RACK})

    def run_store(self, *words):
        return self.run_program("store", *words, "--state", self.state)

    def test_a_state_is_checked_taken_down_and_up(self):
        code, out, err = self.run_store("check")
        self.assertEqual((0, ""), (code, err))
        self.assertRegex(out, r"(?s)version (\d+) of \1\n.*podms: 1\n")
        self.assertRegex(self.run_store("downgrade", "--to", "0004")[1], "version 0004, was 0")
        code, out, _ = self.run_store("check")
        self.assertEqual(1, code)
        self.assertIn("problem: its schema has version 0004", out)
        self.assertRegex(self.run_store("upgrade")[1], "was 0004")
        self.assertEqual(0, self.run_store("check")[0])

    def test_a_copy_is_a_state_and_what_is_not_in_it_is_named(self):
        copy = self.folder / "copy.sqlite"
        (self.folder / "state.sqlite.passwords").write_text("{}")
        code, out, _ = self.run_store("backup", str(copy))
        self.assertEqual(0, code)
        self.assertIn("not copied: ", out)
        self.state = f"sqlite:///{copy}"
        self.assertEqual(0, self.run_store("check")[0])

    def audited(self):
        with Store(self.state) as store:
            return [(one.verb, one.object, one.outcome) for one in store.audit.newest(AuditQuery())]

    def test_what_cannot_be_decoded_is_shown_and_taken_out_after_a_copy(self):
        with contextlib.closing(sqlite3.connect(self.folder / "state.sqlite")) as state, state:
            state.execute("UPDATE podms SET document = 'xx'")
        code, out, _ = self.run_store("check", "--deep")
        problem = "podms r: document: JSON is malformed: invalid character (byte 0)"
        self.assertEqual((1, [f"problem: {problem}"]), (code, out.splitlines()[-1:]))
        code, out, _ = self.run_store("repair")
        self.assertEqual(
            (0, f"{problem}: deleted until the next reading"), (code, out.splitlines()[0])
        )
        self.assertIn("1 row that cannot be decoded: --yes --backup FILE repairs the state", out)
        self.assertEqual(1, self.run_store("check", "--deep")[0])
        code, out, err = self.run_store("repair", "--yes")
        self.assertEqual((2, "", 1), (code, out, err.count("\n")))
        backup = self.folder / "before"
        self.assertEqual((0, ""), self.run_store("repair", "--yes", "--backup", str(backup))[::2])
        self.assertIn(("store repair", "rows", "done"), self.audited())
        self.assertEqual(0, self.run_store("check", "--deep")[0])
        (row,) = map(json.loads, (self.folder / "before.rows").read_text().splitlines())
        self.assertEqual(("podms", "xx"), (row["table"], row["row"]["document"]))
        self.state = f"sqlite:///{backup}"
        self.assertEqual(1, self.run_store("check")[0])

    def test_what_cannot_be_is_one_line(self):
        for words, text in (
            (("downgrade", "--to", "9"), "no earlier version '9'"),
            (("backup", "/nope/copy"), "/nope/copy: no such file or directory"),
        ):
            code, out, err = self.run_store(*words)
            self.assertEqual(("", 1), (out, err.count("\n")), err)
            self.assertNotEqual(0, code)
            self.assertIn(text, err)


class TestLoopback(unittest.TestCase):
    def answered(self, address):
        statuses = []

        def application(_environ, start_response):
            start_response("200 OK", [])
            return [b"in"]

        environ = testing.create_environ(remote_addr=address)
        chunks = loopback_only(application)(
            environ, lambda status, _headers: statuses.append(status)
        )
        return statuses[0], b"".join(chunks)

    def test_this_machine_is_answered(self):
        for address in ("127.0.0.1", "::1", "127.1.2.3"):
            self.assertEqual(("200 OK", b"in"), self.answered(address))

    def test_others_and_who_has_no_address_are_refused(self):
        for address in ("10.0.0.1", "", "::2", "example.org"):
            with self.subTest(address):
                status, body = self.answered(address)
                self.assertEqual("403 Forbidden", status)
                self.assertIn(b'"code":"access_denied"', body)
