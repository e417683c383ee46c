# SPDX-License-Identifier: Apache-2.0
"""The contract of every implementation of the scheduler protocol, local or remote."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from valence_sched.errors import (
    AccessDenied,
    ClaimLost,
    ClaimState,
    NameTaken,
    RequestError,
    SchedulerError,
    UnknownName,
)
from valence_sched.model.decision import Candidate, Report
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.inventory import to_json
from valence_sched.model.registration import PasswordReference, Registration, RegistrationChange
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec, compile_request
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.zone_registry import ZoneChange, ZoneRegistration

TOO_MANY = 10_000  # more cores than a node of any pod manager has


def request(cores: int = 8, **fields) -> Request:
    """Return a request for a node with this number of cores."""
    words = {"properties": {"processor": {"total_cores": cores}}, **fields}
    spec = msgspec.convert(words, RequestSpec)
    return compile_request(spec)


class Contract:
    """A mixin of a test case over pod managers with room for several nodes.

    ``new_scheduler`` returns one over the same pod managers and the same state each time.
    """

    def new_scheduler(self) -> Scheduler:
        raise NotImplementedError

    def setUp(self):
        super().setUp()
        self.scheduler = self.new_scheduler()

    def check_sendable(self, result: msgspec.Struct) -> None:
        """Check that a result is a noun that JSON preserves."""
        self.assertEqual(result, msgspec.json.decode(to_json(result), type=type(result)))

    def chosen_of(self, report: Report) -> Candidate:
        """Return the chosen pool of a node, with the path of its zone in the name of its podm."""
        (placement,) = report.placements
        zone = report.zones.placements[0].zone if report.zones else ""
        podm = f"{zone}/{placement.chosen.podm}" if zone else placement.chosen.podm
        return replace(placement.chosen, podm=podm)

    def blocks_of(self, report: Report) -> set[tuple[str, str]]:
        """Return the blocks of the nodes of a decision, each with its pod manager."""
        return {
            (placement.chosen.podm, block.uri)
            for placement in report.placements
            for block in placement.chosen.blocks
        }


class SchedulerContract(Contract):
    """Tests that change no state, so that a class of them can share its pod managers."""

    def test_a_decision_names_podm_pool_and_blocks(self):
        result = self.scheduler.select_destinations(request())
        chosen = self.chosen_of(result.report)
        self.assertEqual("placed", result.report.outcome)
        self.assertIn(chosen.podm, [one.podm.id for one in self.scheduler.podms()])
        self.assertTrue(chosen.blocks)
        self.check_sendable(result)

    def test_the_same_request_gets_the_same_decision(self):
        first = self.scheduler.select_destinations(request(count=2), detail="report").report
        again = self.new_scheduler().select_destinations(request(count=2), detail="report").report
        self.assertEqual(to_json(first), to_json(again))

    def test_nothing_that_fits_is_a_decision_with_reasons(self):
        short = self.scheduler.select_destinations(request(TOO_MANY))
        whole = self.scheduler.select_destinations(request(TOO_MANY), detail="report")
        self.assertEqual(("nothing_fits", ()), (short.report.outcome, short.report.podms))
        self.assertEqual("nothing_fits", whole.report.outcome)
        self.assertTrue(whole.report.funnel)
        self.assertTrue(whole.report.inventory.digest)
        for verdict in whole.report.podms:
            self.assertTrue(verdict.reason)
            self.assertTrue(verdict.pool_reasons)
        self.check_sendable(whole)

    def test_each_detail_says_what_the_one_before_says(self):
        results = [
            self.scheduler.select_destinations(request(), detail=detail)
            for detail in ("placements", "summary", "report")
        ]
        self.assertEqual(1, len({to_json(one.report.placements) for one in results}))
        self.assertEqual(1, len({to_json(one.report.podms) for one in results[1:]}))

    def test_a_request_that_names_what_is_not_there_is_refused(self):
        with self.assertRaisesRegex(UnknownName, "no policy named 'nope'"):
            self.scheduler.select_destinations(request(policy="nope"))
        with self.assertRaisesRegex(UnknownName, "no pod manager named 'nope'"):
            self.scheduler.select_destinations(request(podms=("nope",)))

    def test_the_best_candidate_is_the_one_that_is_chosen(self):
        chosen = self.chosen_of(self.scheduler.select_destinations(request()).report)
        ranking = self.scheduler.rank(request(), 3)
        scores = [candidate.score for candidate in ranking.candidates]
        self.assertEqual(chosen, ranking.candidates[0])
        self.assertEqual(sorted(scores, reverse=True), scores)
        self.check_sendable(ranking)

    def test_several_requests_share_what_there_is(self):
        results = self.scheduler.select_all([request(), request(seed=1)], detail="summary")
        first, second = results.report.decisions
        taken = [self.blocks_of(report) for report in (first, second)]
        self.assertFalse(taken[0] & taken[1])
        self.assertEqual((2, None), (results.report.placed, results.report.failure))
        self.check_sendable(results)

    def test_one_of_several_that_fails_fails_all(self):
        results = self.scheduler.select_all([request(), request(TOO_MANY)])
        self.assertEqual((0, "nothing_fits"), (results.report.placed, results.report.outcome))
        self.assertIs(results.report.decisions[-1], results.report.failure)

    def test_as_many_nodes_fit_as_are_counted(self):
        counts = self.scheduler.count_fits(request(), 100)
        total = sum(number for _, number in counts.podms)
        placed = self.scheduler.select_destinations(request(count=total + 1, min_count=0)).report
        self.assertEqual(total, placed.placed)
        self.check_sendable(counts)

    def test_a_capacity_counts_the_same_nodes_and_explains_them_when_asked(self):
        counts = self.scheduler.count_fits(request(), 100)
        plain = self.scheduler.capacity(request(), 100)
        told = self.scheduler.capacity(request(), 100, explain=True)
        for found in (plain, told):
            self.assertEqual(counts.podms, tuple((one.podm, one.nodes) for one in found.podms))
        self.assertEqual((None, None), (plain.podm_sums, plain.site_sums))
        self.assertTrue(told.nodes <= told.podm_sums <= told.site_sums)
        self.check_sendable(told)

    def test_a_mix_of_one_flavor_has_nodes_of_that_flavor(self):
        mix = self.scheduler.mix_capacity([request()], [1], 100)
        self.assertEqual([mix.nodes], list(mix.by_flavor.values()))
        self.assertGreater(mix.nodes, 0)
        self.check_sendable(mix)

    def test_a_mix_of_no_request_is_refused(self):
        with self.assertRaises(RequestError):
            self.scheduler.mix_capacity([], [], 100)

    def test_an_owner_without_a_name_is_not_all_owners(self):
        for limit in (self.scheduler.set_quota, self.scheduler.change_quota):
            with self.assertRaises(SchedulerError):
                limit("", {"nodes": 3.0})
        self.assertFalse([one for one in self.scheduler.quotas() if one.owner is None])

    def test_the_limits_of_all_owners_are_replaced_and_changed(self):
        self.scheduler.set_quota(None, {"nodes": 90.0, "claims": 80.0})
        self.scheduler.change_quota(None, {"nodes": None, "cores": 700.0})
        (default,) = (one for one in self.scheduler.quotas() if one.owner is None)
        self.assertEqual({"claims": 80.0, "cores": 700.0}, default.limits)

    def test_what_is_stranded_depends_on_a_request(self):
        with self.assertRaisesRegex(RequestError, "no request: name at least one flavor"):
            self.scheduler.stranded([])

    def test_what_is_free_is_usable_or_stranded(self):
        found = self.scheduler.stranded([request()])
        self.assertTrue(found)
        for one in found:
            self.assertAlmostEqual(one.stranded, sum(amount for _, amount in one.why))

    def test_a_request_of_people_is_compiled_where_it_is_decided(self):
        spec = msgspec.convert({"flavor": "small", "count": 2, "zone": "east-1"}, RequestSpec)
        compiled = self.scheduler.compile_request(spec)
        self.assertEqual(("small", 2, "east-1"), (compiled.flavor, compiled.count, compiled.zone))
        self.assertTrue(compiled.needs)
        for words, error, text in (
            ({"flavor": "smal"}, UnknownName, "did you mean 'small'"),
            ({"flavor": "small", "near": {"volume": "v"}}, RequestError, "cannot locate volume v"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                self.scheduler.compile_request(msgspec.convert(words, RequestSpec))

    def test_the_fields_that_a_policy_reads_are_named(self):
        """S65: the scheduler lists the podm fields that its filters and weighers read."""
        every = self.scheduler.podm_reads("default")
        self.assertLessEqual({"status", "zone", "facts", "nodes"}, set(every.fields))
        few = self.scheduler.podm_reads("default", "small")
        self.assertEqual(("small", "default"), (few.flavor, few.policy))
        self.assertIn("facts.health", few.fields)
        self.assertNotIn("facts", few.fields)
        available = ("capabilities.reserved_for", "enabled", "name", "status", "zone")
        self.assertEqual(available, self.scheduler.podm_reads("chance").fields)
        self.check_sendable(few)
        for names in (("nope",), ("default", "nope")):
            with self.assertRaisesRegex(UnknownName, "'nope'"):
                self.scheduler.podm_reads(*names)

    def test_policies_and_flavors_are_named(self):
        self.assertIn("default", [policy.name for policy in self.scheduler.policies()])
        self.assertIn("small", [flavor.name for flavor in self.scheduler.flavors()])

    def test_plug_ins_are_listed_with_their_options(self):
        filters = self.scheduler.plugins("filters")
        self.assertEqual("filter", filters.kind)
        self.assertIn("capacity", [plugin.name for plugin in filters.plugins])
        self.assertIn(
            "room", [plugin.name for plugin in self.scheduler.plugins("weighers").plugins]
        )

    def test_podms_are_listed_and_shown(self):
        listed = self.scheduler.podms()
        size = self.scheduler.inventory()
        self.assertEqual(size.podms, len(listed))
        self.assertEqual(size.pools, sum(one.pool_count for one in listed))
        for one in listed:
            shown = self.scheduler.podm(one.podm.id)
            self.assertEqual((one.podm, one.amounts), (shown.podm, shown.amounts))
            self.assertEqual(one.pool_count, len(shown.pools))
        with self.assertRaisesRegex(UnknownName, "no pod manager named 'nope'"):
            self.scheduler.podm("nope")

    def test_nothing_that_fits_has_no_plan(self):
        planned = self.scheduler.plan(request(TOO_MANY))
        self.assertEqual((None, "nothing_fits"), (planned.plan, planned.decision.report.outcome))

    def test_a_zone_below_is_refused_until_the_settings_enable_it(self):
        """S56: administration is refused; one line names the setting."""
        for verb in (
            lambda: self.scheduler.add_zone(ZoneRegistration(name="east", url="http://east")),
            lambda: self.scheduler.change_zone("east", ZoneChange(enabled=False)),
            lambda: self.raise_first(self.scheduler.delete_zones(["east"])),
        ):
            with self.assertRaisesRegex(AccessDenied, "set enable_zone_routing: true in "):
                verb()

    def raise_first(self, errors: Iterator[SchedulerError]) -> None:
        """Raise the first of some errors."""
        for error in errors:
            raise error

    def test_the_zone_tells_its_name_and_what_it_has(self):
        info = self.scheduler.zone_info()
        self.assertEqual(("default", {}), (info.name, info.capabilities))
        self.assertIn("compute_cores", info.services)
        tree = self.scheduler.zone_tree()
        podms = self.scheduler.podms()
        cores = sum(one.amounts.cores[1] or 0 for one in podms)
        self.assertEqual((len(podms), cores), (tree.own.podms, tree.own.amounts["cores"][1]))
        self.assertEqual(("default", ()), (tree.name, tree.children))
        self.assertEqual([], [*self.scheduler.zone_branches()])
        self.assertEqual([], [*self.scheduler.zones()])
        with self.assertRaisesRegex(UnknownName, "no child zone named 'east'"):
            self.scheduler.zone("east")

    def test_the_documents_are_those_that_are_decided_on(self):
        documents = list(self.scheduler.documents())
        self.assertEqual([one.podm.id for one in self.scheduler.podms()],
                         [podm.id for podm in documents])  # fmt: skip
        shown = sorted(one.uri for one in self.scheduler.blocks(BlockFilter()))
        self.assertEqual(shown, sorted(one.uri for podm in documents for one in podm.blocks))

    def test_what_is_not_known_is_named(self):
        for verb in (
            self.scheduler.claim_record,
            self.scheduler.renew,
            self.scheduler.node_record,
            self.scheduler.decision,
        ):
            with self.subTest(verb.__name__), self.assertRaisesRegex(UnknownName, "'nope'"):
                verb("nope")

    def test_a_request_that_contradicts_itself_is_refused(self):
        with self.assertRaises(RequestError):
            self.scheduler.count_fits(request(group={"name": "g", "affinity": ["zone"]}), 1)

    def test_a_reconciliation_of_nothing_does_nothing(self):
        result = self.scheduler.reconcile(dry_run=True)
        self.assertEqual(((), 0, 0), (result.actions, result.forgotten_claims,
                                      result.forgotten_decisions))  # fmt: skip


class RestoringContract(Contract):
    """A mixin of tests whose nodes and claims end with them, so that a class shares one site."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.restore)

    def restore(self) -> None:
        """Delete all nodes of this scheduler, and release all claims."""
        if nodes := [one.node.id for one in self.scheduler.nodes()]:
            self.assertEqual([], list(self.scheduler.delete_nodes(nodes)))
        if claims := [one.id for one in self.scheduler.claims()]:
            self.assertEqual([], list(self.scheduler.release(claims)))

    def disable(self, podm: str) -> None:
        """Report that a pod manager is disabled, until the end of the test."""
        self.scheduler.update_resource_stats(podm, {"enabled": False})
        self.addCleanup(self.scheduler.update_resource_stats, podm, {"enabled": True})


