# SPDX-License-Identifier: Apache-2.0
"""Commands about pod managers: list, show, schedule, fit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli import command
from valence_sched_cli.columns import Lines, Maybe, Pairs, Tails, Words

if TYPE_CHECKING:
    from valence_sched.core.decision import Decision
    from valence_sched.core.summary import Amounts
    from valence_sched.model.decision import Candidate, PodmVerdict
    from valence_sched.model.request import Request

LISTED_PODMS = 50  # how many pod managers a decision lists unless --explain asks for all


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

        view = self.main.view(parsed_args.inventory, strict=parsed_args.strict)
        columns = ["ID", "Status", "Enabled", "Zone", "Pools", "Blocks", "Free Blocks",
                   "Free Cores", "Free Memory MiB", "Free GPUs", "Free Drives"]  # fmt: skip
        if parsed_args.long:
            columns += ["Cores", "Memory MiB", "GPUs", "Accelerators", "Drives", "NICs",
                        "Free Stocks", "Aggregates", "Facts", "Nodes", "Driver", "Name"]  # fmt: skip
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
                    "Zone": Maybe(podm.zone),
                    "Pools": pools,
                    **_amount_cells(amounts),
                    "Aggregates": Words(podm.aggregates),
                    "Facts": Pairs(podm.facts),
                    "Nodes": len(podm.nodes),
                    "Driver": Maybe(podm.driver),
                    "Name": Maybe(podm.name),
                    "Capabilities": Pairs(podm.capabilities),
                    "Traits": Words(podm.traits),
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

        view = self.main.view(parsed_args.inventory, strict=parsed_args.strict)
        names = {name: i for i, podm in enumerate(view.podms) for name in (podm.name, podm.id)}
        if parsed_args.podm not in names:
            raise UnknownName("pod manager", parsed_args.podm, filter(None, names))
        number = names[parsed_args.podm]
        podm = view.podms[number]
        cells = {
            "ID": podm.id,
            "Name": Maybe(podm.name),
            "Status": podm.status,
            "Enabled": podm.enabled,
            "Driver": Maybe(podm.driver),
            "URL": Maybe(podm.url),
            "Zone": Maybe(podm.zone),
            "Aggregates": Words(podm.aggregates),
            "Capabilities": Pairs(podm.capabilities),
            "Traits": Words(podm.traits),
            "Facts": Pairs(podm.facts),
            "Generation": podm.generation,
            "Read At": Maybe(podm.read_at),
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

    Exits 0 when every node was placed, 3 when none, 4 when some; 5 with --strict when the
    inventory could not be read whole. Nothing is composed.
    """

    need_sort_by_cliff = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        command.add_inventory_options(parser)
        add_request_options(parser, many=False)
        parser.add_argument(
            "--count", metavar="<n>", type=positive, default=1, help="how many nodes (default: 1)"
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
            help="every pod manager, every reason, the scores, and the funnel (on stderr)",
        )
        parser.add_argument("--report", metavar="<file>", help="write the whole decision as JSON")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        request = make_request(self.main, parsed_args, parsed_args.flavor)
        engine = self.main.engine(
            parsed_args.inventory, parsed_args.policy_file, strict=parsed_args.strict
        )
        decision = engine.select_destinations(request)
        self.exit_code = {"placed": 0, "nothing_fits": 3, "placed_in_part": 4}[decision.outcome]
        if parsed_args.report:
            self.main.write_report(decision.report(), parsed_args.report)
        columns = [
            "Node",
            "Rank",
            "Podm",
            "Pool",
            "Score",
            "Outcome",
            "Blocks",
            "Amounts",
            "Reason",
        ]
        if parsed_args.explain:
            columns += ["Scores", "Waste", "Reasons"]
            self._tell_funnel(decision)
        rows = list(_decision_rows(decision, explain=parsed_args.explain))
        self._tell_outcome(decision, len(rows))
        return columns, [row[: len(columns)] for row in rows]

    def _tell_funnel(self, decision: Decision) -> None:
        for step in decision.funnel():
            self.tell(f"{step.filter}: {step.came_in:,} pools in, {step.went_on:,} out")

    def _tell_outcome(self, decision: Decision, rows: int) -> None:
        for warning in [*decision.warnings, *decision.judgement.notes]:
            self.tell(f"warning: {warning}")
        placed, asked = len(decision.batch.placed), decision.request.count
        policy, seed = decision.bound.policy.name, decision.request.seed
        self.tell(f"placed {placed} of {asked} (policy {policy}, seed {seed})")
        hidden = len(decision.view.podms) - LISTED_PODMS
        if hidden > 0 and rows <= LISTED_PODMS + placed * (1 + decision.request.alternates):
            self.tell(f"not every pod manager is listed ({hidden + LISTED_PODMS:,}): see --explain")


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
            parsed_args.inventory, parsed_args.policy_file, strict=parsed_args.strict
        )
        names = parsed_args.flavor or list(self.main.flavors(parsed_args.flavor_file))
        fits = [
            (name, engine.count_fits(make_request(self.main, parsed_args, name), parsed_args.limit))
            for name in names
        ]
        self.exit_code = 0 if any(n for _, counts in fits for _, n in counts) else 3

        def rows() -> Iterator[tuple[str, str, int]]:
            for name, counts in fits:
                for podm, number in counts:
                    yield name, podm, number
                yield name, "total", sum(number for _, number in counts)

        return ("Flavor", "Podm", "Nodes"), rows()


