# SPDX-License-Identifier: Apache-2.0
"""The fields that plug-ins read, of the request and of each pod manager."""

import contextlib
import functools
import unittest
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec
import numpy as np
from hypothesis import given, settings, strategies as st

from tests.unit.core.sites import sized
from valence_sched.core import plugins
from valence_sched.core.decider import Decider
from valence_sched.core.evaluation import track_request
from valence_sched.core.explain.report import decision_report
from valence_sched.core.plugins import Plugins
from valence_sched.core.policy import (
    RequestReader,
    bind,
    fields_read,
    idle_readers,
    missing_readers,
)
from valence_sched.errors import InputError, PluginError, RequestError
from valence_sched.model.custom_resource import CustomResource
from valence_sched.model.policy import FilterUse, Policy, WeigherUse, WeightOverrides
from valence_sched.model.request import Group, Request, sealed
from valence_sched.model.stats import select_stats
from valence_sched.testing import contract, request, view
from valence_sched.view.terms import (
    ALL_FIELDS,
    Term,
    declarations,
    penalises_unknown,
    per_pool,
    podm_fields,
    reads,
    terms,
)

CPU = {"uri": "c", "devices": {"processors": [{"cores": 10}]}}
SITE = view(
    {"id": "loud", "facts": {"noise_db": 80}, "blocks": [CPU]},
    {"id": "quiet", "facts": {"noise_db": 30}, "blocks": [CPU]},
)
NEEDS = request({"processor": {"total_cores": 8}}).needs


class QuietRequest(Request, frozen=True, kw_only=True, dict=True):
    """A request with a field that the core does not know."""

    most_noise_db: int | None = None


@reads("most_noise_db")
@terms
def quiet(view, request):
    """Keeps pod managers that are not louder than the request allows."""
    most = request.most_noise_db
    noise = view.number("noise_db")
    yield Term("noise", f"at most {most}", noise, holds=noise <= most)


def plain(view, request):
    """Keeps every pool."""
    return np.ones(len(view), dtype=bool)


@contextlib.contextmanager
def installed(group: str, **more: Callable[..., Any]) -> Iterator[None]:
    """Install other plug-ins beside the shipped ones."""
    load = plugins.load

    def loaded(name: str) -> Plugins:
        found = load(name)
        if name != group:
            return found
        return Plugins(found.kind, {**found.by_name, **more}, found.sources, found.load_errors)

    with mock.patch.object(plugins, "load", loaded):
        yield


def policy(*filters: str, name: str = "mine", weighers: tuple[str, ...] = ()) -> Policy:
    return Policy(
        name=name, filters=tuple(map(FilterUse, filters)), weighers=tuple(map(WeigherUse, weighers))
    )


class TestFieldOfAPlugin(unittest.TestCase):
    """A plug-in adds a field to requests, and nothing else changes."""

    def setUp(self):
        self.enterContext(installed(plugins.FILTERS, quiet=quiet))
        self.decider = Decider(SITE, [policy("quiet"), policy(name="deaf")], strict=True)

    def chosen(self, most: int | None) -> list[str]:
        asked = QuietRequest(needs=NEEDS, policy="mine", most_noise_db=most, count=2, min_count=0)
        decision = self.decider.select_destinations(asked)
        return sorted(one.chosen.podm for one in decision.placements)

    def test_the_field_decides_and_no_evaluation_serves_another_value(self):
        self.assertEqual(["quiet"], self.chosen(40))
        self.assertEqual([], self.chosen(20))
        self.assertEqual(["loud", "quiet"], self.chosen(90))
        self.assertEqual(["quiet"], self.chosen(40))
        keys = {sealed(QuietRequest(needs=NEEDS, most_noise_db=n)).evaluation_key for n in (1, 2)}
        self.assertEqual(2, len(keys))

    def test_a_request_that_does_not_set_it_gives_the_filter_no_work(self):
        self.assertEqual(["loud", "quiet"], self.chosen(None))
        asked = Request(needs=NEEDS, policy="mine")
        self.assertEqual(1, self.decider.select_destinations(asked).fit_count)

    def test_a_policy_without_the_filter_refuses_it(self):
        asked = QuietRequest(needs=NEEDS, policy="deaf", most_noise_db=40)
        with self.assertRaisesRegex(
            RequestError, "policy 'deaf' has no filter 'quiet', which the request needs"
        ):
            self.decider.select_destinations(asked)

    def test_the_field_is_there_for_plugins_that_follow_a_group(self):
        tracked = track_request(QuietRequest(most_noise_db=7, owner="o"))
        self.assertEqual(7, tracked.most_noise_db)
        self.assertFalse(tracked.was_read)
        self.assertFalse(tracked.group_state)
        self.assertTrue(tracked.was_read)


