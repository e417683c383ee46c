# SPDX-License-Identifier: Apache-2.0
"""Decoding of nouns, and its errors."""

import json
import math
import unittest
from typing import Annotated, Literal

import msgspec
from hypothesis import given, strategies as st

from valence_sched.errors import InputError, NewerSchema
from valence_sched.model.codec import (
    MAX_DEPTH,
    MAX_HUMAN_BYTES,
    check_depth,
    check_schema,
    convert,
    decode,
    dump_yaml,
    load_yaml,
)
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import FullPodm
from valence_sched.model.policy import PolicyText


class OneLineErrors(unittest.TestCase):
    """Errors are one line of text."""

    def refuses(self, function, *arguments) -> str:
        with self.assertRaises(InputError) as caught:
            function(*arguments)
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        self.assertLessEqual(len(text), 600)
        return text


class TestDecode(OneLineErrors):
    """JSON of podms and programs."""

    # (document, the line)
    LINES = (
        (b'{"id":5}', "f: $.id: found 5, expected str"),
        (b'{"id":"a","enabled":"yes"}', 'f: $.enabled: found "yes", expected bool'),
        (b'{"id":"a","blocks":[{"uri":"b","status":{"compositions":-1}}]}',
         "f: $.blocks[0].status.compositions: found -1, expected int >= 0"),
        (b'{"id":"a","blocks":[{"uri":"b","devices":{"processors":[{"count":0}]}}]}',
         "f: $.blocks[0].devices.processors[0].count: found 0, expected int >= 1"),
        (b'{"id":"a","stocks":[{"uri":"s","resource":"r","used":-0.5}]}',
         "f: $.stocks[0].used: found -0.5, expected float >= 0.0"),
        (b'{"name":"a"}', "f: $: found no field 'id', which is required"),
        (b'{"id":"a","zones":"b"}',
         "f: $: found unknown field 'zones' (did you mean 'zone'?)"),
        (b'{"id":"a","blocks":[{"uri":"b","devicse":{}}]}',
         "f: $.blocks[0]: found unknown field 'devicse' (did you mean 'devices'?)"),
        (b'{"id":"a","blocks":[{"uri":"b","devices":{"memory":[{"capacity_gb":64}]}}]}',
         "f: $.blocks[0].devices.memory[0]: found unknown field 'capacity_gb' "
         "(known: capacity_mib, count, health, speed_mhz, state, type)"),
        (b'{"id":"a","status":"online"}',
         "f: $.status: found 'online', expected one of the values of the schema "
         "(did you mean 'Online'?)"),
        (b'{"id":"a","blocks":[{"uri":"b","status":{"state":"Free"}}]}',
         "f: $.blocks[0].status.state: found 'Free', expected one of the values of the schema "
         "(known: Composed, ComposedAndAvailable, Composing, Failed, Unavailable, Unknown, "
         "Unused)"),
        (b'[]', "f: $: found [], expected object"),
        (b'{"id":""}', 'f: $.id: found "", expected str of length >= 1'),
    )  # fmt: skip

    def test_what_is_wrong_is_said_with_its_place_and_what_was_expected(self):
        for document, line in self.LINES:
            with self.subTest(document):
                self.assertEqual(line, self.refuses(decode, document, FullPodm, "f"))

    def test_the_place_goes_below_that_of_the_document(self):
        text = self.refuses(decode, b'{"id":5}', FullPodm, "f", "$.podms[3]")
        self.assertTrue(text.startswith("f: $.podms[3].id: "), text)

    def test_broken_json_is_placed_by_line_and_column(self):
        text = self.refuses(decode, b'{"id":"a",\n "name": nope}', FullPodm, "f")
        self.assertRegex(
            text, r"^f: line 2 column \d+: found .+, expected JSON \(is the file complete"
        )

    def test_json_that_ends_early_says_so(self):
        text = self.refuses(decode, b'{"id":"a"', FullPodm, "f")
        self.assertIn("is the file complete?", text)
        self.assertIn("the end of the text", text)

    def test_what_the_parser_expected_is_what_is_missing(self):
        for document, found in (
            (b"{id", "line 1 column 2: found a key that is not a quoted string"),
            (b'{"id" 1}', "line 1 column 7: found no ':'"),
            (b'{"id":"a" 2}', "line 1 column 11: found no ',' or '}'"),
        ):
            text = self.refuses(decode, document, FullPodm, "f")
            self.assertEqual(f"f: {found}, expected JSON (is the file complete?)", text)

    def test_bytes_that_are_no_text(self):
        text = self.refuses(decode, b'{"id":"\xff\xfe"}', FullPodm, "f")
        self.assertIn("expected JSON", text)

    def test_nesting_without_end(self):
        for closed in (b"", b"]" * 100_000):
            document = b'{"id":"a","facts":{"x":' + b"[" * 100_000 + closed
            self.assertIn("f: ", self.refuses(decode, document, FullPodm, "f"))

    def test_more_lists_and_objects_one_in_another_than_anything_has(self):
        most, deep = MAX_DEPTH, "more than 64 nested lists and objects"
        for begin, end in ((b"[", b"]"), (b'{"a":', b"}"), (b'["[",', b"]"), (b'["\\\\",', b"]"),
                           (b'["\\"]",', b"]"), (b'["{","\\\\\\"]", ', b"]")):  # fmt: skip
            with self.subTest(begin):
                check_depth(begin * most + b"1" + end * most, "f")
                document = begin * (most + 1) + b"1" + end * (most + 1)
                self.assertIn(f"f: found {deep}", self.refuses(check_depth, document, "f"))
                self.assertIn(deep, self.refuses(check_depth, b"[[]," + document + b"]", "f"))
        for flat in (b'["' + b"[" * 999 + b'"]', b"[" + b"[]," * 999 + b"[]]", b"", b'"' * 999):
            check_depth(flat, "f")

    def test_a_number_of_a_million_digits(self):
        digits = b"9" * 1_000_000
        for field in (b'"generation":', b'"facts":{"x":"y"},"generation":'):
            text = self.refuses(decode, b'{"id":"a",' + field + digits + b"}", FullPodm, "f")
            self.assertIn("f: ", text)

    def test_a_long_value_is_shortened(self):
        text = self.refuses(decode, b'{"id":["' + b"x" * 5000 + b'"]}', FullPodm, "f")
        self.assertLess(len(text), 150)

    def test_a_value_with_control_characters_stays_on_one_line(self):
        text = self.refuses(decode, rb'{"id":"a","status":"On\nline\u001b[2J"}', FullPodm, "f")
        self.assertTrue(text.isprintable(), text)


