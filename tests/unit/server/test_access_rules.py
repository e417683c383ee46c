# SPDX-License-Identifier: Apache-2.0
"""Access rules: the default permissions of each role, and the changes of an operator's file."""

import tempfile
import unittest
from pathlib import Path

from valence_sched.errors import AccessDenied, InputError
from valence_sched.server.access_rules import ALL_OWNERS, AccessRules, list_rules
from valence_sched.service.routes import ROUTES
from valence_sched.service.users import ROLES, User

SAMPLE = Path(__file__).parents[3] / "doc" / "source" / "examples" / "access-rules.yaml"


def credentials(*roles, project="p", system=None):
    return {"user_id": "u", "project_id": project, "domain_id": None, "system_scope": system,
            "roles": list(roles)}  # fmt: skip


class TestDefaults(unittest.TestCase):
    def test_every_rule_of_a_route_has_a_default_and_every_default_a_route(self):
        of_routes = {route.rule for route in ROUTES if route.rule}
        of_routes |= {route.force for route in ROUTES if route.force}
        self.assertEqual(of_routes | {*ROLES, ALL_OWNERS}, {rule.name for rule in list_rules()})

    def test_only_an_admin_forces_a_change(self):
        rules = AccessRules()
        allowed = [role for role in ROLES if rules.allow("nodes:force", credentials(role))]
        self.assertEqual(["admin"], allowed)

    def test_routes_of_one_rule_take_one_role(self):
        roles: dict[str, set[str]] = {}
        for route in ROUTES:
            roles.setdefault(route.rule, set()).add(route.role)
        self.assertEqual({}, {rule: found for rule, found in roles.items() if len(found) > 1})

    def test_a_role_may_what_the_table_says_and_so_may_those_above(self):
        rules = AccessRules()
        for route in ROUTES:
            for role in ROLES if route.rule else ():
                with self.subTest(route.rule, role=role):
                    expected = ROLES.index(role) >= ROLES.index(route.role)
                    self.assertEqual(expected, rules.allow(route.rule, credentials(role)))

    def test_other_roles_may_nothing(self):
        rules = AccessRules()
        for route in ROUTES:
            if route.rule:
                for roles in ((), ("service",), ("administrator",)):
                    self.assertFalse(rules.allow(route.rule, credentials(*roles)))

    def test_a_system_reader_sees_all_and_a_system_member_claims_nothing(self):
        rules = AccessRules()
        for role, project, system, sees in (
            ("reader", None, "all", True),
            ("admin", "p", None, True),
            ("member", "p", None, False),
            ("reader", "p", None, False),
        ):
            found = credentials(role, project=project, system=system)
            self.assertEqual(sees, rules.allow(ALL_OWNERS, found))
        member = credentials("member", project=None, system="all")
        self.assertFalse(rules.allow("claims:create", member))
        self.assertTrue(rules.allow("claims:create", {**member, "roles": ["admin"]}))

    def test_a_token_of_a_domain_meets_no_rule_of_a_route(self):
        found = {**credentials("admin", project=None), "domain_id": "d"}
        self.assertFalse(AccessRules().allow("claims:list", found))

    def test_a_user_that_may_not_is_told_its_roles(self):
        user = User("u", None, "p", credentials=credentials("reader"))
        with self.assertRaisesRegex(
            AccessDenied, "claims:create: user 'u' is not permitted .roles: reader"
        ):
            AccessRules().check(user, "claims:create")


class TestOverrides(unittest.TestCase):
    def rules(self, text):
        path = Path(self.enterContext(tempfile.TemporaryDirectory()), "access-rules.yaml")
        path.write_text(text)
        return AccessRules(str(path))

    def test_a_rule_of_the_file_counts_and_the_others_stay(self):
        rules = self.rules('"claims:create": "role:tenant and project_id:%(project_id)s"\n')
        self.assertTrue(rules.allow("claims:create", credentials("tenant")))
        self.assertFalse(rules.allow("claims:create", credentials("member")))
        self.assertTrue(rules.allow("claims:delete", credentials("member")))

    def test_a_role_may_be_renamed_for_all_rules(self):
        rules = self.rules('"admin": "role:site-operator"\n')
        self.assertTrue(rules.allow("reconciliations:create", credentials("site-operator")))
        self.assertFalse(rules.allow("reconciliations:create", credentials("admin")))

    def test_what_is_no_rule_is_named(self):
        for text, words in (
            ('"claims:creat": "role:x"', "claims:creat.*did you mean 'claims:create'"),
            ('"claims:create": "role"', "claims:create: found 'role'"),
            ('"claims:create": "rule:nothing"', "names itself, or one that does not exist"),
            ('"admin": "rule:member"', "names itself"),
            ('"claims:create": 1', "claims:create"),
            ("- x", "expected"),
        ):
            with self.subTest(text), self.assertRaisesRegex(InputError, words):
                self.rules(text)

    def test_an_exclamation_mark_lets_nobody(self):
        rules = self.rules('"claims:create": "!"')
        self.assertFalse(rules.allow("claims:create", credentials("admin")))


class TestSample(unittest.TestCase):
    def test_the_sample_in_the_documentation_is_the_one_that_is_generated(self):
        from oslo_policy import generator

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "access-rules.yaml"
            generator.generate_sample(["--namespace", "valence-sched", "--output-file", str(path)])
            self.assertEqual(path.read_text(), SAMPLE.read_text())
