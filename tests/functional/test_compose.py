# SPDX-License-Identifier: Apache-2.0
"""Composition with the real programs on served pod managers, with success and with failure."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator

from tests.functional.programs import BIN, PROGRAMS, ROOT, SITE, Case, Done, environment, run
from tests.unit.drivers.files.test_tree import documents_of
from tests.unit.drivers.racks import PCIE
from tests.unit.drivers.redfish.stored import links
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.store.store import Store
from valence_sched.testing.served import ServedPodm, served

OURS, THEIRS = PROGRAMS
POST = "POST:/redfish/v1/Systems"
#: The warning about the health of blocks of gpu-east, which precedes other output.
REMARKS = "2 remarks on the inventory: see podm show <podm>\n"


class There:
    """Served pod managers, registered in a new state."""

    def __init__(self, podms: dict[str, ServedPodm], state: str) -> None:
        self.podms, self.state = podms, state
        for name, podm in podms.items():
            done = self.asked("create", name, podm.url)
            assert done.code == 0, done

    def asked(self, *words: str, program: str = OURS) -> Done:
        return run(program, "podm", *words, "--state", self.state)

    def compose(self, *words: str, program: str = OURS) -> Done:
        flavor = () if "--flavor" in words else ("--flavor", "small")
        return self.asked("schedule", *flavor, "--compose", *words, "-f", "json", program=program)

    def rows(self, *words: str) -> list[dict]:
        return list(self.asked(*words, "-f", "json").data)

    def names(self) -> list[str]:
        return sorted(
            str(json["Name"])
            for podm in self.podms.values()
            for json in map(podm.documents.get, podm.documents)
            if str(json.get("Name", "")).startswith("vs-")
        )


class TestCompose(Case):
    """From a request to a node, and its decomposition."""

    @contextlib.contextmanager
    def there(self, *fail: str, only: tuple[str, ...] = ("gpu-east",)) -> Iterator[There]:
        settings = SimulatorSettings(task_s=1.0)
        with served(SITE, fail=fail, settings=settings) as podms:
            yield There({name: podms[name] for name in only}, f"{self.folder}/{self.id()}.sqlite")

    def test_hosts_are_composed_on_only_where_they_are_free(self):
        with self.there("fixed-hosts") as here:
            self.assertEqual(3, here.compose().code)  # unmanaged, the default
            blocks = here.asked("show", "gpu-east", "-f", "json").data["Unmanaged Blocks"]
            self.assertIn("Compute-02", "".join(blocks))
            self.assertEqual(0, here.asked("set", "gpu-east", "--hosts", "free").code)
            self.assertEqual(0, here.asked("list").code)
            done = here.compose("--gpu", "1")
            self.assertEqual(0, done.code, done.err)
            (row,) = done.data
            listed = {it["Node"]: it["State"] for it in here.rows("node", "list", "--live")}
            self.assertEqual("COMPOSED", listed[row["Node"]])
            self.assertEqual(0, here.asked("list").code)  # a reading shows the node
            self.assertEqual("SETTLED", here.rows("claim", "list")[0]["State"])
            documents = here.podms["gpu-east"].documents
            shown = here.asked("node", "show", row["Node"], "-f", "json").data
            host = documents.get(shown["URI"])
            attached = [one["@odata.id"] for one in host["Links"]["ResourceBlocks"]]
            self.assertEqual(sorted(shown["Blocks"]), sorted(attached))
            self.assertIn("/Systems/Host-", shown["URI"])
            self.assertEqual(0, here.asked("node", "delete", row["Node"]).code)
            host = documents.get(shown["URI"])
            self.assertEqual(links(attached[0]), host["Links"]["ResourceBlocks"])

    def test_nodes_are_placed_on_servers_without_a_composition_service(self):
        with self.there("servers") as here:
            self.assertEqual(3, here.compose().code)  # unmanaged, the default
            shown = here.asked("show", "gpu-east")
            self.assertRegex(shown.out, "Unmanaged Blocks +[|] /redfish/v1/Systems/Compute-01")
            unmanaged = here.rows("node", "list", "--live")
            self.assertEqual({"FOREIGN"}, {it["State"] for it in unmanaged})
            self.assertEqual(0, here.asked("set", "gpu-east", "--hosts", "free:Compute-0[23]").code)
            self.assertEqual(0, here.asked("list").code)
            placed = [here.compose().data[0]["Node"] for _ in range(2)]
            self.assertEqual(3, here.compose().code)
            states = {it["Node"]: it["State"] for it in here.rows("node", "list", "--live")}
            self.assertEqual(["COMPOSED"] * 2, [states[node] for node in placed])
            self.assertEqual(len(unmanaged), len(states))
            self.assertEqual([], here.rows("claim", "reap"))
            self.assertEqual(["COMPOSED"] * 2, [it["State"] for it in here.rows("claim", "list")])
            attach = here.asked("node", "attach", placed[0], "--gpu", "1")
            self.assertNotEqual(0, attach.code)
            self.assertEqual(0, here.asked("node", "delete", placed[0]).code)
            self.assertEqual(0, here.compose().code)
            posted = {one.method for one in here.podms["gpu-east"].requests
                      if "Sessions" not in one.path}  # fmt: skip
            self.assertEqual({"GET"}, posted)

    def test_what_is_composed_is_explained_as_what_is_claimed_or_decided(self):
        ask = ("schedule", "--flavor", "small", "--explain", "--seed", "0")
        with self.there() as here:
            decided = here.asked(*ask)
            claimed = here.asked(*ask, "--claim")
            self.assertEqual(
                0,
                here.asked(
                    "claim", "release", *[row["ID"] for row in here.rows("claim", "list")]
                ).code,
            )
            composed = here.asked(*ask, "--compose")
        question, _, rest = decided.out.partition("\n+")
        _, _, explanation = rest.partition("Candidates")
        for made in (claimed, composed):
            self.assertEqual(0, made.code, made.err)
            self.assertTrue(made.out.startswith(question), made.out)
            self.assertTrue(made.out.endswith(explanation), made.out)

    def test_a_composed_node_asks_again_for_what_it_was_requested_as(self):
        with self.there() as here:
            (row,) = here.compose().data
            words = ("scheduler", "whatif", "fail", "gpu-east", "--state", here.state)
            rows = run(OURS, *words, "--long", "-f", "json").data
            asks = {one["Node"]: one["Asks For"] for one in rows}
            self.assertEqual("request", asks.pop(row["Node"]))
            self.assertEqual({"hardware"}, set(asks.values()))
            file = f"{self.folder}/asked.jsonl"
            done = run(OURS, "podm", "inventory", "edit", "--state", here.state,
                       "--set", "gpu-east:zone=az9", "--output", file)  # fmt: skip
            self.assertEqual(0, done.code, done.err)
            rows = run(OURS, *words[:4], "--inventory", file, "--long", "-f", "json").data
            asks = {one["Node"]: one["Asks For"] for one in rows}
            self.assertEqual("request", asks[row["Node"]])

    def test_a_node_is_composed_listed_shown_and_deleted_in_both_programs(self):
        with self.there() as here:
            for program in PROGRAMS:
                with self.subTest(program):
                    done = here.compose("--owner", "ana", program=program)
                    self.assertEqual(0, done.code, done.err)
                    (row,) = done.data
                    by = f"(policy default, seed 0, request ID {row['Request ID']})"
                    told = f"1 of 1 node composed {by}\n"
                    self.assertEqual(told, done.err.removeprefix(REMARKS))
                    self.assertEqual([row["Node"]], here.names())
                    listed = here.asked("node", "list", "-f", "json", program=program).data
                    (one,) = listed
                    told = (one["Node"], one["State"], one["Owner"])
                    self.assertEqual((row["Node"], "COMPOSED", "ana"), told)
                    shown = here.asked("node", "show", row["Node"], "-f", "json", program=program)
                    self.assertEqual(("COMPOSED", row["Claim"]),
                                     (shown.data["State"], shown.data["Claim"]))  # fmt: skip
                    self.assertRegex(shown.data["Since"], r"^\d{4}-")
                    self.assertEqual([shown.data["URI"]], shown.data["Systems"])
                    self.assertRegex(shown.data["Podm URL"], "^http://127.0.0.1:")
                    self.assertTrue(shown.data["UUIDs"])
                    self.assertIsNone(shown.data["Reason"])
                    gone = here.asked("node", "delete", row["Node"], program=program)
                    self.assertEqual((0, "", ""), gone)
                    self.assertEqual([], here.names())
                    self.assertEqual([], here.rows("claim", "list"))

    def test_the_same_key_is_the_same_nodes_and_never_more(self):
        """S4: a repeated run creates no second node."""
        with self.there() as here:
            first = here.compose("--key", "job-7", "--count", "2")
            again = here.compose("--key", "job-7", "--count", "2")
            self.assertEqual((0, 0), (first.code, again.code), again.err)
            self.assertEqual(*({row["Node"] for row in done.data} for done in (first, again)))
            self.assertEqual(2, len(here.names()))
            other = here.compose("--key", "job-7", "--count", "2", "--flavor", "gpu-large")
            self.assertEqual(1, other.code)
            self.assertRegex(other.err, "key 'job-7' belongs to claim .*choose another key")

    def test_a_key_of_nothing_is_refused(self):
        with self.there() as here:
            done = here.compose("--key", "")
            self.assertEqual((2, []), (done.code, here.names()))
            self.assertRegex(done.err, "argument --key: must not be empty")

    def test_who_breaks_it_off_is_told_what_stays_and_what_to_do(self):
        with self.there(f"hang:{POST}") as here:
            words = ("schedule", "--flavor", "small", "--compose", "--state", here.state)
            process = subprocess.Popen([BIN / OURS, "podm", *words], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, cwd=ROOT,
                                       env=environment())  # fmt: skip
            while not here.podms["gpu-east"].traffic.writes:
                self.assertIsNone(process.poll())
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
            self.assertEqual((7, ""), (process.returncode, out))
            (claim,) = here.rows("claim", "list")
            name = claim["ID"]
            what = f"claim {name} is COMPOSING as vs-{name} on gpu-east"
            end = f"interrupted\n{what}: podm claim reap reconciles it\n"
            self.assertEqual(f"{REMARKS}{end}", err)

    def test_what_a_pod_manager_refuses_is_one_line_and_exit_code_1(self):
        with self.there(f"status:409:{POST}") as here:
            done = here.compose()
            self.assertEqual((1, []), (done.code, done.data))
            self.assertRegex(
                done.err, rf"^({REMARKS})?not composed: gpu-east: HTTP 409: .*\n0 of 1 node "
            )
            self.assertEqual([], here.rows("claim", "list"))

    def test_the_next_best_pod_manager_composes_what_the_first_refuses(self):
        with self.there(f"status:500:{POST}@gpu-east", only=("gpu-east", "gpu-west")) as here:
            done = here.compose()
            self.assertEqual((0, "gpu-west"), (done.code, done.data[0]["Podm"]))
            self.assertRegex(done.err, "warning: gpu-east: HTTP 500.*: tried gpu-west inst")

    def test_a_pod_manager_is_asked_beforehand_and_nothing_is_held(self):
        with self.there() as here:
            done = here.asked("schedule", "--flavor", "small", "--dry-run=server")
            self.assertEqual(0, done.code, done.err)
            words = r"would compose it \(checked by reading: it has no dry run\)"
            self.assertRegex(done.err, f"node 1: gpu-east {words}")
            self.assertEqual(([], []), (here.rows("claim", "list"), here.names()))

    def test_a_dry_run_without_a_value_only_decides(self):
        with self.there() as here:
            words = ("schedule", "--flavor", "small", "-f", "json")
            for dry_run in ("--dry-run", "--dry-run=client"):
                with self.subTest(dry_run):
                    done, plain = here.asked(*words, dry_run), here.asked(*words)
                    self.assertEqual(plain, done)
                    self.assertNotIn("would compose", done.err)

    def test_what_goes_on_after_all_patience_is_exit_code_7(self):
        with self.there("async") as here:
            done = here.compose("--wait", "--timeout", "0.001")
            self.assertEqual(7, done.code, done.err)
            told = r"still composing: gpu-east: claim \w+ stays COMPOSING: .*reap"
            self.assertRegex(done.err, told)

    def test_how_long_to_wait_is_said_by_timeout_and_once(self):
        """``--wait`` has no value; without waiting there is no time limit."""
        plan = self.write("plan.json", "{}")
        for words in (("schedule", "--flavor", "small"), ("claim", "compose", "x"),
                      ("apply", plan)):  # fmt: skip
            for more, what in (
                (("--wait", "60"), "unrecognized arguments: 60"),
                (("--wait", "--no-wait"), "not allowed with argument"),
                (("--timeout", "0"), "must be seconds above 0"),
            ):
                with self.subTest(words, more=more):
                    done = run(OURS, "podm", *words, *more)
                    self.assertEqual((2, ""), (done.code, done.out))
                    self.assertIn(what, done.err)
        for words in (("schedule", "--flavor", "small"), ("claim", "compose", "x")):
            with self.subTest(words):
                done = run(OURS, "podm", *words, "--no-wait", "--timeout", "5")
                told = "--timeout: not with --no-wait\n"
                self.assertEqual((2, "", told), done)

    def test_options_of_claims_and_nodes_are_refused_where_none_is_made(self):
        for words in (("--ttl", "5m"), ("--key", "job-7"), ("--wait",), ("--no-wait",),
                      ("--timeout", "5"), ("--ttl", "5m", "--dry-run=server")):  # fmt: skip
            with self.subTest(words):
                done = run(OURS, "podm", "schedule", "--flavor", "small", *words)
                told = f"{words[0]}: nothing is held or composed: add --claim or --compose\n"
                self.assertEqual((2, "", told), done)
        for words in (("schedule", "--flavor", "small", "--claim"), ("apply", "plan", "--claim")):
            for more in (("--wait",), ("--no-wait",), ("--timeout", "5")):
                with self.subTest(words, more=more):
                    done = run(OURS, "podm", *words, *more)
                    told = f"{more[0]}: nothing is composed: add --compose\n"
                    self.assertEqual((2, "", told), done)

    def test_a_plan_that_is_only_decided_again_takes_no_options_of_claims(self):
        for words in (("--ttl", "5m"), ("--key", "job-7"), ("--wait",), ("--timeout", "5")):
            with self.subTest(words):
                done = run(OURS, "podm", "apply", "plan", "--refresh", *words)
                told = f"{words[0]}: nothing is held or composed: add --claim or --compose\n"
                self.assertEqual((2, "", told), done)
        done = run(OURS, "podm", "apply", "plan", "--detailed-exitcode")
        told = "--detailed-exitcode: needs --refresh\n"
        self.assertEqual((2, "", told), done)

    def test_without_waiting_a_node_goes_on_and_reaping_finds_it(self):
        with self.there("async") as here:
            done = here.compose("--no-wait")
            self.assertEqual(0, done.code, done.err)
            (node,) = done.data
            (row,) = here.rows("claim", "list")
            self.assertEqual(("COMPOSING", row["ID"]), (node["State"], node["Claim"]))
            self.assertEqual("COMPOSING", row["State"])
            self.assertEqual([], here.rows("claim", "reap"))
            for words in ((), ("--dry-run",)):
                early = here.asked("claim", "reap", *words).err
                alone = f"^skipped: claim {row['ID']} is being composed until .*Z: "
                self.assertRegex(early, alone)
                self.assertIn(f"claim renew {row['ID']} --ttl 1s, then podm claim reap\n", early)
            self.over(here, row["ID"])
            self.assertEqual("", here.asked("claim", "reap", "--dry-run").err)
            (reaped,) = here.rows("claim", "reap")
            self.assertRegex(reaped["Done"], "composed: found /redfish/v1/Systems/vs-")
            self.assertEqual([f"vs-{row['ID']}"], here.names())

    def over(self, here: There, claim: str) -> None:
        """Let a claim expire."""
        with Store(f"sqlite:///{here.state}") as store:
            store.claims.renew(claim, 0.001)
        until = time.monotonic() + 60  # the pod manager takes time, by its own clock
        while not here.names() and time.monotonic() < until:
            here.podms["gpu-east"].app.podm.tick()
            time.sleep(0.01)

    def test_a_pod_manager_that_dies_half_way_is_exit_code_7(self):
        with self.there("die-after:1") as here:
            done = here.compose()
            self.assertEqual(7, done.code, done.err)
            self.assertRegex(
                done.err, f"^({REMARKS})?not verified: gpu-east: claim .* stays COMPOSING"
            )
            lines = done.err.removeprefix(REMARKS).splitlines()
            self.assertEqual(2, len(lines), done.err)

    def test_who_does_not_take_a_node_apart_is_named(self):
        with self.there("die-after:2") as here:
            (row,) = here.compose().data
            done = here.asked("node", "delete", row["Node"])
            self.assertEqual(1, done.code)
            self.assertRegex(done.err, f"^gpu-east: {row['URI']}: remote end closed")

    def test_a_ghost_stays_in_the_list(self):
        with self.there("ghost") as here:
            (row,) = here.compose().data
            done = here.asked("node", "delete", row["Node"])
            self.assertEqual(7, done.code)
            self.assertRegex(done.err, "still exists: the service reported its deletion")
            self.assertEqual([row["Node"]], [one["Node"] for one in here.rows("node", "list")])

    def test_what_others_composed_is_foreign_and_stays(self):
        with self.there() as here:
            rows = here.rows("node", "list", "--live")
            self.assertTrue(rows)
            self.assertEqual({"FOREIGN"}, {row["State"] for row in rows})
            done = here.asked("node", "delete", rows[0]["Node"])
            self.assertEqual(1, done.code)
            self.assertRegex(done.err, "^no node named ")

    def test_only_the_pod_manager_that_fits_gets_the_one_call(self):
        """S1: only the pod manager that fits is called, once."""
        with self.there(only=("gpu-east", "gpu-west", "dark-1")) as here:
            done = here.compose("--podm", "gpu-east")
            self.assertEqual(0, done.code, done.err)
            calls = {
                name: sum(seen.method == "POST" and seen.path.endswith("/Systems")
                          for seen in podm.requests)
                for name, podm in here.podms.items()
            }  # fmt: skip
            self.assertEqual({"gpu-east": 1, "gpu-west": 0, "dark-1": 0}, calls)

    def test_a_rack_allocates_assembles_and_lets_go(self):
        with served(documents={"rack": documents_of(PCIE)}) as podms:
            here = There(podms, f"{self.folder}/rack.sqlite")
            done = here.compose()
            self.assertEqual(0, done.code, done.err)
            (row,) = done.data
            self.assertRegex(row["URI"], "^/redfish/v1/Nodes/")
            self.assertEqual([], here.rows("claim", "reap"))
            self.assertEqual(0, here.asked("node", "delete", row["Node"]).code)
            self.assertEqual([], here.rows("claim", "list"))
