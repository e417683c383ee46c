# SPDX-License-Identifier: Apache-2.0
"""The remains of processes that died are found and reconciled."""

import time
import unittest
from unittest import mock

from msgspec.structs import replace

from tests.unit.lifecycle.site import Site, request, site
from tests.unit.trees import tree
from valence_sched.core import plugins
from valence_sched.drivers.connect import connect
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.errors import PodmError
from valence_sched.lifecycle.reconcile import Reconciler
from valence_sched.model.claim import CompositionRequest, composition_request
from valence_sched.model.diagnostic import RECONCILE_HINT
from valence_sched.model.registration import Registration
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

PODM = "gpu-east"


class TestReaping(unittest.TestCase):
    """The report of reaping, and the objects that it leaves unchanged."""

    def test_a_dry_run_changes_nothing(self):
        with site() as here:
            here.claimer.claim(request(), ttl_s=0.01)
            time.sleep(0.05)
            here.reconciler = type(here.reconciler)(
                here.store, here.connect, here.read, dry_run=True
            )
            (action,) = here.reconciler.reconcile()
            self.assertEqual("expired: freed its holds", action.done)
            self.assertEqual(1, len(here.store.claims.list(("HELD",))))

    def test_a_node_that_somebody_else_took_apart_is_forgotten(self):
        with site() as here:
            node = here.composer.compose(here.claim(request()))
            with here.connect(node.podm) as hands:
                wanted = CompositionRequest(name="", blocks=node.blocks)
                changes = hands.may_change(wanted, node.uri)
                changes.remove(wanted, node.uri, lambda _state: None)
            actions = [action.done for action in here.reconciler.reconcile()]
            self.assertRegex(actions[0], "record deleted, and its claim released")
            self.assertEqual([], here.store.claims.list())

    def test_an_interrupt_names_the_claim_only_during_a_change(self):
        for owner, name in ((RedfishComposer, "read_node"), (Connection, "write")):
            with self.subTest(name), site("failed-node") as here:
                claim = here.claim(request())
                here.store.claims.start_composing(claim.id, 0.001)
                (part,) = claim.parts
                wanted = composition_request(claim, part.shares[0], None)
                with here.connect(part.podm) as hands:
                    hands.may_change(wanted).compose(wanted, lambda _state: None)
                stopped = mock.patch.object(owner, name, side_effect=KeyboardInterrupt)
                time.sleep(0.05)
                with stopped, self.assertRaises(KeyboardInterrupt):
                    list(here.reconciler.reconcile())
                lines = [f"claim {claim.id} may be changed on {part.podm}: {RECONCILE_HINT}"]
                found = [one for one in here.store.effects.unnamed_lines() if "changed" in one]
                self.assertEqual(lines * (name == "write"), found)

    def test_a_silent_pod_manager_leaves_everything_as_it_is(self):
        with site("die-after:1") as here:
            here.composer = type(here.composer)(here.store, here.connect, ttl_s=0.01)
            here.provisioner = type(here.provisioner)(
                here.store, here.claimer, here.composer, here.read
            )
            here.provisioner.provision(request())
            time.sleep(0.05)
            (action,) = here.reconciler.reconcile()
            self.assertRegex(action.done, "unchanged")
            self.assertEqual("COMPOSING", here.store.claims.list()[0].state)

    def test_a_node_that_a_reading_does_not_show_is_not_forgotten_for_that(self):
        with site() as here:
            node = here.composer.compose(here.claim(request()))
            read = here.read

            def stale(name: str):
                podm = read(name)
                nodes = tuple(replace(one, stale=True) for one in podm.nodes) if podm else ()
                return replace(podm, nodes=nodes) if podm else None

            def without(name: str):
                podm = stale(name)
                return replace(podm, nodes=()) if podm else None

            for partial in (without, stale):
                reaper = Reconciler(here.store, here.connect, partial)
                (action,) = [action for action in reaper.reconcile() if action.kind == "node"]
                self.assertRegex(action.done, "unchanged: missing in the reading")
            self.assertEqual([node.id], [one.id for one in here.store.nodes.list()])

    def test_a_node_that_came_after_its_claim_was_given_up_is_taken_apart(self):
        with site() as here:
            claim = here.claim(request())
            (part,) = claim.parts
            wanted = composition_request(claim, part.shares[0], None)
            here.store.claims.start_composing(claim.id)
            here.store.claims.fail(claim.id, "the reply was lost")
            with here.connect(part.podm) as hands:
                hands.may_change(wanted).compose(wanted, lambda _state: None)
            self.assertEqual([wanted.name], here.node_names())
            (action,) = here.reconciler.reconcile()
            self.assertEqual(f"decomposed: its claim {claim.id} is FAILED", action.done)
            self.assertEqual(([], 0), (here.node_names(), here.leak_count()))

    def test_a_node_of_another_store_is_left_alone(self):
        with site() as here:
            (part,) = here.claim(request()).parts
            wanted = CompositionRequest(
                name="vs-0123", pool=part.shares[0].pool, blocks=part.blocks
            )
            with here.connect(part.podm) as hands:
                hands.may_change(wanted).compose(wanted, lambda _state: None)
            (action,) = [action for action in here.reconciler.reconcile() if action.kind == "node"]
            self.assertRegex(action.done, "unchanged: it belongs to no known claim")
            self.assertEqual(["vs-0123"], here.node_names())

    def test_a_reservation_from_before_ours_is_left_alone(self):
        for began in (False, True):
            with self.subTest(began=began), site() as here:
                claim = here.claim(request())
                (part,) = claim.parts
                wanted = composition_request(claim, part.shares[0], None)
                here.store.claims.start_composing(claim.id, 0.001)
                if began:
                    here.store.claims.note_reserving(claim.id)
                with here.connect(part.podm) as hands:
                    hands.may_change(wanted).reserve(wanted)
                here.reconcile()
                documents = here.podms[part.podm].documents
                flags = {documents.get(uri)["CompositionStatus"]["Reserved"] for uri in part.blocks}
                self.assertEqual({not began}, flags)
                self.assertEqual("FAILED", here.store.claims.show(claim.id).state)

    def test_a_restart_in_mid_queue_loses_and_doubles_nothing(self):
        """S4: the successor continues with the same keys."""
        with site() as here:
            queue = [f"job-{number}" for number in range(4)]
            for key in queue[:2]:
                here.provisioner.provision(request(), key=key)
            after = Site(here.podms, here.store)
            nodes = [after.provisioner.provision(request(), key=key).nodes for key in queue]
            self.assertEqual([1] * 4, list(map(len, nodes)))
            self.assertEqual(4, len(here.node_names()))


class TestLogin(unittest.TestCase):
    """A pod manager that requires a login."""

    def test_a_node_is_composed_and_no_session_stays(self):
        settings = SimulatorSettings(login=Account("ana", "secret"))
        with served(documents={PODM: tree(PODM)}, fail=["closed-root"], settings=settings) as there:
            podm = there[PODM]
            entry = Registration(name=PODM, url=podm.url, username="ana")
            dialects = plugins.InstalledPlugins(plugins.DIALECTS)
            (block,) = [uri for uri in podm.documents if uri.endswith("/Compute-02")]
            wanted = CompositionRequest(name="vs-1", pool="row-a", blocks=(block,))
            with connect(ReadTarget(entry, "secret"), dialects, 10, 1) as connected:
                outcome = connected.composer.compose(wanted, lambda _state: None)
            self.assertEqual(("composed", ""), (outcome.state, outcome.reason))
            self.assertEqual(0, podm.open_sessions)
            with (
                self.assertRaises(PodmError) as caught,
                connect(ReadTarget(entry, "wrong"), dialects, 10, 1),
            ):
                pass
            self.assertNotIn("wrong", str(caught.exception))
