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
from valence_sched.pages import hardware as inventory
from valence_sched.pages.tables import MOST_ROWS, table
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
        lists = {"Site": "", "Decisions": "/decisions", "Claims": "/claims", "Nodes": "/nodes"}
        return tuple(
            PageLink(text=text, href=self.to(path), current=text == current)
            for text, path in lists.items()
        )

    def _named(self, path: str, name: str) -> str:
        if "/" in name or name in (NAME_IN_QUERY, ".", "..", ""):
            return self.to(path + NAME_IN_QUERY, name=name)
        return self.to(path + quote(name, safe=""))


def query_text(words: Mapping[str, object]) -> str:
    """Return a query with those words that are set, empty where none is."""
    text = urlencode({name: word for name, word in words.items() if word}, errors="replace")
    return f"?{text}" if text else ""


MOST_LINES = 100


def site_page(
    podms: Sequence[PodmOverview], shown: inventory.HardwareListing, links: PageLinks
) -> Page:
    """Return the page of these pod managers; of those in ``shown`` the hardware is drawn."""
    free, every = (sum(one.amounts.blocks[n] for one in podms) for n in (0, 1))
    return Page(
        title="Site",
        lead=f"{free:,} of {every:,} blocks are free on {len(podms):,} pod managers",
        facts=inventory.size_facts(podms, every),
        sections=(
            inventory.totals_table(podms),
            inventory.inventory_map(shown),
            inventory.podm_table(shown.podms, links.podm),
        ),
    )


def podm_page(
    one: PodmOverview, hardware: inventory.HardwareListing, usage: BlockUsage, links: PageLinks
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
        *inventory.size_facts([one], every)[1:],
        *inventory.use_facts(uses),
    ]
    return Page(
        title=f"Podm {podm.id}",
        lead=f"{free:,} of {every:,} blocks are free",
        facts=tuple(facts),
        sections=(
            inventory.totals_table([one]),
            inventory.inventory_map(hardware),
            _pools(one.pools),
            inventory.device_table(hardware),
            *_usage(usage, links),
        ),
    )


def _pools(pools: dict[str, PodmSummary]) -> PageTable:
    rows: list[Row] = []
    for name, one in pools.items():
        pairs = (one.blocks, one.cores, one.gpus)
        rows.append((name, *(" of ".join(map(format_value, pair)) for pair in pairs)))
    columns = ("Pool", "Blocks", "Cores", "GPUs")
    return table("Pools", columns, rows, columns[1:], "Free of all.", most=MOST_ROWS)


def _usage(usage: BlockUsage, links: PageLinks) -> Iterator[Section]:
    # several claims, or another owner, of whom no more is known, have no page
    rows: list[Row] = [
        (inventory.tail(uri), TableCell(text=ids, href="" if " " in ids else links.claim(ids)))
        for uri, ids in sorted(usage.held.items())
    ]
    text = "Blocks that claims hold, or that nodes of claims are made of."
    yield table("Held blocks", ("Block", "Claim"), rows, text=text, most=MOST_ROWS)
    if usage.foreign:
        lines = [inventory.tail(uri) for uri in usage.foreign[:MOST_LINES]]
        if len(usage.foreign) > len(lines):
            lines.append(f"and {len(usage.foreign) - len(lines):,} more")
        yield Lines(title="Blocks in use that no claim holds", lines=tuple(lines))


MOST_BLOCKS = 30  # of a node that are named
MOST_PODMS = 3  # of a claim that are named

NO_OWNER = "nobody"


def decisions_page(decisions: Sequence[DecisionSummary], links: PageLinks) -> Page:
    """Return the page of decisions, the newest first."""
    rows: list[Row] = []
    for one in decisions:
        at = TableCell(text=format_time(one.decided_at), href=links.decision(one.id))
        outcome = (one.outcome or "unknown").replace("_", " ")
        nodes = "unknown" if one.requested is None else f"{one.placed:,} of {one.requested:,}"
        podms = _podm_names(one.podms, one.podm_count)
        rows.append((at, one.request or "unknown", outcome, nodes, podms, one.owner or NO_OWNER))
    columns = ("Decided at", "Request", "Outcome", "Nodes", "Podms", "Owner")
    text = "Decisions that were asked for with keep."
    newest = table("Newest first", columns, rows, ("Nodes",), text, opened=True)
    return Page(title="Decisions", sections=(newest,))


