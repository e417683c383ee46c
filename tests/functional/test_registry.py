# SPDX-License-Identifier: Apache-2.0
"""The registry of pod managers in both programs: create, set, unset, show, list, delete."""

import os
import pty
import select
import stat
import subprocess

from tests.functional import through
from tests.functional.programs import BIN, PROGRAMS, Case, Done, environment, run
from valence_sched.testing.served import served

SECRET = "hunter2-do-not-tell"
URL = "http://127.0.0.1:9"  # where nothing listens


def _unread(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line that registers a pod manager by its address only."""
    return (*words, "--no-check") if words[0] == "create" else words


class Registry(Case):
    """A test case with its own state."""

    def setUp(self):
        self.state = self.folder / f"{self.id().rpartition('.')[2][:60]}.sqlite"

    def podm(self, *words, program="valence-sched", code=0, **more) -> Done:
        words = _unread(words)
        done = run(program, "podm", *words, VALENCE_SCHED_STATE=str(self.state), **more)
        self.assertEqual(code, done.code, done)
        self.assertNotIn("Traceback", done.err)
        self.assertNotIn(SECRET, done.out + done.err)
        return done

    def refused(self, *words, code=1, **more) -> str:
        done = self.podm(*words, code=code, **more)
        self.assertEqual("", done.out)
        return done.err.splitlines()[-1]

    def shown(self, name: str, **more):
        return self.podm("show", name, "--request-timeout", "2", "-f", "json", **more).data


class TestCommands(Registry):
    """The commands show the registration."""

    def test_everything_can_be_said_when_it_is_created(self):
        ca = self.write("ca.pem", "-----BEGIN CERTIFICATE-----\n")
        made = self.podm(
            "create", "rack-7", "https://rack-7.invalid:8443/redfish/v1/", "--driver", "redfish",
            "--username", "op", "--password-env", "RACK", "--auth", "basic", "--cacert", ca,
            "--cert", ca, "--key", ca, "--zone", "east", "--aggregate", "gold", "--aggregate",
            "ssd", "--capability", "fabric=pcie;cxl", "--trait", "T", "--location", "dc1/r3",
            "--fact", "power_w=12e3", "--fact", "tags=a;b", "--fact", "owner=me", "--disable",
            "-f", "json",
        ).data  # fmt: skip
        self.assertEqual(
            {
                "Podm": "rack-7", "URL": "https://rack-7.invalid:8443", "Identity": None,
                "Driver": "redfish", "Enabled": False, "Zone": "east",
                "Aggregates": ["gold", "ssd"],
                "Capabilities": {"fabric": ["pcie", "cxl"]}, "Traits": ["T"],
                "Facts": {"location": "dc1/r3", "power_w": 12000.0, "tags": ["a", "b"],
                          "owner": "me"},
                "Username": "op", "Password": "variable RACK", "Auth": "basic", "CA Cert": ca,
                "Client Cert": ca, "TLS Verified": True, "Registered In": str(self.state),
            },
            made,
        )  # fmt: skip
        self.assertEqual(0o600, stat.S_IMODE(self.state.stat().st_mode))

    def test_both_programs_share_one_state_and_need_no_cloud(self):
        for program, other in (PROGRAMS, PROGRAMS[::-1]):
            self.podm("create", program, f"{URL}{len(program)}", "--zone", "z", program=program)
            self.assertEqual("z", self.shown(program, program=other)["Zone"])

    def test_set_adds_and_replaces_and_unset_takes_back(self):
        self.podm("create", "a", URL, "--aggregate", "x", "--fact", "n=1", "--zone", "z")
        self.podm("set", "a", "--aggregate", "y", "--fact", "n=2", "--fact", "m=3",
                  "--location", "dc1", "--capability", "k=v", "--trait", "T", "--no-verify",
                  "--username", "op", "--password-env", "V",
                  "--url", "http://127.0.0.1:1/")  # fmt: skip
        found = self.shown("a")
        self.assertEqual(["x", "y"], found["Aggregates"])
        self.assertEqual({"n": 2, "m": 3, "location": "dc1"}, found["Facts"])
        self.assertEqual(("http://127.0.0.1:1", False), (found["URL"], found["TLS Verified"]))
        self.podm("unset", "a", "--aggregate", "x", "--fact", "n", "--location", "--zone",
                  "--capability", "k", "--trait", "T", "--no-verify", "--username")  # fmt: skip
        found = self.shown("a")
        self.assertEqual(
            (["y"], {"m": 3}, None), (found["Aggregates"], found["Facts"], found["Zone"])
        )
        self.assertEqual(
            (None, None, True), (found["Username"], found["Password"], found["TLS Verified"])
        )
        self.assertEqual(({}, []), (found["Capabilities"], found["Traits"]))

    def test_a_client_certificate_is_named_by_its_files_and_goes_with_its_key(self):
        first, other = (self.write(name, "-----BEGIN") for name in ("a.pem", "b.pem"))
        self.podm("create", "a", URL, "--cert", first, "--key", other)
        self.podm("set", "a", "--cert", other)  # which now has its own key
        self.assertEqual(other, self.shown("a")["Client Cert"])
        self.podm("unset", "a", "--cert")
        self.assertIsNone(self.shown("a")["Client Cert"])
        self.assertIn("a key without a certificate", self.refused("set", "a", "--key", other))
        missing = self.refused("set", "a", "--cert", f"{first}x")
        self.assertIn("expected certificates or a key in PEM", missing)

    def test_most_blocks_are_set_shown_and_unset(self):
        made = self.podm("create", "a", URL, "--max-blocks", "2", "-f", "json").data
        self.assertEqual({"Compute": 2, "ComputerSystem": 2}, made["Max Blocks"])
        self.podm("set", "a", "--max-blocks", "compute=4", "--max-blocks", "Storage=3")
        self.assertEqual(
            {"Compute": 4, "ComputerSystem": 2, "Storage": 3}, self.shown("a")["Max Blocks"]
        )
        self.podm("unset", "a", "--max-blocks")
        self.assertEqual({}, self.shown("a")["Max Blocks"])
        for wrong in ("0", "-1", "two", "Teapot=1", "Compute="):
            self.assertIn("--max-blocks", self.refused("set", "a", "--max-blocks", wrong, code=2))

    def test_how_many_composes_at_a_time_are_set_shown_and_unset(self):
        self.podm("create", "a", URL)
        self.assertEqual(2, self.shown("a")["Parallel Composes"])
        self.podm("set", "a", "--parallel-composes", "8")
        self.assertEqual(8, self.shown("a")["Parallel Composes"])
        self.podm("unset", "a", "--parallel-composes")
        self.assertEqual(2, self.shown("a")["Parallel Composes"])
        for wrong in ("0", "33", "two"):
            line = self.refused("set", "a", "--parallel-composes", wrong, code=2)
            self.assertIn("--parallel-composes", line)

    def test_whether_hosts_are_free_is_set_shown_and_unset(self):
        self.podm("create", "a", URL, "--hosts", "free")
        self.assertEqual("free", self.shown("a")["Hosts"])
        self.podm("unset", "a", "--hosts")
        self.assertEqual("unmanaged", self.shown("a")["Hosts"])
        self.assertIn("--hosts", self.refused("set", "a", "--hosts", "some", code=2))
        self.podm("set", "a", "--hosts", "free:rack1-*,/redfish/v1/Systems/7")
        shown = self.podm("show", "a", "-f", "json").data["Hosts"]
        self.assertEqual("free:rack1-*,/redfish/v1/Systems/7", shown)

    def test_blocks_are_reserved_and_used_again(self):
        with served("examples/site.json") as podms:
            url = podms["gpu-east"].url
            self.assertEqual(0, run("valence-sched", "podm", "create", "east", url,
                                    VALENCE_SCHED_STATE=str(self.state)).code)  # fmt: skip

            def free():
                rows = self.podm("block", "list", "--podm", "east", "-f", "json").data
                return {row["Block"] for row in rows if row["Free"]}

            before = free()
            gpus = {name for name in before if name.startswith("GPU-")}
            self.assertTrue(gpus)
            self.podm("block", "set", "GPU-*", "--podm", "east", "--reserve", "new firmware")
            self.assertEqual(before - gpus, free())
            reserved = self.shown("east")["Reserved Blocks"]
            self.assertEqual({"GPU-*": "new firmware"}, reserved)
            words = ("block", "set", "XPU-1", "--podm", "east", "--reserve", "x")
            self.assertIn("east: no block named 'XPU-1'", self.refused(*words))
            words = ("block", "unset", "GPU-1", "--podm", "east")
            self.assertIn("no reserved block named 'GPU-1'", self.refused(*words))
            self.podm("block", "unset", "GPU-*", "--podm", "east")
            self.assertEqual(before, free())

    def test_tainted_blocks_are_for_requests_that_tolerate_the_taint(self):
        with served("examples/site.json") as podms:
            url = podms["gpu-east"].url
            self.assertEqual(0, run("valence-sched", "podm", "create", "east", url,
                                    VALENCE_SCHED_STATE=str(self.state)).code)  # fmt: skip
            taint = ("--taint", "team=physics:NoPlace")
            self.podm("block", "set", "GPU-*", "--podm", "east", *taint)
            self.podm("block", "set", "GPU-*", "--podm", "east", "--taint", "disk:NoPlace")
            shown = self.shown("east")
            tainted = {"GPU-*": "team=physics:NoPlace, disk:NoPlace"}
            self.assertEqual(tainted, shown["Tainted Blocks"])
            self.assertEqual(0, shown["Free GPUs"])
            rows = self.podm("block", "list", "--podm", "east", "--long", "-f", "json").data
            self.assertEqual(0, sum(row["Free"] for row in rows if "GPU" in row["Block"]))
            words = {row["Condition"] for row in rows if row["Block"].startswith("GPU-")}
            self.assertIn("tainted disk:NoPlace, tainted team=physics:NoPlace", words)
            asked = ("schedule", "--gpu", "1", "-f", "json")
            done = self.podm(*asked, "--explain", code=3)
            self.assertIn("tainted disk:NoPlace", done.out + done.err)
            tolerated = ("--tolerate", "team=physics", "--tolerate", "disk")
            self.assertIn("GPU-", str(self.podm(*asked, *tolerated).data))
            self.podm(*asked, "--tolerate", "team=biology", "--tolerate", "disk", code=3)
            line = self.refused("block", "unset", "GPU-*", "--podm", "east", "--taint", "x")
            self.assertIn("no taint of GPU-* named 'x'", line)
            line = self.refused("block", "unset", "GPU-1", "--podm", "east", "--taint", "disk")
            self.assertIn("no tainted block named 'GPU-1'", line)
            self.podm("block", "unset", "GPU-*", "--podm", "east",
                      "--taint", "team", "--taint", "disk")  # fmt: skip
            self.podm(*asked)
        for wrong in ("disk", "disk:NoSchedule", "a b=c:NoPlace", "=x:NoPlace"):
            words = ("block", "set", "GPU-1", "--podm", "east", "--taint", wrong)
            self.assertIn("is not KEY=VALUE:NoPlace", self.refused(*words, code=2))
        line = self.refused("schedule", "--gpu", "1", "--tolerate", "a b", code=2)
        self.assertIn("--tolerate: 'a b:NoPlace' is not", line)
        line = self.refused("block", "set", "GPU-1", "--podm", "east", code=2)
        self.assertIn("nothing to set: name --reserve or --taint", line)

    def test_disabled_and_enabled_again(self):
        self.podm("create", "a", URL, "--disable")
        self.assertFalse(self.shown("a")["Enabled"])
        self.podm("set", "a", "--enable")
        self.assertTrue(self.shown("a")["Enabled"])

    def test_delete_takes_several_and_goes_on_after_one_that_is_not_there(self):
        for name in ("a", "b", "c"):
            self.podm("create", name, f"{URL}{ord(name)}")
        line = self.refused("delete", "a", "nobody", "b")
        self.assertIn("no registered pod manager named 'nobody' (known: b, c)", line)
        rows = self.podm("list", "--request-timeout", "2", "-f", "json").data
        self.assertEqual(["c"], [row["Podm"] for row in rows])

    def test_the_last_one_deleted_leaves_none(self):
        self.podm("create", "a", URL)
        self.podm("delete", "a")
        self.assertIn("podm create NAME URL", self.refused("list", code=2))

    def test_a_state_is_named_by_file_or_url(self):
        path = self.folder / "named.sqlite"
        self.podm("create", "a", URL, "--state", str(path))
        rows = self.podm("list", "--state", f"sqlite:///{path}", "-f", "json").data
        self.assertEqual(["a"], [row["Podm"] for row in rows])
        self.assertFalse(self.state.exists())

    def test_the_usual_state_is_in_the_state_directory_for_its_owner_alone(self):
        home = self.folder / "home"
        done = run(
            "valence-sched", "podm", "create", "a", URL, "--no-check", XDG_STATE_HOME=str(home)
        )
        self.assertEqual(0, done.code, done.err)
        mode = stat.S_IMODE((home / "valence-sched").stat().st_mode)
        self.assertEqual((["state.sqlite"], 0o700), (os.listdir(home / "valence-sched"), mode))

    def test_reading_makes_no_state(self):
        if through.Switch.on:
            self.skipTest("a service creates a state")
        self.refused("list", code=2)
        self.refused("delete", "a")
        self.refused("set", "a", "--zone", "z")
        self.assertFalse(self.state.exists())


class TestRefusals(Registry):
    """A refusal prints one line and changes nothing."""

    def test_a_name_that_is_taken_keeps_what_it_has(self):
        self.podm("create", "a", URL, "--zone", "z")
        line = self.refused("create", "a", URL, "--zone", "other")
        self.assertIn("a pod manager named 'a' is already registered", line)
        self.assertEqual("z", self.shown("a")["Zone"])

    def test_a_password_in_a_url_or_on_the_command_line_is_refused_and_not_repeated(self):
        for words in (
            ("create", "a", f"https://op:{SECRET}@h"),
            ("create", "a", f"https://{SECRET}@h"),
            ("create", "a", URL, "--password", SECRET),
            ("create", "a", URL, f"--password={SECRET}"),
            ("create", "a", URL, "--username", "op", "--password-env", f"{SECRET}!"),
            ("list", "--state", f"postgresql://op:{SECRET}@h/db"),
            ("create", "a", URL, "--state", f"postgresql://op:{SECRET}@h/db"),
        ):
            with self.subTest(words=words):
                for program in PROGRAMS:
                    self.refused(*words, code=2, program=program)
        self.assertFalse(self.state.exists())

    def test_what_cannot_be_is_refused(self):
        if through.Switch.on:
            self.skipTest("a service creates a state")
        for words, code, line in (
            (("a", "ftp://h"), 2, "which is not http://HOST or https://HOST"),
            (("a", "h:8443"), 2, "which is not http://HOST"),
            (("", URL), 2, "an empty name"),
            (("a", URL, "--driver", "redfsh"), 1, "did you mean 'redfish'?"),
            (("a", URL, "--password-env", "V"), 1, "a password without a username"),
            (("a", URL, "--cacert", "/nowhere.pem"), 1, "/nowhere.pem: found no such file"),
            (("a", URL, "--cacert", "x", "--no-verify"), 2, "not allowed with"),
            (("a", URL, "--password-env", "V", "--password-file", "f"), 2, "not allowed with"),
            (("a", URL, "--fact", "x"), 2, "is not KEY=VALUE"),
            (("a", URL, "--capability", "x=;"), 2, ", expected key=value"),
            (("a", URL, "--auth", "digest"), 2, "invalid choice"),
        ):
            with self.subTest(words=words):
                self.assertIn(line, self.refused("create", *words, code=code))
        self.assertFalse(self.state.exists())

    def test_a_fact_that_is_said_twice_is_refused(self):
        for words, named in (
            (("--fact", "location=x", "--location", "y"), "'location' is given twice (also by --"),
            (("--fact", "n=1", "--fact", "n=2"), "'n' is given twice: write several values as one"),
        ):
            with self.subTest(words):
                self.assertIn(named, self.refused("create", "a", URL, *words, code=2))
        self.assertFalse(self.state.exists())
        self.podm("create", "a", URL, "--fact", "location=x")
        self.podm("set", "a", "--location", "y", "--location", "z")
        self.assertEqual(["y", "z"], self.shown("a")["Facts"]["location"])

    def test_set_and_unset_of_nothing_nobody_and_what_is_not_there(self):
        self.podm("create", "rack-7", URL)
        for words, code, line in (
            (("set", "rack-7"), 2, "nothing to set"),
            (("unset", "rack-7"), 2, "nothing to unset"),
            (("set", "rack-8", "--zone", "z"), 1, "did you mean 'rack-7'?"),
            (("unset", "rack-7", "--fact", "x"), 1, "rack-7: no fact named 'x'"),
            (("unset", "rack-7", "--location"), 1, "rack-7: no fact named 'location'"),
            (("set", "rack-7", "--url", "gopher://h"), 2, "not http://HOST"),
        ):
            with self.subTest(words=words):
                self.assertIn(line, self.refused(*words, code=code))

    def test_a_state_that_is_none_is_refused_in_one_line(self):
        path = self.write("text.sqlite", "this is no database, and long enough to tell" * 40)
        for words in (("list",), ("create", "a", URL)):
            self.assertIn("text.sqlite: ", self.refused(*words, "--state", path))
        self.assertIn("oracle", self.refused("list", "--state", "oracle://h/db"))

    def test_a_password_in_the_clear_gets_a_warning_and_none_on_loopback(self):
        login = ("--username", "op", "--password-env", "V")
        done = self.podm("create", "a", "http://one.invalid:8000", *login)
        self.assertRegex(done.err, r"\Awarning: a: its password is sent to http://one\.invalid:8")
        self.assertEqual("", self.podm("create", "b", "http://127.0.0.1:8000", *login).err)
        self.assertEqual("", self.podm("create", "c", "https://one.invalid", *login).err)
        self.assertEqual("", self.podm("create", "d", "http://two.invalid:8000").err)


class TestTyped(Registry):
    """A password that is typed at a terminal."""

    def typed(self, *words: str, password: str = SECRET) -> tuple[int, str]:
        """Run a command at a terminal, type a password, and return its exit code and the screen."""
        pid, main = pty.fork()
        if not pid:
            program = str(BIN / "valence-sched")
            own = environment(VALENCE_SCHED_STATE=str(self.state), TERM="dumb")
            os.execve(program, [program, "podm", *_unread(words)], own)
        screen, asked = b"", False
        try:
            while select.select([main], [], [], 60)[0]:
                try:
                    got = os.read(main, 4096)
                except OSError:  # the other end is closed
                    break
                screen += got
                if b"Password of" in screen and not asked:
                    asked = True
                    os.write(main, f"{password}\n".encode())
        finally:
            os.close(main)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen.decode()

    def test_it_is_kept_for_its_owner_alone_and_goes_with_its_pod_manager(self):
        code, screen = self.typed("create", "a", URL, "--username", "op", "--password-prompt")
        self.assertEqual(0, code, screen)
        self.assertNotIn(SECRET, screen)
        self.assertIn("secure file", screen)
        kept = self.state.with_name(f"{self.state.name}.passwords")
        self.assertEqual(0o600, stat.S_IMODE(kept.stat().st_mode))
        self.assertIn(SECRET, kept.read_text())
        self.assertNotIn(SECRET.encode(), self.state.read_bytes())
        self.podm("delete", "a")
        self.assertNotIn(SECRET, kept.read_text())

    def test_another_reference_takes_its_place_and_forgets_it(self):
        self.typed("create", "a", URL, "--username", "op", "--password-prompt")
        self.podm("set", "a", "--password-env", "V")
        kept = self.state.with_name(f"{self.state.name}.passwords")
        self.assertNotIn(SECRET, kept.read_text())

    def test_nothing_typed_registers_nothing(self):
        code, screen = self.typed(
            "create", "a", URL, "--username", "op", "--password-prompt", password=""
        )
        self.assertEqual(2, code, screen)
        self.assertIn("the password is empty", screen)
        self.assertIn("podm create NAME URL", self.refused("list", code=2))

    def test_nobody_is_asked_to_type_for_a_name_that_is_taken(self):
        self.podm("create", "a", URL)
        code, screen = self.typed("create", "a", URL, "--username", "op", "--password-prompt")
        self.assertEqual(1, code)
        self.assertNotIn("Password of", screen)

    def test_without_a_terminal_a_line_says_what_else_there_is(self):
        done = subprocess.run(
            [str(BIN / "valence-sched"), "podm", "create", "a", URL, "--username", "op",
             "--password-prompt"],
            input=SECRET.encode(), capture_output=True, start_new_session=True, timeout=120,
            env=environment(VALENCE_SCHED_STATE=str(self.state)), check=False,
        )  # fmt: skip
        self.assertEqual(2, done.returncode)
        self.assertRegex(done.stderr.decode(), r"\A--password-prompt: no terminal: .*\n\Z")

    def test_a_secure_file_that_others_can_read_stops_that_pod_manager_alone(self):
        if through.Switch.on:
            self.skipTest("the reading process reports unreadable files")
        self.typed("create", "a", URL, "--username", "op", "--password-prompt")
        self.podm("create", "b", f"{URL}1")
        kept = self.state.with_name(f"{self.state.name}.passwords")
        kept.chmod(0o644)
        done = self.podm("list", "--request-timeout", "2", "-f", "json")
        self.assertEqual(["a", "b"], [row["Podm"] for row in done.data])
        self.assertIn(
            f"not read: a: {kept}: other users can read or change it: chmod 600 {kept}", done.err
        )
