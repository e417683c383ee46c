# SPDX-License-Identifier: Apache-2.0
"""The command ``scheduler whatif sweep``: replays a workload over scenarios, policies and seeds."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from valence_sched_cli import base
from valence_sched_cli.commands import page_file
from valence_sched_cli.options import edits, inventory
from valence_sched_cli.options.help import section
from valence_sched_cli.options.request import nonempty_name
from valence_sched_cli.options.types import add_option, add_options, positive
from valence_sched_cli.options.workload import (
    add_workload_options,
    make_workload,
    workload_facts,
)
from valence_sched_cli.output.columns import MACHINE
from valence_sched_cli.output.sweep import COLUMNS, LONG_COLUMNS, progress_text, sweep_rows

if TYPE_CHECKING:
    from valence_sched.app import Sweep
    from valence_sched.model.replay import SweepRun


class SweepWhatif(base.Lister):
    """Replay a workload in many variations at once.

    Each scenario is replayed under each policy with each seed, on all cores. A synthetic workload
    is drawn by each seed; the requests of a file are decided with it. Rows are runs, ordered by
    scenario, policy and seed; they are the same with any number of processes, and on a cluster.
    """

    through_service = True

    effectful = True
    examples = (
        "--inventory examples/site.json --rate 2/h --mix small=6,gpu-large=1 --lifetime 8h "
        "--horizon 7d --seeds 1..5 --policy default --policy pack",
        "--inventory examples/site.json --workload examples/workload.csv --scenario "
        "examples/scenarios.yaml --output sweep.csv",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_inventory_options(parser)
        inventory.add_flavor_file_option(parser)
        inventory.add_policy_file_option(parser)
        edits.add_edit_options(parser)
        add_workload_options(parser, seed=False)
        output = section(parser, "output")
        add_options(
            section(parser, "decide"),
            """
            --policy <policy>...: policy of all requests (repeat for runs under each; default: that
                of each request)
            --seeds <seeds>: such as 1..20 or 1,2,7 (default: 0)
            """,
            policy={"type": nonempty_name, "dest": "policies"},
            seeds={"type": _seeds, "default": (0,)},
        )
        add_options(
            section(parser, "then"),
            """
            --jobs <n>: so many processes (default: one for each core)
            --backend <dask:address>: have the workers of a Dask cluster make the runs; this is the
                address of its scheduler
            --resume <file>: JSON Lines of finished runs: those in it are not made again, others
                are added when they finish
            """,
            jobs={"type": positive},
        )
        words = "file to write all runs to: .jsonl, .csv or .parquet"
        output.add_argument("--output", "-o", metavar="<file>", help=words)
        page_file.add_html_option(parser, "the scenarios and policies, side by side,")
        add_option(output, "--long: list more columns")

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return LONG_COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.model.quantity import format_count

        app = self.scheduler_app
        with contextlib.ExitStack() as stack:
            write: Callable[[list[SweepRun]], None] = lambda runs: None  # noqa: E731
            if parsed_args.output:
                write = stack.enter_context(app.sweep_writer(parsed_args.output))
            page = stack.enter_context(page_file.page_file(app, parsed_args))
            workload = make_workload(app, parsed_args)
            sites = edits.edited_sites(self, parsed_args)
            sweep = app.sweep(sites, parsed_args.policies, parsed_args.seeds, workload,
                              strict=parsed_args.strict)  # fmt: skip
            runs = self._runs(sweep, parsed_args)
            if parsed_args.output:
                with self.effects.change("sweep", parsed_args.output, "may be written",
                                         "is written"):  # fmt: skip
                    write(runs)
                count = format_count(len(runs), "run")
                self.closing.append(f"written to {parsed_args.output}: {count}")
            if page is not None:
                page.write_sweep(runs, sites, workload_facts(parsed_args))
        long = parsed_args.long or bool(parsed_args.columns) or parsed_args.formatter in MACHINE
        return LONG_COLUMNS if long else COLUMNS, list(sweep_rows(runs, long=long))

    def _runs(self, sweep: Sweep, parsed_args: argparse.Namespace) -> list[SweepRun]:
        """Return all runs; those of a journal are not made again, and others are added to it."""
        app, total, file = self.scheduler_app, len(sweep.keys), parsed_args.resume
        with contextlib.ExitStack() as stack:
            finished: list[SweepRun] = []
            add: Callable[[SweepRun], None] = lambda run: None  # noqa: E731
            if file:
                journal = stack.enter_context(app.sweep_journal(file))
                keys = set(sweep.keys)
                finished = [run for run in journal.finished(sweep.question) if run.key in keys]
                add = journal.add
            workers = stack.enter_context(app.sweep_workers(parsed_args.jobs, parsed_args.backend))
            made, started = 0, time.monotonic()

            def show() -> None:
                done, elapsed = len(finished) + made, time.monotonic() - started
                self.progress.begin("sweep", progress_text(done, made, total, elapsed))

            def record(run: SweepRun) -> None:
                nonlocal made
                add(run)
                made += 1
                show()

            show()
            try:
                runs = sweep.run(workers, finished, record)
            except BaseException:
                if file:
                    done = len(finished) + made
                    self.tell(f"{done:,} of {total:,} runs are in {file}: repeat to continue")
                raise
            self.progress.finish("sweep")
            return runs


def _seeds(text: str) -> tuple[int, ...]:
    from valence_sched.model.replay import parse_seeds

    try:
        return parse_seeds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
