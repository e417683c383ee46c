# SPDX-License-Identifier: Apache-2.0
"""The command ``podm capture``: records live pod managers as an inventory or as Redfish trees."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.options.help import section
from valence_sched_cli.options.types import add_option, add_options
from valence_sched_cli.output.cells import Pairs


class CapturePodm(base.ShowOne):
    """Record pod managers as they are now.

    A capture is to keep, to compare or to share; credentials are never recorded. A pod manager
    that cannot be read is told and does not keep the others from being written; exits 5 then with
    --strict.
    """

    effectful = True
    examples = (
        "--all --output site.json",
        "gpu-east gpu-west --tree mockups --anonymize",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="<name>", nargs="*", help="pod managers to record")
        add_option(section(parser, "what"), "--all: record every pod manager")
        output = section(parser, "output")
        where = output.add_mutually_exclusive_group(required=True)
        words = "write one inventory: .json or .jsonl, with .gz or .zst to compress"
        where.add_argument("--output", "-o", metavar="<file>", help=words)
        add_option(
            where,
            "--tree <dir>: write the Redfish documents of each pod manager below "
            "<dir>/<name>/redfish/v1, as mockup servers take them; <dir> must not be there yet",
        )
        add_options(
            output,
            """
            --anonymize: replace serial numbers, UUIDs, addresses, hosts and every other name, the
                same one by the same alias; models, amounts and capabilities stay
            --anonymize-key-env <variable>: environment variable with the secret key of the aliases,
                so that two captures have the same ones (default: a key of this run)
            """,
        )
        inventory.add_inventory_options(parser)

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        if parsed_args.output:
            return ("File", "Podms", "Blocks", "Failed")
        return ("Tree", "Podms", "Blocks", "Documents", "Failed")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.errors import UsageError

        if parsed_args.name and parsed_args.all:
            raise UsageError("name pod managers or give --all, not both")
        chosen = parsed_args.inventory or parsed_args.podm_file or parsed_args.from_catalog
        if not (parsed_args.name or parsed_args.all or chosen):
            raise UsageError("what is to be recorded? name pod managers, or give --all")
        if parsed_args.resource_file:
            raise UsageError("--resource-file: a capture holds what pod managers tell, no more")
        key = parsed_args.anonymize_key_env
        captures = self.scheduler_app.captures
        aliases = captures.aliases(key) if parsed_args.anonymize or key else None
        file, tree = parsed_args.output, parsed_args.tree
        selection = self.selection(parsed_args, parsed_args.name)
        with self.effects.change("capture", file or tree, "may be written", "is written"):
            captured = captures.capture(selection, file=file, tree=tree, aliases=aliases)
        for name, why in captured.failures.items():
            self.tell(f"failed: {name}: {why}", logging.ERROR)
        for line in captured.left_out:
            self.tell(f"left out: {line}")
        skipped = self.scheduler_app.diagnostics.lines("skipped")
        lacks = captured.failures or captured.left_out or skipped
        self.exit_code = 5 if parsed_args.strict and lacks else 0
        counts = (captured.podms, captured.blocks, *([] if file else [captured.documents]))
        return self.column_names(parsed_args), (file or tree, *counts, Pairs(captured.failures))
