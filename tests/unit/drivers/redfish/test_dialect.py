# SPDX-License-Identifier: Apache-2.0
"""What the dialect of DMTF Redfish consists of."""

import unittest

from tests.unit.drivers.redfish.service import PLAIN, Service
from valence_sched.drivers.fields import Link
from valence_sched.drivers.redfish.dialect import redfish


class TestDialect(unittest.TestCase):
    def test_its_composer_composes_on_the_session_that_it_is_given(self):
        podm = Service()
        composer = redfish().composer(podm, podm.patience)
        self.assertEqual("composed", composer.compose(PLAIN, podm.states.append).state)

    def test_it_composes_memory_and_storage_by_amount(self):
        amounts = {"cxl_memory_mib", "cxl_pmem_mib", "storage_gib"}
        self.assertEqual(("redfish", amounts), (redfish().name, set(redfish().amounts)))

    def test_all_that_is_read_below_a_service_root_is_declared_on_its_root(self):
        declared = {it.path for it in vars(redfish().root).values() if isinstance(it, Link)}
        self.assertEqual(
            {"CompositionService", "ResourceBlocks", "Systems", "Chassis", "Storage",
             "StorageServices"}, declared,
        )  # fmt: skip
