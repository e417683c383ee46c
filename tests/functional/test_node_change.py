# SPDX-License-Identifier: Apache-2.0
"""Changes of living nodes with the real programs on served pod managers."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from tests.functional.programs import PROGRAMS, SITE, Case, Done, run
from tests.functional.test_compose import There
from tests.unit.drivers.files.test_tree import documents_of
from valence_sched.testing.served import served

OURS, THEIRS = PROGRAMS
MEMORY = "--resource", "cxl_memory_mib=65536"
FLAVORS = """
- name: plain
  properties: {processor: {total_cores: 8}}
- name: roomy
  properties: {processor: {total_cores: 8}, resources: {cxl_memory_mib: 131072}}
"""


class NodeCase(Case):
    """A node with a GPU on served pod managers, in a new state."""

    @contextlib.contextmanager
    def there(self, *fail: str, hosts: str = "unmanaged", site: str = SITE) -> Iterator[There]:
        with served(site, fail=fail) as podms:
            here = There(
                {"gpu-east": podms["gpu-east"]}, f"{self.folder}/{self.id()}-{hosts}.sqlite"
            )
            here.asked("set", "gpu-east", "--hosts", hosts)
            (row,) = here.compose("--gpu", "1").data
            self.node, self.blocks = row["Node"], row["Blocks"]
            yield here

    def change(self, here: There, verb: str, *words: str, program: str = OURS) -> Done:
        return here.asked("node", verb, self.node, *words, program=program)

    def rows(self, here: There, verb: str, *words: str) -> list[dict]:
        done = self.change(here, verb, *words, "-f", "json")
        self.assertEqual(0, done.code, done.err)
        return list(done.data)

    def present(self, here: There) -> list[str]:
        return list(here.asked("node", "show", self.node, "-f", "json").data["Blocks"])


SHRINKS = """\
policies:
- {name: greedy, shrink: last, filters: [enabled, alive, capacity, devices], weighers: [room]}
"""


class TestShrink(NodeCase):
    """Plans that take blocks from shrinkable nodes."""

    @contextlib.contextmanager
    def full(self) -> Iterator[There]:
        """Yield a site whose only usable GPU is a surplus of a node of team a."""
        with served(SITE) as podms:
            here = There({"gpu-east": podms["gpu-east"]}, f"{self.folder}/{self.id()}.sqlite")
            (row,) = here.compose("--gpu", "1", "--owner", "a").data
            self.node = row["Node"]
            (gained,) = self.rows(here, "attach", "--gpu", "1")
            self.gpu, self.whole = gained["Block"].rpartition("/")[2], self.present(here)
            blocks = here.asked("block", "list", "--podm", "gpu-east", "--free", "-f", "json").data
            spare = [one["Block"] for one in blocks if one["Block"].startswith("GPU")]
            here.asked("block", "set", *spare, "--podm", "gpu-east", "--reserve", "x")
            policy = self.write(f"{self.id().rpartition('.')[2]}.yaml", SHRINKS)
            self.ask = ("schedule", "--cores", "1", "--gpu", "1", "--policy-file", policy)
            self.plan = f"{self.folder}/{self.id().rpartition('.')[2]}.json"
            yield here

    def mark(self, here: There, *words: str) -> None:
        self.assertEqual(0, self.change(here, "set", "--shrinkable", *words).code)

    def planned(self, here: There) -> Done:
        return here.asked(*self.ask, "--policy", "greedy", "--owner", "a", "--plan", self.plan)

    def test_a_plan_detaches_the_surplus_of_a_shrinkable_node_and_composes(self):
        with self.full() as here:
            greedy = (*self.ask, "--policy", "greedy", "--owner", "a")
            self.assertEqual(3, here.asked(*greedy).code)  # the node is not marked
            self.mark(here, "--power-cycle")
            shown = here.asked("node", "show", self.node, "-f", "json").data
            self.assertEqual("its own request", shown["Shrinkable To"])
            self.assertEqual(3, here.asked(*self.ask).code)  # the default policy never shrinks
            self.assertEqual(3, here.asked(*greedy[:-1], "b").code)  # a node of another owner
            done = here.asked(*greedy)
            words = (
                f"nothing is free: takes {self.gpu} from shrinkable node {self.node} on gpu-east"
            )
            self.assertEqual(0, done.code, done.err)
            self.assertIn(words, done.err)
            self.assertEqual(self.whole, self.present(here))
            self.assertIn(words, self.planned(here).err)
            self.assertEqual(1, here.asked("apply", self.plan, "--claim").code)
            done = here.asked("apply", self.plan, "-f", "json")
            self.assertEqual(0, done.code, done.err)
            self.assertIn(self.gpu, "".join(done.data[0]["Blocks"]))
            self.assertEqual(len(self.whole) - 1, len(self.present(here)))
            self.assertEqual(6, here.asked("apply", self.plan).code)
            self.assertEqual(0, self.change(here, "unset", "--shrinkable").code)
            self.assertNotIn("Shrinkable To", here.asked("node", "show", self.node).out)

    def test_a_node_that_cannot_be_composed_after_all_leaves_every_node_as_it_was(self):
        with self.full() as here:
            self.mark(here, "--floor", "small")
            self.assertEqual(0, self.planned(here).code)
            done = here.asked("apply", self.plan)
            self.assertEqual(6, done.code)
            self.assertIn("is not declared removable", done.err)
            self.assertEqual(self.whole, self.present(here))
            self.assertEqual(0, self.change(here, "unset", "--shrinkable").code)
            done = here.asked("apply", self.plan)
            self.assertEqual(6, done.code)
            self.assertIn(f"node {self.node} is not shrinkable any more", done.err)
            self.mark(here, "--power-cycle")
            self.assertEqual(0, self.planned(here).code)
            quota = ("scheduler", "quota", "set", "a", "--resource", "nodes=1")
            self.assertEqual(0, run(OURS, *quota, "--state", here.state).code)
            done = here.asked("apply", self.plan)
            self.assertEqual(1, done.code, done.err)
            self.assertIn("quota", done.err)
            self.assertEqual(sorted(self.whole), sorted(self.present(here)))
            self.assertEqual([], [it for it in here.asked("claim", "list", "-f", "json").data
                                  if it["State"] == "HELD"])  # fmt: skip

    def test_composing_shrinks_in_one_go_and_claiming_says_what_does(self):
        with self.full() as here:
            self.mark(here, "--power-cycle")
            greedy = (*self.ask, "--policy", "greedy", "--owner", "a")
            takes = f"nothing is free: takes {self.gpu} from shrinkable node {self.node}"
            for verb in ("--claim", "--dry-run=server"):
                done = here.asked(*greedy, verb)
                self.assertEqual(3, done.code)
                self.assertIn(takes, done.err)
                self.assertIn(
                    "to carry it out, use --compose, or use --plan and podm apply", done.err
                )
                self.assertEqual(sorted(self.whole), sorted(self.present(here)))
            self.assertEqual(3, here.asked(*greedy[:-1], "b", "--compose").code)
            done = here.asked(*greedy, "--compose", "--key", "k", "-f", "json")
            self.assertEqual(0, done.code, done.err)
            self.assertIn(takes, done.err)
            (row,) = done.data
            self.assertIn(self.gpu, "".join(row["Blocks"]))
            self.assertEqual(len(self.whole) - 1, len(self.present(here)))
            again = here.asked(*greedy, "--compose", "--key", "k", "-f", "json")
            self.assertEqual((0, row["Node"]), (again.code, again.data[0]["Node"]))
            self.assertEqual([], here.rows("claim", "reap"))

    def test_a_held_block_is_not_taken_from_a_node(self):
        with self.full() as here:
            self.mark(here, "--power-cycle")
            hosts = here.asked("block", "list", "--podm", "gpu-east", "--free", "-f", "json").data
            hosts = [one["Block"] for one in hosts if one["Block"].startswith("Compute")]
            claimed = here.asked("schedule", "--cores", "1", "--count", "20", "--min-count", "1",
                                 "--claim", "-f", "json")  # fmt: skip
            self.assertEqual(len(hosts), len(claimed.data))
            done = here.asked(*self.ask, "--policy", "greedy", "--owner", "a", "--compose")
            self.assertEqual(3, done.code, done.err)
            self.assertEqual(sorted(self.whole), sorted(self.present(here)))

    def test_wrong_marks_are_one_line(self):
        with self.full() as here:
            for words, code, line in (
                (("set", self.node), 2, "nothing to set: name --shrinkable"),
                (("unset", self.node), 2, "nothing to unset: name --shrinkable"),
                (("set", "nope", "--shrinkable"), 1, "no node named 'nope'"),
                (("set", self.node, "--shrinkable", "--floor", "nope"), 1, "no flavor named"),
            ):
                done = here.asked("node", *words)
                self.assertEqual((code, ""), (done.code, done.out))
                self.assertIn(line, done.err)
                self.assertEqual(1, done.err.count("\n"))


class TestNodeChange(NodeCase):
    """Attach, detach, resize, and history."""

    def test_a_device_is_attached_and_detached_on_hosts_and_on_composed_systems(self):
        for fail, hosts in ((("fixed-hosts",), "free"), ((), "unmanaged")):
            with self.subTest(fail), self.there(*fail, hosts=hosts) as here:
                (row,) = self.rows(here, "attach", "--gpu", "1")
                self.assertEqual(("attach", "gpu-east"), (row["Change"], row["Podm"]))
                self.assertTrue(row["Hardware"]["accelerators"])
                self.assertEqual(sorted([*self.blocks, row["Block"]]), sorted(self.present(here)))
                (gone,) = self.rows(here, "detach", "--block", row["Block"], "--power-cycle")
                self.assertEqual(("detach", row["Block"]), (gone["Change"], gone["Block"]))
                self.assertTrue(gone["Power Cycled"])
                self.assertEqual(sorted(self.blocks), sorted(self.present(here)))

    def test_both_programs_print_the_same_plan(self):
        with self.there() as here:
            words = ("--gpu", "1", "--dry-run")
            ours, theirs = (self.change(here, "attach", *words, program=p) for p in PROGRAMS)
        self.assertEqual((0, 0), (ours.code, theirs.code))
        self.assertEqual(ours, theirs)
        self.assertTrue(ours.err.endswith(f"node {self.node} on gpu-east is unchanged: dry run\n"))

    def test_a_running_node_keeps_a_block_and_the_dry_run_says_so(self):
        with self.there() as here:
            dry = self.change(here, "detach", "--gpu", "1", "--dry-run")
            done = self.change(here, "detach", "--gpu", "1")
            self.assertEqual(sorted(self.blocks), sorted(self.present(here)))
        self.assertEqual((0, 6), (dry.code, done.code))
        self.assertIn("would be refused: it is powered on", dry.err)
        self.assertRegex(done.err, "is not declared removable: shut it down, or use --power-cycle")

    def test_a_dry_run_on_the_server_reads_whether_the_change_can_be_done(self):
        with self.there() as here:
            words = "gpu-east would change it (checked by reading: it has no dry run)"
            for verb, *more in (("attach",), ("detach", "--power-cycle")):
                done = self.change(here, verb, "--gpu", "1", *more, "--dry-run=server")
                self.assertIn(words, done.err)
                self.assertEqual(0, done.code)
            dry = self.change(here, "detach", "--gpu", "1", "--dry-run=server")
            done = self.change(here, "detach", "--gpu", "1")
            self.assertEqual((6, ""), (dry.code, dry.out))
            self.assertEqual((done.code, done.out, done.err), (dry.code, dry.out, dry.err))
            self.assertRegex(dry.err, f"^node {self.node}: it is powered on, and .*--force\n$")
            forced = self.change(here, "detach", "--gpu", "1", "--force", "--dry-run=server")
            self.assertEqual(0, forced.code)
            self.assertIn(words, forced.err)
            plain = self.change(here, "attach", "--gpu", "1", "--dry-run")
            self.assertEqual(plain, self.change(here, "attach", "--gpu", "1", "--dry-run=client"))
            self.assertNotIn("checked by reading", plain.err)
            self.assertEqual(sorted(self.blocks), sorted(self.present(here)))

    def test_nothing_that_fits_exits_3_with_the_reasons_of_a_decision(self):
        with self.there() as here:
            done = self.change(here, "attach", "--gpu", "9xA100")
            data = self.change(here, "attach", "--gpu", "9xA100", "-f", "json")
        self.assertEqual(3, done.code)
        self.assertRegex(done.out, r"^Not chosen: 1 of 1 pod manager\n  gpu-east +\d of 9 A100")
        self.assertIn("nothing fits: placed 0 of 1", done.err)
        self.assertEqual((3, []), (data.code, data.data))
        self.assertIn("of 9 A100", data.err)

    def test_a_plan_is_applied_once_and_is_refused_after_a_change(self):
        file = f"{self.folder}/{self.id()}.json"
        with self.there() as here:
            done = self.change(here, "attach", "--gpu", "1", "--plan", file)
            self.assertIn(f"plan written: to carry it out, run podm apply {file}", done.err)
            with open(file) as text:
                plan = json.load(text)
            self.assertEqual(("valence-sched/node-change", self.node),
                             (plan["schema"], plan["node"]))  # fmt: skip
            self.assertEqual(sorted(self.blocks), sorted(plan["change"]["before"]))
            for option in ("--claim", "--refresh"):
                refused = here.asked("apply", file, option)
                self.assertEqual((2, f"{option}: the plan changes a node: omit it\n"), refused[::2])
            done = here.asked("apply", file, "-f", "json")
            self.assertEqual(0, done.code, done.err)
            self.assertEqual(plan["change"]["attach_blocks"], [row["Block"] for row in done.data])
            again = here.asked("apply", file)
            self.assertEqual(6, again.code)
            self.assertIn("was changed since the plan: plan the change again", again.err)
            with open(file, "w") as text:
                json.dump({**plan, "node": "vs-other"}, text)
            forged = here.asked("apply", file)
            self.assertEqual(1, forged.code)
            self.assertIn("the plan was changed: make it again", forged.err)

    def test_a_planned_resize_gives_the_node_its_flavor(self):
        file = f"{self.folder}/{self.id()}.json"
        with self.there() as here:
            self.change(here, "resize", "--flavor", "small", "--force")
            done = self.change(here, "resize", "--flavor", "gpu-small", "--plan", file)
            self.assertEqual(0, done.code, done.err)
            self.assertEqual("small", here.rows("node", "list")[0]["Flavor"])
            self.assertEqual(0, here.asked("apply", file).code)
            self.assertEqual("gpu-small", here.rows("node", "list")[0]["Flavor"])

    def test_a_node_that_needs_no_change_says_so(self):
        with self.there() as here:
            block = self.blocks[0].rpartition("/")[2]
            for verb, *words in (("attach", "--block", block), ("detach", "--idle")):
                done = self.change(here, verb, *words)
                text = f"node {self.node} on gpu-east is unchanged: it is already as requested\n"
                self.assertEqual((0, "", text), done, words)

    def test_contradictions_and_empty_requests_are_usage_errors(self):
        with self.there() as here:
            for words in (
                ("attach",), ("detach",), ("detach", "--idle", "--gpu", "1"), ("resize",),
                ("attach", "--gpu", "1", "--dry-run", "--key", "k"), ("attach", "--gpu", "0xA100"),
            ):  # fmt: skip
                with self.subTest(words):
                    done = self.change(here, *words)
                    self.assertEqual((2, ""), done[:2])
                    self.assertEqual(1, done.err.count("\n"), done.err)

    def test_the_history_is_listed_without_the_pod_manager(self):
        with self.there() as here:
            self.rows(here, "attach", "--gpu", "1")
            before = self.rows(here, "history")
            kinds = [row["Event"] for row in before]
            for kind in ("held", "composed", "attaching", "attached"):
                self.assertIn(kind, kinds)
        self.assertEqual(before, self.rows(here, "history"))
        shown = self.change(here, "history")
        self.assertRegex(shown.out, r"\| attached +\| 1 block: GPU-\d+ +\|")


TWO_CARDS = """
- name: two-cards
  properties: {processor: {total_cores: 8}, accelerators: [{count: 2}]}
