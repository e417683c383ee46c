# SPDX-License-Identifier: Apache-2.0
"""Deliveries: what is printed is whole, whatever takes it."""

import io
import unittest

from valence_sched.model.effect import EffectLog
from valence_sched_cli.output.delivery import Delivery


class TestEncoding(unittest.TestCase):
    def setUp(self):
        self.bytes, self.effects = io.BytesIO(), EffectLog()
        self.stdout = io.TextIOWrapper(self.bytes, encoding="ascii")
        self.addCleanup(self.stdout.close)
        self.delivery = Delivery(self.effects, self.stdout, lambda _text, _level: None)

    def print(self):
        self.delivery.print(lambda stream: stream.write("gpü 日\n"))
        return self.bytes.getvalue().decode("ascii")

    def test_a_character_that_an_encoding_lacks_is_escaped(self):
        self.assertEqual("gp\\u00fc \\u65e5\n", self.print())

    def test_it_is_the_same_after_an_effect(self):
        self.effects.note("claim", "c", "is held")
        self.assertEqual("gp\\u00fc \\u65e5\n", self.print())

    def test_the_stream_is_as_before_afterwards(self):
        for errors in ("strict", "surrogateescape"):  # the latter is that of LC_ALL=C
            with self.subTest(errors):
                self.stdout.reconfigure(errors=errors)
                self.assertTrue(self.print().endswith("gp\\u00fc \\u65e5\n"))
                self.assertEqual(errors, self.stdout.errors)

    def test_a_stream_without_an_encoding_is_written_as_it_is(self):
        stream = io.StringIO()
        Delivery(self.effects, stream, lambda _text, _level: None).print(lambda s: s.write("ü"))
        self.assertEqual("ü", stream.getvalue())