class TestDeclarations(unittest.TestCase):
    """The combination of declarations, and refused ones."""

    def test_a_declaration_stands_above_or_below_what_makes_the_plugin(self):
        for make in (per_pool, terms):
            above = reads("zone")(make(lambda *anything: True))
            below = make(reads("zone")(lambda *anything: True))
            for function in (above, below):
                self.assertEqual([("zone",)], [one.fields for one in declarations(function)])

    def test_several_declarations_add_up(self):
        both = reads("owner", optional=True)(reads("zone")(lambda view, request: None))
        self.assertEqual([("owner",), ("zone",)], [one.fields for one in declarations(both)])

    def test_a_misspelt_field_is_refused_when_the_policy_is_bound(self):
        @reads("zoen")
        def wrong(view, request):
            """Keeps nothing."""

        with installed(plugins.FILTERS, wrong=wrong):
            bind(policy("zone"))
            with self.assertRaises(InputError) as caught:
                bind(policy("wrong"), "policies.yaml")
        self.assertEqual(
            "policies.yaml: policy 'mine': filter 'wrong' reads 'zoen': found no such field of a "
            "request (did you mean 'zone'?)",
            str(caught.exception),
        )

    def test_a_declaration_that_fails_is_an_error_of_its_plugin(self):
        broken = reads("zone", when=lambda zone: zone.floor)(lambda view, request: None)
        with installed(plugins.FILTERS, broken=broken):
            bound = bind(policy("broken"))
        self.assertIn("broken", {one.name for one in idle_readers(Request(), bound)})
        with self.assertRaisesRegex(PluginError, "filter 'broken' cannot read 'zone': Attribute"):
            idle_readers(Request(zone="z"), bound)
        with installed(plugins.FILTERS, broken=broken):
            other = bind(policy("zone"))
        self.assertEqual([], missing_readers(Request(zone="z"), other))

    def test_a_plugin_without_a_declaration_always_takes_part(self):
        with installed(plugins.FILTERS, plain=plain):
            bound = bind(policy("plain", "traits"))
        idle = {one.name for one in idle_readers(Request(), bound)}
        self.assertEqual({"target", "zone", "traits"}, idle)

    def test_an_installed_plugin_makes_no_policy_refuse_what_another_reads(self):
        mine = reads("locations")(lambda view, request: np.ones(len(view)))
        asked = Request(locations=("dc1",))
        with installed(plugins.WEIGHERS, mine=mine):
            self.assertEqual([], missing_readers(asked, bind(policy("location"))))
            self.assertEqual([], missing_readers(asked, bind(policy(weighers=("mine",)))))
            missing = missing_readers(asked, bind(policy()))
            self.assertEqual(["location", "mine"], [reader.name for reader in missing])

    def test_hard_rules_are_not_served_by_what_reads_the_soft_ones(self):
        hard = Request(group=Group(name="g", anti_affinity=("podm",)))
        missing = missing_readers(hard, bind(policy(weighers=("affinity",))))
        self.assertEqual(["spread"], [one.name for one in missing])

    def test_a_plugin_to_which_a_field_is_optional_serves_it_and_is_never_idle(self):
        bound = bind(policy())
        self.assertEqual([], missing_readers(Request(owner="o"), bound))
        self.assertNotIn("isolation", {one.name for one in idle_readers(Request(), bound)})

    def test_the_weigher_that_penalises_unknown_attributes_declares_it(self):
        mine = penalises_unknown(lambda view, request: np.ones(len(view)))
        asked = Policy(name="mine", weighers=(WeigherUse("mine"),), unknown="penalise")
        with installed(plugins.WEIGHERS, mine=mine):
            self.assertEqual(["mine"], [weigher.name for weigher in bind(asked).weighers])


