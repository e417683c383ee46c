# SPDX-License-Identifier: Apache-2.0
"""The command ``podm capture``: records live pod managers as an inventory or as Redfish trees."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.output.cells import Pairs


class CapturePodm(base.ShowOne):
    """Record pod managers as they are now, to keep, to compare or to share.

    Credentials are never recorded. A pod manager that cannot be read is told and does not keep
    the others from being written; exits 5 then with --strict.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", nargs="*", help="pod managers to record")
        parser.add_argument("--all", action="store_true", help="record every pod manager")
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument(
            "--output",
            "-o",
            metavar="<file>",
            help="write one inventory: .json or .jsonl, with .gz or .zst to compress",
        )
        where.add_argument(
            "--tree",
            metavar="<dir>",
            help="write the Redfish documents of each pod manager below <dir>/<name>/redfish/v1, "
            "as mockup servers take them; <dir> must not be there yet",
        )
        parser.add_argument(
            "--anonymize",
            action="store_true",
            help="replace serial numbers, UUIDs, addresses, hosts and every other name, the same "
            "one by the same alias; models, amounts and capabilities stay",
        )
        parser.add_argument(
            "--anonymize-key-env",
            metavar="<variable>",
            help="environment variable with the secret key of the aliases, so that two captures "
            "have the same ones (default: a key of this run)",
        )
        inventory.add_inventory_options(parser)
        return parser

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        if parsed_args.output:
            return ("File", "Podms", "Blocks", "Failed")
        return ("Tree", "Podms", "Blocks", "Documents", "Failed")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.errors import UsageError

        if parsed_args.name and parsed_args.all:
            raise UsageError("name pod managers or give --all, not both")
        chosen = parsed_args.inventory or parsed_args.podm_file or parsed_args.from_catalog
        if not (parsed_args.name or parsed_args.all or chosen):
            raise UsageError("what is to be recorded? name pod managers, or give --all")
        if parsed_args.resource_file:
            raise UsageError("--resource-file: a capture holds what pod managers tell, no more")
        key = parsed_args.anonymize_key_env
        aliases = self.scheduler_app.captures.aliases(key) if parsed_args.anonymize or key else None
        captured = self.scheduler_app.captures.capture(
            self.selection(parsed_args, parsed_args.name),
            file=parsed_args.output,
            tree=parsed_args.tree,
            aliases=aliases,
        )
        for name, why in captured.failures.items():
            self.tell(f"failed: {name}: {why}", logging.ERROR)
        for line in captured.left_out:
            self.tell(f"left out: {line}")
        lacks = (
            captured.failures
            or captured.left_out
            or self.scheduler_app.diagnostics.lines("skipped")
        )
        self.exit_code = 5 if parsed_args.strict and lacks else 0
        documents = [] if parsed_args.output else [captured.documents]
        counts = (captured.podms, captured.blocks, *documents)
        place = parsed_args.output or parsed_args.tree
        return self.column_names(parsed_args), (place, *counts, Pairs(captured.failures))
