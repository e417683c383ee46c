# SPDX-License-Identifier: Apache-2.0
"""Values of devices, and places, that are asked for and that nothing has are warned of."""

import unittest

from tests.unit.core.deciders import cpu, engine_of, gpu
from valence_sched.core.explain.report import decision_warnings
from valence_sched.testing import request

DRIVE = {"uri": "d", "devices": {"drives": [{"media": "SSD", "remote": False}]}}
SITE = {"id": "a", "blocks": [
    cpu("c", 8), gpu("g", model="NVIDIA A100 80GB"), {**DRIVE, "places": {"switch": "s"}},
]}  # fmt: skip


def warnings(properties, *podms, **words) -> list[str]:
    asked = request(properties, **words)
    return decision_warnings(engine_of(*podms or [SITE]).select_destinations(asked))


class TestUnmade(unittest.TestCase):
    """One line each, with the nearest."""

    def test_a_value_that_no_device_has_is_named_with_the_nearest(self):
        for properties, line in (
            ({"accelerators": [{"kind": "GPPU"}]},
             "accelerator has the kind 'GPPU' (did you mean 'GPU'?)"),
            ({"drives": [{"media": "SDD"}]}, "drive has the media 'SDD' (did you mean 'SSD'?)"),
            ({"accelerators": [{"model": "A1000"}]},
             "accelerator has the model 'A1000' (did you mean 'A100'?)"),
            ({"drives": [{"protocol": "NVMe"}]},
             "drive has the protocol 'NVMe' (none is known)"),
        ):  # fmt: skip
            with self.subTest(properties):
                self.assertEqual([f"no {line}"], warnings(properties))

    def test_of_alternatives_one_may_be_nowhere_but_not_all(self):
        first = [{"accelerators": [{"model": "H200"}]}, {"accelerators": [{"model": "A100"}]}]
        self.assertEqual([], warnings({}, first_of=first))
        first[1] = {"drives": [{"media": "SDD"}]}
        self.assertEqual(
            ["no accelerator has the model 'H200' (known: NVIDIA A100 80GB)",
             "no drive has the media 'SDD' (did you mean 'SSD'?)"],
            warnings({}, first_of=first),
        )  # fmt: skip

    def test_what_is_there_in_any_spelling_or_where_no_device_is_gets_no_line(self):
        for properties in (
            {"accelerators": [{"kind": "gpu", "model": "a100"}]},
            {"drives": [{"media": "ssd", "remote": True}]},
            {"nics": [{"speed_mbps": 9}]},
            {"memory": {"capacity_mib": 9, "type": "DDR9"}},
        ):
            with self.subTest(properties):
                self.assertEqual([], warnings(properties))

    def test_a_place_that_no_block_tells_is_named_with_the_nearest(self):
        nics = {"uri": "n", "devices": {"nics": [{}, {}]}}
        other = {"id": "b", "blocks": [nics]}
        for place, line in (
            ("swich", ["no block tells its place 'swich' (did you mean 'switch'?)"]),
            ("switch", []),
            ("zone", []),
        ):
            with self.subTest(place):
                asked = {"drives": [{"count": 1, "same": place}]}
                self.assertEqual(line, warnings(asked, other, SITE))


if __name__ == "__main__":
    unittest.main()
