# SPDX-License-Identifier: Apache-2.0
"""The guard: hardware may be changed only if no Ironic uses it."""

import unittest
from itertools import product
from unittest import mock

from msgspec.structs import replace

from tests.unit.lifecycle.scripted import (
    ABSENT,
    AMOUNT,
    COMPOSED,
    PART,
    URI,
    ComposeCase,
    Making,
    ProvisionCase,
    ReapCase,
    Scripted,
)
from tests.unit.store.site import podm
from valence_sched.drivers.hardware import ConcernedHardware
from valence_sched.errors import (
    BaremetalUnavailable,
    ComposeFailed,
    HardwareInUse,
    PodmError,
    Unverified,
)
from valence_sched.lifecycle import guard as guards
from valence_sched.lifecycle.guard import HardwareGuard
from valence_sched.model.baremetal import BaremetalNode
from valence_sched.model.claim import ComposedNode, CompositionResult

UUID, INSTANCE = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
SYSTEM_UUID, MAC = "33333333-3333-4333-8333-333333333333", "00:5c:52:31:3a:9c"
SYSTEM = "/redfish/v1/Systems/7"
URL = "https://podm.example:8443"
HOSTS = {"podm.example": "192.0.2.7", "bmc.example": "192.0.2.99", "localhost": "127.0.0.1",
         "six.example": "2001:db8::7"}  # fmt: skip
NODE = BaremetalNode(
    uuid=UUID, name="n7", provision_state="active",
    driver_info={"redfish_address": URL, "redfish_system_id": SYSTEM},
)  # fmt: skip


class FakeIronic:
    """An Ironic with these nodes, and with ports by MAC address; records its requests."""

    def __init__(self, *nodes, ports=None, error=None):
        self.by_uuid = {node.uuid: node for node in nodes}
        self.ports, self.error, self.asked = ports or {}, error, []

    def nodes(self):
        self.asked.append("nodes")
        if self.error:
            raise self.error
        return list(self.by_uuid.values())

    def node(self, uuid):
        self.asked.append(uuid)
        return self.by_uuid.get(uuid)

    def owners(self, mac_addresses):
        return {self.ports[mac] for mac in mac_addresses if mac in self.ports}


def hardware(**words):
    return ConcernedHardware(**{"systems": {SYSTEM}, **words})


def addresses(name, _port):
    if name not in HOSTS:
        raise OSError("no such name")
    return [(0, 0, 0, "", (HOSTS[name], 0))]


class GuardCase(unittest.TestCase):
    """A pod manager at URL, and host names that resolve to these addresses."""

    def setUp(self):
        resolve = mock.patch.object(guards.socket, "getaddrinfo", addresses)
        self.enterContext(resolve)

    def check(self, *nodes, url=URL, ports=None, **words):
        guard = HardwareGuard(lambda: [FakeIronic(*nodes, ports=ports)])
        guard.check("east", url, lambda: hardware(**words))

    def refused(self, *nodes, **words):
        with self.assertRaises(HardwareInUse) as caught:
            self.check(*nodes, **words)
        return str(caught.exception)


