# SPDX-License-Identifier: Apache-2.0
"""The reason of each filter for a rejected pod manager, and the fields that it reads."""

import unittest
from typing import Any

from valence_sched.core.decider import Decider
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.filters import attributes, capabilities, json, quarantine
from valence_sched.filters.devices import devices
from valence_sched.model.policy import FilterUse, Policy
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.terms import podm_fields
from valence_sched.words.phrases import ReasonPhrases

CORES = {"processor": {"total_cores": 8}}
OTHER = {"id": "other"}


def asked(properties: dict[str, Any] | None = None, **words: Any) -> Request:
    return request(properties or CORES, policy="mine", **words)


class TestReasons(unittest.TestCase):
    def check(self, expected: list[str], name: str, wanted: Request, podm: dict, **options: Any):
        """Check the reason of a filter for the second of two pod managers."""
        policy = Policy(name="mine", filters=(FilterUse(name, options),))
        site = view(OTHER, {"id": "a", "name": "Rack A", **podm})
        decision = Decider(site, [policy]).select_destinations(wanted)
        found = [reason.text for reason in Verdicts(decision).reasons(1)]
        self.assertEqual([f"{name}: {one}" for one in expected], found)

    def test_what_the_operator_says_of_a_pod_manager(self):
        self.check(["needs yes, has no"], "enabled", asked(), {"enabled": False})
        self.check(["status: needs Online, has Offline"], "alive", asked(), {"status": "Offline"})
        self.check(["needs east, has west"], "zone", asked(zone="east"), {"zone": "west"})
        self.check(["needs east, has unknown"], "zone", asked(zone="east"), {})

    def test_names_that_are_required_or_forbidden(self):
        names = {"required": ["x"], "forbidden": ["y"], "any_of": [["u", "v"]]}
        expected = ["needs x, has y", "needs u or v, has y", "needs not y, has y"]
        for name, label in (("aggregates", "aggregate"), ("traits", "trait")):
            with self.subTest(name):
                self.check([f"{label}: {one}" for one in expected],
                           name, asked(**{name: names}), {name: ["y"]})  # fmt: skip

    def test_pod_managers_that_are_named(self):
        named, excluded = asked(podms=["other"]), asked(exclude_podms=["Rack A"])
        self.check(["pod manager: needs other, has a"], "target", named, {})
        self.check(["pod manager: needs not Rack A, has a"], "target", excluded, {})

    def test_what_they_report_of_themselves(self):
        smoke, failed = {"facts": {"quarantine": "smoke"}}, {"facts": {"failures": 4}}
        self.check(["needs no, has smoke"], "quarantine", asked(), smoke)
        self.check(["failures: needs at most 3, has 4"], "quarantine", asked(), failed, most=3)
        critical, warning = ({"facts": {"health": word}} for word in ("Critical", "Warning"))
        self.check(["needs Warning or better, has Critical"], "health", asked(), critical)
        self.check(["needs OK, has Warning"], "health", asked(), warning, worst="OK")
        rack = {"facts": {"location": "dc2"}}
        self.check(["needs dc1 or dc3, has dc2"], "location", asked(locations=["dc1", "dc3"]), rack)

    def test_capabilities_and_owners(self):
        windows = {"capabilities": {"os": ["windows"]}}
        wanted = asked(capabilities={"os": ["linux", "bsd"]})
        self.check(["capability os: needs linux;bsd, has windows"], "capabilities",
                   wanted, windows)  # fmt: skip
        site = view({"id": "a", "capabilities": {"hv": ["kvm"]}})
        policy = Policy(name="mine", filters=(FilterUse("capabilities"),))
        decision = Decider(site, [policy]).select_destinations(wanted)
        (reason,) = Verdicts(decision).reasons(0)
        self.assertEqual("no capability os, needs linux;bsd",
                         ReasonPhrases().of_reason(reason))  # fmt: skip
        taken = {"capabilities": {"reserved_for": ["you", "him"]}}
        for owner, words in (("me", "for me"), (None, "unreserved")):
            self.check([f"reserved: needs {words}, has for you, him"], "isolation",
                       asked(owner=owner), taken)  # fmt: skip

    def test_attributes_and_expressions(self):
        old = {"facts": {"year": 2010}, "zone": "west"}
        newer = asked(attributes={"facts.year": ">= 2020"})
        self.check(["facts.year: needs >= 2020, has 2010"], "attributes", newer, old)
        east = asked(where=["=", "$zone", "east"])
        self.check(["needs zone = east, has west"], "json", east, old)
        for wanted in ("1_2", "\u0661\u0662"):  # names, although Python reads them as 12
            rack = asked(attributes={"facts.rack": "== 12"})
            found = {"facts": {"rack": wanted}}
            self.check([f"facts.rack: needs == 12, has {wanted}"], "attributes", rack, found)
            rack = asked(where=["=", "$facts.rack", 12])
            self.check([f"needs facts.rack = 12, has {wanted}"], "json", rack, found)

    def test_amounts_of_blocks_and_of_stocks(self):
        small = {"blocks": [{"uri": "b", "devices": {"processors": [{"cores": 4}]}}]}
        self.check(["cores: needs 8, has 4"], "capacity", asked(), small)
        self.check(["cores: needs 10, has 4"], "capacity", asked(), small, headroom=0.25)
        twice = asked({"stocks": [{"resource": "gib", "amount": 5, "count": 2}]})
        self.check(
            ["gib at once: needs 5, has 4", "gib: needs 10, has 4",
             "grants of gib: needs 2, has 0"],
            "capacity", twice, {"stocks": [{"uri": "s", "resource": "gib", "total": 4}]},
        )  # fmt: skip
        once = asked({"stocks": [{"resource": "gib", "amount": 5}]})
        self.check(["gib at once: needs 5, has 4"], "capacity", once,
                   {"stocks": [{"uri": "s", "resource": "gib", "total": 4}]})  # fmt: skip

    def test_amounts_of_memory_have_units_and_differ_in_words_if_they_differ(self):
        modules = {"devices": {"memory": [{"capacity_mib": 262144}]}}
        blocks = [{"uri": f"b{n}", "pools": [pool], "type": ["Memory"], **modules}
                  for n, pool in enumerate("ppq")]  # fmt: skip
        pools = [{"id": "p", "limits": {"Memory": {"max": 1}}}, {"id": "q"}]
        site = view({"id": "a", "pools": pools, "blocks": blocks})
        for mib, least, fit in ((262145, "262,144 of 262,145 MiB", "262,144 of 262,145 MiB"),
                                (393216, "256 of 384 GiB", "256 of 384 GiB")):  # fmt: skip
            wanted = asked({"memory": {"capacity_mib": mib}})
            policy = Policy(name="mine", filters=(FilterUse("capacity", {}),))
            decision = Decider(site, [policy]).select_destinations(wanted)
            texts = [ReasonPhrases().of_pool(Verdicts(decision).reasons(row)) for row in (0, 1)]
            self.assertEqual(f"{fit} memory within the pool's block limits", texts[0])
            self.assertEqual(f"{least} memory (768 GiB in all its pools)", texts[1])

    def test_rules_of_groups(self):
        member = {"zone": "z", "nodes": [{"uri": "n", "group": "web"}]}
        for rules, expected in (
            ({"anti_affinity": ["podm"]}, "at most 1 per podm: needs fewer than 1, has 1"),
            ({"at_most": {"zone": 1}}, "at most 1 per zone: needs fewer than 1, has 1"),
        ):
            with self.subTest(expected):
                self.check([f"group web: {expected}"], "spread",
                           asked(group={"name": "web", **rules}), member)  # fmt: skip
        even = asked(group={"name": "web", "spread": [{"over": "zone"}]})
        self.check(["group web: spread over zone, skew 1: needs fewer than 1, has unknown"],
                   "spread", even, {})  # fmt: skip
        together = asked(group={"name": "web", "affinity": ["zone"]})
        self.check(["group web: all at one zone: needs 0, has unknown"], "spread", together, {})


