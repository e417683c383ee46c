# SPDX-License-Identifier: Apache-2.0
"""Commands about pod managers: list, show, schedule, fit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli import command
from valence_sched_cli.columns import (
    Absent,
    Grants,
    Lines,
    Pairs,
    PairStack,
    Reasons,
    Stack,
    Tails,
    Why,
    Words,
    maybe,
)

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

        view = self.main.view(parsed_args.inventory, strict=parsed_args.strict)
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
        from valence_sched.errors import UsageError

        if parsed_args.report == "-":
            raise UsageError("--report: standard output is for the rows: name a file")
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
        rows = list(_decision_rows(decision, explain=parsed_args.explain))
        self._tell_outcome(decision, explain=parsed_args.explain)
        shown = [name for name in columns if not _is_noise(name, columns, rows, parsed_args)]
        picks = [columns.index(name) for name in shown]
        return shown, [tuple(row[pick] for pick in picks) for row in rows]

    def _tell_outcome(self, decision: Decision, *, explain: bool) -> None:
        if explain:
            self.closing.append(_funnel_words(decision))
        for warning in [*decision.warnings, *decision.judgement.notes]:
            self.closing.append(f"warning: {warning}")
        hidden = len(decision.view.podms) - LISTED_PODMS
        placed, asked = len(decision.batch.placed), decision.request.count
        if not explain and hidden > 0:
            every = len(decision.view.podms)
            self.closing.append(f"not all of {every:,} pod managers are listed: see --explain")
        policy, seed = decision.bound.policy.name, decision.request.seed
        self.closing.append(f"placed {placed} of {asked} (policy {policy}, seed {seed})")


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
        asked = dict.fromkeys(parsed_args.flavor)
        names = list(asked or self.main.flavors(parsed_args.flavor_file))
        fits = [
            (name, engine.count_fits(make_request(self.main, parsed_args, name), parsed_args.limit))
            for name in names
        ]
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
    if not text.isdecimal() or len(text) > 7 or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 to 1,000,000")
    return int(text)


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
    why = None if rank == 1 else f"{behind:.6g} behind"
    return (
        maybe(node), maybe(rank), found.podm, found.pool, found.score, outcome,
        Tails([block.uri for block in found.blocks]), Grants(found.grants), Why(why),
        PairStack(found.scores), found.waste, Reasons([], why),
    )  # fmt: skip


def _verdict_row(decision: Decision, verdict: PodmVerdict, *, explain: bool) -> tuple[Any, ...]:
    row = decision.row_of(verdict.podm, verdict.pool)
    if verdict.outcome != "rejected":
        candidate = decision.candidate(row)
        if candidate is not None:
            return _candidate_row(None, None, "fits", candidate, verdict.behind or 0.0)
    return (
        Absent(), Absent(), verdict.podm, verdict.pool, Absent(), verdict.outcome,
        Tails([]), Grants([]), Why(verdict.reason.text if verdict.reason else None),
        PairStack({}), Absent(), Reasons(decision.reasons(row) if explain else []),
    )  # fmt: skip


def _is_noise(
    name: str,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    parsed_args: argparse.Namespace,
) -> bool:
    """Return whether a person can do without a column; programs always get them all."""
    asked = {word.casefold() for word in (*parsed_args.columns, *parsed_args.sort_columns)}
    if parsed_args.formatter in command.MACHINE or name.casefold() in asked:
        return False
    if name == "Amounts":
        return not any(str(row[columns.index(name)]) for row in rows)
    return name == "Reason" and "Reasons" in columns


def _funnel_words(decision: Decision) -> str:
    steps = decision.funnel()
    left = [f"{len(decision.view):,} in all"]
    left += [f"{s.went_on:,} after {s.filter}" for s in steps if s.went_on < s.came_in]
    idle = ", ".join(step.filter for step in steps if step.went_on == step.came_in)
    return f"pools: {', '.join(left)}" + (f"; kept all: {idle}" if idle else "")


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