class RegisteringContract(Contract):
    """Tests of registrations and reports."""

    def test_what_a_pod_manager_reports_is_remembered_until_it_is_forgotten(self):
        self.assertEqual(1, self.scheduler.update_resource_stats(("host", "n1"), {"load": 0.5}))
        report = self.scheduler.reported_stats("host/n1")
        self.assertEqual({"load": 0.5}, report.stats)
        self.assertLess(report.age_s, 3600)
        self.scheduler.forget_report("host/n1")
        for verb in (self.scheduler.reported_stats, self.scheduler.forget_report):
            with self.assertRaises(UnknownName):
                verb("host/n1")

    def test_a_pod_manager_is_registered_changed_and_unregistered(self):
        url = "http://127.0.0.1:9"
        new = Registration(
            name="rack-9", url=url, username="op", password=PasswordReference(env="NO_SUCH")
        )
        with self.assertRaisesRegex(SchedulerError, "rack-9|NO_SUCH"):
            self.scheduler.register(new)
        registered = self.scheduler.register(new, check=False)
        self.assertEqual((new, None), (registered.registration, registered.reading))
        self.check_sendable(registered)
        with self.assertRaises(NameTaken):
            self.scheduler.register(new, check=False)
        change = RegistrationChange(zone="east-9", username=None, password=None)
        changed = self.scheduler.change_registration("rack-9", change)
        found = self.new_scheduler().registration("rack-9")
        self.assertEqual(changed.registration, found.registration)
        self.assertEqual(("east-9", None), (found.registration.zone, found.registration.password))
        self.assertEqual([], list(self.scheduler.unregister(["rack-9"])))
        errors = [type(error) for error in self.scheduler.unregister(["rack-9"])]
        self.assertEqual([UnknownName], errors)
        for verb in (self.scheduler.registration, self.change_zone):
            with self.assertRaisesRegex(UnknownName, "rack-9"):
                verb("rack-9")

    def change_zone(self, name: str) -> None:
        """Change the registration of a pod manager."""
        self.scheduler.change_registration(name, RegistrationChange(zone="z"))