class TestServing(unittest.TestCase):
    """Plug-ins that serve the fields which others read."""

    def test_one_of_the_same_kind_or_with_the_same_condition_or_to_which_it_is_optional(self):
        def when(value):
            return value > 2

        def other(value):
            return value > 2

        asked = RequestReader("filter", "asked", (("size", when),), ())
        for kind, required, optional, serves in (
            ("filter", (("size", other),), (), True),
            ("weigher", (("size", when),), (), True),
            ("weigher", (("size", other),), (), False),
            ("weigher", (), (("size", other),), True),
            ("filter", (("width", when),), (), False),
            ("filter", (("size", lambda value: value > 9),), (), False),
            ("weigher", (), (("size", lambda value: value > 9),), False),
        ):
            with self.subTest(kind=kind, required=required, optional=optional):
                reader = RequestReader(kind, "reader", required, optional)
                self.assertEqual(serves, reader.serves("filter", "size", when, 5))
                missing = asked.missing_fields(SimpleNamespace(size=5), [reader])
                self.assertEqual([] if serves else ["size"], list(missing))

    def test_a_field_that_asks_for_nothing_is_not_missing_and_gives_no_work(self):
        reader = RequestReader("filter", "asked", (("size", lambda value: value > 2),), ())
        for size, active in ((5, True), (2, False), (None, False)):
            asked = SimpleNamespace(size=size)
            self.assertEqual(active, reader.is_active(asked))
            self.assertEqual(["size"] if active else [], list(reader.missing_fields(asked, [])))
        self.assertFalse(reader.is_active(SimpleNamespace()))
        self.assertEqual([], list(reader.missing_fields(SimpleNamespace(), [])))

    def test_any_of_several_fields_gives_it_work(self):
        reader = RequestReader("filter", "asked", (("a", bool), ("b", bool)), ())
        for a, b, active in ((1, 0, True), (0, 1, True), (0, 0, False)):
            self.assertEqual(active, reader.is_active(SimpleNamespace(a=a, b=b)))

    def test_a_condition_that_fails_names_the_plugin_and_the_field(self):
        reader = RequestReader("weigher", "odd", (("a", bool), ("b", lambda value: value.x)), ())
        with self.assertRaisesRegex(PluginError, "^weigher 'odd' cannot read 'b': .*'x'") as caught:
            reader.is_active(SimpleNamespace(a=0, b=1))
        self.assertIsInstance(caught.exception.__cause__, AttributeError)


FILTERS = plugins.load(plugins.FILTERS).by_name
WEIGHERS = plugins.load(plugins.WEIGHERS).by_name
OPTIONS = {
    "quarantine": [{}, {"most": 3}, {"fact": "noise_db", "most": 3, "failures": "year"}],
    "health": [{}, {"unknown": False}, {"fact": "owner", "unknown": False}],
    "isolation": [{}, {"key": "os"}],
    "alive": [{}, {"unknown": True}],
    "failures": [{}, {"fact": "noise_db"}],
    "cost": [
        {"rules": [{"fact": "year", "at_least": 2020, "cost": 7}, {"zone": "az1", "cost": 1}]},
    ],
    "preference": [
        {"rules": [{"trait": "COOLED", "weight": 2}, {"aggregate": "ssd", "weight": -1},
                   {"capability": "os", "equals": "linux", "weight": 3}]},
    ],
}  # fmt: skip
REQUESTS = [request(properties, **words) for properties, words in contract.REQUESTS]


#: The fields that every policy reads for a request without a place, and for any request.
USUAL = ("capabilities.reserved_for", "enabled", "status")
ANY = ("capabilities.reserved_for", "enabled", "name", "status", "zone")


def only(fields, podms=contract.PODMS):
    """Return pod managers with only the named fields, and their hardware."""
    return [{"id": podm["id"], **select_stats({k: v for k, v in podm.items()
             if k not in ("id", "generation")}, fields)} for podm in podms]  # fmt: skip


@functools.cache
def view_of(fields):
    return view(*only(fields))