class TestUses(GuardCase):
    """The states in which Ironic uses a node."""

    def test_only_a_node_that_nothing_uses_in_an_idle_state_may_be_changed(self):
        for state in ("enroll", "manageable", "available"):
            for maintenance in (False, True):
                self.check(replace(NODE, provision_state=state, maintenance=maintenance))

    def test_every_other_state_is_a_use_in_maintenance_too(self):
        for state in (
            "active", "deploying", "wait call-back", "deploy failed", "deploy hold", "rescue",
            "rescuing", "rescue wait", "unrescuing", "unrescue failed", "cleaning", "clean wait",
            "clean failed", "clean hold", "inspecting", "inspect wait", "inspect failed", "error",
            "adopting", "adopt failed", "verifying", "deleting", "deleted", "undeploy", "rebuild",
            "servicing", "service wait", "service hold", "service failed", "a state to come", None,
        ):  # fmt: skip
            for maintenance in (False, True):
                with self.subTest(state, maintenance=maintenance):
                    told = self.refused(
                        replace(NODE, provision_state=state, maintenance=maintenance)
                    )
                    self.assertIn(f"node {UUID} (called 'n7'): provision state {state}", told)
                    self.assertEqual(maintenance, "in maintenance" in told)

    def test_an_instance_an_allocation_and_a_lock_are_uses_of_an_idle_node(self):
        idle = replace(NODE, provision_state="available")
        for words, told in (
            ({"instance_uuid": INSTANCE}, f"instance {INSTANCE}"),
            ({"allocation_uuid": INSTANCE}, f"allocation {INSTANCE}"),
            ({"reservation": "conductor-1"}, "locked by conductor conductor-1"),
        ):
            with self.subTest(told):
                self.assertIn(told, self.refused(replace(idle, **words)))

    def test_the_refusal_says_what_to_do_about_each_use(self):
        for told, words in (
            ("undeploy it there first", ("active", "deploying", "deploy failed", "wait call-back",
                                         "rescue", "service failed", "error", "adopting",
                                         "a state to come", None)),
            ("manage it there first", ("inspect failed", "adopt failed", "clean failed")),
            ("wait until Ironic has finished",
             ("verifying", "inspecting", "inspect wait", "cleaning", "clean wait", "deleting")),
        ):  # fmt: skip
            for state in words:
                node = replace(NODE, provision_state=state, reservation="conductor-1")
                self.assertTrue(self.refused(node).endswith(f": {told}"), state)
        idle = replace(NODE, provision_state="available")
        for told, words in (
            ("delete the allocation there first",
             {"allocation_uuid": INSTANCE, "instance_uuid": INSTANCE}),
            ("delete the instance first", {"instance_uuid": INSTANCE, "reservation": "conductor"}),
            ("wait until Ironic has finished", {"reservation": "conductor-1"}),
        ):  # fmt: skip
            self.assertTrue(self.refused(replace(idle, **words)).endswith(f": {told}"), words)

    def test_the_refusal_names_node_and_server(self):
        node = replace(NODE, instance_uuid=INSTANCE, instance_info={"display_name": "db-7"})
        told = f"east: in use in Ironic as node {UUID} (called 'n7'), of server 'db-7': "
        told += f"provision state active; instance {INSTANCE}: undeploy it there first"
        self.assertEqual(told, self.refused(node))
        self.assertEqual(6, HardwareInUse.exit_code)

    def test_a_node_is_read_again_before_each_change(self):
        ironic = FakeIronic(replace(NODE, provision_state="available"))
        guard = HardwareGuard(lambda: [ironic])
        guard.check("east", URL, hardware)
        ironic.by_uuid[UUID] = NODE
        with self.assertRaises(HardwareInUse):
            guard.check("east", URL, hardware)
        del ironic.by_uuid[UUID]
        guard.check("east", URL, hardware)
        self.assertEqual(["nodes", UUID, UUID, UUID], ironic.asked)

    def test_the_list_is_read_again_after_some_seconds(self):
        ironic, now = FakeIronic(), [0.0]
        guard = HardwareGuard(lambda: [ironic], lambda: now[0])
        guard.check("east", URL, hardware)
        ironic.by_uuid[UUID] = NODE
        now[0] = guards.LIST_AGE_S + 1
        with self.assertRaises(HardwareInUse):
            guard.check("east", URL, hardware)

    def test_each_ironic_is_asked(self):
        for ironics in ([FakeIronic(NODE), FakeIronic()], [FakeIronic(), FakeIronic(NODE)]):
            with self.assertRaises(HardwareInUse):
                HardwareGuard(lambda it=ironics: it).check("east", URL, hardware)

    def test_without_an_ironic_or_its_nodes_no_hardware_is_read(self):
        for ironics in ((), (FakeIronic(),)):
            HardwareGuard(lambda it=ironics: it).check("east", URL, self.fail)

    def test_an_ironic_that_does_not_answer_lets_nothing_change(self):
        down = FakeIronic(error=BaremetalUnavailable("Ironic is away"))
        for ironics in ([down], [FakeIronic(), down]):
            with self.assertRaisesRegex(BaremetalUnavailable, "Ironic is away"):
                HardwareGuard(lambda it=ironics: it).check("east", URL, hardware)
        self.assertEqual(5, BaremetalUnavailable.exit_code)


