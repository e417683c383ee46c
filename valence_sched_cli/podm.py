# SPDX-License-Identifier: Apache-2.0
"""Commands about pod managers: list, show, schedule, fit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli import command, many
from valence_sched_cli.columns import Lines, Pairs, PairStack, Stack, Tails, Words, maybe
from valence_sched_cli.decision import (
    COLUMNS,
    EXPLAINED,
    LISTED_PODMS,
    decision_rows,
    funnel_words,
    is_noise,
    outcome_words,
)
from valence_sched_cli.explanation import Screen, sentences
from valence_sched_cli.request import (
    add_request_options,
    check_policy,
    make_request,
    natural,
    positive,
)

if TYPE_CHECKING:
    from valence_sched.core.decision import Decision
    from valence_sched.core.summary import Amounts


EXIT_CODES = {"placed": 0, "nothing_fits": 3, "placed_in_part": 4}


class ListPodm(command.Lister):
    """List pod managers and what is free on each."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        command.add_inventory_options(parser)
        parser.add_argument(
            "--capabilities", action="store_true", help="also list capabilities and traits"
        )
        parser.add_argument("--long", action="store_true", help="list more columns")
        parser.add_argument("--zone", metavar="<zone>", help="only this availability zone")
        parser.add_argument(
            "--status", choices=("Online", "Offline", "Unknown"), help="only this status"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterator[Any]]:
        from valence_sched.core.summary import podm_amounts

        view = self.main.view(
            parsed_args.inventory,
            strict=parsed_args.strict,
            resource_files=parsed_args.resource_file,
        )
        columns = ["ID", "Status", "Enabled", "Zone", "Pools", "Blocks", "Free Blocks",
                   "Free Cores", "Free Memory MiB", "Free GPUs", "Free Drives"]  # fmt: skip
        if parsed_args.long:
            columns += [
                "Cores", "Memory MiB", "GPUs", "Accelerators", "Drives", "NICs", "Free Stocks",
                "Aggregates", "Facts", "Nodes", "Driver", "Name",
            ]  # fmt: skip
        if parsed_args.capabilities:
            columns += ["Capabilities", "Traits"]

        def rows() -> Iterator[tuple[Any, ...]]:
            for number, amounts in enumerate(podm_amounts(view)):
                podm = view.podms[number]
                if parsed_args.zone not in (None, podm.zone):
                    continue
                if parsed_args.status not in (None, podm.status):
                    continue
                pools = int(view.first_row[number + 1] - view.first_row[number])
                cells = {
                    "ID": podm.id,
                    "Status": podm.status,
                    "Enabled": podm.enabled,
                    "Zone": maybe(podm.zone),
                    "Pools": pools,
                    **_amount_cells(amounts),
                    "Aggregates": Stack(podm.aggregates),
                    "Facts": PairStack(podm.facts),
                    "Nodes": len(podm.nodes),
                    "Driver": maybe(podm.driver),
                    "Name": maybe(podm.name),
                    "Capabilities": PairStack(podm.capabilities),
                    "Traits": Stack(podm.traits),
                }
                yield tuple(cells[column] for column in columns)

        return columns, rows()


