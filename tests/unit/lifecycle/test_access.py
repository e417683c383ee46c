# SPDX-License-Identifier: Apache-2.0
"""Access to pod managers, scripted and live."""

import contextlib
import dataclasses

from msgspec.structs import replace

from tests.unit.integrations.test_dispatchers import placed
from tests.unit.lifecycle.scripted import (
    ABSENT,
    COMPOSED,
    DOWN,
    PART,
    UNKNOWN,
    Noting,
    ScriptedCase,
    ToldProgress,
)
from tests.unit.store.site import CORES, part, podm
from tests.unit.trees import tree
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.redfish.schema import ServiceRoot
from valence_sched.errors import PodmError, UnknownName
from valence_sched.lifecycle.access import PodmAccess
from valence_sched.model.claim import ComposedNode, CompositionRequest, request_from_node
from valence_sched.model.diagnostic import EffectLog
from valence_sched.model.lifecycle import Preview
from valence_sched.model.registration import Registration
from valence_sched.store.database import PATIENCE_S
from valence_sched.testing import request
from valence_sched.testing.served import served


class ToldAccess(PodmAccess):
    """An access to scripted pod managers: readings by name, and one composer."""

    def tell(self, readings, composer=None):
        object.__setattr__(self, "readings", readings)
        object.__setattr__(self, "told_composer", composer)
        return self

    def reading(self, name):
        return self.readings.get(name, f"{name}: does not answer")

    @contextlib.contextmanager
    def connect(self, name):
        self._target(name)
        if isinstance(self.told_composer, Exception):
            raise self.told_composer
        yield self.told_composer


class AccessCase(ScriptedCase):
    """A store with the pod managers ``p`` and ``q``, and a node of ``c0`` on ``p``."""

    def setUp(self):
        self.begin()
        self.store.remember(podm("q", 2))
        self.told = []
        self.node = self.composed(self.claim, "n", "/S/1", "c0")

    def composed(self, claim, id_, uri, *blocks, on="p"):
        self.store.claims.start_composing(claim.id)
        node = ComposedNode(id=id_, podm=on, uri=uri, claim=claim.id, name=id_, blocks=blocks)
        self.store.claims.finish_composing(claim.id, [node])
        return self.store.nodes.show(id_)

    def access(self, readings=None, composer=None, names=("p", "q"), **words):
        members = {name: Registration(name=name, url="http://127.0.0.1:1") for name in names}
        access = ToldAccess(self.store, members, lambda _one: None,
                            progress=ToldProgress(self.told), **words)  # fmt: skip
        return access.tell(readings or {}, composer)

    def states(self, *arguments, podm=None):
        return {one.node.id: one.state for one in self.access(*arguments).nodes(podm, live=True)}


