# SPDX-License-Identifier: Apache-2.0
"""The command ``scheduler audit list``."""

from __future__ import annotations

import argparse

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.options.types import add_options, positive
from valence_sched_cli.output.cells import or_absent, time_cell

COLUMNS = ("Time", "User", "Verb", "Object", "Outcome")
LONG = ("Owner", "Request ID")


class ListAudit(base.Lister):
    """List what was changed or refused, newest first.

    Of a service they are the changes of its users and need an admin. Commands that change a state
    on its own machine are there with the user of the machine.
    """

    through_service = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_options(
            parser,
            """
            --user <user>: changes of this user only
            --owner <owner>: changes by users of this project only
            --verb <verb>: only this, as claims:create, or "podm claim release" for a command
            --object <object>: changes of this object only, as claims/ID, nodes/ID or podms/NAME
            --outcome <outcome>: only accepted, done, or the code of an error
            --long: list more columns
            --limit <n>: print at most so many rows (default: 100)
            """,
            limit={"type": positive, "default": 100},
        )
        inventory.add_state_option(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.model.effect import AuditQuery

        names = ("user", "owner", "verb", "object", "outcome", "limit")
        query = AuditQuery(**{name: getattr(parsed_args, name) for name in names})
        lines = self.scheduler(parsed_args).audit(query)
        now, long = self.scheduler_app.now().timestamp(), parsed_args.long
        rows = []
        for line in lines:
            at = time_cell(line.at, max(0.0, now - line.at), both=long)
            row = (at, line.user, line.verb, line.object, line.outcome)
            more = (or_absent(line.owner), line.request_id)
            rows.append((*row, *(more if long else ())))
        return (*COLUMNS, *(LONG if long else ())), rows
