# SPDX-License-Identifier: Apache-2.0
"""What decisions read of pod managers: as declared, and no decision changes without the rest."""

import unittest

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from valence_sched.core import plugins
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_report
from valence_sched.core.policy import bind, fields_read
from valence_sched.errors import RequestError
from valence_sched.model.custom_resource import CustomResource
from valence_sched.model.policy import FilterUse, Policy, WeigherUse, WeightOverrides
from valence_sched.model.stats import select_stats
from valence_sched.testing import request, scenes, view
from valence_sched.view.podm_fields import ALL_FIELDS, podm_fields

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
REQUESTS = [request(properties, **words) for properties, words in scenes.REQUESTS]


#: What every policy reads for a request that names no place, and for any request.
USUAL = ("capabilities.reserved_for", "enabled", "status")
ANY = ("capabilities.reserved_for", "enabled", "name", "status", "zone")


def only(fields, podms=scenes.PODMS):
    """Return pod managers with the fields named, and what nodes are made of."""
    return [{"id": podm["id"], **select_stats({k: v for k, v in podm.items()
             if k not in ("id", "generation")}, fields)} for podm in podms]  # fmt: skip


class TestDeclarations(unittest.TestCase):
    """Every plug-in of ours declares what it reads, and answers the same without the rest."""

    def test_a_plug_in_answers_the_same_on_the_fields_that_it_declares(self):
        whole = view(*scenes.PODMS)
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
                part = view(*only(fields))
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
    """Decisions of a policy."""

    def test_a_decision_is_the_same_without_the_fields_that_are_not_read(self):
        """S65: the facts that the enabled filters and weighers read are enough."""
        placed = []

        @settings(max_examples=30, derandomize=True)
        @given(policies(), st.lists(st.sampled_from(REQUESTS), min_size=3, max_size=5))
        def check(policy, requests):
            for one in requests:
                named = msgspec.structs.replace(one, policy=policy.name, count=3, min_count=0)
                for fields in (fields_read(policy, named), fields_read(policy)):
                    whole, part = (decide(podms, policy, named)
                                   for podms in (scenes.PODMS, only(fields)))  # fmt: skip
                    self.assertEqual(whole, part)
                    placed.append(bool(whole and whole[1]))

        check()
        self.assertGreater(sum(placed), 20)

    def test_what_no_enabled_filter_reads_need_not_be_sent(self):
        """S65: without the filter for the health of GPUs nobody reads it."""
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
    """Return what was decided and why, None where the policy refuses the request."""
    try:
        report = decision_report(Decider(view(*podms), [policy]).select_destinations(one))
    except RequestError:
        return None
    return report.outcome, report.placements, report.funnel, report.podms
