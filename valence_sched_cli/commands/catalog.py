# SPDX-License-Identifier: Apache-2.0
"""The commands that list, show and validate flavors, policies, filters and weighers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from valence_sched.errors import InputError, RequestError, SchedulerError, UnknownName
from valence_sched_cli import base, cloud
from valence_sched_cli.late import model, msgspec, words
from valence_sched_cli.options import inventory
from valence_sched_cli.output.cells import (
    NounLines,
    PairLines,
    Pairs,
    Sentence,
    Shown,
    WordLines,
    fields,
)

LONG_COLUMNS = (
    *("Topology", "Other Alternatives", "Policy", "Share", "Zone", "Locations", "Aggregates"),
    *("Forbidden Aggregates", "Any Aggregates", "Capabilities", "Required Traits"),
    *("Forbidden Traits", "Any Traits", "Attributes", "Where"),
)


class ListFlavor(base.Lister):
    """List flavors.

    Lists the built-in flavors, your own, and those of --flavor-file.
    """

    option_groups = (inventory.FLAVOR_FILE, "--long: list more columns")

    def take_action(self, args: base.Args) -> base.Table:
        flavors = self.scheduler_app.config.flavors(args.flavor_file)
        columns = ("Name", "Description", "Needs", *(LONG_COLUMNS if args.long else ()))
        return columns, map(_cells, flavors.values())


class ShowFlavor(base.ShowOne):
    """Show one flavor and its requirements."""

    arguments = "<flavor>: name of a flavor, a file, or - for standard input"
    option_groups = (inventory.FLAVOR_FILE,)

    def take_action(self, args: base.Args) -> base.Table:
        flavor = self.scheduler_app.config.flavor(args.flavor, args.flavor_file)
        cells = _cells(flavor) | {"Properties": PairLines(msgspec.to_builtins(flavor.properties))}
        return ("Name", "Description", "Properties", "Needs", *LONG_COLUMNS), cells


class _ValidateFiles(base.Lister):
    """A row for each file: whether it is valid, and its number of flavors or policies."""

    noun: str
    invalid: tuple[type[SchedulerError], ...] = (SchedulerError,)  # the errors of an invalid file

    def read_file(self, file: str, args: base.Args) -> Sequence[object]:
        raise NotImplementedError

    def take_action(self, args: base.Args) -> base.Table:
        rows: list[tuple[str, bool, int, Any]] = []
        for file in args.file:
            try:
                rows.append((file, True, len(self.read_file(file, args)), None))
            except self.invalid as error:
                rows.append((file, False, 0, Sentence(str(error), file)))
                self.exit_code = 1
        return ("File", "Valid", self.noun, "Error"), rows


class ValidateFlavor(_ValidateFiles):
    """Validate files of flavors.

    Exits 1 if a file is invalid.
    """

    noun = "Flavors"
    invalid = (InputError, RequestError, UnknownName)
    arguments = "<file>...: YAML or JSON file"
    option_groups = (inventory.FLAVOR_FILE,)

    def read_file(self, file: str, args: base.Args) -> Sequence[object]:
        return self.scheduler_app.config.flavors_in(file, args.flavor_file)


def _cells(flavor: model.flavor.Flavor) -> dict[str, Any]:
    need_phrase, expression = words.phrases.need_phrase, model.expression

    def ask_phrase(ask: Any) -> str:
        return "; ".join([*map(need_phrase, ask.needs), *map(_constraint_phrase, ask.topology)])

    def where_lines(value: Any) -> str:
        return "\n".join(map(str, expression.conjuncts(expression.parse_expression(value))))

    first, *others = flavor.alternatives
    aggregates, traits = flavor.aggregate_names, flavor.traits
    return {
        **fields(flavor, "Name", "Description"),
        "Needs": NounLines(first.needs, need_phrase),
        "Topology": NounLines(first.topology, _constraint_phrase),
        "Other Alternatives": NounLines(others, ask_phrase),
        **fields(flavor, "Policy", "Share", "Zone", "Locations", "Attributes"),
        "Aggregates": WordLines(aggregates.required),
        "Forbidden Aggregates": WordLines(aggregates.forbidden),
        "Any Aggregates": NounLines(aggregates.any_of, " or ".join),
        "Capabilities": PairLines(flavor.capability_map),
        "Required Traits": WordLines(traits.required),
        "Forbidden Traits": WordLines(traits.forbidden),
        "Any Traits": NounLines(traits.any_of, " or ".join),
        "Where": None if flavor.where is None else Shown(flavor.where, where_lines),
    }


def _constraint_phrase(constraint: model.need.TopologyConstraint) -> str:
    return f"{constraint.relation} {constraint.place}: {', '.join(constraint.of)}"


class ListPolicy(base.Lister):
    """List policies.

    Lists the built-in policies, your own, and those of --policy-file.
    """

    option_groups = (inventory.POLICY_FILE, "--long: list more columns")

    def take_action(self, args: base.Args) -> base.Table:
        columns = ["Name", "Description", "Scheduler", "Weighers"]
        if args.long:
            columns += ["Filters", "Unknown", "Best Of"]
        rows = []
        for one in self.scheduler_app.config.policies(args.policy_file).values():
            weighers = PairLines({use.name: use.weight for use in one.weighers})
            filters = WordLines([use.name for use in one.filters])
            row = (one.name, one.description, one.scheduler, weighers)
            rows.append((*row, filters, one.unknown, one.pick.best_of))
        return columns, rows


class ShowPolicy(base.ShowOne):
    """Show one policy, its filters and its weighers."""

    arguments = "<policy>: policy (name)"
    option_groups = (inventory.POLICY_FILE,)

    def take_action(self, args: base.Args) -> base.Table:
        known = self.scheduler_app.config.policies(args.policy_file)
        if args.policy not in known:
            raise UnknownName("policy", args.policy, known)
        policy = known[args.policy]
        if args.policy_file:  # a service does not have the policies of a local file
            reads = self.scheduler_app.engine(self.selection(args)).podm_reads(policy.name)
        else:
            reads = self.scheduler(args).podm_reads(policy.name)
        filters = [{"name": use.name, **use.options} for use in policy.filters]
        weighers = []
        for use in policy.weighers:
            places = {"aggregate": use.overrides.aggregate, "zone": use.overrides.zone}
            others = {place: weights for place, weights in places.items() if weights}
            weigher = {"name": use.name, "weight": use.weight, **use.options}
            weighers.append(weigher | ({"overrides": others} if others else {}))
        names = ("pool_states", "decision_states", "batch_fits", "solver_nodes")
        cells = {
            **fields(policy, "Name", "Description", "Scheduler"),
            "Filters": NounLines(filters, _pairs),
            "Weighers": NounLines(weighers, _pairs),
            "Best Of": policy.pick.best_of,
            "Unknown": policy.unknown,
            "Budget": PairLines({name: getattr(policy.budget, name) for name in names}),
            "Goals": ", ".join(policy.goals),
            "Reads": WordLines(reads.fields),
        }
        return tuple(cells), cells


def _pairs(words: dict[str, Any]) -> str:
    return Pairs(words).human_readable()


class ValidatePolicy(_ValidateFiles):
    """Validate files of policies.

    Exits 1 if a file is invalid.
    """

    reads_files_only, option_groups = True, ()
    noun = "Policies"
    arguments = "<file>...: YAML file"

    def read_file(self, file: str, args: base.Args) -> Sequence[object]:
        return self.scheduler_app.config.policies_in(file)


class ListPlugins(base.Lister):
    """List the plug-ins of one kind, including those that cannot be loaded."""

    kind: model.policy.PluginKind
    arguments = "--long: also list the package of each"
    option_groups = ()

    def take_action(self, args: base.Args) -> base.Table:
        installed = self.scheduler(args).plugins(self.kind)
        for name, error in installed.load_errors.items():
            self.log_line(f"{installed.kind} {name!r} cannot be loaded: {error}")
        columns = ["Name", "Description", "Options"] + (["Source"] if args.long else [])
        return columns, [
            (one.name, one.description, Pairs(one.options), one.source) for one in installed.plugins
        ]


class ListFilter(ListPlugins):
    """List the filters that policies may name.

    Each has its options with their defaults.
    """

    kind = "filters"


class ListWeigher(ListPlugins):
    """List the weighers that policies may name.

    Each has its options with their defaults.
    """

    kind = "weighers"


class ShowConfig(base.Lister):
    """Show the defaults of options and their sources.

    An option overrides the environment, which overrides the profile. --profile,
    VALENCE_SCHED_PROFILE or config.yaml names the profile. Within openstack, the service in the
    cloud's catalogue overrides the profile.
    """

    through_service, option_groups = False, ()
    known_columns = ("Setting", "Value", "Source")

    def take_action(self, args: base.Args) -> base.Table:
        name, profile = self.profile
        path = self.scheduler_app.config.user_file(model.profile.CONFIG_FILE)
        set_here = profile.variables(os.environ)
        options, manager = self.app.options, self.app.client_manager
        rows: list[tuple[str, Any, str]] = []
        if getattr(options, "scheduler_profile", None):
            rows.append(("profile", name, "option --profile"))
        elif os.environ.get(model.profile.PROFILE):
            rows.append(("profile", name, f"environment {model.profile.PROFILE}"))
        else:
            rows.append(("profile", name or None, str(path) if name else "default"))
        found = {"service": (options.os_scheduler_endpoint, "option --os-scheduler-endpoint")}
        for setting, variable in model.profile.VARIABLES.items():
            value, source = found.get(setting, (None, ""))
            if not value:
                value, source = os.environ.get(variable), f"environment {variable}"
            if not value and setting == "service" and (known := cloud.scheduler_endpoint(manager)):
                value, source = known[0], "service catalogue"
            if not value:
                value, source = set_here.get(variable), f"profile {name}"
            rows.append((setting, value or None, source if value else "default"))
        for setting in ("policy", "zone", "owner", "output"):
            value = getattr(profile, setting)
            rows.append((setting, value, f"profile {name}" if value else "default"))
        return self.known_columns, [(one, _hidden(value), source) for one, value, source in rows]


def _hidden(value: str | None) -> str | None:
    """Return a value without the password of its URL."""
    return model.profile.URL_PASSWORD.sub(r"\1:***@", value) if value else None