class TestInstead(unittest.TestCase):
    """Free devices instead of the requested ones."""

    CARDS = (
        {"uri": "t", "devices": {"accelerators": [
            {"kind": "GPU", "model": "T4", "count": 2}, {"kind": "FPGA", "model": "Stratix"}]}},
        {"uri": "u", "devices": {"accelerators": [{"kind": "GPU"}]}},
        {"uri": "v", "devices": {"accelerators": [{"kind": "GPU", "model": "T4", "count": 2}]}},
    )  # fmt: skip

    def instead(self, wanted: dict, blocks: list[dict]) -> dict:
        site = view(OTHER, {"id": "a", "pools": [{"id": "p"}, {"id": "q"}], "blocks": blocks})
        (term,) = devices.terms(site, asked({"accelerators": [wanted]}))
        return {site.pools[row].id: dict(term.instead(row)) for row in (1, 2)}

    def in_pool(self, pool: str, **words: Any) -> list[dict]:
        return [{**block, "pools": [pool], **words} for block in self.CARDS]

    def test_those_of_the_kind_are_counted_by_model_in_the_pool(self):
        found = self.instead({"kind": "GPU", "model": "A100"}, self.in_pool("q"))
        self.assertEqual({"p": {}, "q": {"T4": 4, "of unknown model": 1}}, found)

    def test_devices_of_another_kind_do_not_count(self):
        found = self.instead({"kind": "FPGA", "model": "Agilex"}, self.in_pool("p"))
        self.assertEqual({"p": {"Stratix": 1}, "q": {}}, found)

    def test_what_is_in_use_does_not_count(self):
        used = self.in_pool("p", status={"state": "Composed"})
        self.assertEqual({}, self.instead({"kind": "GPU", "model": "A100"}, used)["p"])

    def test_a_size_that_is_required_stands_beside_the_model(self):
        cards = [{"kind": "GPU", "model": "T4", "memory_mib": 16384, "count": None},
                 {"kind": "GPU", "model": "T4"}, {"kind": "GPU", "memory_mib": 24576}]  # fmt: skip
        blocks = [{"uri": "b", "pools": ["p"], "devices": {"accelerators": cards}}]
        found = self.instead({"kind": "GPU", "memory_mib": 40960}, blocks)
        self.assertEqual({"T4 of 16 GiB": 1, "T4": 1, "of 24 GiB": 1}, found["p"])

    def test_devices_without_a_model_are_named_by_their_size(self):
        memory = {"memory": [{"capacity_mib": 8192}]}
        site = view({"id": "a", "blocks": [{"uri": "b", "devices": memory}]})
        wanted = asked({"modules": [{"capacity_mib": 16384}]})
        terms = [term for term in devices.terms(site, wanted) if term.instead]
        self.assertEqual([{"of 8 GiB": 1}], [dict(term.instead(0)) for term in terms])

    def test_devices_in_too_bad_a_health_do_not_count(self):
        cards = [{"kind": "GPU", "model": "T4", "health": "Critical"}, {"kind": "GPU"}]
        blocks = [{"uri": "b", "pools": ["p"], "devices": {"accelerators": cards}}]
        found = self.instead({"kind": "GPU", "model": "A100"}, blocks)
        self.assertEqual({"of unknown model": 1}, found["p"])


