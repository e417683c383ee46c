# SPDX-License-Identifier: Apache-2.0
"""The commands that list, show and validate flavors, policies, filters and weighers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from valence_sched.errors import InputError, RequestError, SchedulerError, UnknownName, shown_name
from valence_sched_cli import base, plugin as cloud
from valence_sched_cli.late import model, msgspec, words
from valence_sched_cli.options import inventory
from valence_sched_cli.output import cells

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
        properties = cells.PairLines(msgspec.to_builtins(flavor.properties))
        row = _cells(flavor) | {"Properties": properties}
        return ("Name", "Description", "Properties", "Needs", *LONG_COLUMNS), row


class _ValidateFiles(base.Lister):
    """A row for each file: whether it is valid, and its number of flavors or policies."""

    noun: str
    invalid: tuple[type[SchedulerError], ...] = (SchedulerError,)  # the errors of an invalid file

    def read_file(self, file: str, args: base.Args) -> Sequence[object]:
        raise NotImplementedError

    def take_action(self, args: base.Args) -> base.Table:
        rows: list[tuple[str, bool, int, Any]] = []
        for file in args.file:
            name = shown_name(file)
            try:
                rows.append((name, True, len(self.read_file(file, args)), None))
            except self.invalid as error:
                rows.append((name, False, 0, cells.Sentence(str(error), name)))
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
    phrases, expression = words.phrases, model.expression
    names, some, each = cells.WordLines, " or ".join, cells.noun_lines

    def where_lines(value: Any) -> str:
        return "\n".join(map(str, expression.conjuncts(expression.parse_expression(value))))

    first, *others = flavor.alternatives
    aggregates, traits = flavor.aggregate_names, flavor.traits
    return {
        **cells.fields(flavor, "Name", "Description"),
        "Needs": each(first.needs, phrases.need_phrase),
        "Topology": each(first.topology, phrases.constraint_phrase),
        "Other Alternatives": each(others, phrases.alternative_phrase),
        **cells.fields(flavor, "Policy", "Share", "Zone", "Locations", "Attributes"),
        "Aggregates": names(aggregates.required),
        "Forbidden Aggregates": names(aggregates.forbidden),
        "Any Aggregates": each(aggregates.any_of, some),
        "Capabilities": cells.PairLines(flavor.capability_map),
        "Required Traits": names(traits.required),
        "Forbidden Traits": names(traits.forbidden),
        "Any Traits": each(traits.any_of, some),
        "Where": None if flavor.where is None else cells.Shown(flavor.where, where_lines),
    }


class ListPolicy(base.Lister):
    """List policies.

    Lists the built-in policies, your own, and those of --policy-file.
    """

    option_groups = (inventory.POLICY_FILE, "--long: list more columns")

    def take_action(self, args: base.Args) -> base.Table:
        columns = ["Name", "Description", "Scheduler", "Weighers"]
        if args.long:
            columns += ["Filters", "Unknown", "Best Of"]
        return columns, [
            {
                **cells.fields(one, "Name", "Description", "Scheduler", "Unknown"),
                "Weighers": cells.PairLines({use.name: use.weight for use in one.weighers}),
                "Filters": cells.WordLines([use.name for use in one.filters]),
                "Best Of": one.pick.best_of,
            }
            for one in self.scheduler_app.config.policies(args.policy_file).values()
        ]


class ShowPolicy(base.ShowOne):
    """Show one policy, its filters and its weighers."""

    arguments = "<policy>: policy (name)"
    option_groups = (inventory.POLICY_FILE,)

    def take_action(self, args: base.Args) -> base.Table:
        known = self.scheduler_app.config.policies(args.policy_file)
        if args.policy not in known:
            raise UnknownName("policy", args.policy, known)
        policy = known[args.policy]
        # a service does not have the policies of a local file
        local = args.policy_file and self.scheduler_app.engine(self.selection(args))
        reads = (local or self.scheduler(args)).podm_reads(policy.name)
        weighers = []
        for use in policy.weighers:
            places = {"aggregate": use.overrides.aggregate, "zone": use.overrides.zone}
            overrides = {place: weights for place, weights in places.items() if weights}
            weigher = {"name": use.name, "weight": use.weight, **use.options}
            weighers.append(weigher | ({"overrides": overrides} if overrides else {}))
        filters = [{"name": use.name, **use.options} for use in policy.filters]
        names = ("pool_states", "decision_states", "batch_fits", "solver_nodes")
        row = {
            **cells.fields(policy, "Name", "Description", "Scheduler"),
            "Filters": cells.noun_lines(filters, lambda one: str(cells.Pairs(one))),
            "Weighers": cells.noun_lines(weighers, lambda one: str(cells.Pairs(one))),
            "Best Of": policy.pick.best_of,
            "Unknown": policy.unknown,
            "Budget": cells.PairLines({name: getattr(policy.budget, name) for name in names}),
            "Goals": ", ".join(policy.goals),
            "Reads": cells.WordLines(reads.fields),
        }
        if policy.shrink != "never":
            row["Shrink"] = policy.shrink
        return tuple(row), row


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
            cells.fields(one, "Name", "Description", "Options", "Source", maps=cells.Pairs)
            for one in installed.plugins
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
        options, manager = self.app.options, self.app.client_manager
        named = getattr(options, "scheduler_profile", None)
        file = str(self.scheduler_app.config.user_file(model.profile.CONFIG_FILE))
        rows = model.profile.settings_in_effect(
            self.profile, os.environ, named=bool(named), file=file,
            service=options.os_scheduler_endpoint,
            catalogue=lambda: (cloud.scheduler_endpoint(manager) or (None,))[0],
        )  # fmt: skip
        hide = model.profile.hide_passwords
        return self.known_columns, [
            (one, hide(value, "***") if value else None, source) for one, value, source in rows
        ]