class ClaimingContract(RestoringContract):
    """Tests of a scheduler that also claims, on live pod managers."""

    def test_a_claim_holds_what_no_other_claim_gets(self):
        first, second = self.scheduler.claim(request()), self.scheduler.claim(request())
        self.assertEqual("HELD", first.claim.state)
        self.assertEqual(self.blocks_of(first.decision.report), self.held_blocks(first.claim.parts))
        self.assertFalse(self.held_blocks(first.claim.parts) & self.held_blocks(second.claim.parts))
        self.assertCountEqual(
            [first.claim.id, second.claim.id], [claim.id for claim in self.scheduler.claims()]
        )
        usage = self.scheduler.block_usage(first.claim.podms[0])
        for _, uri in self.held_blocks(first.claim.parts):
            self.assertEqual(first.claim.id, usage.held[uri])
        self.check_sendable(first)

    def test_whatever_places_a_node_decides_as_a_selection_does(self):
        """S67: claims, plans and rankings use the same decision, and see every report."""
        for refused in ((), ("gpu-east",)):
            for podm in refused:
                self.disable(podm)
            with self.subTest(refused=refused):
                chosen = self.scheduler.select_destinations(request()).report.placements
                self.assertNotIn(chosen[0].chosen.podm, refused)
                ranked = self.scheduler.rank(request(), 1).candidates[0]
                planned = self.scheduler.plan(request()).plan.decision.placements
                claimed = self.scheduler.claim(request())
                self.assertEqual(chosen[0].chosen, ranked)
                self.assertEqual(chosen, planned)
                self.assertEqual(chosen, claimed.decision.report.placements)
                self.assertEqual([], list(self.scheduler.release([claimed.claim.id])))

    def test_the_next_decision_takes_nothing_that_is_held(self):
        claim = self.scheduler.claim(request()).claim
        report = self.scheduler.select_destinations(request()).report
        self.assertFalse(self.held_blocks(claim.parts) & self.blocks_of(report))

    def test_a_key_stands_for_one_claim(self):
        first = self.scheduler.claim(request(), key="k")
        again = self.scheduler.claim(request(), key="k")
        self.assertEqual((first.claim.id, None), (again.claim.id, again.decision))
        with self.assertRaisesRegex(NameTaken, "key 'k'"):
            self.scheduler.claim(request(cores=16), key="k")

    def test_nothing_is_held_where_nothing_fits(self):
        result = self.scheduler.claim(request(TOO_MANY), detail="summary")
        self.assertEqual((None, "nothing_fits"), (result.claim, result.decision.report.outcome))
        self.assertEqual([], list(self.scheduler.claims()))

    def test_a_claim_is_renewed_and_released_and_remembered(self):
        claim = self.scheduler.claim(request(owner="me"), ttl_s=60).claim
        renewed = self.scheduler.renew(claim.id, 3600)
        self.assertGreater(renewed.expires_at, claim.expires_at)
        self.assertEqual([claim.id], [one.id for one in self.scheduler.claims(owner="me")])
        self.assertEqual([], list(self.scheduler.claims(owner="you")))
        errors = list(self.scheduler.release([claim.id, "nope"]))
        self.assertEqual([UnknownName], [type(error) for error in errors])
        self.assertEqual([], list(self.scheduler.claims()))
        ended = self.scheduler.claims(owner="me", ended=True)
        self.assertEqual(["RELEASED"], [one.state for one in ended])
        record = self.scheduler.claim_record(claim.id)
        self.assertEqual(
            ["held", "released"], [event.kind for event in record.events][:: len(record.events) - 1]
        )
        self.check_sendable(record)

    def test_a_plan_is_claimed_once(self):
        planned = self.scheduler.plan(request())
        unexplained = replace(planned.decision.report, explanation=None)
        self.assertEqual(unexplained, planned.plan.decision)
        refresh = self.scheduler.refresh(planned.plan)
        self.assertEqual((), refresh.changes)
        self.assertEqual(planned.plan.decision.placements, refresh.report.placements)
        claim = self.scheduler.claim_plan(planned.plan)
        self.assertEqual(self.blocks_of(planned.plan.decision), self.held_blocks(claim.parts))
        with self.assertRaisesRegex(ClaimLost, "in use by claim"):
            self.scheduler.claim_plan(planned.plan)

    def held_blocks(self, parts) -> set[tuple[str, str]]:
        """Return the blocks of the parts of a claim, each with its pod manager."""
        return {(part.podm, uri) for part in parts for uri in part.blocks}


