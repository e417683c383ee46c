# SPDX-License-Identifier: Apache-2.0
"""The command ``podm device list``."""

from __future__ import annotations

import argparse

from valence_sched_cli import base, paging
from valence_sched_cli.commands.block import add_filter_options, block_filter
from valence_sched_cli.output.cells import or_absent
from valence_sched_cli.output.hardware import ModelCell


class ListDevice(paging.PagedLister):
    """Count devices by model, all and free ones."""

    through_service = True

    marker_columns = ("Device", "Model")
    examples = ("--inventory examples/site.json", "--model A100 --podm gpu-east")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_filter_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        counts = self.report_scheduler(parsed_args).device_counts(block_filter(parsed_args))
        self.tell_missing_of(counts, "devices", strict=parsed_args.strict)
        return ("Device", "Model", "Devices", "Free", "Podms"), [
            (
                one.kind,
                or_absent(one.model and ModelCell(one.model)),
                or_absent(one.devices),
                or_absent(one.free),
                one.podms,
            )
            for one in counts
        ]