class TestConvert(OneLineErrors):
    """Lists and maps of a user, in YAML."""

    def test_numbers_may_be_text(self):
        words = {"name": "f", "properties": {"memory": {"capacity_mib": "2048"}}}
        self.assertEqual(2048, convert(words, Flavor, "f").properties.memory.capacity_mib)

    def test_what_is_wrong_is_said_with_its_place_and_what_was_expected(self):
        flavor = {"name": "f"}
        for document, kind, line in (
            ({**flavor, "properties": {"memory": {"capacity_mib": "plenty"}}}, Flavor,
             '$.x[2].properties.memory.capacity_mib: found "plenty", expected int'),
            ({**flavor, "properties": {"processor": {"total_cores": -4}}}, Flavor,
             "$.x[2].properties.processor.total_cores: found -4, expected int >= 1"),
            ({"name": "p", "filter": ["capacity"]}, PolicyText,
             "$.x[2]: found unknown field 'filter' (did you mean 'filters'?)"),
            ({"filters": []}, PolicyText, "$.x[2]: found no field 'name', which is required"),
        ):  # fmt: skip
            with self.subTest(line):
                self.assertEqual(f"f: {line}", self.refuses(convert, document, kind, "f", "$.x[2]"))

    def test_a_hint_names_fields_of_the_place_and_of_no_other(self):
        text = self.refuses(convert, {"name": "x", "watts": 3}, Flavor, "f")
        self.assertNotIn("'watts' (did you mean 'amount'", text)
        for document, words in (
            ({"name": "x", "properties": {"name": 1}}, "$.properties: found unknown field 'name' "
             "(known: accelerators, cpus, "),
            ({"name": "x", "properties": {"nics": [{"nam": 1}]}}, "did you mean 'name'?"),
            ({"name": "x", "aggregates": {"requird": []}}, "did you mean 'required'?"),
            ({"name": "x", "xyzzy": 1}, "(known: aggregates, attributes, capabilities, desc"),
        ):  # fmt: skip
            with self.subTest(words=words):
                self.assertIn(words, self.refuses(convert, document, Flavor, "f"))