class TestPodmDeclarations(unittest.TestCase):
    """Each of our plug-ins declares its fields, and answers the same without other fields."""

    def test_a_plug_in_answers_the_same_on_the_fields_that_it_declares(self):
        whole = view(*contract.PODMS)
        for kind, installed in (("filters", FILTERS), ("weighers", WEIGHERS)):
            for name in installed:
                for given_options in OPTIONS.get(name, [{}]):
                    self.check(whole, kind, name, given_options)

    def check(self, whole, kind, name, options):
        use = FilterUse(name, options) if kind == "filters" else WeigherUse(name, options=options)
        policy = bind(Policy(name="p", **{kind: (use,)}))
        (plugin,) = [one for one in getattr(policy, kind) if one.name == name]
        every = set(fields_read(policy.policy))
        self.assertIn("podm_fields", vars(plugin.evaluate.func), name)
        for one in REQUESTS:
            fields = fields_read(policy.policy, one)
            for field in fields:
                self.assertTrue({field, field.partition(".")[0]} & every, (name, field))
            with self.subTest(name, fields=fields, options=options):
                part = view_of(fields)
                np.testing.assert_array_equal(
                    plugin.evaluate(whole, one), plugin.evaluate(part, one)
                )

    def test_a_plug_in_without_a_declaration_may_read_all(self):
        class Inheriting(type(plugins.load(plugins.SCHEDULERS).get("filter")())):
            pass

        def quiet(view, request):
            return view.number("noise_db") < 60

        for plugin in (Inheriting, quiet):
            self.assertEqual(ALL_FIELDS, tuple(podm_fields(plugin, {})))


class TestPolicies(unittest.TestCase):
    def test_a_decision_is_the_same_without_the_fields_that_are_not_read(self):
        """S65: the facts that the enabled filters and weighers read are sufficient."""
        placed = []

        @settings(max_examples=sized(40), derandomize=True)
        @given(policies(), st.lists(st.sampled_from(REQUESTS), min_size=3, max_size=5))
        def check(policy, requests):
            for one in requests:
                named = msgspec.structs.replace(one, policy=policy.name, count=3, min_count=0)
                whole = decide(contract.PODMS, policy, named)
                for fields in {fields_read(policy, named), fields_read(policy)}:
                    self.assertEqual(whole, decide(only(fields), policy, named))
                    placed.append(bool(whole and whole[1]))

        check()
        self.assertGreater(sum(placed), 5)

    def test_what_no_enabled_filter_reads_need_not_be_sent(self):
        """S65: without the filter, the health of GPUs is not read."""
        health = FilterUse("health", {"fact": "gpu_health"})
        zone = FilterUse("zone")
        with_gpu = Policy(name="p", filters=(health, zone))
        self.assertEqual(tuple(sorted(("facts.gpu_health", *ANY))), fields_read(with_gpu))
        self.assertEqual(ANY, fields_read(Policy(name="p", filters=(zone,))))
        self.assertEqual(USUAL, fields_read(Policy(name="p", filters=(zone,)), REQUESTS[0]))

    def test_weights_of_places_and_declared_resources_are_read(self):
        overrides = WeightOverrides(aggregate={"gold": 2.0})
        policy = Policy(name="p", weighers=(WeigherUse("room", overrides=overrides),))
        power = CustomResource(name="watts", fact="power_free_w", used_fact="power_w")
        self.assertEqual(("aggregates", *ANY), fields_read(policy))
        self.assertEqual(
            tuple(sorted(("aggregates", "facts.power_free_w", "facts.power_w", *USUAL))),
            fields_read(policy, REQUESTS[0], [power]),
        )

    def test_a_resource_of_some_pod_managers_is_read_by_their_names(self):
        policy = Policy(name="p")
        some = CustomResource(name="slots", podms={"a": 4})
        self.assertEqual(USUAL, fields_read(policy, REQUESTS[0]))
        self.assertEqual(tuple(sorted(("name", *USUAL))), fields_read(policy, REQUESTS[0], [some]))

    def test_all_facts_stand_for_each(self):
        policy = Policy(name="p", filters=(FilterUse("json"), FilterUse("health")))
        fields = fields_read(policy)
        self.assertIn("facts", fields)
        self.assertNotIn("facts.health", fields)


@st.composite
def policies(draw):
    def uses(kind, installed):
        names = draw(st.lists(st.sampled_from(sorted(installed)), unique=True))
        return tuple(kind(name, options=draw(st.sampled_from(OPTIONS.get(name, [{}]))))
                     for name in names)  # fmt: skip

    return Policy(
        name="p",
        scheduler=draw(st.sampled_from(["filter", "chance"])),
        filters=uses(FilterUse, FILTERS),
        weighers=uses(WeigherUse, WEIGHERS),
        unknown=draw(st.sampled_from(["reject", "allow", "penalise"])),
    )


def decide(podms, policy, one):
    """Return the decision and its reasons, None if the policy refuses the request."""
    try:
        report = decision_report(Decider(view(*podms), [policy]).select_destinations(one))
    except RequestError:
        return None
    return report.outcome, report.placements, report.funnel, report.podms
