# SPDX-License-Identifier: Apache-2.0
"""Kinds of block: tests on devices, amounts and prices."""

import unittest

from msgspec import Raw

from valence_sched.errors import InputError
from valence_sched.model.inventory import Accelerator, Devices, Drive, Memory, Nic, Processor
from valence_sched.model.need import Need, Test
from valence_sched.view.block_kinds import BlockKinds, device_amount, passes, price


class TestPasses(unittest.TestCase):
    """One test on one device."""

    CARD = Accelerator(kind="GPU", model="NVIDIA A100 80GB", memory_mib=81920)
    UNKNOWN = Accelerator(kind="GPU")

    def test_operators(self):
        for test, expected in (
            (Test("kind", "equal", "GPU"), True),
            (Test("kind", "equal", "gpu"), True),
            (Test("kind", "equal", "FPGA"), False),
            (Test("model", "words", "a100"), True),
            (Test("model", "equal", "A100"), False),
            (Test("memory_mib", "at_least", 81920), True),
            (Test("memory_mib", "at_least", 81921), False),
        ):
            with self.subTest(test):
                self.assertIs(expected, passes(test, self.CARD))

    def test_an_unknown_attribute_passes_only_where_the_unknown_is_allowed(self):
        for test in (Test("model", "words", "a100"), Test("memory_mib", "at_least", 1)):
            self.assertFalse(passes(test, self.UNKNOWN))
            self.assertFalse(passes(test, self.UNKNOWN, "reject"))
            self.assertTrue(passes(test, self.UNKNOWN, "allow"))

    def test_a_known_wrong_value_fails_where_the_unknown_is_allowed(self):
        self.assertFalse(passes(Test("memory_mib", "at_least", 10**9), self.CARD, "allow"))


class TestAmount(unittest.TestCase):
    """The amount of a need that one line of devices supplies."""

    CORES = Need(kind="processor", measure="cores", amount=24)

    def test_totals_count_each_device_of_a_line(self):
        self.assertEqual(32, device_amount(self.CORES, "processor", Processor(count=2, cores=16)))

    def test_cores_of_an_accelerator_are_not_cores(self):
        self.assertEqual(0, device_amount(self.CORES, "accelerator", Accelerator(kind="GPU")))

    def test_an_unknown_amount_is_0_or_the_whole_need(self):
        allow = Need(kind="processor", measure="cores", amount=24, unknown="allow")
        self.assertEqual(0, device_amount(self.CORES, "processor", Processor(count=2)))
        self.assertEqual(24, device_amount(allow, "processor", Processor(count=2)))

    def test_devices_of_an_unknown_count_are_0_or_the_whole_need(self):
        for kind, measure, device in (
            ("drive", "devices", Drive(count=None)),
            ("processor", "sockets", Processor(count=None)),
            ("processor", "cores", Processor(count=None, cores=16)),
        ):
            for unknown, amount in (("reject", 0), ("allow", 3)):
                need = Need(kind=kind, measure=measure, amount=3, unknown=unknown)
                with self.subTest(need):
                    self.assertEqual(amount, device_amount(need, kind, device))
        self.assertEqual(price(Devices()), price(Devices(drives=(Drive(count=None),))))

    def test_sockets_and_devices_are_counted(self):
        sockets = Need(kind="processor", measure="sockets", amount=1)
        cards = Need(kind="accelerator", measure="devices", amount=1)
        self.assertEqual(2, device_amount(sockets, "processor", Processor(count=2)))
        self.assertEqual(3, device_amount(cards, "accelerator", Accelerator(kind="GPU", count=3)))


class TestPrice(unittest.TestCase):
    """The price of a block."""

    def test_prices_by_hand(self):
        for devices, points in (
            (Devices(), 10),
            (Devices(processors=(Processor(count=2, cores=16),)), 10 + 3200),
            (Devices(processors=(Processor(count=2),)), 10),
            (Devices(memory=(Memory(count=4, capacity_mib=16384),)), 10 + 8192),
            (Devices(accelerators=(Accelerator(kind="GPU", count=2),)), 10 + 40_000),
            (Devices(drives=(Drive(count=2, capacity_bytes=10 << 30),)), 10 + 2 * 1010),
            (Devices(nics=(Nic(count=3),)), 10 + 600),
        ):
            with self.subTest(devices):
                self.assertEqual(points, price(devices))


class TestKinds(unittest.TestCase):
    """Numbering."""

    def test_kind_0_is_a_block_of_nothing(self):
        kinds = BlockKinds()
        self.assertEqual((1, Devices()), (len(kinds), kinds.kinds[0].devices))
        self.assertEqual(0, kinds.number((), None, "f", "$"))

    def test_the_same_devices_in_other_words_are_the_same_kind(self):
        kinds = BlockKinds()
        one = kinds.number(("Compute",), Raw(b'{"processors":[{"cores":8,"count":1}]}'), "f", "$")
        two = kinds.number(("Compute",), Raw(b'{ "processors": [ {"cores": 8} ] }'), "f", "$")
        other = kinds.number(("Processor",), Raw(b'{"processors":[{"cores":8}]}'), "f", "$")
        self.assertEqual(one, two)
        self.assertNotEqual(one, other)
        self.assertEqual(3, len(kinds))

    def test_amounts_grow_with_the_kinds(self):
        kinds = BlockKinds()
        need = Need(kind="processor", measure="cores", amount=1)
        self.assertEqual([0], kinds.amounts(need).tolist())
        kinds.number((), Raw(b'{"processors":[{"cores":8},{"cores":4,"count":2}]}'), "f", "$")
        self.assertEqual([0, 16], kinds.amounts(need).tolist())
        self.assertFalse(kinds.amounts(need).flags.writeable)

    def test_devices_that_are_none_are_refused_by_their_place(self):
        with self.assertRaisesRegex(InputError, r"site\.json: \$\.x\.processors\[0\]\.cores"):
            BlockKinds().number((), Raw(b'{"processors":[{"cores":"many"}]}'), "site.json", "$.x")