def add_request_options(parser: argparse.ArgumentParser, *, many: bool) -> None:
    """Add the options that a request is made of."""
    parser.add_argument(
        "--flavor",
        metavar="<flavor>",
        action="append" if many else "store",
        required=not many,
        default=[] if many else None,
        help="flavor: a name, a file with one flavor, or - for standard input"
        + (" (repeat for several; default: all known)" if many else ""),
    )
    command.add_flavor_file_option(parser)
    parser.add_argument(
        "--policy", metavar="<policy>", default="default", help="policy (default: default)"
    )
    command.add_policy_file_option(parser)
    for option, words in (
        ("--podm", "only this pod manager, by ID or name (repeat for several)"),
        ("--exclude-podm", "not this pod manager, by ID or name (repeat for several)"),
    ):
        parser.add_argument(option, metavar="<podm>", action="append", default=[], help=words)
    parser.add_argument("--zone", metavar="<zone>", help="only this availability zone")
    parser.add_argument(
        "--seed", metavar="<n>", type=int, default=0, help="decides between equals (default: 0)"
    )


def make_request(main: Any, parsed_args: argparse.Namespace, word: str) -> Request:
    """Return the request that the words of the shell make."""
    from valence_sched.model.request import Request

    flavor = main.flavor(word, parsed_args.flavor_file)
    return Request(
        flavor=flavor.name,
        needs=flavor.needs,
        count=getattr(parsed_args, "count", 1),
        alternates=getattr(parsed_args, "alternates", 0),
        podms=tuple(parsed_args.podm),
        exclude_podms=tuple(parsed_args.exclude_podm),
        zone=parsed_args.zone or flavor.zone,
        aggregates=flavor.aggregates,
        capabilities=flavor.wanted_capabilities,
        traits=flavor.traits,
        policy=parsed_args.policy,
        seed=parsed_args.seed,
    )


def positive(text: str) -> int:
    """Parse a whole number from 1 on."""
    number = int(text)
    if not 1 <= number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 1,000,000")
    return number


def natural(text: str) -> int:
    """Parse a whole number from 0 on."""
    return 0 if text == "0" else positive(text)


def _decision_rows(decision: Decision, *, explain: bool) -> Iterator[tuple[Any, ...]]:
    shown = set()
    for placement in decision.placements:
        yield _candidate_row(placement.node, 1, "chosen", placement.chosen, 0.0)
        shown.add(placement.chosen.podm)
        for rank, other in enumerate(placement.alternates, 2):
            behind = placement.chosen.score - other.score
            yield _candidate_row(placement.node, rank, "alternate", other, behind)
            shown.add(other.podm)
    if not explain and len(decision.view.podms) > LISTED_PODMS:
        return
    for verdict in decision.verdicts():
        if verdict.podm not in shown:
            yield _verdict_row(decision, verdict, explain=explain)


def _candidate_row(
    node: int | None, rank: int | None, outcome: str, found: Candidate, behind: float
) -> tuple[Any, ...]:
    return (
        Maybe(node), Maybe(rank), found.podm, found.pool, found.score, outcome,
        Tails([block.uri for block in found.blocks]),
        Words([f"{grant.amount:g} {grant.resource} of {grant.uri}" for grant in found.grants]),
        f"{behind:.6g} behind" if rank != 1 else "",
        Pairs(found.scores), found.waste, Words([]),
    )  # fmt: skip


def _verdict_row(decision: Decision, verdict: PodmVerdict, *, explain: bool) -> tuple[Any, ...]:
    if verdict.outcome != "rejected":
        row = decision.row_of(verdict.podm, verdict.pool)
        candidate = decision.candidate(row)
        if candidate is not None:
            return _candidate_row(None, None, "fits", candidate, verdict.behind or 0.0)
    reason = verdict.reason.text if verdict.reason else ""
    reasons = []
    if explain:
        row = decision.row_of(verdict.podm, verdict.pool)
        reasons = [reason.text for reason in decision.reasons(row)]
    return (
        Maybe(None), Maybe(None), verdict.podm, verdict.pool, Maybe(None), verdict.outcome,
        Tails([]), Words([]), reason, Pairs({}), Maybe(None), Words(reasons),
    )  # fmt: skip


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
    cells["Free Stocks"] = Pairs({name: free for name, (free, _) in amounts.stocks.items()})
    cells["Stocks"] = Pairs({name: every for name, (_, every) in amounts.stocks.items()})
    return cells


def _pool_words(amounts: Amounts) -> dict[str, Any]:
    words: dict[str, Any] = {
        f"free_{name}": getattr(amounts, name)[0]
        for name in ("blocks", "cores", "memory_mib", "gpus", "drives")
    }
    words.update({f"free_{name}": free for name, (free, _) in amounts.stocks.items()})
    return words
