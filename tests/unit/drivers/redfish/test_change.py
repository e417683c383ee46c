# SPDX-License-Identifier: Apache-2.0
"""Changes of the blocks of a node: each way, each fault, and what is read back."""

import unittest

from tests.unit.drivers.redfish.stored import Service, block, link, links, lost, system
from tests.unit.drivers.redfish.test_composer import BLOCKS, EXAMPLE, bench, quiet
from tests.unit.drivers.redfish.test_hosts import COMPUTE, GPU, HOST, OTHER, attach, list_blocks
from valence_sched.drivers.composer import Change, Reply
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.drivers.redfish.methods import ComposeWrite
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest

FIRST, SECOND = f"{BLOCKS}/GPU-03", f"{BLOCKS}/GPU-04"
ADD, REMOVE = "AddResourceBlock", "RemoveResourceBlock"


def writes(site):
    """Return the method and the last part of the path of each write."""
    seen = (one for one in site.podm.requests if one.method in ("POST", "PATCH"))
    found = ((one.method, one.path.rpartition("/")[2].rpartition(".")[2]) for one in seen)
    return [f"{method} {name}" for method, name in found if name != "Sessions"]


class TestServedNodes(unittest.TestCase):
    """Composed nodes of a served pod manager, whose systems have both actions."""

    def compose(self, site):
        self.node = site.podm.app.podm.composition.compose(EXAMPLE.blocks, {"Name": EXAMPLE.name})
        self.before = len(writes(site))

    def change(self, site, attach=(), detach=()):
        return site.composer.change(self.node, attach, detach, quiet)

    def written(self, site):
        return writes(site)[self.before :]

    def test_blocks_come_and_go_by_the_actions_and_a_repeated_change_writes_nothing(self):
        with bench() as site:
            self.compose(site)
            attached = Change((*EXAMPLE.blocks, FIRST, SECOND))
            for written in ([f"POST {ADD}"] * 2, []):
                self.assertEqual(attached, self.change(site, (FIRST, SECOND)))
                self.assertEqual(written, self.written(site)[: len(written)])
            self.assertEqual(2, len(self.written(site)))
            self.assertEqual("Composed", site.state(FIRST))
            swapped = self.change(site, (), (FIRST, GPU))
            self.assertEqual(Change((COMPUTE, SECOND)), swapped)
            self.assertEqual([f"POST {REMOVE}"] * 2, self.written(site)[2:])
            self.assertEqual(["Unused"] * 2, [site.state(FIRST), site.state(GPU)])
            again = self.change(site, (), (FIRST.upper(), GPU.lower()))
            self.assertEqual((swapped, 4), (again, len(self.written(site))))
            replaced = self.change(site, (GPU,), (SECOND,))
            self.assertEqual(Change((COMPUTE, GPU)), replaced)
            self.assertEqual([f"POST {ADD}", f"POST {REMOVE}"], self.written(site)[4:])

    def test_an_action_that_the_service_does_not_have_is_replaced_by_a_patch(self):
        for code in (404, 405, 501):
            with self.subTest(code), bench(f"status:{code}:POST:*Block") as site:
                self.compose(site)
                changed = self.change(site, (FIRST,), (GPU,))
                self.assertEqual(Change((COMPUTE, FIRST)), changed)
                name = self.node.rpartition("/")[2]
                self.assertEqual([f"POST {ADD}", f"PATCH {name}"], self.written(site))

    def test_a_refusal_before_the_write_names_the_block(self):
        taken = CompositionRequest(
            name="node-9", pool="row-a", blocks=(f"{BLOCKS}/Compute-03", FIRST)
        )
        with bench() as site:
            self.compose(site)
            other = site.compose(taken).node
            self.before = len(writes(site))
            for attach_, detach, reason, conflicts in (
                ((FIRST,), (), f"{FIRST}: found Composed, OK by {other}", True),
                ((f"{BLOCKS}/None",), (), f"{BLOCKS}/None: found no such block", False),
                ((SECOND,), (COMPUTE,), f"{COMPUTE} cannot be detached", False),
            ):
                with self.subTest(reason):
                    found = self.change(site, attach_, detach)
                    self.assertEqual((EXAMPLE.blocks, conflicts), (found.blocks, found.conflicts))
                    self.assertIn(reason, found.reason)
            self.assertEqual([], self.written(site))
            self.assertEqual(EXAMPLE.blocks, site.composer.node_blocks(self.node))
            self.assertIsNone(site.composer.node_blocks("/redfish/v1/Systems/none"))
            with self.assertRaisesRegex(PodmError, "none: found no such system"):
                site.composer.change("/redfish/v1/Systems/none", (SECOND,), (), quiet)

    def test_a_change_is_checked_by_reading_and_nothing_is_written(self):
        taken = CompositionRequest(
            name="node-9", pool="row-a", blocks=(f"{BLOCKS}/Compute-03", FIRST)
        )
        with bench() as site:
            self.compose(site)
            site.compose(taken)
            self.before = len(writes(site))
            check = site.composer.change_refusal
            for attach_, detach in (((SECOND,), ()), ((), (GPU,)), ((), (FIRST,)), ((GPU,), ())):
                self.assertIsNone(check(self.node, attach_, detach))
            self.assertIn(f"{FIRST}: found Composed", check(self.node, (FIRST,), ()))
            self.assertIn(f"{COMPUTE} cannot be detached", check(self.node, (), (COMPUTE,)))
            with self.assertRaisesRegex(PodmError, "none: found no such system"):
                check("/redfish/v1/Systems/none", (SECOND,), ())
            self.assertEqual([], self.written(site))

    def test_each_fault_is_judged_by_what_the_node_lists(self):
        off = "HTTP 409: .* must be off"
        for rule, blocks, reason in (
            (f"drop-reply:POST:*{ADD}", (FIRST, SECOND), "^$"),
            (f"busy:0:POST:*{ADD}:1", (FIRST, SECOND), "^$"),
            (f"done-status:500:POST:*{ADD}", (FIRST, SECOND), "^$"),
            (f"done-status:404:POST:*{ADD}", (FIRST, SECOND), "^$"),
            ("late-change:400", (FIRST, SECOND), "^$"),
            ("slow-change:300", (FIRST, SECOND), "^$"),
            (f"change-race:{SECOND}", (FIRST, SECOND), "^$"),
            (f"status:500:POST:*{ADD}:1", (), "HTTP 500: A fault rule"),
            ("change-off", (), off),
            ("full-ports:507", (), "HTTP 507: No port of .* is free"),
            ("full-ports:409", (), "HTTP 409: No port of .* is free"),
            ("empty-change", (), f"reported success, but .* without {FIRST}, {SECOND}"),
            ("half-change", (), "no reply"),
        ):
            with self.subTest(rule), bench(rule) as site:
                self.compose(site)
                found = self.change(site, (FIRST, SECOND))
                self.assertEqual([*EXAMPLE.blocks, *blocks], sorted(found.blocks))
                self.assertRegex(found.reason, reason)
                may_follow = rule == "empty-change"
                self.assertEqual((may_follow, False), (found.works, found.conflicts), found)
                self.assertEqual(rule.startswith("full-ports"), found.is_full)

    def test_a_task_with_a_warning_is_a_success_and_a_failed_one_changes_nothing(self):
        for rule, blocks, reason in (("task-warning", (FIRST,), "^$"),
                                     ("task-exception", (), "HTTP 500|Exception")):  # fmt: skip
            with self.subTest(rule), bench("slow-change:1", rule) as site:
                self.compose(site)
                found = self.change(site, (FIRST,))
                self.assertEqual((*EXAMPLE.blocks, *blocks), found.blocks)
                self.assertRegex(found.reason, reason)

    def test_a_pod_manager_that_goes_away_leaves_the_blocks_unknown(self):
        with bench("die-after:0") as site:
            self.compose(site)
            found = self.change(site, (FIRST,))
            self.assertIsNone(found.blocks)
            self.assertIn("could not be read back", found.reason)

    def test_power_is_set_and_read(self):
        with bench() as site:
            self.compose(site)
            self.assertIs(True, site.composer.is_on(self.node))
            for on in (False, False, True, True):
                site.composer.set_power(self.node, on, quiet)
                self.assertIs(on, site.composer.is_on(self.node))
            self.assertEqual(["POST Reset"] * 2, self.written(site))