class ShowPodm(command.ShowOne):
    """Show one pod manager: what it is, its pools, and what is free in each."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        command.add_inventory_options(parser)
        parser.add_argument("podm", metavar="<podm>", help="pod manager (ID or name)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.core.summary import podm_amounts, pool_amounts
        from valence_sched.errors import UnknownName

        view = self.main.view(
            parsed_args.inventory,
            strict=parsed_args.strict,
            resource_files=parsed_args.resource_file,
        )
        names = {name: i for i, podm in enumerate(view.podms) for name in (podm.name, podm.id)}
        if parsed_args.podm not in names:
            ids = [podm.id for podm in view.podms]
            raise UnknownName("pod manager", parsed_args.podm, ids)
        number = names[parsed_args.podm]
        podm = view.podms[number]
        cells = {
            "ID": podm.id,
            "Name": maybe(podm.name),
            "Status": podm.status,
            "Enabled": podm.enabled,
            "Driver": maybe(podm.driver),
            "URL": maybe(podm.url),
            "Zone": maybe(podm.zone),
            "Aggregates": Words(podm.aggregates),
            "Capabilities": Pairs(podm.capabilities),
            "Traits": Words(podm.traits),
            "Facts": Pairs(podm.facts),
            "Generation": podm.generation,
            "Read At": maybe(podm.read_at),
            **_amount_cells(podm_amounts(view)[number]),
            "Pools": Lines([
                {"pool": name, **_pool_words(amounts)}
                for name, amounts in pool_amounts(view, number).items()
            ]),
            "Nodes": Tails([node.uri for node in podm.nodes]),
        }  # fmt: skip
        return list(cells), list(cells.values())


class SchedulePodm(command.Lister):
    """Choose the pod manager, the pool and the very blocks that make a node.

    Nothing is composed. Exit codes: 0 placed; 1 error; 2 usage; 3 nothing fits; 4 placed in
    part; 5 with --strict when a document was skipped.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        command.add_inventory_options(parser)
        add_request_options(parser, many=False)
        many.add_option(parser)
        parser.add_argument(
            "--count", metavar="<n>", type=positive, default=1, help="how many nodes (default: 1)"
        )
        parser.add_argument(
            "--min-count",
            metavar="<m>",
            type=natural,
            help="place fewer nodes, but at least so many (default: all or nothing)",
        )
        parser.add_argument(
            "--alternates",
            metavar="<k>",
            type=natural,
            default=0,
            help="also name the next best pod managers for each node",
        )
        parser.add_argument(
            "--explain",
            action="store_true",
            help="every pod manager, every reason and the scores; and on stderr the funnel, the "
            "runner-up, near misses, and what would change the choice",
        )
        parser.add_argument("--report", metavar="<file>", help="write the whole decision as JSON")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.errors import UsageError

        if parsed_args.report == "-":
            raise UsageError("--report: standard output is for the rows: name a file")
        if parsed_args.request_file:
            return self._schedule_all(parsed_args)
        request = make_request(self.main, parsed_args, parsed_args.flavor, self.app.client_manager)
        engine = self.main.engine(
            parsed_args.inventory,
            parsed_args.policy_file,
            strict=parsed_args.strict,
            resource_files=parsed_args.resource_file,
        )
        check_policy(engine, request, parsed_args)
        decision = engine.select_destinations(request)
        self.exit_code = EXIT_CODES[decision.outcome]
        if parsed_args.report:
            self.main.write_report(decision.report(), parsed_args.report)
        columns = EXPLAINED if parsed_args.explain else COLUMNS
        rows = list(decision_rows(decision, explain=parsed_args.explain))
        if parsed_args.explain:
            self._explain(decision, parsed_args)
        self._tell_outcome(decision, explain=parsed_args.explain)
        shown = [name for name in columns if not is_noise(name, columns, rows, parsed_args)]
        picks = [columns.index(name) for name in shown]
        return shown, [tuple(row[pick] for pick in picks) for row in rows]

    def _schedule_all(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        requests = many.requests(self.main, parsed_args)
        engine = self.main.engine(
            parsed_args.inventory, parsed_args.policy_file, strict=parsed_args.strict
        )
        found = engine.select_all(requests)
        self.exit_code = EXIT_CODES[found.outcome]
        if parsed_args.report:
            self.main.write_report(found.report(), parsed_args.report)
        called = many.names(requests)
        self.closing += many.outcome_words(found, called)
        return many.COLUMNS, list(many.rows(found, called))

    def _explain(self, decision: Decision, parsed_args: argparse.Namespace) -> None:
        explanation = decision.explanation
        assert explanation is not None, "one request alone is decided on what is there"
        formatter = self._formatter_plugins["table"].obj
        screen = Screen(formatter, self.app.stderr, parsed_args)
        self.closing += [funnel_words(decision), *screen.candidates(explanation)]
        self.closing += sentences(explanation)

    def _tell_outcome(self, decision: Decision, *, explain: bool) -> None:
        for warning in decision.warnings:
            self.closing.append(f"warning: {warning}")
        hidden = len(decision.view.podms) - LISTED_PODMS
        if not explain and hidden > 0:
            every = len(decision.view.podms)
            self.closing.append(f"not all of {every:,} pod managers are listed: see --explain")
        for podm in decision.chosen_podms()[:LISTED_PODMS]:
            if reason := decision.no_more(podm):
                self.closing.append(f"no more on {decision.view.podms[podm].id}: {reason.text}")
        self.closing += outcome_words(decision)


class FitPodm(command.Lister):
    """Count how many more nodes of each flavor fit, per pod manager and in total.

    Counted by placing one node after another, so it is what scheduling would reach.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        command.add_inventory_options(parser)
        add_request_options(parser, many=True)
        parser.add_argument(
            "--limit",
            metavar="<n>",
            type=positive,
            default=1000,
            help="stop counting at this many a pod manager (default: 1000)",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterator[Any]]:
        engine = self.main.engine(
            parsed_args.inventory,
            parsed_args.policy_file,
            strict=parsed_args.strict,
            resource_files=parsed_args.resource_file,
        )
        names: list[str | None] = [*dict.fromkeys(parsed_args.flavor)]
        if not names and (parsed_args.resource or parsed_args.nova_flavor is not None):
            names = [None]
        names = names or [*self.main.flavors(parsed_args.flavor_file)]
        warnings: list[str] = []
        fits = []
        for name in names:
            request = make_request(self.main, parsed_args, name, self.app.client_manager)
            check_policy(engine, request, parsed_args)
            counts = engine.count_fits(request, parsed_args.limit, warnings)
            fits.append((name or request.flavor or "resources", counts))
        self.closing += [f"warning: {warning}" for warning in warnings]
        self.exit_code = 0 if any(n for _, counts in fits for _, n in counts) else 3
        limit = parsed_args.limit
        if any(n >= limit for _, counts in fits for _, n in counts):
            self.closing.append(f"stopped counting at {limit:,} a pod manager: see --limit")

        def rows() -> Iterator[tuple[str, str, int]]:
            for name, counts in fits:
                for podm, number in counts:
                    yield name, podm, number
                yield name, "total", sum(number for _, number in counts)

        return ("Flavor", "Podm", "Nodes"), rows()


def _amount_cells(amounts: Amounts) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, title in (
        ("blocks", "Blocks"),
        ("cores", "Cores"),
        ("memory_mib", "Memory MiB"),
        ("gpus", "GPUs"),
        ("accelerators", "Accelerators"),
        ("drives", "Drives"),
        ("nics", "NICs"),
    ):
        free, every = getattr(amounts, name)
        cells[f"Free {title}"], cells[title] = free, every
    cells["Free Stocks"] = PairStack({name: free for name, (free, _) in amounts.stocks.items()})
    cells["Stocks"] = PairStack({name: every for name, (_, every) in amounts.stocks.items()})
    return cells


def _pool_words(amounts: Amounts) -> dict[str, Any]:
    words: dict[str, Any] = {
        f"free_{name}": getattr(amounts, name)[0]
        for name in ("blocks", "cores", "memory_mib", "gpus", "drives")
    }
    words.update({f"free_{name}": free for name, (free, _) in amounts.stocks.items()})
    return words
