# SPDX-License-Identifier: Apache-2.0
"""The steps after a decision: hints of claims, outages, checks, and nodes by name."""

import re
import signal
import subprocess

from tests.functional.programs import BIN, PROGRAMS, SITE, environment, run
from tests.functional.test_live import Live
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.store.store import Store

GPU = ("--flavor", "gpu-large", "--seed", "7")
SMALL = ("--flavor", "small", "--seed", "7")
SILENT = "http://127.0.0.1:9"


class Site(Live):
    """Two pod managers of the example, registered."""

    def setUp(self):
        super().setUp()
        found = self.serve()
        self.found = {name: found[name] for name in ("gpu-east", "gpu-west")}
        self.register(self.found)

    def held(self, *words: str) -> dict:
        return self.podm("schedule", *words, "--claim", "-f", "json").data[0]


class TestClaim(Site):
    """A claim shows its expiry, and the next command."""

    def test_it_names_the_very_commands_of_its_own_program(self):
        for program in PROGRAMS:
            done = self.podm("schedule", *SMALL, "--claim", "-f", "json", program=program)
            (row,) = done.data
            claim, number = row["Claim"], len(row["Blocks"])
            blocks = f"{number} block" + ("s" if number > 1 else "")
            for line in (
                rf"claim {claim} holds {blocks} on {row['Podm']} until \d\d:\d\d:\d\dZ",
                f"  compose it:  {program} podm claim compose {claim}",
                f"  release it:  {program} podm claim release {claim}",
            ):
                self.assertRegex(done.err, f"(?m)^{line}$")
            compose = re.findall(rf"(?m)^  compose it:  {program} podm (.*)$", done.err)[0]
            (node,) = self.podm(*compose.split(), "-f", "json", program=program).data
            self.assertEqual((f"vs-{claim}", "COMPOSED"), (node["Node"], node["State"]))
            self.assertEqual(row["Blocks"], node["Blocks"])

    def test_the_commands_name_the_state_where_it_was_named(self):
        state = self.folder / "an other.sqlite"
        self.podm("create", "a", self.found["gpu-east"].url, "--state", state)
        done = self.podm("schedule", *SMALL, "--claim", "--ttl", "2d", "--state", state)
        claim = re.findall(r"(?m)^claim (\w+) holds", done.err)[0]
        self.assertRegex(done.err, r"(?m) until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        for verb in ("compose", "release"):
            self.assertRegex(done.err, f"(?m) claim {verb} {claim} --state '{state}'$")

    def test_the_same_key_again_prints_the_same_rows(self):
        for words in (GPU, (*SMALL, "--count", "3")):
            claim = (*words, "--claim", "--key", words[1])
            first = self.podm("schedule", *claim, "-f", "json")
            again = self.podm("schedule", *claim, "-f", "json", program=PROGRAMS[1])
            self.assertEqual(first.out, again.out)
            self.assertRegex(again.err, f"(?m)^--key {words[1]} already belongs to this claim$")
            self.assertNotIn("already", first.err)
            for style in ("table", "value"):
                first, again = (self.podm("schedule", *claim, "-f", style).out for _ in range(2))
                self.assertEqual(first, again)
        report = self.folder / "again.json"
        done = self.podm("schedule", *claim, "--report", report)
        self.assertIn("no report: --key small belongs to an earlier decision", done.err)
        self.assertFalse(report.exists())

    def test_the_key_of_several_nodes_holds_no_others_once_they_are_composed(self):
        claim = (*SMALL, "--count", "2", "--claim", "--key", "k")
        held = self.podm("schedule", *claim, "-f", "json").data[0]["Claim"]
        self.assertEqual(2, len(self.podm("claim", "compose", held, "-f", "json").data))
        done = self.podm("schedule", *claim, code=1)
        self.assertRegex(done.err, f"(?m)^key 'k' belongs to composed nodes, .* {held}-1, ")
        self.assertEqual(2, len(self.podm("node", "list", "-f", "json").data))

    def test_one_that_is_not_held_is_refused_in_one_line(self):
        composed, released, expired = (self.held(*SMALL)["Claim"] for _ in range(3))
        self.podm("claim", "compose", composed)
        self.podm("claim", "release", released)
        with Store(f"sqlite:///{self.state}") as store:
            store.claims.renew(expired, 0.001)
        node = f"it is node vs-{composed}"
        for claim, words in (
            (composed, f"is COMPOSED .{node}.: only a held claim can be composed"),
            (released, "is RELEASED: only a held claim can be composed"),
            (expired, "is EXPIRED: only a held claim can be composed"),
        ):
            done = self.podm("claim", "compose", claim, code=1)
            self.assertRegex(done.err, rf"\Aclaim {claim} {words}\n\Z")
        self.assertRegex(self.podm("claim", "compose", "x", code=1).err, "^no claim named 'x' ")
        for claim in (released, expired):
            self.assertEqual((0, "", ""), self.podm("claim", "release", claim))
        self.assertEqual(1, len(self.podm("node", "list", "-f", "json").data))

    def test_what_a_pod_manager_refuses_is_made_nowhere_else(self):
        held = self.held(*SMALL, "--podm", "gpu-east")["Claim"]
        self.podm("set", "gpu-east", "--url", SILENT)
        done = self.podm("claim", "compose", held, "--request-timeout", "2", code=1)
        self.assertRegex(done.err, r"(?m)^not composed: gpu-east: .*\n0 of 1 node composed$")
        self.assertEqual([], self.podm("node", "list", "-f", "json").data)


class TestOutage(Site):
    """If no pod manager can be read, this is an outage, not "nothing fits"."""

    def test_it_is_exit_code_5_with_a_line_for_each(self):
        self.held(*GPU, "--key", "k")
        self.stop()
        for words in (
            ("schedule", *SMALL), ("schedule", *SMALL, "--claim"), ("fit",),
            ("schedule", *SMALL, "--compose"), ("schedule", *SMALL, "--explain", "-f", "json"),
            ("schedule", *SMALL, "--plan", self.folder / "p.json"),
            ("fit", *SMALL[:2], "--require", "small=1"),
        ):  # fmt: skip
            with self.subTest(words):
                done = self.podm(*words, "--request-timeout", "2", code=5)
                self.assertEqual("", done.out)
                for name in self.found:
                    self.assertRegex(done.err, f"(?m)^not read: {name}: http")
                self.assertRegex(done.err, r"(?m)^0 of 2 pod managers could be read: .*\n\Z")
                self.assertNotIn("nothing fits", done.err)
        again = self.podm("schedule", *GPU, "--claim", "--key", "k", "-f", "json")
        self.assertEqual("gpu-east", again.data[0]["Podm"])

    def test_a_request_that_names_what_could_not_be_read_meets_one_too(self):
        self.podm("create", "gone", SILENT, "--no-check")
        for deed in ((), ("--claim",), ("--compose",)):
            done = self.podm("schedule", *SMALL, "--podm", "gone", *deed, code=5)
            self.assertRegex(done.err, r"(?m)^no pod manager could be read: gone: .*refused.*\n\Z")

    def test_where_some_were_read_nothing_fits(self):
        self.podm("create", "gone", SILENT, "--no-check")
        for deed in ((), ("--claim",)):
            done = self.podm("schedule", *SMALL, "--count", "999", *deed, code=3)
            self.assertIn("nothing fits", done.err)


class TestCheck(Live):
    """A pod manager is read at its registration, and on request."""

    def serve_login(self) -> str:
        login = SimulatorSettings(login=Account("op", "secret-word"))
        return self.serve(settings=login)["gpu-east"].url

    def registered(self) -> list[str]:
        with Store(f"sqlite:///{self.state}") as store:
            return [one.name for one in store.registrations()]

    def test_one_that_answers_is_registered_with_what_was_found(self):
        url = self.serve_login()
        words = ("a", url, "--username", "op", "--password-env", "WORD")
        done = self.podm("create", *words, WORD="secret-word")
        self.assertRegex(done.err, r"(?m)^a is Online: 37 blocks, 3 pools, 4 nodes, driver redfish")
        self.assertEqual(["a"], self.registered())

    def test_one_that_does_not_answer_or_let_in_is_refused_in_one_line(self):
        url = self.serve_login()
        login = ("--username", "op", "--password-env", "WORD")
        for words, why in (
            (("a", SILENT), f"{SILENT}: connection refused"),
            (("a", url, *login), "refused the login of 'op'"),
            (("a", url), "requires a login"),
        ):
            for program in PROGRAMS:
                with self.subTest(words, program=program):
                    done = self.podm("create", *words, "--request-timeout", "5", code=1,
                                     program=program, WORD="wrong-word")  # fmt: skip
                    self.assertRegex(done.err, rf"\Aa is not registered: .*{why}.*--no-check.*\n\Z")
                    self.assertNotIn("wrong-word", done.err)
                    self.assertEqual([], self.registered())
        self.podm("create", "a", SILENT, "--no-check")
        self.assertEqual(["a"], self.registered())

    def test_registered_ones_are_checked_with_a_row_each(self):
        found = self.serve()
        self.register({name: found[name] for name in ("gpu-east", "gpu-west")})
        for program in PROGRAMS:
            rows = self.podm("check", "--all", "-f", "json", program=program).data
            found = [(row["Podm"], row["Blocks"], row["Problem"]) for row in rows]
            self.assertEqual([("gpu-east", 37, ""), ("gpu-west", 28, "")], found)
        self.podm("create", "gone", SILENT, "--no-check")
        done = self.podm("check", "gpu-west", "gone", "-f", "json", code=5)
        self.assertEqual(["gone", "gpu-west"], sorted(row["Podm"] for row in done.data))
        problems = {row["Podm"]: (row["Status"], row["Problem"]) for row in done.data}
        self.assertEqual(("Online", ""), problems["gpu-west"])
        self.assertRegex(problems["gone"][1], "connection refused")
        self.assertIn("1 of 2 pod managers could be read", done.err)
        self.assertLess(max(map(len, self.podm("check", "--all", code=5).out.splitlines())), 80)
        for words, code in ((("nobody",), 1), ((), 2), (("gone", "--all"), 2)):
            self.assertEqual("", self.podm("check", *words, code=code).out)


class TestNodes(Site):
    """Nodes are listed by name, with their flavor and devices."""

    def test_a_list_has_flavor_and_hardware_in_less_than_80_columns(self):
        for words in (GPU, (*SMALL, "--owner", "ana")):
            self.podm("schedule", *words, "--compose")
        for program in PROGRAMS:
            rows = self.podm("node", "list", "-f", "json", program=program).data
            columns = ["Node", "Podm", "Flavor", "Hardware", "Owner", "State", "Since"]
            self.assertEqual(columns, list(rows[0]))
            by_flavor = {row["Flavor"]: row for row in rows}
            self.assertEqual({"gpu-large", "small"}, set(by_flavor))
            (cards,) = by_flavor["gpu-large"]["Hardware"]["accelerators"]
            self.assertEqual(("GPU", 2), (cards["kind"], cards["count"]))
            self.assertEqual("ana", by_flavor["small"]["Owner"])
            self.assertRegex(rows[0]["Since"], r"^\d{4}-\d\d-\d\dT")
            table = self.podm("node", "list", program=program).out
            self.assertLess(max(map(len, table.splitlines())), 80, table)
            self.assertRegex(table, r"\| \d+ cores,")
            self.assertNotIn("COMPOSED", table)
        self.assertIn("COMPOSED", self.podm("node", "list", "-c", "State").out)
        long = self.podm("node", "list", "--long", "-f", "json").data[0]
        self.assertEqual([*columns, "Pool", "URI", "Blocks", "Amounts", "Group", "Claim"],
                         list(long))  # fmt: skip
        node = by_flavor["gpu-large"]["Node"]
        shown = self.podm("node", "show", node, "-f", "json").data
        self.assertEqual(("gpu-large", by_flavor["gpu-large"]["Hardware"]),
                         (shown["Flavor"], shown["Hardware"]))  # fmt: skip

    def test_a_node_of_others_has_hardware_and_one_that_is_not_there_keeps_its_own(self):
        (row,) = self.podm("schedule", *SMALL, "--compose", "-f", "json").data
        rows = self.podm("node", "list", "--live", "--long", "-f", "json").data
        states = {one["Node"]: one["State"] for one in rows}
        self.assertEqual("COMPOSED", states.pop(row["Node"]))
        self.assertEqual({"FOREIGN"}, set(states.values()))
        screen = self.podm("node", "list", "--live").out
        self.assertEqual((len(states), 0), (screen.count("| UNMANAGED |"), screen.count("FOREIGN")))
        for one in rows:
            self.assertTrue(one["Hardware"]["processors"], one)
            if one["Node"] in states:
                shown = self.podm("node", "show", one["Node"], "-f", "json").data
                self.assertEqual(("FOREIGN", one["URI"]), (shown["State"], shown["URI"]))
        self.stop()
        shown = self.podm("node", "show", row["Node"], "--request-timeout", "2", "-f", "json").data
        self.assertEqual("UNKNOWN", shown["State"])
        self.assertIn("connection refused", shown["Reason"])
        (gone,) = self.podm("node", "list", "--live", "--request-timeout", "2", "-f", "json").data
        self.assertEqual("UNKNOWN", gone["State"])
        self.assertIn(gone["Hardware"], [one["Hardware"] for one in rows])

    def test_the_nodes_of_an_inventory_are_listed_and_each_is_found(self):
        for program in PROGRAMS:
            words = ("--inventory", SITE, "-f", "json")
            rows = run(program, "podm", "node", "list", "--podm", "gpu-east", *words).data
            self.assertEqual({"gpu-east"}, {row["Podm"] for row in rows})
            self.assertIn("train-1", [row["Node"] for row in rows])
            failed = run(program, "scheduler", "whatif", "fail", "gpu-east", *words).data
            for row in failed:
                shown = run(program, "podm", "node", "show", row["Node"], *words).data
                self.assertEqual("gpu-east", shown["Podm"])
                self.assertEqual([shown["URI"]], shown["Systems"])
                self.assertTrue(shown["Hardware"]["processors"])
        wrong = run(PROGRAMS[0], "podm", "node", "show", "train", "--inventory", SITE)
        self.assertEqual(1, wrong.code)
        self.assertIn("no node named 'train' (did you mean 'train-", wrong.err)
        wrong = run(PROGRAMS[0], "podm", "node", "list", "--live", "--inventory", SITE)
        self.assertEqual(2, wrong.code)


class TestEmpty(Live):
    """An empty list shows that it is empty, and the next command."""

    def test_nothing_is_there_yet(self):
        for words, hint in (
            (("claim", "list"), "no claims: podm schedule --claim makes one\n"),
            (("node", "list"), "no nodes: podm schedule --compose makes one\n"),
            (("claim", "list", "--podm", "x"), "no claims match: omit --podm\n"),
        ):
            done = self.podm(*words, "-f", "json")
            self.assertEqual((0, [], hint), (done.code, done.data, done.err))

    def test_nothing_matches(self):
        words = ("podm", "block", "list", "--inventory", SITE, "--model", "H200", "--free")
        done = run(PROGRAMS[0], *words)
        self.assertIn("no blocks match: omit --model, --free\n", done.err)


class TestAgain(Live):
    """A list can be printed repeatedly."""

    def test_until_it_is_interrupted(self):
        words = ("podm", "list", "--inventory", SITE, "--watch", "0.2", "-f", "value", "-c", "Podm")
        command = [BIN / PROGRAMS[0], *words]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), text=True
        ) as process:
            seen = [process.stdout.readline() for _ in range(20)]
            process.send_signal(signal.SIGINT)
            process.communicate()
        self.assertEqual(3, seen.count(seen[0]))