class TestServedHosts(unittest.TestCase):
    """Hosts, to which blocks are attached by PATCH only."""

    def change(self, site, attach_=(), detach=()):
        return site.composer.change(HOST, attach_, detach, quiet)

    def test_the_whole_list_is_sent_and_foreign_blocks_stay(self):
        for fail in ((), ("if-match",), ("stale-tags",), ("patch-replaces",)):
            with self.subTest(fail), bench("fixed-hosts", *fail) as site:
                attach(site, HOST, SECOND)
                self.assertEqual(Change((COMPUTE, SECOND, GPU)), self.change(site, (GPU,)))
                swapped = self.change(site, (FIRST,), (GPU,))
                self.assertEqual(Change((COMPUTE, SECOND, FIRST)), swapped)
                self.assertEqual([COMPUTE, SECOND, FIRST], list_blocks(site))

    def test_a_block_that_another_client_attaches_meanwhile_stays(self):
        with bench("fixed-hosts", f"change-race:{SECOND}") as site:
            self.assertEqual(Change((COMPUTE, SECOND, GPU)), self.change(site, (GPU,)))

    def test_an_own_part_and_a_block_of_another_host_are_refused(self):
        with bench("fixed-hosts") as site:
            attach(site, OTHER, GPU)
            other = f"{BLOCKS}/Compute-04"
            for attach_, detach, reason, conflicts in (
                ((), (COMPUTE,), f"part of the host {HOST}", False),
                ((GPU,), (), f"found Unused, but part of {OTHER}", True),
                ((other,), (), "found Unused, but part of .*Host-Compute-04", True),
            ):
                with self.subTest(reason):
                    found = self.change(site, attach_, detach)
                    self.assertEqual(((COMPUTE,), conflicts), (found.blocks, found.conflicts))
                    self.assertRegex(found.reason, reason)
            self.assertEqual([], writes(site))
            self.assertEqual((COMPUTE,), site.composer.node_blocks(HOST))

    def test_half_of_a_change_is_continued_and_its_loss_is_no_failure(self):
        with bench("fixed-hosts", "half-change") as site:
            self.assertEqual(Change((COMPUTE, GPU, FIRST)), self.change(site, (GPU, FIRST)))

    def test_a_host_has_power(self):
        with bench("fixed-hosts", "change-off") as site:
            self.assertIn("must be off", self.change(site, (GPU,)).reason)
            site.composer.set_power(HOST, False, quiet)
            self.assertEqual(Change((COMPUTE, GPU)), self.change(site, (GPU,)))


