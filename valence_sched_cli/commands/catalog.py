# SPDX-License-Identifier: Apache-2.0
"""The commands that list, show and validate flavors, policies, filters and weighers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import InputError, RequestError, SchedulerError, UnknownName
from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.output.cells import (
    Absent,
    AlternativesCell,
    AnyOfCell,
    ExpressionCell,
    LinesCell,
    NeedsCell,
    PairLines,
    Pairs,
    Sentence,
    TopologyConstraintsCell,
    WordLines,
    or_absent,
)

if TYPE_CHECKING:
    from valence_sched.model.flavor import Flavor
    from valence_sched.model.policy import PluginKind, WeigherUse

LONG_COLUMNS = (
    "Bonds", "Fallbacks", "Policy", "Share", "Zone", "Locations", "Aggregates",
    "Forbidden Aggregates",
    "Any Aggregates", "Capabilities", "Required Traits", "Forbidden Traits", "Any Traits",
    "Attributes", "Where",
)  # fmt: skip


class ListFlavor(base.Lister):
    """List flavors.

    They are the built-in ones, your own, and those of --flavor-file.
    """

    through_service = True

    option_groups = (inventory.FLAVOR_FILE, "--long: list more columns")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        flavors = self.scheduler_app.config.flavors(parsed_args.flavor_file)
        columns = ["Name", "Description", "Needs"]
        if parsed_args.long:
            columns += LONG_COLUMNS
        cells = map(_cells, flavors.values())
        return columns, (tuple(row[column] for column in columns) for row in cells)


class ShowFlavor(base.ShowOne):
    """Show one flavor and the needs it compiles to."""

    through_service = True
    arguments = "<flavor>: flavor: a name, a file, or - for standard input"
    option_groups = (inventory.FLAVOR_FILE,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        import msgspec

        flavor = self.scheduler_app.config.flavor(parsed_args.flavor, parsed_args.flavor_file)
        words = PairLines(msgspec.to_builtins(flavor.properties))
        cells = _cells(flavor)
        head = {name: cells.pop(name) for name in ("Name", "Description")}
        cells = {**head, "Properties": words, **cells}
        return list(cells), list(cells.values())


class _ValidateFiles(base.Lister):
    """A row for each file: whether it is valid, and how many nouns it has."""

    noun: str
    invalid: tuple[type[SchedulerError], ...] = (SchedulerError,)  # what makes a file invalid

    def read_file(self, file: str, parsed_args: argparse.Namespace) -> Sequence[object]:
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        rows: list[tuple[str, bool, int, Any]] = []
        for file in parsed_args.file:
            try:
                rows.append((file, True, len(self.read_file(file, parsed_args)), Absent()))
            except self.invalid as error:
                rows.append((file, False, 0, Sentence(str(error), file)))
                self.exit_code = 1
        return ("File", "Valid", self.noun, "Error"), rows


class ValidateFlavor(_ValidateFiles):
    """Check files of flavors.

    Exits 1 if a file is invalid.
    """

    through_service = True
    noun = "Flavors"
    invalid = (InputError, RequestError, UnknownName)
    arguments = "<file>...: YAML or JSON file"
    option_groups = (inventory.FLAVOR_FILE,)

    def read_file(self, file: str, parsed_args: argparse.Namespace) -> Sequence[object]:
        return self.scheduler_app.config.flavors_in(file, parsed_args.flavor_file)


def _cells(flavor: Flavor) -> dict[str, Any]:
    first, *others = flavor.alternatives
    aggregates, traits = flavor.aggregate_names, flavor.traits
    return {
        "Name": flavor.name,
        "Description": flavor.description,
        "Needs": NeedsCell(first.needs),
        "Bonds": TopologyConstraintsCell(first.bonds),
        "Fallbacks": AlternativesCell(others),
        "Policy": or_absent(flavor.policy),
        "Share": flavor.share,
        "Zone": or_absent(flavor.zone),
        "Locations": WordLines(flavor.locations),
        "Aggregates": WordLines(aggregates.required),
        "Forbidden Aggregates": WordLines(aggregates.forbidden),
        "Any Aggregates": AnyOfCell(aggregates.any_of),
        "Capabilities": PairLines(flavor.capability_map),
        "Required Traits": WordLines(traits.required),
        "Forbidden Traits": WordLines(traits.forbidden),
        "Any Traits": AnyOfCell(traits.any_of),
        "Attributes": PairLines(flavor.attributes),
        "Where": Absent() if flavor.where is None else ExpressionCell(flavor.where),
    }


class ListPolicy(base.Lister):
    """List policies.

    They are the built-in ones, your own, and those of --policy-file.
    """

    through_service = True

    option_groups = (inventory.POLICY_FILE, "--long: list more columns")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        columns = ["Name", "Description", "Scheduler", "Weighers"]
        if parsed_args.long:
            columns += ["Filters", "Unknown", "Best Of"]
        rows = (
            (policy.name, policy.description, policy.scheduler,
             PairLines({use.name: use.weight for use in policy.weighers}),
             WordLines([use.name for use in policy.filters]), policy.unknown,
             policy.pick.best_of)[: len(columns)]
            for policy in self.scheduler_app.config.policies(parsed_args.policy_file).values()
        )  # fmt: skip
        return columns, rows


class ShowPolicy(base.ShowOne):
    """Show one policy, its filters and its weighers."""

    through_service = True
    arguments = "<policy>: policy (name)"
    option_groups = (inventory.POLICY_FILE,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        known = self.scheduler_app.config.policies(parsed_args.policy_file)
        if parsed_args.policy not in known:
            raise UnknownName("policy", parsed_args.policy, known)
        policy = known[parsed_args.policy]
        if parsed_args.policy_file:  # a service knows no policy of a file
            reads = self.scheduler_app.engine(self.selection(parsed_args)).podm_reads(policy.name)
        else:
            reads = self.scheduler(parsed_args).podm_reads(policy.name)
        cells = {
            "Name": policy.name,
            "Description": policy.description,
            "Scheduler": policy.scheduler,
            "Filters": LinesCell([{"name": use.name, **use.options} for use in policy.filters]),
            "Weighers": LinesCell([
                {"name": use.name, "weight": use.weight, **use.options, **_overrides(use)}
                for use in policy.weighers
            ]),
            "Best Of": policy.pick.best_of,
            "Unknown": policy.unknown,
            "Budget": PairLines({
                "pool_states": policy.budget.pool_states,
                "decision_states": policy.budget.decision_states,
                "batch_fits": policy.budget.batch_fits,
                "solver_nodes": policy.budget.solver_nodes,
            }),
            "Goals": ", ".join(policy.goals),
            "Reads": WordLines(reads.fields),
        }  # fmt: skip
        return list(cells), list(cells.values())


def _overrides(use: WeigherUse) -> dict[str, Any]:
    """Return the other weights of a weigher as they are written, nothing where it has none."""
    by_place = {"aggregate": use.overrides.aggregate, "zone": use.overrides.zone}
    overrides = {place: weights for place, weights in by_place.items() if weights}
    return {"overrides": overrides} if overrides else {}


class ValidatePolicy(_ValidateFiles):
    """Check files of policies.

    Exits 1 if a file is invalid.
    """

    reads_files_only = True
    noun = "Policies"
    arguments = "<file>...: YAML file"

    def read_file(self, file: str, parsed_args: argparse.Namespace) -> Sequence[object]:
        return self.scheduler_app.config.policies_in(file)


class ListPlugins(base.Lister):
    """List the plug-ins of one kind, those that cannot be loaded included."""

    kind: PluginKind
    arguments = "--long: also list where each comes from"

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        installed = self.scheduler(parsed_args).plugins(self.kind)
        for name, error in installed.load_errors.items():
            self.tell(f"{installed.kind} {name!r} cannot be loaded: {error}")
        columns = ["Name", "Description", "Options"] + (["Source"] if parsed_args.long else [])
        rows = [
            (plugin.name, plugin.description, Pairs(plugin.options), plugin.source)
            for plugin in installed.plugins
        ]
        return columns, [row[: len(columns)] for row in rows]


class ListFilter(ListPlugins):
    """List the filters that policies may name.

    Each has its options with their defaults.
    """

    through_service = True
    kind = "filters"


class ListWeigher(ListPlugins):
    """List the weighers that policies may name.

    Each has its options with their defaults.
    """

    through_service = True
    kind = "weighers"
