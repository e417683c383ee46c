# SPDX-License-Identifier: Apache-2.0
"""The commands ``scheduler whatif`` on moves, purchases and workloads, and ``policy tune``."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.late import app, model, pages, words
from valence_sched_cli.options import inventory, parser, request as options
from valence_sched_cli.output.cells import warning_lines
from valence_sched_cli.output.progress import run_counter
from valence_sched_cli.output.table import MACHINE, name_columns

TARGET_HELP = (
    "PODM, PODM/POOL or BLOCK@PODM, of names or patterns, or conditions such as model=A100,zone=az2"
)
PAGE_HELP = "the destination of each node, nodes that cannot be re-placed, and a map of the site"
MOST_MOVES = 3
MOST_MOVES_TO_DEFRAGMENT = 20


class _Answer(base.Lister):
    """A list that answers a what-if question about a site."""

    def answered(self, site: app.Site, answer: Callable[[], Any], most: int = 0) -> Any:
        """Return the answer; open the file of the page before the search, and write it after."""
        with self.page_writer(self.args) as write:
            result = answer()
            if self.args.html:
                write(self.scheduler_app.whatif_page(result, site, most))
        return result


class _MoveLister(_Answer):
    """A list of moves."""

    option_groups: Sequence[str | Callable[[argparse.ArgumentParser], None]] = (
        inventory.INVENTORY,
        inventory.POLICY_FILE,
        options.add_edit_options,
        options.WEIGHT,
        """
        decide --policy <policy>: policy that places the nodes (default: that of the scenario, else
            default)
        output --long: list more columns
        output --all-reasons: list the reason for every node that cannot be re-placed""",
    )

    def _moves(self, site: app.Site, answer: Callable[[], Any], args: base.Args) -> base.Table:
        result, out = self.answered(site, answer), output.planning
        self.closing += warning_lines(result.notes)
        self.closing += out.stuck_lines(result.stuck, args.all_reasons)
        columns = self.chosen(out.MOVE_COLUMNS, out.MOVE_LONG_COLUMNS)
        if isinstance(result, model.relocation.Survival):
            self.closing += words.planning.survival_phrases(result)
            if not result.answer:
                self.exit_code = base.UNDECIDED if result.answer is None else base.PLACED_IN_PART
            return columns, map(out.stuck_row, result.stuck)
        self.closing.append(words.planning.relocation_phrase(result))
        if result.stuck:
            self.exit_code = base.PLACED_IN_PART if result.moves else base.NOTHING_FITS
        return columns, [*map(out.move_row, result.moves), *map(out.stuck_row, result.stuck)]


class FailWhatif(_MoveLister):
    """Show the destinations of nodes if hardware fails.

    Nodes are re-placed on the remaining hardware, as by podm schedule, the most expensive first.
    --survive N tests every combination of N failed pod managers; the rows are the nodes that cannot
    be re-placed after the worst combination. Exit codes: 0 if all nodes can be re-placed; 4 if some
    can; 3 if no node can.
    """

    examples = (
        "gpu-east --inventory examples/site.json",
        "--survive 1 --inventory examples/site.json --clone gpu-east",
        "--fail-zone east --zone-file examples/zones.yaml",
    )
    arguments = f"""
        [<target>...]: hardware that fails: {TARGET_HELP}
        what --survive <n>: test every combination of N failures of pod managers
        what --fail-zone <zone>...: fail this zone of --zone-file and all zones below it: a path,
            such as east/hall-1, or a pattern"""
    option_settings = {"fail_zone": None}
    option_groups = (
        *_MoveLister.option_groups,
        inventory.ZONE_FILE,
        inventory.html_option(PAGE_HELP),
    )

    def take_action(self, args: base.Args) -> base.Table:
        if args.fail_zone and args.zone_file is None:
            raise UsageError("--fail-zone: name the file of the zones with --zone-file")
        fails = bool(args.target or args.fail_zone)
        if fails == (args.survive is not None):
            raise UsageError("name either the hardware that fails, or --survive N")
        whatif, site = self.scheduler_app.whatif, options.edited_site(self, args)
        if not fails:
            answer = functools.partial(whatif.survive, site, args.survive, self._show)
            return self._moves(site, answer, args)
        below = functools.partial(self.scheduler_app.zone_podms, self.selection(args))
        podms = {f"zone {name}": below(args.zone_file, [name]) for name in args.fail_zone}
        return self._moves(site, functools.partial(whatif.fail, site, args.target, podms), args)

    def _show(self, tried: int, sets: int) -> None:
        self.progress.begin("failures", f"{tried:,} of {sets:,} sets of pod managers tried")


class DrainWhatif(_MoveLister):
    """Plan the moves of all nodes off hardware.

    A node gets its new blocks before it leaves the old ones. Exits 0 if every node moves away, 4 if
    some do, 3 if all stay.
    """

    examples = (
        "gpu-west --inventory examples/site.json",
        "model=A100,zone=az2 --inventory examples/site.json --policy pack",
    )
    arguments = f"<target>...: hardware to drain: {TARGET_HELP}"
    option_groups = (*_MoveLister.option_groups, inventory.html_option(PAGE_HELP))

    def take_action(self, args: base.Args) -> base.Table:
        whatif, site = self.scheduler_app.whatif, options.edited_site(self, args)
        answer = functools.partial(whatif.drain, site, args.target)
        return self._moves(site, answer, args)


class RebalanceWhatif(_MoveLister):
    """Plan the fewest moves that reach a goal.

    A node gets its new blocks before it leaves the old ones. The command itself moves no node. Room
    is the number of further nodes of the flavor that fit after a move. Fragmentation is the share
    of the free accelerators that the mix of flavors cannot use, or without accelerators, of the
    scarcest resource. Imbalance is the standard deviation of the utilization of pod managers, each
    by its most used resource. Exits 0 if the moves reach the goal or no move is needed, 3 if no
    moves reach it, 5 if the search ended undecided.
    """

    examples = (
        "--flavor gpu-large --inventory examples/site.json",
        "--flavor gpu-large --inventory examples/site.json --drain gpu-north --most 2",
        "--fragmentation-below 30% --mix gpu-large=1,small=3 --inventory examples/site.json",
        "--imbalance-below 20% --inventory examples/site.json",
    )
    arguments = f"""
        what --flavor <flavor>: name, file or - (standard input) of the flavor to make room for
        what --fragmentation-below <[resource=]percent>: move until fragmentation is below this,
            measured by RESOURCE if named; --flavor then only sets the flavor of the column Room
        what --imbalance-below <percent>: move until the imbalance of the pod managers is below this
        what --mix <flavor=share,...>: flavors and shares for the fragmentation measure (default:
            all flavors with their own shares)
        what --most <n>: maximum number of moves (default: {MOST_MOVES}, or
            {MOST_MOVES_TO_DEFRAGMENT} with --fragmentation-below or --imbalance-below)"""
    option_settings = {
        "fragmentation_below": parser.parsed_by("quantity:parse_resource_percentage"),
        "imbalance_below": parser.parsed_by("quantity:parse_percentage"),
    }
    option_groups = (
        *_MoveLister.option_groups,
        inventory.FLAVOR_FILE,
        inventory.html_option("the moves and a map of the site"),
    )

    def take_action(self, args: base.Args) -> base.Table:
        of, below = args.fragmentation_below or (None, None)
        whatif, site = self.scheduler_app.whatif, options.edited_site(self, args)
        request = None
        if args.flavor is not None:
            files = {"policy": args.policy, "flavor_files": args.flavor_file}
            request = whatif.request(site, args.flavor, **files)
        even = args.imbalance_below
        for_room = below is None and even is None
        if for_room and request is None:
            goals = "--fragmentation-below PERCENT or --imbalance-below PERCENT"
            raise UsageError(f"no goal: give --flavor F (make room for it), {goals}")
        if below is not None and even is not None:
            raise UsageError("--imbalance-below: not with --fragmentation-below: name one goal")
        most = args.most or (MOST_MOVES if for_room else MOST_MOVES_TO_DEFRAGMENT)
        mix = None if args.mix is None else site.mix(args.mix)
        answer = functools.partial(whatif.rebalance, site, most, request, below, mix, even, of)
        result = self.answered(site, answer, most)
        self.closing += warning_lines(result.notes)
        self.closing += words.planning.rebalance_lines(result, most)
        if not result.reached:
            self.exit_code = base.NOTHING_FITS if result.complete else base.UNDECIDED
        out = output.planning
        columns = self.chosen(out.REBALANCE_COLUMNS, out.REBALANCE_LONG_COLUMNS)
        return columns, map(out.rebalance_row, result.moves)


class NeedWhatif(_Answer):
    """Find the smallest purchase that makes nodes fit.

    --buy names the blocks on offer and their pod managers or pools. With prices, the cheapest
    purchase is found, else the fewest blocks. The purchase is proven to be the smallest, or a lower
    bound is printed as well. Exits 3 if the offered blocks are not enough, 4 if podm schedule would
    place fewer nodes than fit after the purchase.
    """

    examples = (
        "--flavor gpu-large --count 5 --inventory examples/site.json --buy GPU-03@gpu-east "
        "--buy Compute-02@gpu-east",
        "--flavor gpu-large --count 5 --inventory examples/site.json --buy GPU-03@gpu-east "
        "--price GPU-03=9000",
    )
    arguments = """
        what --flavor <flavor>: name, file or - (standard input) of the flavor
        what --count <n>=1: number of further nodes
        what --buy <block@podm[/pool]>...: offer copies of this block, or of a template of a
            scenario file, for these pod managers or pools
        what --price <block=amount>...: price of one copy of a block"""
    option_settings = {
        "flavor": {"required": True},
        "buy": options.edit("add"),
        "price": parser.named_number("BLOCK=AMOUNT, as in GPU-03=9000", 0, 1e12),
    }
    option_groups = (
        inventory.DECISION,
        options.add_edit_options,
        options.WEIGHT,
        """
        decide --policy <policy>: policy that places the nodes (default: that of the flavor, else of
            the scenario)""",
        inventory.html_option("the purchase and a map of the site"),
    )

    def take_action(self, args: base.Args) -> base.Table:
        whatif, site = self.scheduler_app.whatif, options.edited_site(self, args)
        files = {"policy": args.policy, "flavor_files": args.flavor_file}
        request = whatif.request(site, args.flavor, args.count, **files)
        prices = parser.by_name("--price", args.price)
        buy = functools.partial(whatif.smallest_purchase, site, request, args.buy, prices)
        result = self.answered(site, buy)
        self.closing.append(words.planning.purchase_line(result))
        if result.lines is None:
            self.exit_code = base.NOTHING_FITS
        elif result.placed < result.wanted:
            self.exit_code = base.PLACED_IN_PART
            reached = f"{result.placed:,} of {result.wanted:,} nodes with these blocks"
            hint = "a better order or policy is needed"
            self.closing.append(f"warning: podm schedule would place {reached}: {hint}")
        rows = []
        for one in result.lines or ():
            cost = one.price and one.price * one.number
            rows.append((one.podm, one.pool, one.block, one.number, one.price, cost))
        return ("Podm", "Pool", "Block", "Number", "Price", "Cost"), rows


class RunWhatif(base.Lister):
    """Replay a workload and compare the outcomes.

    Nodes are created and deleted at the times of the workload. Each request is decided as podm
    schedule would decide it, on the inventory at that time. Rows are runs, one for each scenario
    and policy. With --compare, rows are measures, with a column for each run; with edits, the
    unedited inventory is replayed, too.
    """

    examples = (
        "--workload workload.csv --policy default --policy pack --compare",
        "--rate 10/h --mix gpu-large=1,small=3 --lifetime 2d --horizon 30d --seed 7",
    )
    option_settings = {
        "policy": {"dest": "policies"},
        "seed": parser.natural,
        "map_file": parser.LISTED,
        "tolerance": {"type": parser.parsed_by("replay:parse_tolerance"), **parser.LISTED},
    }
    option_groups = (
        inventory.DECISION,
        options.WORKLOAD,
        "what --seed <n>: seed of the generated requests (default: 0)",
        options.add_edit_options,
        options.WEIGHT,
        """
        decide --policy <policy>...: policy of all requests (repeat for one run each; default: the
            policy of each request)
        output --compare: print a row for each measure and a column for each run
        output --series: list time series instead of runs: shares in use, nodes and refusals
        output --long: list more columns, with --compare more measures
        output --output,-o <file>: file for the whole result, as JSON
        then --baseline <file>: earlier result; exit 10 if a measure differs
        then --tolerance <[measure=]percent>: allowed difference from the baseline, of all
            measures or of one (default: 0)""",
        inventory.html_option("the runs, side by side and over time,"),
    )

    def take_action(self, args: base.Args) -> base.Table:
        app = self.scheduler_app
        if args.tolerance and not args.baseline:
            raise UsageError("--tolerance: only with --baseline FILE")
        parser.by_name("--tolerance", (pair for pair in args.tolerance if pair[0] is not None))
        if [name for name, _ in args.tolerance].count(None) > 1:
            raise UsageError("--tolerance: twice for all measures: name a measure, as in placed=5")
        if args.series and args.compare:
            raise UsageError("--series: not with --compare, which has a row for each measure")
        tolerances, baseline = dict(args.tolerance), None
        if args.baseline is not None:
            baseline, warnings = app.whatif.read_replay(args.baseline)
            model.replay.check_measure_names(filter(None, tolerances), baseline)
            self.closing += warning_lines(warnings)
        report = base.file_writer(app.report_writer, args.output)
        with report as write, self.page_writer(args) as write_page:
            workload = options.make_workload(app, args)
            weights, site = parser.by_name("--weight", args.weight), app.site(self.selection(args))
            edits = tuple(args.scenario), tuple(args.edits)
            sites = app.whatif.compared_sites(
                site, *edits, args.policies, weights, unedited=args.compare
            )
            replay = self._replay(sites, args, workload)
            effects = {site.name: site.effects for site in sites}
            write(replay)
            if args.html:
                facts = tuple(options.workload_facts(args))
                write_page(pages.replay.replay_page(replay, effects, facts))
        out = output.planning
        self.closing += (*words.planning.lost_lines(effects), *words.planning.outcome_lines(replay))
        if baseline is not None:
            found = model.replay.changes(baseline, replay, tolerances.pop(None, 0.0), tolerances)
            self.closing += words.planning.change_lines(found, args.baseline)
            self.exit_code = base.DIFFERENT if found else 0
        if args.compare:
            if len(replay.runs) > 1:
                self.closing.append("one seed does not show which run is better: use whatif sweep")
            return out.comparison(replay, machine=args.formatter in MACHINE, long=args.long)
        if args.series:
            return out.series_table(replay, machine=not self.for_people(args), long=args.long)
        return self.chosen(out.RUN_COLUMNS, out.RUN_LONG_COLUMNS), out.run_rows(replay)

    def _replay(
        self, sites: Sequence[app.Site], args: base.Args, workload: app.Workload
    ) -> model.replay.Replay:
        """Replay the workload; print the speed on standard error only."""
        line, started, whatif = self.progress, time.monotonic(), self.scheduler_app.whatif

        def progress(run: str) -> Callable[[int], None]:
            begun, show = time.monotonic(), functools.partial(line.begin, "replay")
            return lambda requests: show(f"{run}: {requests:,} requests, {_rate(requests, begun)}")

        replay = whatif.replay(sites, args.policies, workload, progress, strict=args.strict)
        line.finish("replay")
        requests = sum(run.requests for run in replay.runs)
        self.log_line(f"{requests:,} requests decided, {_rate(requests, started)}", logging.INFO)
        return replay


def _rate(requests: int, started: float) -> str:
    return f"{requests / max(1e-9, time.monotonic() - started):,.0f} per second"


class SweepWhatif(base.Lister):
    """Replay a workload in many variations.

    Each scenario is replayed under each policy with each seed, on all cores. Each seed draws a
    synthetic workload; for a workload file, the seed breaks ties of its decisions. Rows are runs,
    ordered by scenario, policy and seed. The rows are the same for any number of processes and
    on a cluster.
    """

    examples = (
        "--inventory examples/site.json --rate 2/h --mix small=6,gpu-large=1 --lifetime 8h "
        "--horizon 7d --seeds 1..5 --policy default --policy pack",
        "--inventory examples/site.json --workload examples/workload.csv --scenario "
        "examples/scenarios.yaml --output sweep.csv",
    )
    option_settings = {
        "policy": {"dest": "policies"},
        "map_file": parser.LISTED,
        "seeds": {"type": parser.parsed_by("replay:parse_seeds"), "default": (0,)},
    }
    option_groups = (
        inventory.DECISION,
        options.add_edit_options,
        options.WORKLOAD,
        """
        decide --policy <policy>...: policy of all requests (repeat for one set of runs each;
            default: the policy of each request)
        decide --seeds <seeds>: seeds, not their number: 1..20 or 1,2,7 (default: 0)
        then --jobs <n>: number of processes (default: one for each core)
        then --backend <dask:address>: run on the workers of a Dask cluster, at the address of its
            scheduler
        then --resume <file>: JSON Lines of finished runs: they are not repeated, and new runs are
            added
        output --output,-o <file>: file for all runs: .jsonl, .csv or .parquet""",
        inventory.html_option("the scenarios and policies, side by side,"),
        """
        output --compare: print a row for each measure: means and standard errors over seeds, and
            the best variation if the difference is clear
        output --long: list more columns, with --compare more measures""",
    )

    def column_names(self, args: base.Args) -> Sequence[str]:
        return () if args.compare else output.planning.SWEEP_LONG_COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        app = self.scheduler_app
        result = base.file_writer(app.whatif.sweep_writer, args.output)
        with result as write, self.page_writer(args) as write_page:
            workload = options.make_workload(app, args)
            sites = options.edited_sites(self, args)
            sweep = app.whatif.sweep(sites, args.policies, args.seeds, workload, strict=args.strict)
            if args.compare:
                variations = dict.fromkeys(key.variation for key in sweep.keys)
                name_columns(args, ("Measure", *variations, "Best"))
            runs = self._runs(sweep, args)
            effects = {site.name: site.effects for site in sites}
            self.closing += words.planning.lost_lines(effects)
            if args.output:
                with self.writing("sweep", args.output):
                    write(runs)
                number = model.quantity.format_count(len(runs), "run")
                self.closing.append(f"written to {args.output}: {number}")
            if args.html:
                facts = tuple(options.workload_facts(args))
                write_page(pages.replay.sweep_page(runs, effects, facts))
        out, seeds = output.planning, len(args.seeds)
        if not args.compare:
            return self.chosen(out.SWEEP_COLUMNS, out.SWEEP_LONG_COLUMNS), out.sweep_rows(runs)
        several = f"means over {seeds:,} seeds, ± the standard error"
        alone = "one seed does not show which variation is better: --seeds 1..10"
        self.closing.append(several if seeds > 1 else alone)
        return out.sweep_comparison(runs, long=self.shows_all(args))

    def _runs(self, sweep: app.Sweep, args: base.Args) -> list[model.replay.SweepRun]:
        """Return all runs; runs of the journal are not repeated, and new runs are added to it."""
        app, total, file = self.scheduler_app.whatif, len(sweep.keys), args.resume
        with contextlib.ExitStack() as stack:
            finished: list[model.replay.SweepRun] = []
            journal: Any = None
            if file:
                journal = stack.enter_context(app.sweep_journal(file))
                keys = set(sweep.keys)
                finished = [run for run in journal.finished(sweep.question) if run.key in keys]
            workers = stack.enter_context(app.sweep_workers(args.jobs, args.backend))
            count = run_counter(self.progress, "sweep", len(finished))

            done = count(total, 0)

            def record(run: model.replay.SweepRun) -> None:
                nonlocal done
                if journal is not None:
                    journal.add(run)
                done = count(total, 1)

            try:
                runs = sweep.run(workers, finished, record)
            except BaseException:
                if file:
                    found = f"{done:,} of {total:,} runs are in {file}"
                    self.log_line(f"{found}: repeat the command to continue")
                raise
            self.progress.finish("sweep")
            return runs


GOALS = {"nodes": "Placed", "use": "In Use"}


class TunePolicy(base.Lister):
    """Find weights that serve more of a workload.

    Replays the workload with other weights, on all cores. Rows are the weights, best first. The
    gain is measured by cross-validation: the weights for each sample are chosen on the other
    samples. Without a clear gain, no file is written.
    """

    examples = (
        "--inventory examples/site.json --rate 2/h --mix small=6,gpu-large=1 --lifetime 8h "
        "--horizon 7d",
        "--workload workload.csv --policy pack --samples 5 --output policies.yaml",
    )
    option_groups = (
        inventory.DECISION,
        options.WORKLOAD,
        """
        decide --policy <policy>: policy whose weights are varied (default: default)
        decide --goal <nodes|use>: maximize the placed nodes, or the use of the scarcest resource
            (default: nodes)
        decide --samples <n>: number of samples: draws of generated requests, or parts of a file
        then --jobs <n>: number of processes (default: one for each core)
        output --name <name>: name of the tuned policy (default: the policy's name with -tuned)
        output --output,-o <file>: policy file to write, for --policy-file""",
    )
    option_settings = {
        "goal": {"choices": tuple(GOALS), "default": "nodes"},
        "map_file": parser.LISTED,
        "samples": {"type": functools.partial(parser.natural, least=2, most=1000), "default": 10},
        "name": parser.nonempty_name,
    }

    def column_names(self, args: base.Args) -> Sequence[str]:
        return ("Weights", GOALS[args.goal], "Gain")

    def take_action(self, args: base.Args) -> base.Table:
        app, policy = self.scheduler_app, args.policy or "default"
        with contextlib.ExitStack() as stack:
            write = stack.enter_context(base.file_writer(app.text_writer, args.output))
            workload = options.make_workload(app, args)
            site = app.site(self.selection(args))
            workers = stack.enter_context(app.whatif.sweep_workers(args.jobs))
            question = site, policy, workload, args.samples
            count = run_counter(self.progress, "tune")
            tuning = app.whatif.tune(*question, workers, args.goal, count, strict=args.strict)
            self.progress.finish("tune")
            self.closing += tuning.lines(args.goal)
            if args.output and tuning.is_clear:
                name = args.name or f"{policy}-tuned"
                with self.writing("policy", args.output):
                    write(app.whatif.policy_file(tuning, name))
                self.closing.append(f"policy {name} written to {args.output}")
            elif args.output:
                self.closing.append(f"{args.output} is not written")
        return self.column_names(args), output.planning.tuning_rows(tuning)
