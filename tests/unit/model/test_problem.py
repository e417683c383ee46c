# SPDX-License-Identifier: Apache-2.0
"""Problems of a service, and effects."""

import unittest

import msgspec
from msgspec.structs import replace

from valence_sched import errors
from valence_sched.errors import (
    ClaimLost,
    InputError,
    SchedulerError,
    ServiceError,
    StoreError,
    UnknownName,
    Unverified,
)
from valence_sched.model.diagnostic import RECONCILE_HINT, EffectLog
from valence_sched.model.http import Problem, error_of, problem_error, problem_of
from valence_sched.model.inventory import to_json
from valence_sched.service.visibility import visible_error


def kinds():
    found = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return [kind for kind in found if issubclass(kind, SchedulerError)]


class TestProblem(unittest.TestCase):
    def test_every_error_arrives_as_one_of_its_class(self):
        self.assertGreater(len(kinds()), 20)
        for kind in kinds():
            with self.subTest(kind.__name__):
                error = kind.__new__(kind)
                error.args = ("what went wrong",)
                problem = msgspec.json.decode(to_json(problem_of(error)), type=Problem)
                arrived = error_of(problem)
                self.assertIs(kind, type(arrived))
                self.assertEqual(error.public_text, str(arrived))
                self.assertEqual((kind.http_status, kind.exit_code),
                                 (problem.status, problem.exit_code))  # fmt: skip

    def test_what_an_error_says_besides_arrives_too(self):
        for error in (
            ClaimLost("gone", "p", "c"),
            UnknownName("flavor", "smal", ["small"]),
            InputError("f", "$.a", "1", "2", "why"),
        ):
            arrived = error_of(problem_of(error, "req-1"))
            self.assertEqual((str(error), vars(error)), (str(arrived), vars(arrived)))

    def test_what_is_no_problem_is_an_error_of_the_service(self):
        for content in (b"", b"<html>", b"{}", b"[]", b"\xff", b"[" * 100_000):
            with self.subTest(content[:8]):
                error = problem_error(content, 502, "http://x/v1/podms")
                self.assertIsInstance(error, ServiceError)
                self.assertIn("HTTP 502", str(error))

    def test_a_problem_that_is_not_ours_does_no_harm(self):
        problem = Problem(type="t", title="t", status=500, detail="a\nb\x1b[31m", code="other",
                          members={"__class__": 1, "_x": 2, "a b": 3, "podm": "p"})  # fmt: skip
        error = error_of(problem)
        self.assertIsInstance(error, ServiceError)
        self.assertEqual({"podm": "p"}, vars(error))
        self.assertNotIn("\n", str(error))
        self.assertNotIn("\x1b", str(error))

    def test_a_problem_changes_no_status_method_or_type_of_an_error(self):
        """A child zone answered with the status 200, or with text for a number: no problem came."""
        for code, members in (
            ("name_taken", {"http_status": 200, "exit_code": 0, "code": ["x"], "at": "x"}),
            ("name_taken", {"public_text": 7, "args": [], "add_note": "x", "deep": [[]]}),
            ("rate_limited", {"retry_after_s": "soon"}),
            ("rate_limited", {"retry_after_s": -1}),
            ("rate_limited", {"retry_after_s": 1e308}),
            ("rate_limited", {"retry_after_s": 10**400}),
            ("claim_lost", {"podm": "p\x1b[31m", "claim": "x" * 9000}),
            ("name_unknown", {"kind": ["claim"], "name": 7}),
            ("undecodable", {"kind": 1, "id": None, "owner": {}}),
            ("claim_lost", {"undone": "x", "group": 0}),
        ):
            with self.subTest(code, members=members):
                problem = Problem(type="t", title="t", status=409, detail="d", code=code)
                error = error_of(replace(problem, members=members))
                self.assertEqual({}, vars(error))
                self.assertEqual("place: d", str(error.at("place")))
                self.assertEqual("d", problem_of(error_of(problem)).detail)

    def test_a_whole_number_of_seconds_is_a_number_of_seconds(self):
        problem = Problem(type="t", title="t", status=429, detail="d", code="rate_limited")
        error = error_of(replace(problem, members={"retry_after_s": 5}))
        self.assertEqual("5.0", str(error.retry_after_s))

    def test_an_unknown_name_without_its_members_is_shown_to_tenants(self):
        for code in ("name_unknown", "undecodable"):
            problem = Problem(type="t", title="t", status=404, detail="d", code=code)
            self.assertEqual("d", str(visible_error(error_of(problem), "mo")))

    def test_codes_are_of_one_class_each(self):
        codes = [kind.code for kind in kinds()]
        self.assertEqual(len(codes), len(set(codes)))


def uncertain() -> StoreError:
    error = StoreError("gone")
    error.uncertain = True
    return error


class TestEffectLog(unittest.TestCase):
    """A claim, and the end of its change."""

    def test_a_change_is_noted_before_after_and_not_where_it_failed(self):
        for error, expected in (
            (None, ["claim c is held"]),
            (ClaimLost("other"), []),
            (StoreError("full"), []),
            (uncertain(), ["claim c may be held"]),
            (Unverified("what is there?"), ["claim c may be held"]),
            (KeyboardInterrupt(), ["claim c may be held"]),
            (ValueError("a bug"), ["claim c may be held"]),
        ):
            with self.subTest(repr(error)):
                effects = EffectLog()
                try:
                    with effects.change("claim", "c", "may be held", "is held"):
                        self.assertEqual(["claim c may be held"], effects.unnamed_lines())
                        if error is not None:
                            raise error
                except BaseException as caught:
                    self.assertIs(error, caught)
                self.assertEqual(expected, effects.unnamed_lines())
                self.assertEqual(bool(expected), bool(effects))

    def test_a_change_that_failed_leaves_what_was_known_before(self):
        effects = EffectLog()
        effects.note("node", "n", "is composed")
        with self.assertRaises(ClaimLost), effects.change("node", "n", "may be gone", "is gone"):
            raise ClaimLost("other")
        self.assertEqual(["node n is composed"], effects.unnamed_lines())

    def test_the_audit_tells_a_change_that_was_done_from_one_that_may_have_been(self):
        effects = EffectLog()
        for name, state in (
            ("a", "is composed"),
            ("b", f"is ATTACHING on p: {RECONCILE_HINT}"),
            ("c", "may be marked"),
        ):
            effects.note("node", name, state)
        with self.assertRaises(Unverified), effects.change("node", "d", None, "is gone"):
            raise Unverified("what is there?")
        outcomes = [
            ("nodes/d", "unverified"),
            ("nodes/a", "done"),
            ("nodes/b", "unverified"),
            ("nodes/c", "unverified"),
        ]
        self.assertEqual(outcomes, [*effects.outcomes()])

    def test_what_a_delivered_text_names_as_a_word_is_named(self):
        effects = EffectLog()
        for name in ("c1", "c2", "c.3"):
            effects.note("claim", name, "is held")
        effects.mark_named("| c1 | c22 | cx3 |")
        self.assertEqual(["claim c2 is held", "claim c.3 is held"], effects.unnamed_lines())