"""


class TestOrder(NodeCase):
    """Blocks that are swapped on a node with room for one of them."""

    def setUp(self) -> None:
        super().setUp()
        site = json.loads(Path(SITE).read_text())
        row_a, *others = site["podms"][0]["pools"]
        row_a["limits"]["Expansion"] = {"max": 1}
        for pool in others:
            pool["limits"]["Expansion"] = {"max": 0}
        self.site = self.write("one-tray.json", json.dumps(site))

    def resize(self, here: There, *words: str) -> Done:
        given = ("--flavor", "gpu-large", "--force", "-f", "json")
        return self.change(here, "resize", *given, *words)

    def test_a_full_node_is_resized_by_detaching_first_and_the_dry_run_says_so(self):
        with self.there(site=self.site) as here:
            dry = self.resize(here, "--dry-run")
            order = ["detach", "attach", "attach"]
            self.assertEqual(order, [row["Change"] for row in dry.data])
            reason = "would detach first: a node in row-a has at most 1 Expansion block\n"
            self.assertIn(reason, dry.err)
            self.assertEqual(sorted(self.blocks), sorted(self.present(here)))
            file = f"{self.folder}/{self.id()}.json"
            self.resize(here, "--plan", file)
            self.assertIs(True, json.loads(Path(file).read_text())["change"]["detach_first"])
            done = here.asked("apply", file, "-f", "json")
            self.assertEqual((0, order), (done.code, [row["Change"] for row in done.data]))
            self.assertIn("1 block detached, 2 blocks attached", done.err)
            gone, *new = [row["Block"] for row in done.data]
            self.assertEqual({*self.blocks, *new} - {gone}, {*self.present(here)})
            states = [one["State"] for one in here.asked("claim", "list", "-f", "json").data]
            self.assertEqual(1, len(states), states)

    def test_a_node_without_a_free_port_is_resized_by_detaching_first(self):
        flavors = self.write("two-cards.yaml", TWO_CARDS)
        with self.there("full-ports:507") as here:
            words = ("--flavor", "two-cards", "--flavor-file", flavors, "--force")
            plan = f"{self.folder}/two-cards.json"
            self.assertEqual(0, self.change(here, "resize", *words, "--plan", plan).code)
            done = here.asked("apply", plan, "-f", "json")
            self.assertEqual(0, done.code, done.err)
            self.assertIn("detached first: HTTP 507: No port of", done.err)
            self.assertEqual(["detach", "attach"], [row["Change"] for row in done.data])
            self.assertEqual(len(self.blocks), len(self.present(here)))

    def test_what_was_detached_is_attached_again_if_the_other_is_refused(self):
        rule = "status:400:POST:*AddResourceBlock:1"
        with self.there(rule, site=self.site) as here:
            done = self.resize(here)
            self.assertEqual((1, ""), done[:2], done.err)
            self.assertIn("HTTP 400", done.err)
            self.assertEqual(sorted(self.blocks), sorted(self.present(here)))
            kinds = [row["Event"] for row in self.rows(here, "history")]
            ends = [kind for kind in kinds if kind in ("detached", "unchanged", "attached")]
            self.assertEqual(["detached", "unchanged", "attached"], ends)


class TestFabrics(NodeCase):
    """Free hosts on several fabrics."""

    def test_a_host_gets_devices_of_its_own_fabric_only(self) -> None:
        site = json.loads(Path(SITE).read_text())
        (podm,) = [one for one in site["podms"] if one["id"] == "gpu-east"]
        fabrics = {"Compute-02": 1, "Compute-03": 2, "GPU-03": 1, "GPU-04": 2}
        named = {one["uri"].rpartition("/")[2]: one for one in podm["blocks"]}
        for name, number in fabrics.items():
            named[name]["places"] = {"fabric": f"/redfish/v1/Fabrics/{number}"}
        podm |= {"blocks": [named[name] for name in fabrics], "nodes": []}
        file = self.write("two-fabrics.json", json.dumps({**site, "podms": [podm]}))
        with served(file, fail=["fixed-hosts"]) as podms:
            here = There({"gpu-east": podms["gpu-east"]}, f"{self.folder}/{self.id()}.sqlite")
            here.asked("set", "gpu-east", "--hosts", "free")
            for cards, host, tray in ((2, "Compute-02", "GPU-03"), (1, "Compute-03", "GPU-04")):
                # --full: an earlier pod manager of this identity may have had the same port
                words = ("--full", "--policy", "fragmentation", "-f", "json")
                (row,) = here.asked("schedule", "--cores", "8", "--gpu", str(cards), *words).data
                self.assertEqual([host, tray], [it.rpartition("/")[2] for it in row["Blocks"]])
            here.asked("block", "set", "Compute-02", "--podm", "gpu-east", "--reserve", "x")
            asked = ("schedule", "--cores", "8", "--gpu", "2", "--full")
            self.assertEqual(3, here.asked(*asked).code)


class TestAmountChange(NodeCase):
    """Amounts of pooled memory and storage that are attached and detached."""

    @contextlib.contextmanager
    def memory(self, *fail: str, hosts: str = "unmanaged", podm: str = "mem-1") -> Iterator[There]:
        with served(SITE, fail=fail) as podms:
            state = f"{self.folder}/{self.id()}-{len(fail)}-{hosts}-{podm}.sqlite"
            Path(state).unlink(missing_ok=True)
            here, self.documents = There({podm: podms[podm]}, state), podms[podm].documents
            here.asked("set", podm, "--hosts", hosts)
            done = here.asked("schedule", "--cores", "8", "--compose", "-f", "json")
            (row,) = done.data
            self.node = row["Node"]
            self.first = self.made()
            yield here

    def made(self) -> list[str]:
        """Return the listed chunks, volumes and connections of the pod manager."""
        names = ("MemoryChunks", "AllocatedVolumes", "Connections")
        lists = [uri for uri in self.documents if uri.rpartition("/")[2] in names]
        found = [uri for one in lists for uri in self.documents.member_uris(one)]
        return sorted(uri for uri in found if uri in self.documents)

    def amounts(self, here: There) -> list[str]:
        return list(here.asked("node", "show", self.node, "-f", "json").data["Amounts"])

    def new(self) -> list[str]:
        """Return the kinds of what was created on the pod manager."""
        return [uri.split("/")[-2] for uri in self.made() if uri not in self.first]

    def test_an_amount_is_attached_and_detached_by_the_name_that_is_shown(self):
        cases = (
            ("mem-1", (), "unmanaged", MEMORY, ["MemoryChunks"]),
            ("mem-1", ("connections",), "unmanaged", MEMORY, ["MemoryChunks", "Connections"]),
            ("mem-1", ("servers", "connections"), "free", MEMORY, ["MemoryChunks", "Connections"]),
            ("store-1", ("connections",), "unmanaged", ("--resource", "storage_gib=64"),
             ["Connections", "AllocatedVolumes"]),
        )  # fmt: skip
        for podm, fail, hosts, words, made in cases:
            with self.subTest(podm, fail=fail), self.memory(*fail, hosts=hosts, podm=podm) as here:
                table = self.change(here, "attach", *words, "--dry-run").out
                self.assertLessEqual(max(map(len, table.splitlines())), 80, table)
                (row,) = self.rows(here, "attach", *words)
                self.assertEqual(("attach", podm), (row["Change"], row["Podm"]))
                self.assertEqual(words[1].partition("=")[0], row["Hardware"]["resource"])
                self.assertEqual(sorted(made), sorted(self.new()))
                self.assertEqual([row["Block"]], self.amounts(here))
                name = "/".join(row["Block"].split("/")[-3:])
                self.assertIn(name, self.change(here, "history").out.replace("\n", ""))
                (gone,) = self.rows(here, "detach", "--amount", name, "--power-cycle")
                self.assertEqual(("detach", row["Block"]), (gone["Change"], gone["Block"]))
                self.assertEqual(([], []), (self.new(), self.amounts(here)))

    def test_an_amount_is_connected_to_a_composed_node_and_goes_with_it(self):
        for fail, hosts in ((("connections",), "unmanaged"), (("servers", "connections"), "free")):
            with self.subTest(fail), self.memory(*fail, hosts=hosts) as here:
                (row,) = here.compose("--cores", "8", *MEMORY).data
                self.assertEqual(["MemoryChunks", "Connections"], self.new())
                self.assertEqual(0, here.asked("node", "delete", row["Node"]).code)
                self.assertEqual([], self.new())

    def test_a_node_whose_amount_cannot_be_connected_is_not_composed(self):
        for fail, code, words in (
            ("drop-reply:POST:*Connections", 0, "1 of 1 node composed"),
            ("status:409:POST:*Connections", 1, "is not connected: HTTP 409"),
            ("lie:POST:*Connections", 1, "is not connected: HTTP 200"),
        ):
            with self.subTest(fail), self.memory("connections", fail) as here:
                done = here.asked("schedule", "--cores", "8", *MEMORY, "--compose")
                self.assertEqual(code, done.code, done.err)
                self.assertIn(words, done.err)
                made = ["MemoryChunks", "Connections"] if code == 0 else []
                self.assertEqual(made, self.new())
                nodes = 2 if code == 0 else 1
                self.assertEqual(nodes, len(here.rows("node", "list")))

    def test_a_volume_is_attached_to_a_node_of_a_rack_and_goes_with_the_node(self):
        tree = {"rack": documents_of("rsd-network.json")}
        with served(documents=tree) as podms:
            here = There({"rack": podms["rack"]}, f"{self.folder}/{self.id()}.sqlite")
            self.documents = podms["rack"].documents
            done = here.asked("schedule", "--cores", "1", "--compose", "-f", "json")
            self.node = done.data[0]["Node"]
            volumes = "/redfish/v1/StorageServices/nvme-1/Volumes"
            before = self.documents.member_uris(volumes)
            for again in (False, True):
                (row,) = self.rows(here, "attach", "--resource", "storage_gib=16")
                self.assertEqual({row["Block"]}, {*self.documents.member_uris(volumes)} - {*before})
                if again:
                    self.assertEqual(0, here.asked("node", "delete", self.node).code)
                else:
                    name = "/".join(row["Block"].split("/")[-3:])
                    self.rows(here, "detach", "--amount", name, "--power-cycle")
                self.assertEqual({*before}, {*self.documents.member_uris(volumes)})

    def test_what_was_done_counts_whatever_the_pod_manager_answers(self):
        for fail in (
            "done-status:404:DELETE:*", "done-status:500:DELETE:*", "done-status:200:POST:*",
            "drop-reply:POST:*MemoryChunks", "drop-reply:POST:*Connections", "drop-reply:DELETE:*",
            "lists-deleted", "reads-deleted", "typed-posts", "no-location",
        ):  # fmt: skip
            with self.subTest(fail), self.memory("connections", fail) as here:
                self.rows(here, "attach", *MEMORY)
                self.assertEqual(["MemoryChunks", "Connections"], self.new())
                self.rows(here, "detach", "--idle", "--force")
                self.assertEqual(([], []), (self.new(), self.amounts(here)))

    def test_what_is_refused_or_not_as_granted_is_undone(self):
        for fail, words in (
            ("short-amounts", "found 32768, expected 65536 as granted"),
            ("status:409:POST:*Connections", "is not connected: HTTP 409"),
            ("status:409:POST:*MemoryChunks", "HTTP 409"),
            ("lie:POST:*Connections", "is not connected: HTTP 200"),
        ):
            with self.subTest(fail), self.memory("connections", fail) as here:
                done = self.change(here, "attach", *MEMORY)
                self.assertEqual((1, ""), done[:2])
                self.assertRegex(done.err, f"^mem-1: /redfish/v1/Systems/vs-.*{words}.*\n$")
                self.assertEqual(([], []), (self.new(), self.amounts(here)))
                self.assertEqual("COMPOSED", here.rows("node", "list")[0]["State"])

    def test_a_deletion_without_an_effect_ends_in_exit_code_7(self):
        with self.memory("connections", "ghost") as here:
            self.rows(here, "attach", *MEMORY)
            done = self.change(here, "detach", "--idle", "--force")
            self.assertEqual(7, done.code)
            self.assertRegex(done.err, "stays DETACHING: .*: the service reported its deletion")
            self.assertEqual("DETACHING", here.rows("node", "list")[0]["State"])
            refused = self.change(here, "attach", *MEMORY)
            self.assertRegex(refused.err, "is DETACHING: its node cannot be changed now")

    def test_a_node_becomes_a_flavor_with_another_amount(self):
        file = Path(self.folder, "amount-flavors.yaml")
        file.write_text(FLAVORS)
        with self.memory("connections") as here:
            for flavor, change, made in (
                ("roomy", ["attach"], ["MemoryChunks", "Connections"]),
                ("roomy", [], ["MemoryChunks", "Connections"]),
                ("plain", ["detach"], []),
            ):
                words = ("--flavor", flavor, "--flavor-file", str(file), "--force")
                rows = self.rows(here, "resize", *words)
                self.assertEqual((change, made), ([row["Change"] for row in rows], self.new()))

    def test_a_plan_of_an_amount_is_applied_once(self):
        file = f"{self.folder}/{self.id()}.json"
        with self.memory() as here:
            self.assertEqual(0, self.change(here, "attach", *MEMORY, "--plan", file).code)
            self.assertEqual([], self.new())
            done = here.asked("apply", file, "-f", "json")
            self.assertEqual((0, self.amounts(here)), (done.code, [done.data[0]["Block"]]))
            again = here.asked("apply", file)
            self.assertEqual(6, again.code)
            self.assertEqual(["MemoryChunks"], self.new())

    def test_what_cannot_be_attached_or_detached_is_named(self):
        with self.memory() as here:
            for code, text, words in (
                (3, "cxl_memory_mib", ("attach", "--resource", "cxl_memory_mib=99TB")),
                (3, "storage_gib", ("attach", "--resource", "storage_gib=1")),
                (1, "no memory chunk or volume of node", ("detach", "--amount", "x")),
                (1, "has 0 of cxl_memory_mib, expected 65536 or more", ("detach", *MEMORY)),
                (2, "--idle: not with devices", ("detach", "--amount", "x", "--idle")),
            ):
                with self.subTest(words):
                    done = self.change(here, *words)
                    self.assertEqual(code, done.code, done.err)
                    self.assertIn(text, done.out + done.err)
