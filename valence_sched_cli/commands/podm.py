# SPDX-License-Identifier: Apache-2.0
"""Commands about pod managers: list and show."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli import base
from valence_sched_cli.options import common, registration
from valence_sched_cli.output.cells import (
    Age,
    LinesCell,
    PairLines,
    Pairs,
    UriTails,
    WordLines,
    Words,
    or_absent,
)

if TYPE_CHECKING:
    from valence_sched.model.measures import PodmSummary
    from valence_sched.model.read_options import ReadOptions, Selection

STALE_S = 600.0  # what --stale lists, where --max-age does not say


class ListPodm(base.Lister):
    """List pod managers and what is free on each."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        common.add_inventory_options(parser)
        parser.add_argument(
            "--capabilities", action="store_true", help="also list capabilities and traits"
        )
        parser.add_argument("--long", action="store_true", help="list more columns")
        parser.add_argument("--zone", metavar="<zone>", help="only this availability zone")
        parser.add_argument(
            "--status", choices=("Online", "Offline", "Unknown"), help="only this status"
        )
        parser.add_argument("--driver", metavar="<driver>", help="only what this driver read")
        parser.add_argument(
            "--stale",
            action="store_true",
            help="only those read longer ago than --max-age (default: 10m), or nobody knows when",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterator[Any]]:
        import msgspec

        from valence_sched.model.age import age_s
        from valence_sched.view.summary import summarise_podms

        selection = self.selection(parsed_args)
        live = selection.live
        if parsed_args.stale:
            any_age = msgspec.structs.replace(live, max_age_s=None)
            selection = msgspec.structs.replace(selection, live=any_age)
        view = self.main.loader.view(selection)
        limit = STALE_S if live.max_age_s is None else live.max_age_s
        now = self.main.now()
        columns = ["ID", "Status", "Enabled", "Zone", "Pools", "Blocks", "Free Blocks",
                   "Free Cores", "Free Memory MiB", "Free GPUs", "Free Drives"]  # fmt: skip
        asked = {word.casefold() for word in (*parsed_args.columns, *parsed_args.sort_columns)}
        if parsed_args.long or parsed_args.stale or self.main.sources.live_ids or "age" in asked:
            columns.insert(columns.index("Pools"), "Age")
        if parsed_args.long:
            columns += [
                "Cores", "Memory MiB", "GPUs", "Accelerators", "Drives", "NICs", "Free Stocks",
                "Aggregates", "Facts", "Nodes", "Driver", "Name",
                "Read At",
            ]  # fmt: skip
        if parsed_args.capabilities:
            columns += ["Capabilities", "Traits"]

        def rows() -> Iterator[tuple[Any, ...]]:
            for number, amounts in enumerate(summarise_podms(view)):
                podm = view.podms[number]
                if parsed_args.zone not in (None, podm.zone):
                    continue
                if parsed_args.status not in (None, podm.status):
                    continue
                if parsed_args.driver not in (None, podm.driver):
                    continue
                age = age_s(podm.read_at, now)
                if parsed_args.stale and age is not None and age <= limit:
                    continue
                pools = int(view.first_row[number + 1] - view.first_row[number])
                cells = {
                    "ID": podm.id,
                    "Status": podm.status,
                    "Enabled": podm.enabled,
                    "Zone": or_absent(podm.zone),
                    "Age": or_absent(age if age is None else Age(age)),
                    "Pools": pools,
                    **_amount_cells(amounts),
                    "Aggregates": WordLines(podm.aggregates),
                    "Facts": PairLines(podm.facts),
                    "Nodes": len(podm.nodes),
                    "Driver": or_absent(podm.driver),
                    "Name": or_absent(podm.name),
                    "Read At": or_absent(podm.read_at),
                    "Capabilities": PairLines(podm.capabilities),
                    "Traits": WordLines(podm.traits),
                }
                yield tuple(cells[column] for column in columns)

        return columns, rows()


class ShowPodm(base.ShowOne):
    """Show one pod manager: what it is, its pools, and what is free in each."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        common.add_inventory_options(parser)
        parser.add_argument("podm", metavar="<podm>", help="pod manager (ID or name)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        import msgspec

        from valence_sched.errors import UnknownName
        from valence_sched.view.summary import summarise_podms, summarise_pools

        selection = self.selection(parsed_args)
        registered = self._registration_cells(parsed_args.podm, selection)
        live = selection.live
        if registered:
            live = msgspec.structs.replace(live, only=(parsed_args.podm,))
            selection = msgspec.structs.replace(selection, live=live)
            self.tells_remarks = True
        view = self.main.loader.view(selection)
        names = {name: i for i, podm in enumerate(view.podms) for name in (podm.name, podm.id)}
        if parsed_args.podm not in names:
            ids = [podm.id for podm in view.podms]
            raise UnknownName("pod manager", parsed_args.podm, ids)
        number = names[parsed_args.podm]
        podm = view.podms[number]
        cells = {
            "ID": podm.id,
            "Name": or_absent(podm.name),
            "Status": podm.status,
            "Enabled": podm.enabled,
            "Driver": or_absent(podm.driver),
            "URL": or_absent(podm.url),
            "Zone": or_absent(podm.zone),
            "Aggregates": Words(podm.aggregates),
            "Capabilities": Pairs(podm.capabilities),
            "Traits": Words(podm.traits),
            "Facts": Pairs(podm.facts),
            "Generation": podm.generation,
            "Read At": or_absent(podm.read_at),
            **self._live_cells(podm.id, podm.read_at),
            **registered,
            **_amount_cells(summarise_podms(view)[number]),
            **self._in_use(podm.id, live),
            "Pools": LinesCell([
                {"pool": name, **_pool_fields(amounts)}
                for name, amounts in summarise_pools(view, number).items()
            ]),
            "Nodes": UriTails([node.uri for node in podm.nodes]),
        }  # fmt: skip
        return list(cells), list(cells.values())

    def _registration_cells(self, podm: str, selection: Selection) -> dict[str, Any]:
        """Return how to reach the pod manager, if it is a live one and named by its ID."""
        if self.main.sources.named_sources(selection):
            return {}
        live = selection.live
        for member in self.main.registry(live.state).members(live):
            if member.registration.name == podm:
                return registration.connection_cells(member.registration, member.source)
        return {}

    def _in_use(self, podm: str, live: ReadOptions) -> dict[str, Any]:
        """Return which blocks are held by which claim, and which are in use by somebody else."""
        if podm not in self.main.sources.live_ids and live.state is None:
            return {}
        held, foreign = self.main.block_usage(podm, live.state)
        return {"Held Blocks": PairLines(held), "Foreign Blocks": WordLines(foreign)}

    def _live_cells(self, podm: str, read_at: str | None) -> dict[str, Any]:
        from valence_sched.model.age import age_s

        if podm not in self.main.sources.live_ids:
            return {}
        age = age_s(read_at, self.main.now())
        return {"Age": or_absent(age if age is None else Age(age))}


def _amount_cells(amounts: PodmSummary) -> dict[str, Any]:
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
    cells["Free Stocks"] = PairLines({name: free for name, (free, _) in amounts.stocks.items()})
    cells["Stocks"] = PairLines({name: every for name, (_, every) in amounts.stocks.items()})
    return cells


def _pool_fields(amounts: PodmSummary) -> dict[str, Any]:
    words: dict[str, Any] = {
        f"free_{name}": getattr(amounts, name)[0]
        for name in ("blocks", "cores", "memory_mib", "gpus", "drives")
    }
    words.update({f"free_{name}": free for name, (free, _) in amounts.stocks.items()})
    return words
