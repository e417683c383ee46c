# SPDX-License-Identifier: Apache-2.0
"""Access rules: which Keystone users may use a route, by default or by an operator's file."""

from collections.abc import Iterable, Mapping
from typing import Any

from oslo_config import cfg
from oslo_policy import policy

from valence_sched import files
from valence_sched.errors import AccessDenied, InputError, suggest
from valence_sched.model.codec import convert, load_yaml
from valence_sched.model.verbs import Role, Route
from valence_sched.service.routes import ROUTES
from valence_sched.service.users import User

ALL_OWNERS = "owners:all"
SCOPES = ["project", "system"]
#: The rule of each role. It names the higher roles, too: in Keystone they may not imply this role.
ROLE_RULES = (
    policy.RuleDefault(
        "admin", "role:admin", "Registers, reconciles, and changes objects of all owners."
    ),
    policy.RuleDefault(
        "member",
        "rule:admin or (role:member and not system_scope:all)",
        "Schedules, claims and composes, in a project.",
    ),
    policy.RuleDefault("reader", "rule:member or role:reader", "Reads, and changes nothing."),
    policy.RuleDefault(
        ALL_OWNERS,
        "rule:admin or (role:reader and system_scope:all)",
        "Lists the claims and nodes of every project, not only of its own.",
    ),
)


def list_rules() -> list[policy.RuleDefault]:
    """Return every rule with its default, for ``oslopolicy-sample-generator``."""
    routes: dict[str, list[Route]] = {}
    forced: dict[str, Route] = {}
    for route in ROUTES:
        if route.rule:
            routes.setdefault(route.rule, []).append(route)
        if route.force:
            forced[route.force] = route
    documented = [
        _documented(name, named[0].role, " ".join(dict.fromkeys(one.text for one in named)), named)
        for name, named in routes.items()
    ]
    forces = "Detaches blocks from a running node, although they are not declared removable."
    documented += [_documented(name, "admin", forces, [one]) for name, one in forced.items()]
    return [*ROLE_RULES, *documented]


def _documented(
    name: str, role: Role, text: str, routes: Iterable[Route]
) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=f"rule:{role}",
        description=text,
        operations=[{"path": one.path, "method": one.method} for one in routes],
        scope_types=SCOPES,
    )


class AccessRules:
    """The rules in effect: the defaults, and the rules of a file; InputError if one is invalid."""

    def __init__(self, policy_file: str | None = None) -> None:
        overrides = _read_overrides(policy_file) if policy_file else {}
        config = cfg.ConfigOpts()
        config([], project="valence-scheduler", default_config_files=[], default_config_dirs=[])
        self._enforcer = policy.Enforcer(config, use_conf=False)
        defaults = list_rules()
        self._enforcer.register_defaults(defaults)
        checks = {one.name: one.check for one in defaults} | overrides
        self._enforcer.set_rules(checks, use_conf=False)
        if not self._enforcer.check_rules():
            found = "a rule that names itself, or one that does not exist"
            raise InputError(policy_file or "the rules", "", found)

    def allow(self, rule: str, credentials: Mapping[str, Any]) -> bool:
        target = {"project_id": credentials["project_id"], "user_id": credentials["user_id"]}
        return bool(self._enforcer.authorize(rule, target, dict(credentials)))

    def check(self, user: User, rule: str) -> None:
        if not self.allow(rule, user.credentials):
            roles = ", ".join(sorted(user.credentials["roles"])) or "-"
            text = f"{rule}: user {user.name!r} is not permitted (roles: {roles})"
            raise AccessDenied(f"{text}: ask the operator of the service")


def _read_overrides(path: str) -> dict[str, Any]:
    rules = convert(load_yaml(files.read(path), path) or {}, dict[str, str], path)
    known = {one.name for one in list_rules()}
    checks: dict[str, Any] = {}
    for name, text in rules.items():
        if name not in known:
            raise InputError(path, name, "an unknown rule", hint=suggest(name, known))
        check = policy.RuleDefault(name, text).check
        if str(check) == "!" and text.strip() != "!":
            raise InputError(path, name, repr(text), "a rule in the syntax of oslo.policy")
        checks[name] = check
    return checks