class TestMatches(GuardCase):
    """The nodes of Ironic that match the hardware."""

    def node(self, address, system=SYSTEM, **info):
        known = {"redfish_address": address, "redfish_system_id": system, **info}
        info = {key: value for key, value in known.items() if value is not None}
        return replace(NODE, driver_info=info)

    def test_spellings_of_one_address_are_one(self):
        for url, addresses_ in (
            (URL, ("https://podm.example:8443/", "https://PODM.example:8443/redfish/v1/",
                   "podm.example:8443", "https://192.0.2.7:8443", "https://[::ffff:192.0.2.7]:8443",
                   "https://podm.example.:8443", "https://root:secret@podm.example:8443")),
            ("https://podm.example", ("podm.example", "192.0.2.7", "https://192.0.2.7:443/",
                                      "http://podm.example", "https://podm.example:443")),
            ("http://podm.example:80/redfish/v1", ("http://192.0.2.7", "https://192.0.2.7")),
            ("https://[2001:db8::7]", ("2001:db8:0::7", "[2001:DB8::7]", "https://[2001:db8::7]:443",
                                       "https://six.example")),
            ("http://127.0.0.1:8000", ("http://localhost:8000", "http://127.0.0.1:8000/")),
        ):  # fmt: skip
            for address in addresses_:
                with self.subTest(url, address=address):
                    self.refused(self.node(address), url=url)

    def test_other_addresses_are_of_other_hardware(self):
        for address in ("https://podm.example:9443", "https://192.0.2.8:8443", "bmc.example",
                        "https://podm.example", "https://no.example:9443", "", None, 7,
                        "https://[2001", "https://podm.example:seven"):  # fmt: skip
            with self.subTest(address):
                self.check(self.node(address))

    def test_spellings_of_one_system_are_one(self):
        for system in (f"{SYSTEM}/", "/redfish/v1/systems/7", "redfish/v1/Systems/7",
                       "/redfish/v1/Systems/%37", f"{URL}{SYSTEM}"):  # fmt: skip
            with self.subTest(system):
                self.refused(self.node(URL, system))

    def test_other_systems_of_the_pod_manager_may_be_changed(self):
        for system in ("/redfish/v1/Systems/77", "/redfish/v1/Systems", "7"):
            with self.subTest(system):
                self.check(self.node(URL, system))

    def test_a_node_without_a_system_is_any_of_its_address(self):
        for system in (None, ""):
            self.refused(self.node(URL, system))
            self.check(self.node("https://192.0.2.8:8443", system))

    def test_a_host_without_an_address_here_may_be_the_one(self):
        with self.assertRaisesRegex(BaremetalUnavailable, "may be in use .* no address here"):
            self.check(self.node("https://no.example:8443"))
        idle = replace(self.node("https://no.example:8443"), provision_state="available")
        self.check(idle)
        self.check(self.node("https://no.example:8443", "/redfish/v1/Systems/1"))
        self.check(self.node("https://no.example:8443", None))

    def test_the_uuid_of_a_system_counts_at_any_address(self):
        for node in (self.node("https://192.0.2.8", f"/redfish/v1/Systems/{SYSTEM_UUID.upper()}"),
                     replace(NODE, uuid=SYSTEM_UUID, driver_info={})):  # fmt: skip
            self.refused(node, uuids={SYSTEM_UUID})
            self.check(node, uuids={INSTANCE})

    def test_a_port_with_a_mac_address_counts_at_any_address(self):
        elsewhere = replace(NODE, driver_info={"ipmi_address": "192.0.2.8"})
        self.refused(elsewhere, mac_addresses={MAC}, ports={MAC: UUID})
        self.check(elsewhere, mac_addresses={"00:00:00:00:00:01"}, ports={MAC: UUID})
        idle = replace(elsewhere, provision_state="available")
        self.check(idle, mac_addresses={MAC}, ports={MAC: UUID})

    def test_the_address_of_a_bmc_counts_for_every_driver(self):
        for info in ({"ipmi_address": "192.0.2.99"}, {"ipmi_address": "bmc.example"},
                     {"ilo_address": "192.0.2.99"}, {"drac_address": "192.0.2.99"},
                     {"irmc_address": "192.0.2.99"}, {"xclarity_manager_ip": "192.0.2.99"},
                     {"ibmc_address": "https://192.0.2.99"},
                     {"redfish_address": "https://192.0.2.99"},
                     {"redfish_address": "bmc.example", "redfish_system_id": "/redfish/v1/S/1"},
                     {"snmp_address": "192.0.2.7"}):  # fmt: skip
            with self.subTest(info):
                node = replace(NODE, driver_info=info)
                self.refused(node, bmc_hosts={"192.0.2.99"})
        self.check(replace(NODE, driver_info={"ipmi_address": "192.0.2.98", "deploy_kernel": "x"}),
                   bmc_hosts={"192.0.2.99"})  # fmt: skip

    def test_the_own_address_of_the_pod_manager_tells_no_system_apart(self):
        other = self.node(URL, "/redfish/v1/Systems/8")
        self.check(other, bmc_hosts={"podm.example", "192.0.2.7"})

    def test_free_blocks_are_no_system(self):
        for system in (SYSTEM, None):
            self.check(self.node(URL, system), systems=set(), blocks={"/b/1"})

    def test_blocks_that_only_a_system_in_use_names_are_its_own(self):
        asked = []

        def blocks_of(uri):
            asked.append(uri)
            return {"/b/1", "/b/2"}

        words = {"systems": set(), "blocks_of": blocks_of}
        told = self.refused(self.node(f"{URL}/", f"{SYSTEM}/"), blocks={"/b/2"}, **words)
        self.assertIn(f"in use in Ironic as node {UUID} (called 'n7')", told)
        self.assertEqual([SYSTEM], asked)
        self.check(self.node(URL), blocks={"/b/3"}, **words)
        self.check(self.node("https://podm.example:9443"), blocks={"/b/2"}, **words)
        idle = replace(self.node(URL), provision_state="available")
        self.check(idle, blocks={"/b/2"}, **words)


