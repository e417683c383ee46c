# SPDX-License-Identifier: Apache-2.0
"""Commands about aggregates: list."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.output.cells import Words


class ListAggregate(base.Lister):
    """List the aggregates and the pod managers in each."""

    option_groups = (inventory.INVENTORY,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the columns and the rows."""
        members: dict[str, list[str]] = {}
        for one in self.scheduler(parsed_args).podms():
            for name in one.podm.aggregates:
                members.setdefault(name, []).append(one.podm.id)
        rows = [(name, len(podms), Words(podms)) for name, podms in sorted(members.items())]
        return ("Name", "Count", "Pod Managers"), rows
