# SPDX-License-Identifier: Apache-2.0
"""The pages of what a service has on record: decisions, claims and nodes."""

from collections.abc import Sequence
from datetime import UTC, datetime

from valence_sched.model.claim import Claim
from valence_sched.model.composition import ComposedNode
from valence_sched.model.decision_summary import DecisionSummary
from valence_sched.model.lifecycle import ClaimRecord, Event, NodeStatus
from valence_sched.model.page import Page, PageTable, Row, TableCell
from valence_sched.model.quantity import format_count
from valence_sched.pages.hardware import tail
from valence_sched.pages.page_links import PageLinks

MOST_ROWS = 500  # of the parts of a claim
MOST_BLOCKS = 30  # of a node that are named
MOST_PODMS = 3  # of a claim that are named

NO_OWNER = "nobody"


def decisions_page(decisions: Sequence[DecisionSummary], links: PageLinks) -> Page:
    """Return the page of decisions, the newest first."""
    rows: list[Row] = [
        (TableCell(text=format_time(one.decided_at), href=links.decision(one.id)),
         one.request or "unknown", (one.outcome or "unknown").replace("_", " "),
         _of(one), _podms(one.podms, one.podm_count), one.owner or NO_OWNER)
        for one in decisions
    ]  # fmt: skip
    table = PageTable(
        title="Newest first",
        columns=("Decided at", "Request", "Outcome", "Nodes", "Podms", "Owner"),
        rows=tuple(rows),
        numbers=frozenset(("Nodes",)),
        text="Decisions that were asked for with keep.",
        opened=True,
    )
    return Page(title="Decisions", sections=(table,))


def claims_page(claims: Sequence[Claim], links: PageLinks, *, every: int) -> Page:
    """Return the page of some of ``every`` claims."""
    rows: list[Row] = [
        (TableCell(text=one.id, href=links.claim(one.id)), one.state, one.owner or NO_OWNER,
         f"{one.nodes:,}", _podms(one.podms[:MOST_PODMS], len(one.podms)),
         format_time(one.created_at), format_time(one.expires_at))
        for one in claims
    ]  # fmt: skip
    table = PageTable(
        title="Newest first",
        columns=("Claim", "State", "Owner", "Nodes", "Podms", "Created at", "Expires at"),
        rows=tuple(rows),
        opened=True,
        numbers=frozenset(("Nodes",)),
    )
    return Page(title="Claims", lead=format_count(every, "claim"), sections=(table,))


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
            _table("Nodes", ("Node", "Podm", "Blocks"),
                   [_node_row(one, links) for one in record.nodes]),
            _table("Events", ("At", "What", "Podm", "Note"),
                   [_event_row(one) for one in record.events]),
        ),
    )  # fmt: skip


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
    table = PageTable(title="Newest first", columns=columns, rows=tuple(rows),
                      numbers=frozenset(("Blocks",)), opened=True)  # fmt: skip
    return Page(title="Nodes", lead=format_count(every, "node"), sections=(table,))


def format_time(seconds: float | None) -> str:
    """Return a time of the database in UTC, ``never`` where there is none.

    A number that is no time, as in a damaged row, is returned as it is.
    """
    if seconds is None:
        return "never"
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g}"


def _table(title: str, columns: tuple[str, ...], rows: Sequence[Row]) -> PageTable:
    text = f"The first {MOST_ROWS} of {len(rows):,}." if len(rows) > MOST_ROWS else ""
    return PageTable(title=title, columns=columns, rows=tuple(rows[:MOST_ROWS]), text=text)


def _node_row(node: ComposedNode, links: PageLinks) -> Row:
    podm = TableCell(text=node.podm, href=links.podm(node.podm))
    return node.name or node.id, podm, _blocks(node.blocks)


def _event_row(event: Event) -> Row:
    return format_time(event.at), event.kind, event.podm or "", event.words or ""


def _blocks(uris: Sequence[str]) -> str:
    more = f" and {len(uris) - MOST_BLOCKS:,} more" if len(uris) > MOST_BLOCKS else ""
    return ", ".join(map(tail, uris[:MOST_BLOCKS])) + more


def _podms(names: Sequence[str], every: int) -> str:
    more = f" and {every - len(names):,} more" if every > len(names) else ""
    return ", ".join(names) + more or "none"


def _of(one: DecisionSummary) -> str:
    return "unknown" if one.requested is None else f"{one.placed:,} of {one.requested:,}"
