# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm list`` and ``podm show``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import AccessDenied, UnknownName, unknown_lines
from valence_sched_cli import base, paging
from valence_sched_cli.commands import page_file
from valence_sched_cli.options import inventory, registration
from valence_sched_cli.options.parser import nonempty_name
from valence_sched_cli.output.cells import (
    Cell,
    PairLines,
    UriTails,
    WordLines,
    or_absent,
    time_cell,
)
from valence_sched_cli.output.hardware import PoolsCell, amount_cells, bar_cells

if TYPE_CHECKING:
    from valence_sched.model.inventory import LeanPodm, Node
    from valence_sched.model.reading import Selection
    from valence_sched.model.scheduler import Scheduler

STALE_S = 600.0  # what --stale lists, where --max-age does not say


class StatusCell(Cell[str]):
    """A status; people see in its place that a pod manager is disabled, and given no nodes."""

    def __init__(self, status: str, enabled: bool) -> None:
        super().__init__(status)
        self._enabled = enabled

    def human_readable(self) -> str:
        return self._value if self._enabled else "disabled"


class NodesCell(UriTails):
    """Nodes: people see their names, a line each, programs their URIs."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__([node.uri for node in nodes])
        self._names = [node.name for node in nodes]

    def human_readable(self) -> str:
        tails = super().human_readable().split("\n")
        return "\n".join(name or tail for name, tail in zip(self._names, tails, strict=False))


class ListPodm(paging.PagedLister):
    """List pod managers and what is free on each."""

    through_service = True
    examples = (
        "--inventory examples/site.json --zone east-1",
        "--status Online --sort free_gpus:desc --limit 10",
    )

    arguments = """
        output --capabilities: also list capabilities and traits
        output --long: list more columns
        what --zone <zone>: only this availability zone
        what --status: only this status
        what --driver <driver>: only what this driver read
        what --trait <trait>...: only with this trait (repeat for several)
        what --aggregate <aggregate>...: only with this aggregate (repeat for several)
        what --stale: only those read longer ago than --max-age (default: 10m), or nobody knows when
        """
    option_settings = {
        "status": {"choices": ("Online", "Offline", "Unknown")},
        "aggregate": nonempty_name,
    }
    option_groups = (inventory.INVENTORY, page_file.html_option("the inventory and a map of it"))

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        import msgspec

        from valence_sched.model.quantity import age_s

        selection = self.selection(parsed_args)
        max_age_s = selection.live.max_age_s
        if parsed_args.stale:
            any_age = msgspec.structs.replace(selection.live, max_age_s=None)
            selection = msgspec.structs.replace(selection, live=any_age)
        scheduler = self.report_scheduler(parsed_args, selection)
        limit = STALE_S if max_age_s is None else max_age_s
        now = self.scheduler_app.now()
        columns = ["Podm", "Status", "Zone", "Free Cores", "Free Memory MiB", "Free GPUs", "Nodes",
                   "Read At"]  # fmt: skip
        if parsed_args.long:
            columns += [
                "Enabled", "Pools", "Free Blocks", "Total Blocks", "Total Cores",
                "Total Memory MiB", "Total GPUs", "Free Accelerators", "Total Accelerators",
                "Free Drives", "Total Drives", "Free NICs", "Total NICs", "Free Stocks",
                "Total Stocks", "Aggregates", "Facts", "Driver", "Name", "URL",
            ]  # fmt: skip
        if parsed_args.capabilities:
            columns += ["Capabilities", "Traits"]

        def is_stale(podm: LeanPodm) -> bool:
            age = age_s(podm.read_at, now)
            return age is None or age > limit

        podms = scheduler.podms()
        self.tell_missing_of(podms, "pod managers", strict=parsed_args.strict)
        for line in _unknown_words([one.podm for one in podms], parsed_args):
            self.tell(f"warning: {line}")
        listed = [one for one in podms if _is_listed(one.podm, parsed_args)
                  and (not parsed_args.stale or is_stale(one.podm))]  # fmt: skip
        with page_file.page_file(self.scheduler_app, parsed_args) as page:
            if page is not None:
                page.read_hardware(scheduler, listed)
                from valence_sched.pages.inventory import inventory_page

                page.write(inventory_page(page.hardware))

        def rows() -> Iterator[tuple[Any, ...]]:
            for one in listed:
                podm = one.podm
                cells = {
                    "Podm": podm.id,
                    "Status": StatusCell(podm.status, podm.enabled),
                    "Enabled": podm.enabled,
                    "URL": or_absent(podm.url),
                    "Zone": or_absent(podm.zone),
                    "Pools": one.pool_count,
                    **amount_cells(one.amounts),
                    "Aggregates": WordLines(podm.aggregates),
                    "Facts": PairLines(podm.facts),
                    "Nodes": len(podm.nodes),
                    "Driver": or_absent(podm.driver),
                    "Name": or_absent(podm.name),
                    "Read At": time_cell(podm.read_at, age_s(podm.read_at, now)),
                    "Capabilities": PairLines(podm.capabilities),
                    "Traits": WordLines(podm.traits),
                }
                yield tuple(cells[column] for column in columns)

        return columns, rows()


def _is_listed(podm: LeanPodm, parsed_args: argparse.Namespace) -> bool:
    return (
        all(
            getattr(parsed_args, word) in (None, getattr(podm, word))
            for word in ("zone", "status", "driver")
        )
        and {*parsed_args.trait} <= {*podm.traits}
        and {*parsed_args.aggregate} <= {*podm.aggregates}
    )


def _unknown_words(podms: Sequence[LeanPodm], parsed_args: argparse.Namespace) -> Iterator[str]:
    for what, option in (("is in the zone", "zone"), ("was read by the driver", "driver")):
        word = getattr(parsed_args, option)
        known = {getattr(podm, option) for podm in podms} - {None}
        yield from unknown_lines(what, () if word is None else (word,), known)
    for what, option in (("has the trait", "trait"), ("is in the aggregate", "aggregate")):
        known = {word for podm in podms for word in getattr(podm, option + "s")}
        yield from unknown_lines(what, getattr(parsed_args, option), known)


class ShowPodm(base.ShowOne):
    """Show one pod manager, its pools and what is free."""

    through_service = True
    examples = ("--inventory examples/site.json mem-1", "gpu-east -f json")
    arguments = "<podm>: pod manager (ID or name)"
    option_groups = (inventory.INVENTORY,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        import msgspec

        from valence_sched.model.quantity import age_s

        selection = self.selection(parsed_args)
        registered = self._registration_cells(parsed_args.podm, selection)
        live = selection.live
        if registered:
            live = msgspec.structs.replace(live, only=(parsed_args.podm,))
            selection = msgspec.structs.replace(selection, live=live)
            self.tells_remarks = True
        scheduler = self.scheduler(parsed_args, selection)
        overview = scheduler.podm(parsed_args.podm)
        podm = overview.podm
        if self.scheduler_app.service and overview.live and podm.id == parsed_args.podm:
            registered = self._service_registration_cells(scheduler, podm.id)
        age = age_s(podm.read_at, self.scheduler_app.now())
        counted = overview.live or selection.live.state is not None
        amounts = (bar_cells if self.for_people(parsed_args) else amount_cells)(overview.amounts)
        usage_cells: dict[str, Any] = {}
        if counted:
            usage = scheduler.block_usage(podm.id)
            usage_cells = {"Held Blocks": PairLines(usage.held),
                           "Foreign Blocks": WordLines(usage.foreign)}  # fmt: skip
        cells = {
            "Podm": podm.id,
            "Name": or_absent(podm.name),
            "Status": podm.status,
            "Enabled": podm.enabled,
            **amounts,
            "Driver": or_absent(podm.driver),
            "URL": or_absent(podm.url),
            "Identity": or_absent(podm.identity),
            "Zone": or_absent(podm.zone),
            "Aggregates": WordLines(podm.aggregates),
            "Capabilities": PairLines(podm.capabilities),
            "Traits": WordLines(podm.traits),
            "Facts": PairLines(podm.facts),
            "Generation": podm.generation,
            "Read At": time_cell(podm.read_at, age if overview.live else None, both=True),
            **registered,
            **usage_cells,
            "Pools": PoolsCell(overview.pools),
            "Nodes": NodesCell(podm.nodes),
        }  # fmt: skip
        return list(cells), list(cells.values())

    def _registration_cells(self, podm: str, selection: Selection) -> dict[str, Any]:
        if self.scheduler_app.service or self.scheduler_app.sources.named_sources(selection):
            return {}
        live = selection.live
        for member in self.scheduler_app.registry(live.state).members(live):
            if member.registration.name == podm:
                return registration.connection_cells(member.registration, member.source)
        return {}

    def _service_registration_cells(self, scheduler: Scheduler, podm: str) -> dict[str, Any]:
        """Return how the service reaches a pod manager, where it may be told."""
        try:
            found = scheduler.registration(podm)
        except (AccessDenied, UnknownName):  # only an admin is told; what reports has none
            return {}
        return registration.connection_cells(found.registration, found.source)