class TestNodes(AccessCase):
    """The state of each node comes from its pod manager."""

    def test_the_store_alone_says_composed_and_what_its_blocks_have(self):
        (status,) = self.access().nodes()
        self.assertEqual((self.node, "COMPOSED", 0),
                         (status.node, status.state, status.unknown_blocks))  # fmt: skip
        self.assertEqual([8], [one.cores for one in status.devices.processors])

    def test_blocks_that_were_never_read_are_counted(self):
        claim = self.store.claims.create([part("p", 1, "c1", "c2")])
        self.composed(claim, "m", "/S/2", "c1", "gone-1", "gone-2")
        (status,) = [one for one in self.access().nodes() if one.node.id == "m"]
        self.assertEqual(2, status.unknown_blocks)
        self.assertEqual(1, len(status.devices.processors))

    def test_one_that_a_reading_lists_is_composed_and_nothing_else_is_asked(self):
        listed = podm(nodes=[{"uri": "/S/1", "name": "n", "blocks": ["c0"]}])
        composer = Noting()
        self.assertEqual({"n": "COMPOSED"}, self.states({"p": listed}, composer))
        self.assertEqual([], composer.arguments)

    def test_one_that_lost_a_block_names_it(self):
        for blocks, reason in (
            (["c0"], None),
            (["c1"], "c0 no longer found: podm claim reap frees it"),
        ):
            listed = podm(nodes=[{"uri": "/S/1", "name": "n", "blocks": blocks}])
            (status,) = self.access({"p": listed}, Noting()).nodes(live=True)
            self.assertEqual(("COMPOSED", reason), (status.state, status.reason))

    def test_one_that_a_reading_does_not_list_is_asked_for(self):
        for answer, state in ((ABSENT, "GONE"), (UNKNOWN, "UNKNOWN"), (DOWN, "UNKNOWN"),
                              (PART, "COMPOSED"), (COMPOSED, "COMPOSED")):  # fmt: skip
            with self.subTest(answer):
                composer = Noting(read_node=answer)
                self.assertEqual({"n": state}, self.states({"p": podm()}, composer))
                wanted = ("read_node", request_from_node(self.node), "/S/1")
                self.assertEqual([wanted], composer.arguments)
                self.assertIn(("node n on p", "reading"), self.told)

    def test_one_that_a_reading_lists_and_could_not_read_is_asked_for(self):
        listed = podm(nodes=[{"uri": "/S/1", "blocks": ["c0"], "stale": True}])
        for answer, state in ((ABSENT, "GONE"), (UNKNOWN, "UNKNOWN"), (COMPOSED, "COMPOSED")):
            composer = Noting(read_node=answer)
            self.assertEqual({"n": state}, self.states({"p": listed}, composer))
            self.assertEqual(1, len(composer.arguments))

    def test_one_whose_pod_manager_cannot_be_reached_for_it_is_unknown(self):
        self.assertEqual({"n": "UNKNOWN"}, self.states({"p": podm()}, DOWN))

    def test_a_silent_pod_manager_leaves_its_own_nodes_unknown(self):
        other = self.store.claims.create([part("q", 1, "c0")])
        self.composed(other, "m", "/S/1", "c0", on="q")
        listed = podm("q", nodes=[{"uri": "/S/1", "blocks": ["c0"]}])
        self.assertEqual({"n": "UNKNOWN", "m": "COMPOSED"}, self.states({"q": listed}))
        self.assertEqual({"m": "COMPOSED"}, self.states({"q": listed}, podm="q"))
        self.assertEqual({"n": "UNKNOWN"}, self.states({"q": listed}, podm="p"))

    def test_one_of_a_pod_manager_that_is_not_registered_any_more_is_listed(self):
        access = self.access(names=("q",))
        self.assertEqual(["UNKNOWN"], [one.state for one in access.nodes(live=True)])

    def test_what_others_composed_is_foreign_and_told_as_it_was_read(self):
        listed = podm(nodes=[{"uri": "/S/1", "blocks": ["c0"]},
                             {"uri": "/S/9", "name": "theirs", "owner": "o", "blocks": ["c2"]},
                             {"uri": "/S/8"}])  # fmt: skip
        ours, theirs, unnamed = self.access({"p": listed}).nodes(live=True)
        self.assertEqual("COMPOSED", ours.state)
        expected = ComposedNode(id="theirs", podm="p", uri="/S/9", claim="-", name="theirs",
                                owner="o", blocks=("c2",))  # fmt: skip
        self.assertEqual((expected, "FOREIGN"), (theirs.node, theirs.state))
        self.assertEqual(1, len(theirs.devices.processors))
        self.assertEqual(("/S/8", "FOREIGN"), (unnamed.node.id, unnamed.state))

    def test_what_a_claim_may_have_become_that_is_still_composed_is_unknown(self):
        for by, uri, name, block in (
            ("blocks", "/S/9", None, "c1"),
            ("name", "/S/9", "vs-{}", "x"),
            ("last part of the URI", "/S/vs-{}", None, "x"),
        ):
            with self.subTest(by):
                claim = self.store.claims.create([part("p", 1, "c1")])
                node = {"uri": uri.format(claim.id), "blocks": [block, "y"]}
                node["name"] = name and name.format(claim.id)
                listed = podm(nodes=[{"uri": "/S/1", "blocks": ["c0"]}, node])
                held = self.access({"p": listed}).nodes(live=True)
                self.assertEqual(["COMPOSED", "FOREIGN"], [one.state for one in held])
                self.store.claims.start_composing(claim.id)
                _, found = self.access({"p": listed}).nodes(live=True)
                self.assertEqual((claim.id, "UNKNOWN"), (found.node.claim, found.state))
                self.store.claims.fail(claim.id, "over")

    def test_a_later_node_of_a_claim_of_several_is_known_by_its_number(self):
        one, two = part("p", 1, "c1"), part("q", 1, "c1")
        two = replace(two, shares=(replace(two.shares[0], node=2),))
        claim = self.store.claims.create([one, two])
        self.store.claims.start_composing(claim.id)
        for number, state in ((2, "UNKNOWN"), (3, "FOREIGN")):
            other = {"uri": "/S/9", "name": f"vs-{claim.id}-{number}", "blocks": ["x"]}
            listed = podm(nodes=[{"uri": "/S/1"}, other])
            _, found = self.access({"p": listed}).nodes("p", live=True)
            self.assertEqual(state, found.state)

    def test_a_claim_that_is_composed_on_another_pod_manager_made_none_of_its_nodes(self):
        claim = self.store.claims.create([part("q", 1, "c1")])
        self.store.claims.start_composing(claim.id)
        listed = podm(nodes=[{"uri": "/S/1"}, {"uri": "/S/9", "blocks": ["c1"]}])
        self.assertEqual({"n": "COMPOSED", "/S/9": "FOREIGN"}, self.states({"p": listed}))

    def test_the_state_of_one_node_is_its_own(self):
        claim = self.store.claims.create([part("p", 1, "c1")])
        other = self.composed(claim, "m", "/S/2", "c1")
        listed = podm(nodes=[{"uri": "/S/2", "blocks": ["c1"]}])
        access = self.access({"p": listed}, Noting(read_node=ABSENT))
        self.assertEqual("GONE", access.node_record(self.node.id).state)
        self.assertEqual("COMPOSED", access.node_record(other.id).state)

    def test_a_node_of_unknown_state_says_why(self):
        record = self.access().node_record(self.node.id)
        self.assertEqual(("UNKNOWN", "p: does not answer"), (record.state, record.reason))

    def test_a_node_of_others_is_found_by_its_name_or_uri(self):
        foreign = podm(nodes=[{"uri": "/S/1"}, {"uri": "/S/9", "name": "other"}])
        self.store.remember(foreign)
        for name in ("other", "/S/9"):
            record = self.access({"p": foreign}).node_record(name)
            self.assertEqual(("FOREIGN", "other"), (record.state, record.node.id))
        record = self.access().node_record("other")
        self.assertEqual(("UNKNOWN", "p: does not answer"), (record.state, record.reason))
        empty = self.access({"p": podm()}, Noting(read_node=ABSENT))
        self.assertEqual("GONE", empty.node_record("other").state)
        with self.assertRaises(UnknownName):
            self.access().node_record("no-such-node")


