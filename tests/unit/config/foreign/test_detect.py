# SPDX-License-Identifier: Apache-2.0
"""Whatever a document holds, it is a flavor or one line says why not."""

import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from valence_sched.config.foreign.base import DocumentCursor
from valence_sched.config.parsers import parse_flavor
from valence_sched.errors import SchedulerError
from valence_sched.model.flavor import Flavor

WORDS = st.sampled_from([
    "name", "uuid", "properties", "memory", "processor", "capacity_mib", "total_cores", "type",
    "flavor_id", "links", "podm_id", "pci_device", "remote_storage", "capacity_gib",
    "Name", "TotalSystemCoreCount", "Processors", "Memory", "LocalDrives", "RemoteDrives",
    "EthernetInterfaces", "Security", "Boot", "Oem", "Resource", "VLANs", "CapacityGiB",
    "CapacityMiB", "TotalCores", "ProcessorType", "TpmPresent", "Protocol",
    "vcpus", "ram", "disk", "flavor", "extra_specs", "swap", "resources:VCPU", "resources:X",
    "trait:A", "capabilities:x", "hw:a", "plain", 7, None, True,
])  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 10**16), st.floats(), st.text(max_size=3),
    st.sampled_from(["1", "required", ">= 4", "CPU", "FPGA", "DDR4"]),
)  # fmt: skip
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=12,
)


class TestRead(unittest.TestCase):
    """Every document there is."""

    @settings(max_examples=600)
    @given(DOCUMENTS)
    def test_it_is_a_flavor_or_an_error_of_one_line(self, document):
        try:
            found = parse_flavor(document, DocumentCursor("f"), dict)
        except SchedulerError as error:
            self.assertTrue(str(error).startswith("f: $"), error)
            self.assertNotIn("\n", str(error))
        else:
            self.assertIsInstance(found.flavor, Flavor)
            self.assertTrue(found.flavor.name)
            for remark in found.remarks:
                self.assertTrue(remark.startswith("f: $"), remark)