TARGET = "/S/1/Actions/Add"


class TestStoredNodes(unittest.TestCase):
    """Services whose answers do not match their actions."""

    def service(self, pauses=20, **changes):
        actions = {"#ComputerSystem.AddResourceBlock": {"target": TARGET}}
        podm = Service(pauses, **{"/S": {"Members": links("/S/1")}, "/B/3": block("Unused"),
                                  "/S/1": {**system("/B/1"), "Actions": actions},
                                  "/B/1": block("Composed", "/S/1"), **changes})  # fmt: skip
        podm.on_post = lambda uri, body: self.attach(podm, body["ResourceBlock"])
        self.podm = podm
        return podm

    def attach(self, podm, named):
        uri = named["@odata.id"]
        listed = podm.documents["/S/1"]["Links"]["ResourceBlocks"]
        podm.documents["/S/1"] |= {"Links": {"ResourceBlocks": [*listed, link(uri)]}}
        podm.documents[uri] = block("Composed", "/S/1")
        return Reply(204, {}, None)

    def change(self, podm, attach_=("/B/2",), detach=()):
        return podm.composer.change("/S/1", attach_, detach, podm.states.append)

    def test_etags_are_named_unless_the_action_lists_other_parameters(self):
        tags = {"ComputerSystemETag": "s", "ResourceBlockETag": "b"}
        for parameters, named in (
            (None, tags),
            (["ResourceBlock"], {}),
            (["ResourceBlock", "ResourceBlockETag"], {"ResourceBlockETag": "b"}),
        ):
            with self.subTest(parameters):
                listed = [{"Name": name} for name in parameters or ()]
                podm = self.service(**{"/I": {"Parameters": listed}})
                if parameters:
                    action = {"target": TARGET, "@Redfish.ActionInfo": link("/I")}
                    actions = {"#ComputerSystem.AddResourceBlock": action}
                    podm.documents["/S/1"]["Actions"] = actions
                podm.documents["/S/1"]["@odata.etag"] = "s"
                podm.documents["/B/2"]["@odata.etag"] = "b"
                self.assertEqual(("/B/1", "/B/2"), self.change(podm).blocks)
                self.assertEqual({"ResourceBlock": link("/B/2"), **named}, podm.bodies[0])

    def test_a_node_that_allows_no_patch_is_told_without_a_write(self):
        podm = self.service()
        podm.documents["/S/1"]["Actions"] = {}
        get, refused = podm.get, "/S/1: PATCH is not allowed (Allow: GET, HEAD)"
        for allow, expected in (("GET, HEAD", refused), ("get,patch", None), (None, None)):
            with self.subTest(allow):
                headers = {"Allow": allow} if allow else {}
                podm.get = lambda uri, more=headers: get(uri)._replace(headers=more)
                found = podm.composer.change_refusal("/S/1", ("/B/2",), ())
                self.assertEqual((expected, []), (found, podm.bodies))

    def test_etags_that_are_always_refused_are_left_out(self):
        podm = self.service()
        podm.documents["/S/1"]["@odata.etag"] = "s"
        podm.on_post = lambda uri, body: (
            Reply(412, {}, None) if len(body) > 1 else self.attach(podm, body["ResourceBlock"])
        )
        self.assertEqual(Change(("/B/1", "/B/2")), self.change(podm))

    def test_a_form_that_is_refused_is_replaced_by_text_and_no_patch_follows(self):
        podm = self.service()
        bad = Reply(400, {}, None, "ResourceBlock must be text")
        podm.on_post = lambda uri, body: (
            bad if isinstance(body["ResourceBlock"], dict)
            else self.attach(podm, link(body["ResourceBlock"]))
        )  # fmt: skip
        self.assertEqual(Change(("/B/1", "/B/2")), self.change(podm))
        podm = self.service()
        podm.on_post = lambda uri, body: bad._replace(text=f"ResourceBlock: {len(podm.bodies)}")
        found = self.change(podm)
        self.assertEqual((("/B/1",), "HTTP 400: ResourceBlock: 1"), (found.blocks, found.reason))
        self.assertEqual(([TARGET] * 2, []), (podm.sent("POST"), podm.sent("PATCH")))

    def test_only_the_first_of_several_is_attached_if_the_second_fails(self):
        podm = self.service()
        podm.on_post = lambda uri, body: (
            self.attach(podm, body["ResourceBlock"]) if len(podm.bodies) < 2
            else Reply(507, {}, None, "full")
        )  # fmt: skip
        found = self.change(podm, ("/B/2", "/B/3"), ())
        self.assertEqual((("/B/1", "/B/2"), "HTTP 507: full"), (found.blocks, found.reason))

    def test_a_lost_write_may_show_late(self):
        podm = self.service()
        podm.on_post = lost
        podm.meanwhile = [lambda: None] * 2 + [lambda: self.attach(podm, link("/B/2"))]
        self.assertEqual(Change(("/B/1", "/B/2")), self.change(podm))
        self.assertEqual([TARGET], podm.sent("POST"))

    def test_a_write_that_is_not_sent_changes_nothing(self):
        podm = self.service()
        podm.on_post = podm.send_nothing
        found = self.change(podm)
        self.assertEqual((("/B/1",), "no reply: no connection"), (found.blocks, found.reason))

    def test_a_task_that_does_not_end_still_works(self):
        podm = self.service(**{"/T/1": {"TaskState": "Running"}})
        podm.on_post = lambda *_: Reply(202, {"Location": "/T/1"}, None)
        found = self.change(podm)
        self.assertEqual((("/B/1",), True), (found.blocks, found.works))
        self.assertEqual("the task did not end in time", found.reason)

    def test_a_block_that_is_composing_is_waited_for(self):
        for pauses, works in ((20, False), (2, True)):
            podm = self.service(pauses)

            def post(uri, body, podm=podm):
                reply = self.attach(podm, body["ResourceBlock"])
                podm.documents["/B/2"] = block("Composing", "/S/1")
                composed = {"/B/2": block("Composed", "/S/1")}
                podm.meanwhile = [lambda: None] * 4 + [lambda: podm.documents.update(composed)]
                return reply

            podm.on_post = post
            found = self.change(podm)
            self.assertEqual((("/B/1", "/B/2"), works), (found.blocks, found.works))

    def test_a_block_that_another_client_takes_meanwhile_is_a_conflict(self):
        podm = self.service()

        def post(uri, body):
            podm.documents["/B/2"] = block("Composed", "/S/9")
            return Reply(409, {}, None, "in use")

        podm.on_post = post
        found = self.change(podm)
        self.assertTrue(found.conflicts)
        self.assertEqual("HTTP 409: in use; /B/2: found Composed by /S/9", found.reason)

    def test_a_system_that_lists_no_block_is_read_by_the_links_of_the_blocks(self):
        podm = self.service(**{"/CS": {"ResourceBlocks": link("/B")}})
        podm.documents["/B"] = {"Members": links("/B/1", "/B/2", "/B/3")}
        podm.documents["/S/1"]["Links"] = {}
        podm.on_post = lambda uri, body: (
            podm.documents.update({"/B/2": block("Composed", "/S/1")}) or Reply(204, {}, None)
        )
        self.assertEqual(Change(("/B/1", "/B/2")), self.change(podm))

    def test_where_no_block_shows_its_use_the_lists_of_other_systems_do(self):
        idle = block("Unused")
        podm = self.service(**{"/B/1": idle, "/S/2": system("/B/2"),
                               "/S": {"Members": links("/S/1", "/S/2")}})  # fmt: skip
        found = self.change(podm)
        self.assertTrue(found.conflicts)
        self.assertEqual((("/B/1",), "/B/2: found part of /S/2"), (found.blocks, found.reason))
        self.assertEqual([], podm.bodies)

    def test_the_only_compute_block_stays_and_one_of_two_may_go(self):
        compute = {"ResourceBlockType": ["Compute"]}
        podm = self.service(**{"/B/1": block("Composed", "/S/1") | compute,
                               "/B/3": block("Composed", "/S/1") | compute})  # fmt: skip
        self.assertIn("cannot be detached", self.change(podm, (), ("/B/1",)).reason)
        podm.documents["/S/1"]["Links"] = {"ResourceBlocks": links("/B/1", "/B/3")}
        self.assertEqual(Change(("/B/3",)), self.change(podm, (), ("/B/1",)))
        self.assertEqual(["/S/1"], podm.sent("PATCH"))

    def test_a_method_of_a_vendor_comes_first(self):
        podm = self.service()

        def by_vendor(change):
            body = {"ResourceBlock": link(change.attach[0])}
            return ComposeWrite("vendor", "/V", body, True) if change.attach else None

        podm.composer = RedfishComposer(podm, podm.patience, own_changes=(by_vendor,))
        self.assertEqual(Change(("/B/1", "/B/2")), self.change(podm))
        self.assertEqual(["/V"], podm.sent("POST"))