class TestPreview(AccessCase):
    """A preview asks a pod manager about the exact blocks of a placement."""

    class Previewer(Noting):
        def previews(self):
            return self._answers.get("previews", True)

        def preview(self, request):
            self.arguments.append(request)
            return self._answer("preview")

    def preview(self, answer, placement=None):
        composer = self.Previewer()
        composer._answers["preview"] = answer
        placement = placement or placed(3, "p")
        return composer, self.access(composer=composer).preview(placement)

    def test_what_it_answers_is_told(self):
        for answer in (None, "no fan"):
            with self.subTest(answer):
                composer, preview = self.preview(answer)
                self.assertEqual(Preview(node=3, podm="p", refusal=answer), preview)
                (wanted,) = composer.arguments
                self.assertEqual(("preview-3", "p", ()), (wanted.name, wanted.pool, wanted.blocks))
                self.assertEqual(("node 3 on p", "asking for a preview"), self.told[-1])

    def test_without_a_preview_it_is_checked_by_reading(self):
        for refusal, conflicts, expected in (
            (None, (), None),
            ("no fan", (), "no fan"),
            (None, ("/B/1: found Composed", "/B/2: gone"), "/B/1: found Composed; /B/2: gone"),
        ):
            with self.subTest(expected):
                composer = self.Previewer()
                composer._answers["previews"] = False
                composer.refusal = lambda _request, found=refusal: found
                composer.conflicts = lambda _request, found=conflicts: found
                preview = self.access(composer=composer).preview(placed(3, "p"))
                told = Preview(node=3, podm="p", refusal=expected, by_reading=True)
                self.assertEqual((told, []), (preview, composer.calls))

    def test_one_that_does_not_answer_is_a_problem_and_no_refusal(self):
        for placement, line in ((None, "connection refused"), (placed(3, "x"), "'x' is not reg")):
            with self.subTest(line):
                _, preview = self.preview(DOWN, placement)
                self.assertIsNone(preview.refusal)
                self.assertEqual(3, preview.node)
                self.assertIn(line, preview.problem)