IN_USE = "p: in use in Ironic as node 'n7' (u7): provision state active: undeploy it there first"
AWAY = "Ironic at http://i does not report its nodes: found HTTP 503"
REFUSALS = ((HardwareInUse, IN_USE, 6), (BaremetalUnavailable, AWAY, 5))


class Refused(Scripted):
    """A composer that refuses changes after ``allowed`` of them."""

    def __init__(self, error, allowed=0, **answers):
        super().__init__(**answers)
        self.error, self.allowed = error, allowed

    def may_change(self, _request, _node=None):
        self.allowed -= 1
        if self.allowed < 0:
            raise self.error
        return self


class TestCompose(ComposeCase):
    """One node."""

    def test_a_claim_of_hardware_that_may_not_be_changed_is_given_up_before_it_is_begun(self):
        for kind, told, _ in REFUSALS:
            with self.subTest(kind):
                self.setUp()
                scripted = Refused(kind(told))
                self.assertEqual(told, str(self.error(kind, scripted)))
                self.assertEqual([], scripted.calls)
                state, note = self.ended()
                self.assertEqual("FAILED", state)
                self.assertTrue(f"not started: {told}".startswith(note.rstrip("…")))
                self.assertEqual([], self.lines())

    def test_a_pod_manager_that_does_not_identify_the_hardware_refuses_the_claim(self):
        error = self.error(ComposeFailed, Refused(PodmError("HTTP 500")))
        self.assertEqual(("p: HTTP 500", "p"), (str(error), error.podm))
        self.assertEqual(("FAILED", "not started: HTTP 500"), self.ended())

    def test_a_node_is_not_taken_back_that_is_in_use_by_then(self):
        scripted = Refused(HardwareInUse(IN_USE), allowed=1, compose=PART)
        error = self.error(Unverified, scripted)
        self.assertIn(f"stays COMPOSING: {PART.reason}; {IN_USE} (", str(error))
        self.assertEqual(["reserve", "compose"], scripted.calls)
        self.assertEqual("COMPOSING", self.state())

    def test_a_node_is_not_removed_and_stays_listed(self):
        for kind, told, exit_code in (*REFUSALS, (PodmError, "HTTP 500", 1)):
            with self.subTest(kind):
                self.setUp()
                node = self.composer(Scripted()).compose(self.claim)
                self.store.effects.clear()
                scripted = Refused(kind(told))
                with self.assertRaises(kind) as caught:
                    self.composer(scripted).remove(node)
                self.assertIn(told, str(caught.exception))
                self.assertEqual(exit_code, caught.exception.exit_code)
                self.assertEqual(([], [], [node.id]),
                                 (scripted.calls, self.lines(),
                                  [one.id for one in self.store.nodes.list()]))  # fmt: skip


