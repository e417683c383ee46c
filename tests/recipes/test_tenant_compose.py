# SPDX-License-Identifier: Apache-2.0
"""The dialect of the recipe composes by its own method."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.test_composer import EXAMPLE as NODE
from tests.unit.trees import V, ruled, tree
from valence_sched.drivers.connect import connect
from valence_sched.drivers.crawl.pool import ReadTarget
from valence_sched.drivers.redfish.dialect import redfish
from valence_sched.drivers.redfish.methods import SPECIFIC
from valence_sched.model.claim import CompositionResult
from valence_sched.model.registration import Registration
from valence_sched.testing.served import served

from .tenant_compose.tenant_compose import has_tenants, tenant_compose

DIALECTS = {"redfish": redfish, "tenant_compose": tenant_compose}


def documents(**oem: str) -> dict[str, Any]:
    """Return a pod manager that requires a tenant to compose a node."""
    found = ruled(tree(), SPECIFIC, **{"Oem@Redfish.RequiredOnCreate": True})
    found[V]["Oem"] = {"Tenants": {}}
    found[f"{V}/CompositionService"]["Oem"] = oem
    return found


class TestTenantCompose(unittest.TestCase):
    """A pod manager of the recipe, served on loopback."""

    def compose(self, driver: str, **oem: str) -> str | CompositionResult:
        with served(documents={"rack-9": documents(**oem)}) as podms:
            target = ReadTarget(Registration(name="rack-9", url=podms["rack-9"].url, driver=driver))
            with connect(target, DIALECTS, 10, 1) as (composer, _session):
                return composer.refusal(NODE) or composer.compose(NODE, lambda _state: None)

    def test_its_service_root_is_recognised(self):
        self.assertTrue(has_tenants({"Oem": {"Tenants": {}}}))
        for root in ({}, {"Oem": {}}, {"Oem": None}):
            self.assertFalse(has_tenants(root))

    def test_a_node_is_composed_for_the_tenant(self):
        self.assertEqual("composed", self.compose("auto", DefaultTenant="physics").state)

    def test_without_a_tenant_the_reason_is_that_of_the_method(self):
        self.assertEqual("its CompositionService names no Oem/DefaultTenant", self.compose("auto"))

    def test_the_standard_has_no_value_for_it(self):
        self.assertIn("requires 'Oem'", self.compose("redfish", DefaultTenant="physics"))