class TestPower(unittest.TestCase):
    """The power of a system whose resets do not all work."""

    def service(self, *allowed, power="On"):
        reset = {"target": "/S/1/Reset", "ResetType@Redfish.AllowableValues": list(allowed)}
        actions = {"#ComputerSystem.Reset": reset} if allowed else {}
        podm = Service(3, **{"/S/1": {"PowerState": power, "Actions": actions}})
        podm.on_post = lambda uri, body: self.reset(podm, body["ResetType"])
        return podm

    def reset(self, podm, kind):
        states = {"ForceOff": "Off", "ForceOn": "On", "On": "On"}
        if kind in states:
            podm.documents["/S/1"]["PowerState"] = states[kind]
        return Reply(204, {}, None)

    def test_a_shutdown_without_effect_is_forced_after_the_patience(self):
        podm = self.service("GracefulShutdown", "ForceOff", "Nmi")
        podm.composer.set_power("/S/1", False, quiet)
        kinds = [body["ResetType"] for body in podm.bodies]
        self.assertEqual(["GracefulShutdown", "ForceOff"], kinds)

    def test_a_start_uses_what_is_allowed(self):
        podm = self.service("ForceOn", "ForceOff", power="Off")
        podm.composer.set_power("/S/1", True, quiet)
        self.assertEqual([{"ResetType": "ForceOn"}], podm.bodies)

    def test_a_start_survives_a_failed_read_and_names_one_that_stays(self):
        podm = self.service("On", power="Off")
        there = podm.documents["/S/1"]
        podm.documents["/S/1"] = 500
        podm.meanwhile = [lambda: podm.documents.update({"/S/1": there})]
        podm.composer.set_power("/S/1", True, quiet)
        self.assertEqual("On", there["PowerState"])
        podm.documents["/S/1"] = 500
        with self.assertRaisesRegex(PodmError, "/S/1: HTTP 500"):
            podm.composer.set_power("/S/1", True, quiet)

    def test_allowed_values_that_cannot_be_read_allow_all(self):
        for allowed in ((True,), ({"Value": "On"}, "ForceOn"), ("x" * 2000,)):
            podm = self.service(*allowed, power="Off")
            podm.composer.set_power("/S/1", True, quiet)
            self.assertEqual([{"ResetType": "On"}], podm.bodies)

    def test_a_power_state_that_is_not_reached_is_one_line(self):
        for allowed, reason in (
            (("GracefulShutdown",), "/S/1 is not Off: GracefulShutdown has had no effect"),
            (("Nmi",), "/S/1 is not Off: the allowed types of reset are Nmi"),
            ((), "/S/1: found no action Reset, expected one to set the power Off"),
        ):
            with self.subTest(allowed), self.assertRaises(PodmError) as raised:
                self.service(*allowed).composer.set_power("/S/1", False, quiet)
            self.assertEqual(reason, str(raised.exception))

    def test_the_power_is_read(self):
        for power, on in (
            ("PoweringOn", True),
            ("PoweringOff", False),
            ("Paused", None),
            (None, None),
        ):
            self.assertIs(on, self.service(power=power).composer.is_on("/S/1"))