class ComposingContract(RestoringContract):
    """Tests of a scheduler whose pod managers compose."""

    def test_nodes_are_composed_listed_and_deleted(self):
        result = self.scheduler.compose(request(count=2), detail="summary")
        self.assertEqual((2, ()), (len(result.nodes), result.failures))
        self.assertEqual("placed", result.decision.report.outcome)
        ids = sorted(node.id for node in result.nodes)
        self.assertEqual(ids, self.composed_ids())
        record = self.scheduler.node_record(ids[0])
        self.assertEqual(("COMPOSED", ids[0]), (record.state, record.node.id))
        self.assertEqual([], list(self.scheduler.delete_nodes(ids)))
        self.assertEqual([], self.composed_ids())
        self.check_sendable(result)

    def test_a_composition_is_of_what_a_selection_chooses(self):
        """S67: compositions use the same decision."""
        chosen = self.scheduler.select_destinations(request()).report.placements
        result = self.scheduler.compose(request())
        self.assertEqual(chosen, result.decision.report.placements)
        held = {(node.podm, uri) for node in result.nodes for uri in node.blocks}
        self.assertEqual(self.blocks_of(result.decision.report), held)

    def composed_ids(self) -> list[str]:
        """Return the ids of the nodes that pod managers show as composed by this scheduler."""
        nodes = self.scheduler.nodes(live=True)
        return sorted(one.node.id for one in nodes if one.state != "FOREIGN")

    def test_a_claim_that_is_held_is_composed_as_it_is(self):
        claim = self.scheduler.claim(request(count=2)).claim
        result = self.scheduler.compose_claim(claim.id, wait_s=60)
        self.assertEqual((2, (), None), (len(result.nodes), result.failures, result.decision))
        held = {(part.podm, uri) for part in claim.parts for uri in part.blocks}
        self.assertEqual(held, {(node.podm, uri) for node in result.nodes for uri in node.blocks})
        self.assertEqual(sorted(node.id for node in result.nodes), self.composed_ids())
        self.check_sendable(result)
        for id_, error, words in (
            (claim.id, ClaimState, "is [A-Z]+.*: only a held claim can be composed"),
            (result.nodes[0].claim, ClaimState, f"it is node {result.nodes[0].id}"),
            ("nope", UnknownName, "'nope'"),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                self.scheduler.compose_claim(id_)
        released = self.scheduler.claim(request()).claim
        self.assertEqual([], list(self.scheduler.release([released.id, released.id])))
        with self.assertRaisesRegex(ClaimState, "is RELEASED: only a held claim can be composed"):
            self.scheduler.compose_claim(released.id)
        self.assertEqual(2, len(self.composed_ids()))

    def test_the_nodes_of_a_group_count_for_its_rules_until_they_are_deleted(self):
        rules = {"name": "apart", "anti_affinity": ["podm"]}
        names = [one.podm for one in self.scheduler.rank(request(), 99).candidates]
        first, second = (self.scheduler.compose(request(group=rules)).nodes[0] for _ in range(2))
        self.assertNotIn(names[-1], (first.podm, second.podm))
        self.assertNotEqual(first.podm, second.podm)
        asked = request(group=rules, podms=[first.podm])
        self.assertEqual((), self.scheduler.compose(asked).nodes)
        self.assertIsNone(self.scheduler.claim(asked).claim)
        self.assertEqual((), self.scheduler.select_destinations(asked).report.placements)
        self.assertEqual([], list(self.scheduler.delete_nodes([first.id])))
        (third,) = self.scheduler.compose(asked).nodes
        self.assertEqual(first.podm, third.podm)

    def test_a_plan_is_lost_once_it_would_break_the_rules_of_its_group(self):
        names = [one.podm for one in self.scheduler.rank(request(), 99).candidates]
        together = request(group={"name": "apart", "affinity": ["podm"]}, podms=[names[-1]])
        plan = self.scheduler.plan(together).plan
        rules = {"name": "apart", "anti_affinity": ["podm"]}
        self.assertNotEqual(names[-1], self.scheduler.compose(request(group=rules)).nodes[0].podm)
        with self.assertRaisesRegex(ClaimLost, "group apart has . nodes here"):
            self.scheduler.claim_plan(plan)

    def test_a_claim_on_a_pod_manager_disabled_since_is_named_and_stays_held(self):
        claim = self.scheduler.claim(request(), key="k").claim
        (name,) = claim.podms
        self.scheduler.change_registration(name, RegistrationChange(enabled=False))
        line = rf"claim {claim.id}: pod manager '{name}' is disabled: .*podm set {name} --enable"
        for compose in (
            lambda: self.scheduler.compose_claim(claim.id, wait_s=60),
            lambda: self.scheduler.compose(request(), key="k"),
        ):
            with self.assertRaisesRegex(ClaimState, line):
                compose()
        self.assertEqual("HELD", self.scheduler.claim_record(claim.id).claim.state)
        self.assertEqual([], self.composed_ids())
        self.scheduler.change_registration(name, RegistrationChange(enabled=True))
        self.assertEqual(1, len(self.scheduler.compose_claim(claim.id, wait_s=60).nodes))

    def test_a_node_is_listed_with_its_flavor_and_what_it_has(self):
        wanted = msgspec.structs.replace(request(16), flavor="medium")
        (node,) = self.scheduler.compose(wanted).nodes
        for live in (False, True):
            statuses = {one.node.id: one for one in self.scheduler.nodes(live=live)}
            status = statuses[node.id]
            self.assertEqual(("medium", 0), (status.node.flavor, status.unknown_blocks))
            cores = sum(cpu.count * cpu.cores for cpu in status.devices.processors)
            self.assertGreaterEqual(cores, 16)

    def test_a_key_stands_for_the_nodes_of_one_request(self):
        first = self.scheduler.compose(request(), key="k")
        again = self.scheduler.compose(request(), key="k")
        ids = [[node.id for node in result.nodes] for result in (first, again)]
        self.assertEqual((ids[0], None), (ids[1], again.decision))

    def test_the_pod_managers_say_before_whether_they_would_compose(self):
        report = self.scheduler.select_destinations(request()).report
        (preview,) = self.scheduler.preview(report)
        self.assertEqual(report.placements[0].chosen.podm, preview.podm)

    def test_a_plan_is_composed(self):
        planned = self.scheduler.plan(request())
        result = self.scheduler.compose_plan(planned.plan)
        (node,) = result.nodes
        chosen = planned.plan.decision.placements[0].chosen
        self.assertEqual((chosen.podm, {block.uri for block in chosen.blocks}),
                         (node.podm, set(node.blocks)))  # fmt: skip

    def test_the_very_next_decision_sees_what_is_reported(self):
        podm = self.scheduler.select_destinations(request()).report.placements[0].chosen.podm
        self.disable(podm)
        report = self.scheduler.select_destinations(request(), detail="report").report
        self.assertNotIn(podm, {placement.chosen.podm for placement in report.placements})
