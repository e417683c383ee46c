# SPDX-License-Identifier: Apache-2.0
"""The pages of a service: its site, one pod manager, decisions, claims and nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

from valence_sched.model.base import format_value
from valence_sched.model.claim import Claim
from valence_sched.model.decision import DecisionSummary
from valence_sched.model.hardware import BlockUsage, PodmOverview, PodmSummary
from valence_sched.model.lifecycle import ClaimRecord, NodeStatus
from valence_sched.model.page import Lines, Page, PageLink, PageTable, Row, Section, TableCell
from valence_sched.model.quantity import format_count
from valence_sched.pages.hardware import HardwareListing, inventory_map, tail
from valence_sched.pages.inventory import (
    device_table,
    podm_table,
    size_facts,
    totals_table,
    use_facts,
)
from valence_sched.pages.tables import first_of, table
from valence_sched.words.phrases import format_instant

NAME_IN_QUERY = "-"  # in place of a name that a path cannot have


class PageLinks(NamedTuple):
    """Links from a page ``depth`` steps below the first one, relative: any path may be above."""

    depth: int

    def to(self, path: str = "", **query: object) -> str:
        """Return the link to a path below the first page, such as ``/claims``."""
        return "../" * self.depth + "ui" + path + query_text(query)

    def podm(self, name: str) -> str:
        return self._named("/podms/", name)

    def claim(self, claim_id: str) -> str:
        return self._named("/claims/", claim_id)

    def decision(self, decision_id: str) -> str:
        return self._named("/decisions/", decision_id)

    def menu(self, current: str) -> tuple[PageLink, ...]:
        """Return the links to all lists; the one that is called ``current`` is marked."""
        return tuple(
            PageLink(text=text, href=self.to(path), current=text == current)
            for text, path in (
                ("Site", ""),
                ("Decisions", "/decisions"),
                ("Claims", "/claims"),
                ("Nodes", "/nodes"),
            )
        )

    def _named(self, path: str, name: str) -> str:
        if "/" in name or name in (NAME_IN_QUERY, ".", "..", ""):
            return self.to(path + NAME_IN_QUERY, name=name)
        return self.to(path + quote(name, safe=""))


def query_text(words: Mapping[str, object]) -> str:
    """Return a query with those words that are set, empty where none is."""
    text = urlencode({name: word for name, word in words.items() if word}, errors="replace")
    return f"?{text}" if text else ""


MOST_ROWS = 500  # of a table
MOST_LINES = 100


def site_page(podms: Sequence[PodmOverview], shown: HardwareListing, links: PageLinks) -> Page:
    """Return the page of these pod managers; of those in ``shown`` the hardware is drawn."""
    free, every = (sum(one.amounts.blocks[n] for one in podms) for n in (0, 1))
    return Page(
        title="Site",
        lead=f"{free:,} of {every:,} blocks are free on {len(podms):,} pod managers",
        facts=size_facts(podms, every),
        sections=(totals_table(podms), inventory_map(shown), podm_table(shown.podms, links.podm)),
    )


def podm_page(
    one: PodmOverview, hardware: HardwareListing, usage: BlockUsage, links: PageLinks
) -> Page:
    """Return the page of a pod manager, its pools, its blocks and what holds them."""
    podm = one.podm
    free, every = one.amounts.blocks
    uses = Counter(block.use for block in hardware.blocks[podm.id])
    facts = [
        ("Name", podm.name or podm.id),
        ("Status", podm.status if podm.enabled else f"{podm.status}, disabled"),
        ("Zone", podm.zone or "none"),
        ("Read at", podm.read_at or "unknown"),
        *size_facts([one], every)[1:],
        *use_facts(uses),
    ]
    return Page(
        title=f"Podm {podm.id}",
        lead=f"{free:,} of {every:,} blocks are free",
        facts=tuple(facts),
        sections=(
            totals_table([one]),
            inventory_map(hardware),
            _pools(one.pools),
            device_table(hardware),
            *_usage(usage, links),
        ),
    )


def _pools(pools: dict[str, PodmSummary]) -> PageTable:
    rows = [
        (name, *(" of ".join(map(format_value, it)) for it in (one.blocks, one.cores, one.gpus)))
        for name, one in list(pools.items())[:MOST_ROWS]
    ]
    columns = ("Pool", "Blocks", "Cores", "GPUs")
    text = f"Free of all. {first_of(MOST_ROWS, len(pools))}".rstrip()
    return table("Pools", columns, rows, columns[1:], text)


def _usage(usage: BlockUsage, links: PageLinks) -> Iterator[Section]:
    held = sorted(usage.held.items())
    # several claims, or another owner, of whom no more is known, have no page
    rows: list[Row] = [
        (tail(uri), TableCell(text=ids, href="" if " " in ids else links.claim(ids)))
        for uri, ids in held[:MOST_ROWS]
    ]
    text = "Blocks that claims hold, or that nodes of claims are made of. "
    text += first_of(MOST_ROWS, len(held))
    yield table("Held blocks", ("Block", "Claim"), rows, text=text.rstrip())
    if usage.foreign:
        lines = [tail(uri) for uri in usage.foreign[:MOST_LINES]]
        if len(usage.foreign) > len(lines):
            lines.append(f"and {len(usage.foreign) - len(lines):,} more")
        yield Lines(title="Blocks in use that no claim holds", lines=tuple(lines))


MOST_BLOCKS = 30  # of a node that are named
MOST_PODMS = 3  # of a claim that are named

NO_OWNER = "nobody"


def decisions_page(decisions: Sequence[DecisionSummary], links: PageLinks) -> Page:
    """Return the page of decisions, the newest first."""
    rows: list[Row] = [
        (TableCell(text=format_time(one.decided_at), href=links.decision(one.id)),
         one.request or "unknown", (one.outcome or "unknown").replace("_", " "),
         "unknown" if one.requested is None else f"{one.placed:,} of {one.requested:,}",
         _podm_names(one.podms, one.podm_count), one.owner or NO_OWNER)
        for one in decisions
    ]  # fmt: skip
    columns = ("Decided at", "Request", "Outcome", "Nodes", "Podms", "Owner")
    text = "Decisions that were asked for with keep."
    newest = table("Newest first", columns, rows, ("Nodes",), text, opened=True)
    return Page(title="Decisions", sections=(newest,))


def claims_page(claims: Sequence[Claim], links: PageLinks, *, every: int) -> Page:
    """Return the page of some of ``every`` claims."""
    rows: list[Row] = [
        (TableCell(text=one.id, href=links.claim(one.id)), one.state, one.owner or NO_OWNER,
         f"{one.nodes:,}", _podm_names(one.podms[:MOST_PODMS], len(one.podms)),
         format_time(one.created_at), format_time(one.expires_at))
        for one in claims
    ]  # fmt: skip
    columns = ("Claim", "State", "Owner", "Nodes", "Podms", "Created at", "Expires at")
    newest = table("Newest first", columns, rows, ("Nodes",), opened=True)
    return Page(title="Claims", lead=format_count(every, "claim"), sections=(newest,))


def claim_page(record: ClaimRecord, links: PageLinks) -> Page:
    """Return the page of a claim: what it holds, its nodes, and what happened to it."""
    claim = record.claim
    parts: list[Row] = [
        (TableCell(text=part.podm, href=links.podm(part.podm)), f"{share.node}", share.pool,
         _blocks(share.blocks),
         ", ".join(f"{grant.amount:g} {grant.unit} {grant.resource or tail(grant.uri)}".strip()
                   for grant in share.grants))
        for part in claim.parts for share in part.shares
    ]  # fmt: skip
    nodes: list[Row] = [
        (one.name or one.id, TableCell(text=one.podm, href=links.podm(one.podm)),
         _blocks(one.blocks))
        for one in record.nodes
    ]  # fmt: skip
    events = [(format_time(one.at), one.kind, one.podm or "", one.words or "")
              for one in record.events]  # fmt: skip
    facts = [
        ("State", claim.state),
        ("Owner", claim.owner or NO_OWNER),
        ("Created at", format_time(claim.created_at)),
        ("Expires at", format_time(claim.expires_at)),
    ]
    facts += [(name, text) for name, text in (("Group", claim.group), ("Note", claim.note)) if text]
    return Page(
        title=f"Claim {claim.id}",
        lead=f"{claim.state}: {format_count(claim.nodes, 'node')} on "
        f"{format_count(len(claim.parts), 'pod manager')}",
        facts=tuple(facts),
        sections=(
            _table("What it holds", ("Podm", "Node", "Pool", "Blocks", "Amounts"), parts),
            _table("Nodes", ("Node", "Podm", "Blocks"), nodes),
            _table("Events", ("At", "What", "Podm", "Note"), events),
        ),
    )


def nodes_page(nodes: Sequence[NodeStatus], links: PageLinks, *, every: int) -> Page:
    """Return the page of some of ``every`` nodes."""
    rows: list[Row] = [
        (one.node.name or one.node.id, one.state, one.node.owner or NO_OWNER,
         TableCell(text=one.node.podm, href=links.podm(one.node.podm)), one.node.flavor or "none",
         f"{len(one.node.blocks):,}",
         TableCell(text=one.node.claim, href=links.claim(one.node.claim)),
         format_time(one.node.created_at))
        for one in nodes
    ]  # fmt: skip
    columns = ("Node", "State", "Owner", "Podm", "Flavor", "Blocks", "Claim", "Created at")
    newest = table("Newest first", columns, rows, ("Blocks",), opened=True)
    return Page(title="Nodes", lead=format_count(every, "node"), sections=(newest,))


def format_time(seconds: float | None) -> str:
    """Return a time of the database in UTC, ``never`` for None."""
    return "never" if seconds is None else format_instant(seconds, " ")


def _table(title: str, columns: tuple[str, ...], rows: Sequence[Row]) -> PageTable:
    return table(title, columns, rows[:MOST_ROWS], text=first_of(MOST_ROWS, len(rows)))


def _blocks(uris: Sequence[str]) -> str:
    more = f" and {len(uris) - MOST_BLOCKS:,} more" if len(uris) > MOST_BLOCKS else ""
    return ", ".join(map(tail, uris[:MOST_BLOCKS])) + more


def _podm_names(names: Sequence[str], every: int) -> str:
    more = f" and {every - len(names):,} more" if every > len(names) else ""
    return ", ".join(names) + more or "none"
