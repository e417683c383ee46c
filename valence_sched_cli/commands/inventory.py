# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm inventory validate, convert, edit, diff`` and ``podm capture``."""

import logging
import textwrap
from collections.abc import Sequence
from typing import Any

from valence_sched.errors import InputError, UsageError, shown_name
from valence_sched_cli import base
from valence_sched_cli.late import model
from valence_sched_cli.options import inventory
from valence_sched_cli.options.request import add_edit_options, edited_site
from valence_sched_cli.output import cells
from valence_sched_cli.output.table import telling_columns


class ValidateInventory(base.Lister):
    """Validate inventories and count their contents.

    A YAML file is a tree of zones; the inventories that it names are checked, too. Exits 1 if a
    source cannot be read, 5 with --strict if a document was skipped.
    """

    reads_files_only = True
    arguments = """
        <path>...: file, directory, archive, or -
        --strict: exit 5 if any document was skipped
        --long: also list remarks about doubtful values"""
    option_settings = {"path": {"dest": "source"}}
    option_groups = (inventory.RESOURCE_FILE,)

    def take_action(self, args: base.Args) -> base.Table:
        rows, diagnostics = [], self.scheduler_app.diagnostics
        resources = tuple(args.resource_file)
        for source in args.source:
            name = shown_name(source)
            row: dict[str, Any] = {"Source": name, "Valid": True, "Error": None}
            row |= {"Podms": 0, "Pools": 0, "Blocks": 0}
            try:
                is_tree = source.endswith((".yaml", ".yml"))  # a tree of zones
                selection = model.reading.Selection(
                    sources=() if is_tree else (source,), resource_files=resources
                )
                if is_tree:
                    scheduler = self.scheduler_app.zoned_scheduler(selection, source)
                else:
                    scheduler = self.scheduler(args, selection)
                row |= cells.fields(scheduler.inventory(), "Podms", "Pools", "Blocks")
            except InputError as caught:
                row |= {"Valid": False, "Error": cells.Sentence(str(caught), name)}
                self.exit_code = 1
            skipped, remarks = diagnostics.lines("skipped"), diagnostics.lines("remark")
            diagnostics.clear()
            if skipped and args.strict and not self.exit_code:
                self.exit_code = 5
            told = {"Skipped": cells.Sentences(skipped), "Remarks": cells.Sentences(remarks)}
            rows.append(row | told)
        columns = ["Source", "Valid", "Podms", "Pools", "Blocks", "Skipped", "Error"]
        columns += ["Remarks"] if args.long else []
        return telling_columns(columns, rows, args, {"Skipped": "", "Error": ""}), rows


class ConvertInventory(base.ShowOne):
    """Write inventories of any kind as one file.

    The file name sets the format: .json is one document, .jsonl one pod manager per line; .gz and
    .zst are compressed.
    """

    examples = (
        "--inventory tree.zip --output site.json",
        "--inventory a.json --inventory b.json -o both.jsonl.gz",
    )
    arguments = "output --output,-o <file>: file to write"
    option_settings = {"output": {"required": True}}
    option_groups = (inventory.INVENTORY,)
    known_columns = ("File", "Podms", "Blocks")

    def take_action(self, args: base.Args) -> base.Table:
        selection = self.selection(args)
        file = args.output
        with self.writing("inventory", file):
            if self.scheduler_app.service is None:
                podms, blocks = self.scheduler_app.loader.convert(selection, file)
            else:
                site = self.scheduler_app.site(selection)
                podms, blocks = self.scheduler_app.whatif.write_site(site, file)
        return self.column_names(args), (file, podms, blocks)


class EditInventory(base.Lister):
    """Write an inventory after edits.

    Edits fail, drain, remove, clone, add or set hardware. Prints the changes of each edit, on
    standard error if --output is -. The file name sets the format, as for podm inventory convert.
    """

    examples = (
        "--inventory examples/site.json --fail GPU-02@gpu-east --output edited.json",
        "--inventory examples/site.json --clone gpu-eastx2 --add 4xNVMe-02@store-1 --output -",
    )
    arguments = "output --output,-o <file>: file to write, or - for standard output"
    option_settings = {"output": {"required": True}}
    option_groups = (inventory.INVENTORY, add_edit_options)
    known_columns = ("Edit", "Podms", "Pools", "Blocks", "Stocks", "Nodes Lost")

    def take_action(self, args: base.Args) -> base.Table:
        if not args.edits and not args.scenario:
            options = "--fail, --drain, --remove, --clone, --add, --set or --scenario"
            raise UsageError(f"no edit given: use {options}, or use podm inventory convert")
        site = self._site = edited_site(self, args)
        if self.scheduler_app.whatif.decides_otherwise(site):
            what = "policies, weights and flavors of a scenario"
            self.closing.append(f"remark: an inventory file does not hold {what}")
        file = args.output
        if file != "-":
            with self.writing("inventory", file):
                podms, blocks = self.scheduler_app.whatif.write_site(site, file)
            self.closing.append(f"written to {file}: {podms:,} podms, {blocks:,} blocks")
        return self.known_columns, [
            (one.edit, one.podms, one.pools, one.blocks, one.stocks, one.nodes)
            for one in site.effects
        ]

    def produce_output(self, args: base.Args, column_names: Sequence[str], data: Any) -> int:
        if args.output != "-":
            return super().produce_output(args, column_names, data)
        write_site = self.scheduler_app.whatif.print_site
        self.print(lambda stream: write_site(self._site, stream.write))
        for effect in self._site.effects:
            self.log_line(effect.text)
        return 0