class TestProvision(ProvisionCase):
    """All nodes of a request."""

    def refused(self, *names, error):
        composers = {name: Refused(error) for name in names}
        return self.site("p", "q", **composers).provision(self.request())

    def test_another_pod_manager_is_tried_in_place_of_one_whose_hardware_is_in_use(self):
        for name in "pq":
            done = self.refused(name, error=HardwareInUse(IN_USE))
            (node,) = done.nodes
            self.assertNotEqual(name, node.podm)
            self.assertEqual(((), False), (done.failures, done.claim_lost))

    def test_a_result_says_why_nothing_was_composed(self):
        done = self.refused("p", "q", error=HardwareInUse(IN_USE))
        self.assertEqual(((), (IN_USE,)), (done.nodes, done.failures))
        self.assertEqual((True, False), (done.claim_lost, done.use_unknown))
        done = self.refused("p", "q", error=BaremetalUnavailable(AWAY))
        self.assertEqual(((), (AWAY,)), (done.nodes, done.failures))
        self.assertEqual((False, True), (done.claim_lost, done.use_unknown))
        self.assertEqual({"FAILED"}, {*self.states().values()})

    def test_where_ironic_does_not_answer_nothing_is_claimed(self):
        def prepare():
            raise BaremetalUnavailable(AWAY)

        provisioner = self.site("p", prepare=prepare)
        with self.assertRaises(BaremetalUnavailable):
            provisioner.provision(self.request())
        self.assertEqual({}, self.states())
        claim = self.claimer.claim(self.request()).claim
        with self.assertRaises(BaremetalUnavailable):
            provisioner.compose_claim(claim.id)
        self.assertEqual({claim.id: "HELD"}, self.states())

    def test_nodes_of_an_earlier_key_are_told_without_ironic(self):
        first = self.site("p").provision(self.request(), key="k")

        def prepare():
            raise BaremetalUnavailable(AWAY)

        object.__setattr__(self.provisioner, "prepare", prepare)
        again = self.provisioner.provision(self.request(), key="k")
        self.assertEqual([one.id for one in first.nodes], [one.id for one in again.nodes])

    def test_too_few_nodes_stay_where_they_may_not_be_taken_apart(self):
        """The first change is its composition, the second its removal."""
        error = HardwareInUse(IN_USE)

        class Once(Refused, Making):
            """Composes a node, and refuses all further changes."""

        done = self.site("p", "q", p=Once(error, 1), q=Refused(error)).provision(
            self.request(count=2)
        )
        self.assertEqual((), done.nodes)
        (stays,) = done.unverified
        node = self.one.nodes.list()[0].id
        text = f"remains, although too few nodes were composed: node {node}: p"
        self.assertIn(text, stays.message)