class TestWorkers(AccessCase):
    """The options of the caller reach all components."""

    def test_a_claim_that_is_composed_outlasts_all_the_waiting_for_it(self):
        self.assertEqual(2 * 300 + 8 * 30 + PATIENCE_S, self.access().composer.ttl_s)
        quick = self.access(timeout_s=1.0, patience_s=2.0)
        self.assertEqual(12 + PATIENCE_S, quick.composer.ttl_s)
        self.assertEqual(5000.0, self.access(ttl_s=5000.0).composer.ttl_s)

    def test_a_change_has_the_time_of_its_drain_in_addition(self):
        access = self.access()
        changer = access.changer(lambda _spec: None, lambda _podm, _request: None, drain_s=3600)
        self.assertEqual(3600, changer.ttl_s - access.composer.ttl_s)

    def test_a_pod_manager_composes_as_many_at_a_time_as_its_registration_says(self):
        access = self.access()
        members = {**access.members, "p": replace(access.members["p"], parallel_composes=7)}
        provisioner = dataclasses.replace(access, members=members).provisioner()
        self.assertEqual([7, 2, 2], [provisioner.parallel(name) for name in ("p", "q", "gone")])

    def test_amounts_that_a_dialect_cannot_make_are_refused_by_pod_manager(self):
        class Dialect:
            def refusal(self, resources):
                return f"cannot make {', '.join(sorted(resources))}" if resources else None

        stocks = [{"uri": f"/{name}", "resource": name, "total": 9} for name in ("gas", "ice")]
        self.store.remember(podm("p", stocks=stocks, driver="told"))
        self.store.remember(podm("q", stocks=stocks[:1]))
        self.store.remember(podm("r", stocks=stocks[1:], driver="absent"))
        access = self.access(dialects={"told": Dialect})
        for amounts, refused in (
            ({"gas": 1}, {"p": "cannot make gas"}),
            ({"fog": 1}, {}),
            ({}, {}),
        ):
            stocks = [{"resource": name, "amount": 1} for name in amounts]
            asked = request({**CORES, "stocks": stocks})
            for refusals in (access.refusals, access.provisioner().refusals):
                self.assertEqual(refused, refusals(asked), amounts)

    def test_what_they_do_is_told_and_each_step_marked(self):
        points = []
        access = self.access({"p": podm()}, Noting(compose=PART), checkpoint=points.append)
        claim = self.store.claims.create([part("p", 1, "c1")])
        done = access.provisioner().compose_claim(claim.id)
        self.assertEqual((f"p: {PART.reason}",), done.failures)
        self.assertEqual(["taken", "split", "held", "intent", "checked"], points[:5])
        subject = f"node vs-{claim.id} on p"
        self.assertEqual([(subject, "checking"), (subject, "removing")], self.told)
        for dry_run, left in ((True, ["n"]), (False, [])):
            self.told.clear()
            (action,) = access.reconciler(dry_run=dry_run).reconcile()
            self.assertEqual(("n", "p"), (action.id, action.podm))
            self.assertEqual([("node n on p", "reconciling")], self.told)
            self.assertEqual(left, [node.id for node in self.store.nodes.list()])

    def test_a_reap_has_an_effect_only_if_something_changed(self):
        for answer, changed in ((UNKNOWN, False), (ABSENT, True)):
            access, effects = self.access({"p": podm()}, Noting(read_node=answer)), EffectLog()
            (action,) = access.reconcile(effects, dry_run=False, keep_s=1e9).actions
            self.assertEqual((not changed, "n"), (action.done.startswith("unchanged"), action.id))
            self.assertEqual([("nodes/n", "done")] * changed, [*effects.outcomes()])

    def test_a_stranger_is_named_with_what_to_do(self):
        with self.assertRaisesRegex(PodmError, r"^'x' is not registered .*\(podm create\)$"):
            self.enterContext(self.access().connect("x"))
        self.assertIsNone(PodmAccess.read(self.access(), "x"))


