# SPDX-License-Identifier: Apache-2.0
"""The pages of a service: its site, one pod manager, decisions, claims and nodes."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from valence_sched.model.base import format_value
from valence_sched.model.claim import Claim, ComposedNode, Grant
from valence_sched.model.decision import DecisionSummary
from valence_sched.model.hardware import BlockOverview, BlockUsage, PodmOverview, device_groups
from valence_sched.model.inventory import Node
from valence_sched.model.lifecycle import ClaimRecord, Event, NodeStatus
from valence_sched.model.page import Lines, Page, PageTable, Row, Section, TableCell, Tone
from valence_sched.model.quantity import format_count
from valence_sched.pages import hardware as inventory
from valence_sched.pages.render import PageLinks
from valence_sched.pages.tables import MOST_ROWS, sentence, table
from valence_sched.words.phrases import device_phrases, format_instant, state_text

MOST_LINES = 100
MOST_PODMS = 3  # pod managers of a claim that a page names
NO_OWNER = "–"


def site_page(podms: Sequence[PodmOverview], shown: inventory.HardwareListing) -> Page:
    """Return the page of these pod managers; it draws the hardware in ``shown``."""
    return Page(
        title="Site",
        lead=inventory.usable_text(podms),
        facts=inventory.size_facts(podms),
        sections=(
            inventory.totals_table(podms),
            inventory.inventory_map(shown),
            inventory.podm_table(shown),
        ),
    )


def podm_page(
    one: PodmOverview, hardware: inventory.HardwareListing, usage: BlockUsage, links: PageLinks
) -> Page:
    """Return the page of a pod manager, its pools, its blocks and their users."""
    podm = one.podm
    age = " (old)" if podm.id in hardware.old else ""
    facts = [
        ("Name", podm.name or podm.id),
        ("Status", podm.status if podm.enabled else f"{podm.status}, disabled"),
        ("Zone", podm.zone or "none"),
        ("Read at", f"{podm.read_at or 'unknown'}{age}"),
        *inventory.size_facts([one])[1:],
        *inventory.use_facts(hardware),
    ]
    pools: list[Row] = []
    for name, pool in one.pools.items():
        pairs = (pool.blocks, pool.cores, pool.gpus)
        pools.append((name, *(" of ".join(map(format_value, pair)) for pair in pairs)))
    columns = ("Pool", "Blocks", "Cores", "GPUs")
    note = "Each cell shows the free and the total amount."
    drawn = inventory.inventory_map(hardware)
    free, every = one.amounts.blocks
    lead = f"{free:,} of {every:,} blocks are usable"
    if podm.unusable:
        lead = f"{podm.unusable}: takes no nodes; {free:,} of {every:,} blocks are free"
    sections = (
        inventory.totals_table([one]),
        replace(drawn, podms=tuple(replace(podm, href="") for podm in drawn.podms)),
        table("Pools", columns, pools, columns[1:], note, most=MOST_ROWS),
        inventory.node_table(hardware),
        inventory.device_table(hardware),
        *_usage(usage, podm.id, links),
    )
    tone: Tone = "bad" if podm.unusable else ""
    title, lead = f"Podm {podm.id}", sentence(lead)
    return Page(title=title, lead=lead, tone=tone, facts=tuple(facts), sections=sections)


def _usage(usage: BlockUsage, podm: str, links: PageLinks) -> Iterator[Section]:
    rows: list[Row] = [
        (links.cell("blocks", uri, inventory.tail(uri), podm=podm), _claim_cell(ids, links))
        for uri, ids in sorted(usage.held.items())
    ]
    text = "Blocks that claims hold, or that nodes of claims have."
    yield table("Held blocks", ("Block", "Claim"), rows, text=text, most=MOST_ROWS)
    if usage.unmanaged:
        lines = [inventory.tail(uri) for uri in usage.unmanaged[:MOST_LINES]]
        if len(usage.unmanaged) > len(lines):
            lines.append(f"and {len(usage.unmanaged) - len(lines):,} more")
        yield Lines(title="Unmanaged blocks: in use without a claim", lines=tuple(lines))


def _block_table(uris: Sequence[str], podm: str, links: PageLinks) -> PageTable:
    rows = ((links.cell("blocks", uri, inventory.tail(uri), podm=podm), uri) for uri in uris)
    return table("Blocks", ("Block", "URI"), rows, most=MOST_ROWS)


def _claim_cell(ids: str, links: PageLinks) -> TableCell:
    # no link for several claims, or for a claim of another owner, which has no id here
    return TableCell(text=ids, href="" if " " in ids else links.named("claims", ids))


def block_page(
    block: BlockOverview, podm: PodmOverview, usage: BlockUsage, links: PageLinks
) -> Page:
    """Return the page of a block: its devices, its availability, and its users."""
    why = podm.podm.unusable
    use = f"free, but {block.podm} is {why}" if why and block.slots else block.use
    devices: list[Row] = []
    for kind, model, one in device_groups(block.devices):
        number = "unknown" if one.count is None else f"{one.count:,}"
        devices.append((kind, model or "unknown", number, one.condition or "no known fault"))
    nodes = (node for node in podm.podm.nodes if block.uri in node.blocks)
    users: list[Row] = [(inventory.node_cell(block.podm, node, links),) for node in nodes]
    held = usage.held.get(block.uri)
    claims: list[Row] = [(_claim_cell(held, links),)] if held else []
    facts = [
        ("Use", use),
        ("Usable by more nodes", "0" if why else f"{block.slots:,}"),
        ("Condition", block.condition or "no known fault"),
        ("Type", ", ".join(block.types) or "unknown"),
        ("Pools", ", ".join(block.pools) or inventory.NO_POOL),
        *((f"Place: {name}", place) for name, place in block.topology.items()),
        ("URI", block.uri),
    ]
    podm_row: Row = (links.cell("podms", block.podm), why or podm.podm.status, podm.podm.zone or "")
    return Page(
        title=f"Block {inventory.tail(block.uri)}",
        lead=sentence(f"{use}: {', '.join(device_phrases(block.devices)) or 'devices unknown'}"),
        tone="" if block.slots and not why else "part",
        facts=tuple(facts),
        sections=(
            table("Pod manager", ("Podm", "Status", "Zone"), (podm_row,)),
            table("Devices", ("Device", "Model", "Number", "Condition"), devices, ("Number",)),
            table("Nodes", ("Node",), users),
            table("Claims", ("Claim",), claims),
        ),
    )


def decisions_page(decisions: Sequence[DecisionSummary], links: PageLinks) -> Page:
    rows: list[Row] = []
    for one in decisions:
        at = links.cell("decisions", one.id, format_time(one.decided_at))
        outcome = (one.outcome or "unknown").replace("_", " ")
        nodes = "unknown" if one.requested is None else f"{one.placed:,} of {one.requested:,}"
        podms = _podm_names(one.podms, one.podm_count)
        rows.append((at, one.request or "unknown", outcome, nodes, podms, one.owner or NO_OWNER))
    columns = ("Decided at", "Request", "Outcome", "Nodes", "Podms", "Owner")
    text = "Decisions are saved if the request sets keep."
    newest = table("Newest first", columns, rows, ("Nodes",), text, opened=True)
    return Page(title="Decisions", sections=(newest,))


def claims_page(claims: Sequence[Claim], links: PageLinks, *, every: int) -> Page:
    rows: list[Row] = []
    for one in claims:
        podms = _podm_names(one.podms[:MOST_PODMS], len(one.podms))
        held = (state_text(one.state), one.owner or NO_OWNER, f"{one.nodes:,}", podms)
        times = map(format_time, (one.created_at, one.expires_at))
        rows.append((links.cell("claims", one.id), *held, *times))
    columns = ("Claim", "State", "Owner", "Nodes", "Podms", "Created at", "Expires at")
    newest = table("Newest first", columns, rows, ("Nodes",), opened=True)
    return Page(title="Claims", lead=format_count(every, "claim"), sections=(newest,))


def claim_page(record: ClaimRecord, links: PageLinks) -> Page:
    """Return the page of a claim: its blocks, its nodes, and its history."""
    claim = record.claim
    parts: list[Row] = []
    for part in claim.parts:
        for share in part.shares:
            made_of = inventory.names_of(share.blocks), ", ".join(map(_grant_text, share.grants))
            parts.append((links.cell("podms", part.podm), f"{share.node}", share.pool, *made_of))
    nodes: list[Row] = [
        (_node_cell(one, links), links.cell("podms", one.podm), inventory.names_of(one.blocks))
        for one in record.nodes
    ]
    columns = ("Podm", "Node", "Pool", "Blocks", "Amounts")
    facts = [
        ("State", state_text(claim.state)),
        ("Owner", claim.owner or NO_OWNER),
        ("Created at", format_time(claim.created_at)),
        ("Expires at", format_time(claim.expires_at)),
    ]
    facts += [(name, text) for name, text in (("Group", claim.group), ("Note", claim.note)) if text]
    sections = (
        table("Held resources", columns, parts, most=MOST_ROWS),
        table("Nodes", ("Node", "Podm", "Blocks"), nodes, most=MOST_ROWS),
        _events(record.events),
    )
    podms = format_count(len(claim.parts), "pod manager")
    lead = f"{state_text(claim.state)}: {format_count(claim.nodes, 'node')} on {podms}"
    return Page(title=f"Claim {claim.id}", lead=lead, facts=tuple(facts), sections=sections)


def _events(events: Sequence[Event]) -> PageTable:
    rows: list[Row] = [
        (format_time(one.at), state_text(one.kind), one.podm or "", one.words or "")
        for one in events
    ]
    return table("Events", ("At", "What", "Podm", "Note"), rows, most=MOST_ROWS)


def node_page(status: NodeStatus, events: Sequence[Event], links: PageLinks) -> Page:
    """Return the page of a node that was composed for a claim."""
    node = status.node
    hardware = ", ".join(device_phrases(status.devices)) or "unknown"
    amounts = ", ".join(map(_grant_text, (*node.grants, *node.amounts)))
    facts = [
        ("State", state_text(status.state)),
        ("Owner", node.owner or NO_OWNER),
        ("Hardware", hardware),
        ("Flavor", node.flavor or "none"),
        ("Group", node.group or "none"),
        ("Amounts", amounts or "none"),
        ("Created at", format_time(node.created_at)),
        ("ID", node.id),
        ("URI", node.uri),
    ]
    if status.unknown_blocks:
        facts.append(("Blocks not in the inventory", f"{status.unknown_blocks:,}"))
    claim = _claim_cell(node.claim, links)
    place: Row = (links.cell("podms", node.podm), node.pool or "unknown", claim)
    location = table("Location", ("Podm", "Pool", "Claim"), [place])
    sections = (location, _block_table(node.blocks, node.podm, links), _events(events))
    title, lead = f"Node {node.name or node.id}", f"{state_text(status.state)}: {hardware}"
    return Page(title=title, lead=lead, facts=tuple(facts), sections=sections)


def unmanaged_node_page(podm: PodmOverview, node: Node, links: PageLinks) -> Page:
    """Return the page of an unmanaged node, which has no claim in this state."""
    name = podm.podm.id
    location = table("Location", ("Podm",), [(links.cell("podms", name),)])
    return Page(
        title=f"Node {inventory.node_name(node)}",
        lead="Unmanaged: the node has no claim of this service",
        facts=(
            ("Owner", node.owner or "unknown"),
            ("Flavor", node.flavor or "none"),
            ("Read at", podm.podm.read_at or "unknown"),
            ("URI", node.uri),
        ),
        sections=(location, _block_table(node.blocks, name, links)),
    )


def _node_cell(node: ComposedNode, links: PageLinks) -> TableCell:
    return links.cell("nodes", node.id, node.name or "")


def _grant_text(grant: Grant) -> str:
    name = grant.resource or inventory.tail(grant.uri)
    return f"{grant.amount:g} {grant.unit} {name}".strip()


def nodes_page(nodes: Sequence[NodeStatus], links: PageLinks, *, every: int) -> Page:
    rows: list[Row] = []
    for one in nodes:
        node = one.node
        owned = (_node_cell(node, links), state_text(one.state), node.owner or NO_OWNER)
        made = (links.cell("podms", node.podm), node.flavor or "none", f"{len(node.blocks):,}")
        rows.append((*owned, *made, links.cell("claims", node.claim), format_time(node.created_at)))
    columns = ("Node", "State", "Owner", "Podm", "Flavor", "Blocks", "Claim", "Created at")
    newest = table("Newest first", columns, rows, ("Blocks",), opened=True)
    lead = f"{format_count(every, 'node')} composed for claims"
    return Page(title="Nodes", lead=lead, sections=(newest,))


def format_time(seconds: float | None) -> str:
    return "never" if seconds is None else format_instant(seconds, " ")


def _podm_names(names: Sequence[str], every: int) -> str:
    more = f" and {every - len(names):,} more" if every > len(names) else ""
    return ", ".join(names) + more or "none"
