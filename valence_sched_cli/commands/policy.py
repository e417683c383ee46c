# SPDX-License-Identifier: Apache-2.0
"""The commands ``scheduler policy list, show, validate``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.options.types import add_option
from valence_sched_cli.output.cells import Absent, LinesCell, PairLines, Sentence, WordLines

if TYPE_CHECKING:
    from valence_sched.model.policy import WeigherUse


class ListPolicy(base.Lister):
    """List policies.

    They are the built-in ones, your own, and those of --policy-file.
    """

    through_service = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_policy_file_option(parser)
        add_option(parser, "--long: list more columns")

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

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_policy_file_option(parser)
        add_option(parser, "<policy>: policy (name)")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.errors import UnknownName

        known = self.scheduler_app.config.policies(parsed_args.policy_file)
        if parsed_args.policy not in known:
            raise UnknownName("policy", parsed_args.policy, known)
        policy = known[parsed_args.policy]
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
            "Reads": WordLines(self._fields_read(parsed_args)),
        }  # fmt: skip
        return list(cells), list(cells.values())

    def _fields_read(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """Return the fields of pod managers that decisions of the policy read."""
        if parsed_args.policy_file:  # a service knows no policy of a file
            return (
                self.scheduler_app.engine(self.selection(parsed_args))
                .podm_reads(parsed_args.policy)
                .fields
            )
        return self.scheduler(parsed_args).podm_reads(parsed_args.policy).fields


def _overrides(use: WeigherUse) -> dict[str, Any]:
    """Return the other weights of a weigher as they are written, nothing where it has none."""
    by_place = {"aggregate": use.overrides.aggregate, "zone": use.overrides.zone}
    overrides = {place: weights for place, weights in by_place.items() if weights}
    return {"overrides": overrides} if overrides else {}


class ValidatePolicy(base.Lister):
    """Check files of policies.

    Exits 1 if a file is invalid.
    """

    reads_files_only = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<file>...: YAML file")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.errors import SchedulerError

        rows: list[tuple[str, bool, int, Any]] = []
        for file in parsed_args.file:
            try:
                policies = self.scheduler_app.config.policies_in(file)
                rows.append((file, True, len(policies), Absent()))
            except SchedulerError as error:
                rows.append((file, False, 0, Sentence(str(error), file)))
                self.exit_code = 1
        return ("File", "Valid", "Policies", "Error"), rows