class TestReap(ReapCase):
    """Claims and nodes of a dead process."""

    def node(self):
        self.store.claims.start_composing(self.claim.id)
        node = ComposedNode(id="n", podm="p", uri=URI, claim=self.claim.id, name="vs-n",
                            pool="all", blocks=("c0",))  # fmt: skip
        self.store.claims.finish_composing(self.claim.id, [node])
        self.readings["p"] = podm()

    def left(self, composer):
        (action,) = self.reap(composer)
        return action.done, action.exit_code

    def test_what_may_not_be_changed_is_left_as_it_is_in_a_dry_run_too(self):
        for kind, told, exit_code in REFUSALS:
            for dry_run in (False, True):
                with self.subTest(kind, dry_run=dry_run):
                    self.setUp()
                    self.dry_run = dry_run
                    self.store.claims.start_composing(self.claim.id)
                    self.store.claims.fail(self.claim.id, "the reply was lost")
                    name = f"vs-{self.claim.id}"
                    shown = {"uri": URI, "name": name, "blocks": ["c0"]}
                    self.readings["p"] = podm(nodes=[shown])
                    composer = Refused(kind(told))
                    self.assertEqual((f"unchanged: {told}", exit_code), self.left(composer))
                    self.assertEqual([], composer.calls)

    def test_a_part_of_a_node_is_left_with_its_claim(self):
        for (kind, told, exit_code), dry_run in product(REFUSALS, (False, True)):
            with self.subTest(kind, dry_run=dry_run):
                self.setUp()
                self.dry_run = dry_run
                self.start()
                composer = Refused(kind(told), read_node=PART)
                self.assertEqual((f"unchanged: {told}", exit_code), self.left(composer))
                self.assertEqual((["read_node"], "COMPOSING"), (composer.calls, self.state()))

    def test_amounts_of_a_node_that_is_gone_stay(self):
        for (kind, told, exit_code), dry_run in product(REFUSALS, (False, True)):
            with self.subTest(kind, dry_run=dry_run):
                self.setUp()
                self.dry_run = dry_run
                self.node()
                left = CompositionResult(state="left", amounts=(AMOUNT,), reason="a chunk")
                composer = Refused(kind(told), read_node=left)
                self.assertEqual((f"unchanged: {told}", exit_code), self.left(composer))
                self.assertEqual(["n"], [one.id for one in self.store.nodes.list()])

    def test_a_node_in_use_is_found_with_its_reservation_and_without_ironic_it_is_left(self):
        for (kind, told, exit_code), done in zip(
            REFUSALS, ((f"composed: found {URI}", 0), None), strict=True
        ):
            with self.subTest(kind):
                self.setUp()
                self.start()
                self.store.claims.note_reserving(self.claim.id)
                shown = {"uri": URI, "name": f"vs-{self.claim.id}", "blocks": ["c0"]}
                self.readings["p"] = podm(nodes=[shown])
                composer = Refused(kind(told), read_node=COMPOSED)
                expected = done or (f"unchanged: {told}", exit_code)
                self.assertEqual((expected, ["read_node"]), (self.left(composer), composer.calls))

    def test_what_is_gone_by_itself_needs_no_leave(self):
        self.node()
        composer = Refused(HardwareInUse(IN_USE), read_node=ABSENT)
        done = "record deleted, and its claim released: the node no longer exists"
        self.assertEqual((done, 0), self.left(composer))