class TestYaml(OneLineErrors):
    def test_yaml_and_json_are_read(self):
        self.assertEqual({"a": [1, "b"]}, load_yaml(b"a: [1, b]", "f"))
        self.assertEqual({"a": [1, "b"]}, load_yaml(b'{"a": [1, "b"]}', "f"))
        self.assertIsNone(load_yaml(b"", "f"))

    def test_a_date_is_text(self):
        self.assertEqual({"a": "2024-01-01"}, load_yaml(b"a: 2024-01-01", "f"))

    def test_a_time_is_text_and_so_is_a_number_with_a_zero_before_it(self):
        """YAML 1.1 would read 750, 90.5 and 8 from them."""
        found = load_yaml(b"[12:30, 1:30.5, 010, 1:02:03, -00]", "f")
        self.assertEqual(["12:30", "1:30.5", "010", "1:02:03", "-00"], found)
        found = load_yaml(b"[0, -7, 4_000, 0x1F, 0b11, 1.5, -.inf, .5, 1.e+3, 0.25]", "f")
        self.assertEqual([0, -7, 4000, 31, 3, 1.5, -math.inf, 0.5, 1000.0, 0.25], found)

    def test_what_is_no_plain_yaml_is_refused_with_its_place(self):
        for data, place, found in (
            (b"[1 2", "line 1 column 5", "the end of the text"),
            (b"a: 'b", "line 1 column 6", "the end of the text"),
            (b"a: &", "line 1 column 5", "the end of the text"),
            (b'{"a": "b" "c": 1}', "line 1 column 11", "a value"),
            (b"a: b: c", "line 1 column 5", "a second ':' in a value that is not quoted"),
            (b"a: 1\nb: [1, 2\nc: 3", "line 3 column 2", "':'"),
            (b"--- 1\n--- 2\n", "line 2 column 1", "another document"),
            (b"a: &x [1]\nb: *x", "line 2 column 4", "an alias (*name)"),
            (b"a: 1\nb: 2\na: 3", "line 3 column 1", "the key 'a' twice"),
            (b"a: 1\nb: -1e400", "line 2 column 4", "a number that is out of range"),
            (b"a: 1\nb: " + b"9" * 20_000, "line 2 column 4", "a number that is out of range"),
            (b"? [1, 2]\n: x", "line 1 column 3", "a list or map as a key"),
            (rb'{"a": "x\ud83d"}', "line 1 column 7", "half of a surrogate pair"),
        ):
            with self.subTest(data[:20]):
                text = self.refuses(load_yaml, data, "f")
                self.assertEqual(f"f: {place}: found {found}, expected plain YAML or JSON", text)
        text = self.refuses(load_yaml, b"a" * (MAX_HUMAN_BYTES + 1), "f")
        self.assertEqual("f: found over 1,048,576 bytes, expected a smaller file", text)

    def test_a_pair_of_escapes_as_json_writes_it_is_one_character(self):
        for name in ("rack \U0001f680", "\U00020000"):
            written = json.dumps({name: [name]})
            self.assertIn("\\ud8", written)
            self.assertEqual({name: [name]}, load_yaml(written.encode(), "f"))

    def test_a_number_as_json_writes_it_is_a_number(self):
        """YAML 1.1 reads text if an exponent has no point or sign before it."""
        found = load_yaml(b"[1e5, 1E+3, 2e-3, -1.5e3, 1.5E2, 0e0, .5e1]", "f")
        self.assertEqual([100000.0, 1000.0, 0.002, -1500.0, 150.0, 0.0, 5.0], found)
        found = load_yaml(b"[e5, 1e, 1e+, 01e5, 1e5x, 0x_, 0b_]", "f")
        self.assertEqual(["e5", "1e", "1e+", "01e5", "1e5x", "0x_", "0b_"], found)

    def test_text_that_looks_like_a_number_is_written_so_that_it_is_read_as_text(self):
        words = ["1e5", "2E-3", "1.5e3", "010", "12:30", "=", "<<", "1_0", "on"]
        self.assertEqual(words, load_yaml(dump_yaml(words).encode(), "f"))

    def test_signs_are_text(self):
        """YAML 1.1 has a default value = and a merging key <<, which needs aliases."""
        self.assertEqual({"<<": ["=", "x", 3]}, load_yaml(b"<<: [=, x, 3]", "f"))

    def test_a_key_that_is_no_text_is_refused(self):
        for key, kind in (("true", "bool"), ("on", "bool"), ("1", "int"), ("1e5", "float"),
                          ("null", "null"), ("~", "null")):  # fmt: skip
            with self.subTest(key):
                text = self.refuses(load_yaml, f"a: 1\n{key}: 2".encode(), "f")
                self.assertEqual(
                    f"f: line 2 column 1: found the {kind} '{key}' as a key, "
                    f'expected plain YAML or JSON (quote it: "{key}")',
                    text,
                )
        self.assertEqual({"true": 1, "1": 2}, load_yaml(b"{'true': 1, !!str 1: 2}", "f"))

    def test_a_tag_is_refused_with_its_key(self):
        for tag, value in (("!foo", "3"), ("!foo", "[3]"), ("!!binary", "aGk="), ("!!set", "{x}"),
                           ("!!timestamp", "2001-01-01"), ("!!bool", "foo"), ("!!int", "''"),
                           ("!!null", "x"), ("!!map", "5"), ("!!str", "[1]"),
                           ("!!python/object/apply:os.system", "['true']")):  # fmt: skip
            with self.subTest(tag):
                text = self.refuses(load_yaml, f"a: 1\nb: {tag} {value}".encode(), "f")
                self.assertEqual(
                    f"f: line 2 column 4: found the tag {tag} at the key 'b', "
                    "expected plain YAML or JSON (remove the tag, and quote text)",
                    text,
                )
        text = self.refuses(load_yaml, b"- !foo 3", "f")
        self.assertIn("f: line 1 column 3: found the tag !foo, expected", text)

    def test_a_tag_that_says_what_stands_there_is_passed_over(self):
        found = load_yaml(b"!!map {a: !!int 5, b: !!str 5, c: !!seq [!!bool no], d: ! x}", "f")
        self.assertEqual({"a": 5, "b": "5", "c": [False], "d": "x"}, found)

    def test_what_is_too_large_nests_too_deep_or_is_no_text(self):
        for data in (
            b"a" * (MAX_HUMAN_BYTES + 1),
            b"[" * 20_000,
            b"a: \xff\xfe\xfa",
            b"a: " + b"9" * 20_000,
            b"a: \x00",
        ):
            with self.subTest(data[:5]):
                self.assertTrue(self.refuses(load_yaml, data, "f").startswith("f: "))