class TestRead(AccessCase):
    """A reading counts if the service is the known one."""

    def setUp(self):
        super().setUp()
        podms = self.enterContext(served(documents={"gpu-east": {**tree("gpu-east")}}))
        self.one = Registration(name="gpu-east", url=podms["gpu-east"].url)

    def read(self, identity=None):
        members = {"gpu-east": replace(self.one, identity=identity)}
        access = PodmAccess(self.store, members, lambda _one: None, timeout_s=10,
                            progress=ToldProgress(self.told))  # fmt: skip
        return access.read("gpu-east")

    def test_it_is_read_with_its_identity(self):
        found = self.read()
        self.assertEqual("gpu-east", found.id)
        self.assertEqual([("gpu-east", "reading")], self.told)
        self.assertEqual(found.blocks, self.read(found.identity).blocks)

    def test_another_service_in_its_place_is_not_read(self):
        self.assertIsNone(self.read("uuid:99999999-2222-4333-8444-555555555555"))

    def test_one_that_is_known_by_its_address_is_known_by_its_blocks(self):
        address = "address:127.0.0.1:1"
        found = self.read(address)
        self.assertIsNotNone(found)
        self.store.remember(replace(found, identity=None))
        self.assertEqual(found.blocks, self.read(address).blocks)
        moved = [replace(block, uri=f"{block.uri}-x") for block in found.blocks]
        self.store.remember(replace(found, identity=None, blocks=tuple(moved), pools=()))
        self.assertIsNone(self.read(address))
        self.assertIsNotNone(self.read())

    def test_one_that_does_not_answer_is_not_read(self):
        self.one = replace(self.one, url="http://127.0.0.1:1")
        self.assertIsNone(self.read())

    def test_one_that_does_not_answer_in_time_is_not_read(self):
        members = {"gpu-east": self.one}
        access = PodmAccess(self.store, members, lambda _one: None, timeout_s=0.0)
        self.assertIsNone(access.read("gpu-east"))

    def test_a_composer_logs_in_and_waits_as_the_caller_says(self):
        given = []

        def composer(session, patience):
            given.append((session.connection.host, session.timeout_s, patience().pause()))
            return given

        def dialect():
            return Dialect("told", ServiceRoot, lambda *_: None, composer=composer)

        asked = []
        one = replace(self.one, driver="told")
        access = PodmAccess(self.store, {"gpu-east": one}, asked.append, timeout_s=10.0,
                            patience_s=0.0, dialects={"told": dialect})  # fmt: skip
        with access.connect("gpu-east") as made:
            self.assertIs(given, made.may_change(CompositionRequest(name="n")))
        ((host, timeout_s, paused),) = given
        self.assertIn(host, one.url)
        self.assertEqual((10.0, False), (timeout_s, paused))
        self.assertEqual([one], asked)