class TestHotPlug(unittest.TestCase):
    """Devices that are declared removable, by themselves or by their slot."""

    def is_removable(self, documents, **of_block):
        podm = Service(**{"/B/1": block("Unused") | of_block, **documents})
        return podm.composer.is_hot_removable("/B/1")

    def test_each_device_must_be_declared(self):
        ready, other = {"ReadyToRemove": True}, {"ReadyToRemove": None}
        for first, second, expected in ((ready, ready, True), (ready, other, False)):
            drives = {"/D/1": first, "/D/2": second}
            self.assertIs(expected, self.is_removable(drives, Drives=links("/D/1", "/D/2")))
            storage = {"/St": {"Drives": links("/D/1", "/D/2")}, **drives}
            self.assertIs(expected, self.is_removable(storage, Storage=links("/St")))

    def test_a_slot_declares_the_card_in_it(self):
        hot = {"Slot": {"HotPluggable": True}}
        slot = {"HotPluggable": True, "Links": {"PCIeDevice": links("/X/1")}}
        slots = {"/C/S": {"Slots": [slot]}, "/C": {"PCIeSlots": link("/C/S")}}
        card = {"/P/1": {"Links": {"PCIeFunctions": links("/X/1/F")}},
                "/X/1/F": {"Links": {"PCIeDevice": link("/X/1")}}}  # fmt: skip
        near = {"/P/1": {"Links": {"PCIeDevice": link("/X/1")}}}
        for documents, expected in (
            ({**near, "/X/1": hot}, True),
            ({**card, "/X/1": hot}, True),
            ({**card, **slots, "/X/1": {"Links": {"Chassis": links("/C")}}}, True),
            ({**card, "/X/1": {"Slot": {"HotPluggable": False}}}, False),
            ({**card}, False),
        ):
            with self.subTest(documents):
                self.assertIs(expected, self.is_removable(documents, Processors=links("/P/1")))

    def test_served_blocks_are_removable_only_with_the_rule(self):
        for fail, expected in (((), False), (("hot-plug",), True)):
            with bench(*fail) as site:
                self.assertIs(expected, site.composer.is_hot_removable(GPU))

    def test_an_unknown_block_or_an_unreadable_device_is_not(self):
        self.assertFalse(self.is_removable({}))
        self.assertFalse(self.is_removable({"/D/1": 500}, Drives=links("/D/1")))

    def test_behind_a_missing_page_there_may_be_one_that_is_not(self):
        page = {"Members": links("/D/1"), "Members@odata.nextLink": "/Ds/2"}
        documents = {"/D/1": {"ReadyToRemove": True}, "/Ds": page}
        self.assertFalse(self.is_removable(documents, Drives=link("/Ds")))
        documents["/Ds/2"] = {"Members": []}
        self.assertTrue(self.is_removable(documents, Drives=link("/Ds")))