class TestSchema(OneLineErrors):
    def check(self, name: str, version: str) -> list[str]:
        return check_schema(name, version, "valence-sched/inventory", "1.2", "f")

    def test_ours_and_older_pass_silently(self):
        for version in ("1.0", "1.2", "0.9"):
            self.assertEqual([], self.check("valence-sched/inventory", version))

    def test_a_newer_minor_warns(self):
        (warning,) = self.check("valence-sched/inventory", "1.3")
        self.assertIn("1.3 is newer than 1.2", warning)

    def test_a_newer_major_is_refused_with_what_to_do(self):
        text = self.refuses(self.check, "valence-sched/inventory", "2.0")
        self.assertIn("found 2.0, expected at most 1.x (upgrade valence-sched", text)
        with self.assertRaises(NewerSchema):
            self.check("valence-sched/inventory", "2.0")

    def test_another_schema_and_no_version_are_refused(self):
        self.assertIn("found a decision", self.refuses(self.check, "valence-sched/decision", "1.0"))
        for version in ("", "one", "1", "1.0.0"):
            self.assertIn("$.version", self.refuses(self.check, "valence-sched/inventory", version))


class Limit(msgspec.Struct, forbid_unknown_fields=True):
    most: Annotated[int, msgspec.Meta(ge=1)]
    unit: Literal["cores", "hosts"] = "cores"


class Site(msgspec.Struct, forbid_unknown_fields=True):
    """Maps of nested and plain objects."""

    facts: dict[str, float | str] = {}
    shares: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}
    limits: dict[str, Limit] = {}
    zones: list[dict[str, list[Limit]]] = []
    names: dict[str, list[str] | None] = {}


class TestMaps(OneLineErrors):
    """The first invalid value of a map is named by its key."""

    LINES = (
        (b'{"facts":{"a":1,"b c":[]}}', "$.facts['b c']: found [], expected float | str"),
        (b'{"shares":{"a":1,"b":0}}', "$.shares['b']: found 0, expected float > 0.0"),
        (b'{"shares":{"a":1,"b":"2"}}', "$.shares['b']: found \"2\", expected float"),
        (b'{"limits":{"a":{"most":1},"b":7}}', "$.limits['b']: found 7, expected object"),
        (b'{"limits":{"a":{"most":1},"b":{"most":0}}}',
         "$.limits['b'].most: found 0, expected int >= 1"),
        (b'{"limits":{"a":{"most":1},"b":{}}}',
         "$.limits['b']: found no field 'most', which is required"),
        (b'{"limits":{"a":{"most":1},"b":{"most":1,"moost":2}}}',
         "$.limits['b']: found unknown field 'moost' (did you mean 'most'?)"),
        (b'{"limits":{"a":{"most":1},"b":{"most":1,"unit":"core"}}}',
         "$.limits['b'].unit: found 'core', expected one of the values of the schema "
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
