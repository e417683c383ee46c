# SPDX-License-Identifier: Apache-2.0
"""The commands of zones in both programs."""

import json
import socket

from tests.functional.programs import PROGRAMS, Case, Done, run

NOWHERE = "http://127.0.0.1:9"  # where nothing listens
SETTINGS = """
name: dallas
capabilities: os=linux;windows, arch=x86
enable_zone_routing: true
"""


class Zones(Case):
    """A test case with its own state and settings."""

    def setUp(self):
        self.home = self.folder / self.id().rpartition(".")[2][:60]
        self.settings(SETTINGS)

    def settings(self, text):
        file = self.home / "valence-sched" / "zones.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def zone(self, *words, program=PROGRAMS[0], code=0, noun="zone", **more) -> Done:
        more |= {"VALENCE_SCHED_STATE": str(self.home / "state.sqlite"),
                 "XDG_CONFIG_HOME": str(self.home)}  # fmt: skip
        group = "podm" if noun == "stats" else "scheduler"
        done = run(program, group, noun, *words, **more)
        self.assertEqual(code, done.code, done)
        self.assertNotIn("Traceback", done.err)
        return done


class TestCommands(Zones):
    """The commands show the stored zones."""

    def test_zones_are_added_listed_and_deleted_by_name_or_id(self):
        """S52, S53: no connection is made; ID, name, active flag, capabilities and URL."""
        for program in PROGRAMS:
            with self.subTest(program):
                self.zone("add", "east", NOWHERE, program=program)
                self.zone("add", "west", "https://west:8790", program=program)
                rows = self.zone("list", "-f", "json", program=program).data
                self.assertEqual(
                    [{"Name": name, "Own Name": None, "Is Active": False, "Capabilities": {},
                      "API URL": url}
                     for name, url in (("east", NOWHERE), ("west", "https://west:8790"))],
                    [{key: row[key] for key in row if key != "ID"} for row in rows],
                )  # fmt: skip
                self.zone("delete", "east", str(rows[1]["ID"]), program=program)
                self.assertEqual([], self.zone("list", "-f", "json", program=program).data)

    def test_one_that_is_there_is_not_connected_to(self):
        """S52: a server at the address gets no connection."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            self.zone("add", "east", f"http://127.0.0.1:{listening.getsockname()[1]}")
            with self.assertRaises(BlockingIOError):
                listening.accept()

    def test_the_list_is_a_table_that_says_why_a_zone_is_not_active(self):
        self.zone("add", "east", NOWHERE)
        done = self.zone("list")
        self.assertIn(
            "| ID | Name | Own Name | Is Active | Capabilities | API URL            |", done.out
        )
        self.assertEqual("east: not active: it was not polled yet\n", done.err)

    def test_everything_can_be_said_when_one_is_added_and_is_shown(self):
        ca = self.write("ca.pem", "-----BEGIN CERTIFICATE-----\n")
        words = ("--username", "up", "--password-env", "EAST", "--cacert", ca, "--cert", ca,
                 "--weight-scale", "0.5", "--weight-offset", "-0.25")  # fmt: skip
        made = self.zone("add", "east", NOWHERE, *words, "-f", "json").data
        expected = {
            "Name": "east", "Own Name": None, "API URL": NOWHERE, "Enabled": True,
            "Is Active": False, "Reason": "it was not polled yet", "Failures": 0,
            "Capabilities": {}, "Services": {}, "Weight Scale": 0.5, "Weight Offset": -0.25,
            "Login": "basic", "Username": "up", "Password": "variable EAST", "Auth URL": None,
            "Project": None, "User Domain": None, "Project Domain": None, "CA Cert": ca,
            "Client Cert": ca, "Heard": None, "Polled": None,
        }  # fmt: skip
        self.assertEqual(expected, {key: made[key] for key in expected})
        self.assertEqual(made, self.zone("show", "east", "-f", "json").data)

    def test_a_login_with_keystone_is_shown_without_its_password_and_taken_back(self):
        words = ("--auth-url", "https://keystone:5000/v3", "--username", "up",
                 "--project", "zones", "--project-domain", "Sites")  # fmt: skip
        self.zone("add", "east", "https://east:1", *words, "--password-env", "EAST")
        expected = {"Login": "keystone", "Username": "up", "Password": "variable EAST",
                    "Auth URL": "https://keystone:5000/v3", "Project": "zones",
                    "User Domain": "Default", "Project Domain": "Sites"}  # fmt: skip
        shown = self.zone("show", "east", "-f", "json", EAST="a-secret")
        self.assertEqual(expected, {key: shown.data[key] for key in expected})
        self.assertNotIn("a-secret", shown.out)
        done = self.zone("set", "east", "--user-domain", "People", "--url", "http://east:1")
        self.assertEqual(
            "warning: east: its token is sent to http://east:1 unencrypted: name an https URL\n",
            done.err,
        )
        shown = self.zone("show", "east", "-f", "json").data
        self.assertEqual(("keystone", "People"), (shown["Login"], shown["User Domain"]))
        self.zone("set", "east", "--no-login")
        shown = self.zone("show", "east", "-f", "json").data
        self.assertEqual("none", shown["Login"])
        self.assertEqual({None}, {shown[key] for key in expected if key != "Login"})

    def test_a_login_with_keystone_that_is_not_whole_is_refused(self):
        login = ("--username", "up", "--password-env", "EAST")
        for words, problem in (
            (("--auth-url", "https://k/v3", *login), "$.project: found an auth_url alone"),
            (("--auth-url", "https://k/v3", "--project", "p"), "username: found an auth_url"),
            (("--project", "p", *login), "$.project: found no auth_url"),
            (("--auth-url", "k/v3", "--project", "p", *login), "$.auth_url: found 'k/v3', which"),
        ):
            with self.subTest(words):
                self.assertIn(problem, self.zone("add", "east", NOWHERE, *words, code=1).err)

    def test_properties_are_set_and_logins_are_taken_back(self):
        self.zone("add", "east", NOWHERE, "--username", "up", "--password-file", "secret")
        self.zone("set", "east", "--url", "http://other:1", "--weight-scale", "3", "--disable")
        shown = self.zone("show", "east", "-f", "json").data
        self.assertEqual(("http://other:1", 3.0, False, "up"), tuple(
            shown[key] for key in ("API URL", "Weight Scale", "Enabled", "Username")))  # fmt: skip
        self.zone("set", "east", "--no-login", "--enable")
        shown = self.zone("show", "east", "-f", "json").data
        self.assertEqual((True, None, None), (shown["Enabled"], shown["Username"],
                                              shown["Password"]))  # fmt: skip

    def test_what_is_wrong_is_said_in_one_line(self):
        self.zone("add", "east", NOWHERE)
        for words, code, text in (
            (("add", "east", NOWHERE), 1, "a zone named 'east' is already a child"),
            (("add", "", NOWHERE), 2, "an empty name"),
            (("add", "7", NOWHERE), 1, "a name that is not a number"),
            (
                ("add", "tree", NOWHERE),
                1,
                "name: found 'tree', expected a name other than claims, "
                "group_state, info, offers, tree (the service has paths of these names)\n",
            ),
            (("add", "x", "http://u:hunter2@x"), 1, "a URL with a user or password in it"),
            (("add", "x", NOWHERE, "--weight-scale", "nan"), 2, "from -1000 to 1000, got 'nan'"),
            (("add", "x", NOWHERE, "--username", "u"), 1, "a username without a password"),
            (("set", "east"), 2, "nothing to set: name a property"),
            (("set", "nope", "--disable"), 1, "no child zone named 'nope' (known: east)"),
            (("set", "east", "--no-login", "--username", "u"), 2, "--no-login excludes"),
            (("show", "eest"), 1, "did you mean 'east'?"),
            (("delete", "nope"), 1, "no child zone named 'nope'"),
        ):
            with self.subTest(words):
                done = self.zone(*words, code=code)
                self.assertIn(text, done.err)
                self.assertNotIn("hunter2", done.err)

    def test_a_password_that_others_can_read_on_the_way_is_warned_of(self):
        words = ("--username", "up", "--password-env", "EAST")
        done = self.zone("add", "east", "http://east.invalid:8790", *words)
        line = "east: its password is sent to http://east.invalid:8790 unencrypted"
        self.assertIn(line, done.err)

    def test_without_routing_zones_are_listed_and_not_changed(self):
        """S56: the message names the setting."""
        self.zone("add", "east", NOWHERE)
        file = self.settings("name: dallas\n")
        text = f"child zones are not enabled: set enable_zone_routing: true in {file}\n"
        for words in (("add", "west", NOWHERE), ("set", "east", "--disable"), ("delete", "east")):
            self.assertEqual(text, self.zone(*words, code=1).err)
        self.assertEqual(1, len(self.zone("list", "-f", "json").data))

    def test_settings_that_are_wrong_are_named_with_their_file(self):
        for text, message in (
            ("capabilities: linux\n", "$.capabilities: found 'linux', expected key=value"),
            ("nme: x\n", "nme"),
            ("secrets: [{}]\n", "$.secrets[0]: found no reference, expected exactly one of env"),
            ("most_hops: 0\n", "most_hops"),
        ):
            with self.subTest(text):
                file = self.settings(text)
                done = self.zone("info", code=1)
                self.assertIn(str(file), done.err)
                self.assertIn(message, done.err)


class TestInfo(Zones):
    """The report of a zone about itself."""

    def info(self, **more):
        rows = self.zone("info", "-f", "json", **more).data
        return {row["Property"]: row["Value"] for row in rows}

    def test_a_zone_without_pod_managers_tells_its_name_and_capabilities(self):
        """S46, S51, S57."""
        self.assertEqual(
            {"arch": "x86", "name": "dallas", "os": "linux;windows"}, self.info(program=PROGRAMS[1])
        )
        self.settings("")
        self.assertEqual({"name": "default"}, self.info())
        self.assertFalse((self.home / "state.sqlite").exists())

    def test_two_hosts_report_and_the_newest_report_counts(self):
        """S47, S50: ``compute_cpu 0.7,0.7``; a later report replaces the earlier one."""
        for host, cpu in (("h1", 0.2), ("h1", 0.7), ("h2", 0.7)):
            told = {"compute": {"cpu": cpu, "disk": 123000}}
            self.zone("set", host, "-", noun="stats", stdin=json.dumps(told).encode())
        self.settings("name: nova\n")
        expected = (
            "| Property     | Value         |",
            "| compute_cpu  | 0.7,0.7       |",
            "| compute_disk | 123000,123000 |",
            "| name         | nova          |",
        )
        lines = self.zone("info").out.splitlines()
        self.assertEqual(expected, tuple(line for line in lines if not line.startswith("+")))
        told = {"compute": {"cpu": 0.25, "disk": 5}}
        self.zone("set", "h2", "-", noun="stats", stdin=json.dumps(told).encode())
        self.assertEqual(
            {"compute_cpu": "0.25,0.7", "compute_disk": "5,123000", "name": "nova"}, self.info()
        )


class TestTree(Zones):
    """The tree of zones, seen from the top."""

    def test_one_that_does_not_answer_is_in_the_tree_with_the_reason(self):
        self.zone("add", "east", NOWHERE)
        done = self.zone("tree", "-f", "json", "--long")
        top, east = done.data
        self.assertEqual(("dallas", 0, ""), (top["Zone"], top["Podms"], top["Problem"]))
        self.assertEqual(("dallas/east", None), (east["Zone"], east["Podms"]))
        self.assertIn("does not answer", east["Problem"])
        self.assertEqual(
            "1 zone did not answer: free resources there are not counted\n", done.err
        )  # fmt: skip
        text = self.zone("tree").out
        self.assertRegex(text, r"(?m)^\| dallas +\|")
        self.assertRegex(text, r"(?m)^\|   east +\|")