class TestTaints(unittest.TestCase):
    """Tainted blocks."""

    def reasons(self, blocks: list[dict], **words: Any) -> list[str]:
        wanted = request({"accelerators": [{"kind": "GPU", "count": 2}]}, policy="mine", **words)
        site = view({"id": "a", "blocks": blocks})
        policy = Policy(name="mine", filters=(FilterUse("devices", {}),))
        decision = Decider(site, [policy]).select_destinations(wanted)
        reasons = Verdicts(decision).podm_verdict(0).pool_reasons
        return [ReasonPhrases().of_pool(one.reasons) for one in reasons]

    def test_the_reason_names_the_taint(self):
        devices = {"accelerators": [{"kind": "GPU"}]}
        status = {"taints": ["maintenance=disk:NoPlace"]}
        blocks = [{"uri": str(n), "devices": devices, "status": status} for n in range(2)]
        expected = ["no GPU (2 of 2 GPU are tainted maintenance=disk:NoPlace)"]
        self.assertEqual(expected, self.reasons(blocks))
        for toleration in ({"key": "maintenance", "value": "disk"}, {"operator": "Exists"}):
            self.assertEqual([], self.reasons(blocks, tolerations=[toleration]))
        blocks[1]["status"] = {"taints": [*status["taints"], "team=b:NoPlace"], "health": "Warning"}
        other = {"key": "maintenance", "operator": "Exists"}
        (text,) = self.reasons(blocks, tolerations=[other])
        words = "Warning, tainted maintenance=disk:NoPlace, tainted team=b:NoPlace"
        self.assertEqual(f"1 of 2 GPU (1 of 2 GPU is {words})", text)


class TestFields(unittest.TestCase):
    """The changes of a pod manager that can change a verdict."""

    def test_without_a_request_every_field_that_one_may_name(self):
        for function, expected in (
            (attributes.attributes, "capabilities driver facts name status zone"),
            (capabilities.capabilities, "capabilities"),
            (json.json, "aggregates capabilities driver enabled facts name status traits zone"),
        ):
            with self.subTest(function.__name__):
                found = podm_fields(function, {"unknown": False})
                self.assertEqual(expected.split(), sorted(found))

    def test_with_a_request_those_that_it_names(self):
        wanted = asked(
            attributes={"facts.year": ">= 2020", "zone": "s== z"},
            capabilities={"os": ["linux"]},
            where=["=", "$driver", "redfish"],
        )
        for function, expected in (
            (attributes.attributes, ["facts.year", "zone"]),
            (capabilities.capabilities, ["capabilities.os"]),
            (json.json, ["driver"]),
        ):
            with self.subTest(function.__name__):
                self.assertEqual(expected, sorted(podm_fields(function, {}, wanted)))
        self.assertEqual([], list(podm_fields(json.json, {}, asked())))

    def test_failures_are_read_where_they_are_limited(self):
        options = {"fact": "smoke", "failures": "broken", "most": None}
        read = quarantine.quarantine
        self.assertEqual(["facts.smoke"], list(podm_fields(read, options)))
        self.assertEqual(["facts.smoke", "facts.broken"],
                         list(podm_fields(read, {**options, "most": 0})))  # fmt: skip
