# SPDX-License-Identifier: Apache-2.0
"""Where the wrong value of a document is: also the key of a map, which msgspec leaves out."""

import unittest
from typing import Annotated, Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.model.test_codec import OneLineErrors
from valence_sched.errors import InputError
from valence_sched.model.codec import convert, decode
from valence_sched.model.inventory import FullPodm


class Limit(msgspec.Struct, forbid_unknown_fields=True):
    """A noun within a map."""

    most: Annotated[int, msgspec.Meta(ge=1)]
    unit: Literal["cores", "hosts"] = "cores"


class Site(msgspec.Struct, forbid_unknown_fields=True):
    """Maps of what does and does not hold others."""

    facts: dict[str, float | str] = {}
    shares: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}
    limits: dict[str, Limit] = {}
    zones: list[dict[str, list[Limit]]] = []
    names: dict[str, list[str] | None] = {}


class TestMaps(OneLineErrors):
    """The first value of a map that is wrong is named by its key."""

    LINES = (
        (b'{"facts":{"a":1,"b c":[]}}', "$.facts['b c']: found [], expected float | str"),
        (b'{"shares":{"a":1,"b":0}}', "$.shares['b']: found 0, expected float > 0.0"),
        (b'{"shares":{"a":1,"b":"2"}}', "$.shares['b']: found \"2\", expected float"),
        (b'{"limits":{"a":{"most":1},"b":7}}', "$.limits['b']: found 7, expected object"),
        (b'{"limits":{"a":{"most":1},"b":{"most":0}}}',
         "$.limits['b'].most: found 0, expected int >= 1"),
        (b'{"limits":{"a":{"most":1},"b":{}}}',
         "$.limits['b']: found no such field, expected field 'most'"),
        (b'{"limits":{"a":{"most":1},"b":{"most":1,"moost":2}}}',
         "$.limits['b']: found unknown field 'moost' (did you mean 'most'?)"),
        (b'{"limits":{"a":{"most":1},"b":{"most":1,"unit":"core"}}}',
         "$.limits['b'].unit: found 'core', expected one of the words of the schema "
         "(did you mean 'cores'?)"),
        (b'{"zones":[{},{"x":[],"y":[{"most":1},{"most":null}]}]}',
         "$.zones[1]['y'][1].most: found null, expected int"),
        (b'{"names":{"a":null,"b":["c"],"d":"e"}}',
         "$.names['d']: found \"e\", expected array | null"),
    )  # fmt: skip

    def test_the_key_and_the_value_are_named(self):
        for document, line in self.LINES:
            with self.subTest(document):
                self.assertEqual(f"f: {line}", self.refuses(decode, document, Site, "f"))

    def test_a_capability_of_a_pod_manager_is_named(self):
        text = self.refuses(decode, b'{"id":"a","capabilities":{"k":"v"}}', FullPodm, "f")
        self.assertEqual("f: $.capabilities['k']: found \"v\", expected array", text)

    def test_text_that_is_a_number_is_not_what_is_wrong_where_a_person_wrote_it(self):
        words = {"shares": {"a": "2", "b": "many"}}
        text = self.refuses(convert, words, Site, "f")
        self.assertEqual("f: $.shares['b']: found \"many\", expected float", text)

    def test_a_long_key_is_shortened_and_one_that_does_not_print_is_escaped(self):
        for key in ("k" * 5000, "\u202e\u001b[2J"):
            document = msgspec.json.encode({"facts": {key: []}})
            text = self.refuses(decode, document, Site, "f")
            self.assertTrue(text.isprintable(), text)
            self.assertLess(len(text), 150)

    @given(st.dictionaries(st.text(max_size=8), st.floats(0.5, 9), max_size=6), st.text(max_size=8))
    def test_whatever_the_other_keys_are_the_wrong_one_is_named(self, shares, wrong):
        document = {"shares": {**shares, wrong: False}}
        with self.assertRaises(InputError) as caught:
            decode(msgspec.json.encode(document), Site, "f")
        self.assertEqual(f"$.shares[{wrong!r}]", caught.exception.document_path)
        self.assertEqual("false", caught.exception.found)


if __name__ == "__main__":
    unittest.main()