def claims_page(claims: Sequence[Claim], links: PageLinks, *, every: int) -> Page:
    """Return the page of some of ``every`` claims."""
    rows: list[Row] = []
    for one in claims:
        podms = _podm_names(one.podms[:MOST_PODMS], len(one.podms))
        held = (one.state, one.owner or NO_OWNER, f"{one.nodes:,}", podms)
        times = map(format_time, (one.created_at, one.expires_at))
        rows.append((TableCell(text=one.id, href=links.claim(one.id)), *held, *times))
    columns = ("Claim", "State", "Owner", "Nodes", "Podms", "Created at", "Expires at")
    newest = table("Newest first", columns, rows, ("Nodes",), opened=True)
    return Page(title="Claims", lead=format_count(every, "claim"), sections=(newest,))


def claim_page(record: ClaimRecord, links: PageLinks) -> Page:
    """Return the page of a claim: what it holds, its nodes, and what happened to it."""
    claim = record.claim
    parts: list[Row] = []
    for part in claim.parts:
        for share in part.shares:
            amounts = []
            for grant in share.grants:
                name = grant.resource or inventory.tail(grant.uri)
                amounts.append(f"{grant.amount:g} {grant.unit} {name}".strip())
            made_of = (_blocks(share.blocks), ", ".join(amounts))
            parts.append((_podm_cell(part.podm, links), f"{share.node}", share.pool, *made_of))
    nodes: list[Row] = [
        (one.name or one.id, _podm_cell(one.podm, links), _blocks(one.blocks))
        for one in record.nodes
    ]
    events: list[Row] = [
        (format_time(one.at), one.kind, one.podm or "", one.words or "") for one in record.events
    ]
    columns = ("Podm", "Node", "Pool", "Blocks", "Amounts")
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
            table("What it holds", columns, parts, most=MOST_ROWS),
            table("Nodes", ("Node", "Podm", "Blocks"), nodes, most=MOST_ROWS),
            table("Events", ("At", "What", "Podm", "Note"), events, most=MOST_ROWS),
        ),
    )


def nodes_page(nodes: Sequence[NodeStatus], links: PageLinks, *, every: int) -> Page:
    """Return the page of some of ``every`` nodes."""
    rows: list[Row] = []
    for one in nodes:
        node = one.node
        owned = (node.name or node.id, one.state, node.owner or NO_OWNER)
        made = (_podm_cell(node.podm, links), node.flavor or "none", f"{len(node.blocks):,}")
        claim = TableCell(text=node.claim, href=links.claim(node.claim))
        rows.append((*owned, *made, claim, format_time(node.created_at)))
    columns = ("Node", "State", "Owner", "Podm", "Flavor", "Blocks", "Claim", "Created at")
    newest = table("Newest first", columns, rows, ("Blocks",), opened=True)
    return Page(title="Nodes", lead=format_count(every, "node"), sections=(newest,))


def format_time(seconds: float | None) -> str:
    """Return a time of the database in UTC, ``never`` for None."""
    return "never" if seconds is None else format_instant(seconds, " ")


def _podm_cell(name: str, links: PageLinks) -> TableCell:
    return TableCell(text=name, href=links.podm(name))


def _blocks(uris: Sequence[str]) -> str:
    more = f" and {len(uris) - MOST_BLOCKS:,} more" if len(uris) > MOST_BLOCKS else ""
    return ", ".join(map(inventory.tail, uris[:MOST_BLOCKS])) + more


def _podm_names(names: Sequence[str], every: int) -> str:
    more = f" and {every - len(names):,} more" if every > len(names) else ""
    return ", ".join(names) + more or "none"