DIFF_COLUMNS = ("Podm", "Kind", "Name", "Change", "Before", "After")
VALUE_WIDTH = 44  # characters of a cell with a list or a map


class DiffInventory(base.Lister):
    """Show the differences between two inventories.

    Exits 0. With --detailed-exitcode, exits 10 if the inventories differ.
    """

    reads_files_only, option_groups = True, ()
    arguments = """
        <old>: earlier inventory: file, directory, archive, or - for standard input
        <new>: later inventory: file, directory, archive, or - for standard input
        --detailed-exitcode: exit 10 if the inventories differ"""

    def take_action(self, args: base.Args) -> base.Table:
        rows = []
        for one in self.scheduler_app.loader.differences(args.old, args.new):
            name = cells.Shown(one.name, lambda uri: cells.tail(uri) or uri)
            before, after = _cell(one.before), _cell(one.after)
            rows.append((one.podm, one.kind, name, one.change, before, after))
        if not rows:
            self.closing.append("no difference")
        elif args.detailed_exitcode:
            self.exit_code = base.DIFFERENT
        return DIFF_COLUMNS, rows

    def produce_output(self, args: base.Args, column_names: Sequence[str], data: Any) -> int:
        if not data and args.formatter == "table":
            return 0
        return super().produce_output(args, column_names, data)


def _cell(value: Any) -> Any:
    is_plain = value is None or isinstance(value, str | bool)
    return value if is_plain else cells.Shown(value, _value_text)


def _value_text(value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    lines = _field_lines(value) if isinstance(value, dict) else list(map(_inline, items))
    fold = textwrap.TextWrapper(VALUE_WIDTH, subsequent_indent="  ", break_long_words=False)
    return "\n".join(map(fold.fill, lines))


def _field_lines(value: dict[str, Any]) -> list[str]:
    lines = []
    for key, item in value.items():
        if key == "devices":
            lines += _field_lines(item)
        elif key not in ("uri", "id"):
            lines.append(f"{key}: {_inline(item)}")
    return lines


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_inline(item)}" for key, item in value.items())
    return "; ".join(map(_inline, value)) if isinstance(value, list) else cells.format_value(value)


class CapturePodm(base.ShowOne):
    """Record the present inventory of pod managers.

    A capture can be kept, compared and shared; credentials are never recorded. A pod manager that
    cannot be read is reported, and the others are written; --strict then exits 5.
    """

    through_service = False
    examples = ("--all --output site.json", "gpu-east gpu-west --tree mockups --anonymize")
    arguments = """
        [<name>...]: pod managers to record
        what --all: record every pod manager
        output |! --output,-o <file>: write one inventory: .json or .jsonl, with .gz or .zst to
            compress
        output |! --tree <dir>: write Redfish mockups below <dir>/<name>/redfish/v1;
            <dir> must not exist yet
        output --anonymize: replace serial numbers, UUIDs, addresses and all names by aliases,
            consistently; models, amounts and capabilities stay
        output --anonymize-key-env <variable>: environment variable with a secret key, for the same
            aliases in several captures (default: a new key per run)"""
    option_groups = (inventory.INVENTORY,)

    def column_names(self, args: base.Args) -> Sequence[str]:
        if args.output:
            return ("File", "Podms", "Blocks", "Failed")
        return ("Tree", "Podms", "Blocks", "Documents", "Failed")

    def take_action(self, args: base.Args) -> base.Table:
        if args.name and args.all:
            raise UsageError("name pod managers or give --all, not both")
        chosen = args.inventory or args.podm_file or args.from_catalog
        if not (args.name or args.all or chosen):
            raise UsageError("nothing to record: name pod managers, or give --all")
        if args.resource_file:
            raise UsageError("--resource-file: a capture holds only reported resources")
        key, file, tree = args.anonymize_key_env, args.output, args.tree
        captures = self.scheduler_app.captures
        aliases = captures.aliases(key) if args.anonymize or key else None
        selection = self.selection(args, args.name)
        with self.writing("capture", file or tree):
            captured = captures.capture(selection, file=file, tree=tree, aliases=aliases)
        for name, why in captured.failures.items():
            self.log_line(f"failed: {name}: {why}", logging.ERROR)
        for line in captured.left_out:
            self.log_line(f"left out: {line}")
        lost = captured.failures or captured.left_out
        lost = lost or self.scheduler_app.diagnostics.lines("skipped")
        self.exit_code = 5 if args.strict and lost else 0
        counts = (captured.podms, captured.blocks, *([] if file else [captured.documents]))
        return self.column_names(args), (file or tree, *counts, cells.Pairs(captured.failures))
