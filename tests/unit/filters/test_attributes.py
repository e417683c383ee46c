# SPDX-License-Identifier: Apache-2.0
"""Conditions on attributes: which pod managers stay, and how a rejection reads."""

import unittest

from tests.unit.core.deciders import engine_of
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.filters.attributes import attributes
from valence_sched.model.request import Request
from valence_sched.testing import request, view

PODMS = (
    {"id": "a", "name": "Rack A", "zone": "east-1", "driver": "redfish",
     "facts": {"year": 2024, "rack": "E07", "racks": ["E07", "E08"], "price": 1.5},
     "capabilities": {"os": ["linux", "windows"]}},
    {"id": "b", "zone": "west-1", "status": "Offline",
     "facts": {"year": 2019, "rack": "W11"}, "capabilities": {"os": ["linux"]}},
    {"id": "c", "facts": {"year": "long ago"}},
)  # fmt: skip


def reasons(podm: dict, **asked: str) -> list[str]:
    """Return the reasons against one podm."""
    attributes = {name.replace("__", "."): text for name, text in asked.items()}
    decision = engine_of({**podm, "status": "Online"}).select_destinations(
        request({"processor": {"sockets": 1}}, attributes=attributes)
    )
    return [
        reason.text for reason in Verdicts(decision).reasons(0) if reason.filter == "attributes"
    ]


class TestAttributes(unittest.TestCase):
    """The filter."""

    def test_it_keeps_the_pod_managers_whose_attributes_fulfil_what_is_asked(self):
        for asked, verdicts in (
            ({}, [True, True, True]),
            ({"facts.year": ">= 2020"}, [True, False, False]),
            ({"year": "<= 2020"}, [False, True, False]),
            ({"year": "!= 2019"}, [True, False, False]),
            ({"year": "2019"}, [False, True, False]),
            ({"price": "= 1.5"}, [True, False, False]),
            ({"rack": "<in> E"}, [True, False, False]),
            ({"racks": "E08"}, [True, False, False]),
            ({"facts.nobody_tells": "s!= x"}, [False, False, False]),
            ({"capabilities.os": "linux"}, [True, True, False]),
            ({"capabilities.os": "<all-in> linux windows"}, [True, False, False]),
            ({"capabilities.hv": "kvm"}, [False, False, False]),
            ({"zone": "<in> -1"}, [True, True, False]),
            ({"zone": "s!= east-1"}, [False, True, False]),
            ({"status": "Online"}, [True, False, True]),
            ({"driver": "redfish"}, [True, False, False]),
            ({"id": "<or> a <or> c"}, [True, False, True]),
            ({"name": "Rack A"}, [True, False, False]),
            ({"year": ">= 2000", "zone": "west-1"}, [False, True, False]),
        ):
            with self.subTest(asked):
                found = attributes(view(*PODMS), Request(attributes=asked))
                self.assertEqual(verdicts, found.tolist())

    def test_every_pool_of_a_pod_manager_is_judged_as_it_is(self):
        pools = [{"id": "1"}, {"id": "2"}]
        site = view({**PODMS[1], "pools": pools}, {**PODMS[0], "pools": pools})
        asked = Request(attributes={"year": ">= 2020", "capabilities.os": "<in> win"})
        self.assertEqual([False, False, True, True], attributes(site, asked).tolist())

    def test_a_reason_has_the_attribute_the_condition_and_what_is_told(self):
        for asked, text in (
            ({"facts__year": ">= 2022"}, "attributes: facts.year: needs >= 2022, has 2019"),
            ({"year": "== 2022"}, "attributes: year: needs == 2022, has 2019"),
            ({"facts__colour": "red"}, "attributes: facts.colour: needs red, has unknown"),
            ({"capabilities__os": "bsd"}, "attributes: capabilities.os: needs bsd, has linux"),
            ({"capabilities__hv": "kvm"}, "attributes: capabilities.hv: needs kvm, has none"),
            ({"zone": "<in> east"}, "attributes: zone: needs <in> east, has west-1"),
        ):
            with self.subTest(asked):
                self.assertEqual([text], reasons(PODMS[1], **asked))
