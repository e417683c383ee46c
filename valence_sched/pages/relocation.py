# SPDX-License-Identifier: Apache-2.0
"""The pages of node moves and of a purchase, each with a map of its effect on the site."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from valence_sched.model import relocation as model
from valence_sched.model.capacity import PurchaseResult
from valence_sched.model.page import HardwareMap, Lines, Page, PageTable, Role, Row, Section, Tone
from valence_sched.model.quantity import format_count
from valence_sched.pages import hardware as inventory
from valence_sched.pages.hardware import HardwareListing
from valence_sched.pages.tables import Facts, amount_text, bar, sentence, table
from valence_sched.words import planning as words
from valence_sched.words.phrases import ReasonPhrases, device_phrases

MOST_ROWS = 2000  # nodes in a table
MOST_REASONS = 3  # reasons for a node that cannot be re-placed
_TITLES = {"failed": "Failure", "drained": "Drain"}
_MOVE = ("Step", "Node", "From", "To", "Pool", "Blocks", "Hardware")


def relocation_page(result: model.Relocation, hardware: HardwareListing, facts: Facts = ()) -> Page:
    """Return the page of node moves on the hardware before them; ``facts`` name the policy."""
    leaving = [*result.moves, *result.stuck]
    drawn = relocation_map(hardware, leaving, result.moves)
    tables = (*_stuck(result.stuck), *_moves(result.moves), *_by_podm(result))
    return Page(
        title=f"{_TITLES[result.why]}: {result.target}",
        lead=sentence(words.relocation_phrase(result)),
        tone="good" if not result.stuck else "part" if result.moves else "bad",
        facts=(("Nodes", f"{result.nodes:,}"), *facts),
        sections=(*tables, drawn, *_notes(result.notes)),
    )


def survival_page(result: model.Survival, hardware: HardwareListing, facts: Facts = ()) -> Page:
    """Return the page about failures of several pod managers, with the worst combination."""
    lead, *_ = words.survival_phrases(result)
    tones: dict[bool | None, Tone] = {True: "good", None: "part", False: "bad"}
    worst: Facts = ()
    if result.worst:
        nodes = format_count(result.worst_nodes, "node")
        stuck = f"{len(result.stuck):,} of {nodes}"
        worst = (("Worst set", ", ".join(result.worst)), ("Nodes that cannot be re-placed", stuck))
    drawn = relocation_map(hardware, result.stuck, (), result.worst)
    return Page(
        title=f"Failure of any {format_count(result.failures, 'pod manager')}",
        lead=sentence(lead),
        tone=tones[result.answer],
        facts=(*worst, *facts),
        sections=(*_stuck(result.stuck), drawn, *_notes(result.notes)),
    )


def rebalance_page(
    result: model.Rebalance, hardware: HardwareListing, most: int, facts: Facts = ()
) -> Page:
    """Return the page of the moves that reach a goal, with at most ``most`` moves."""
    lead, *lines = words.rebalance_lines(result, most)
    if not (result.flavor and lead.startswith(result.flavor)):  # do not capitalise a flavor
        lead = sentence(lead)
    tone: Tone = "good" if result.reached else "bad" if result.complete else "part"
    before, after = _measures(result.before), _measures(result.after)
    rows: list[Row] = [(*_move(one), *_measures(one.after).values()) for one in result.moves]
    columns = (*_MOVE, *before)
    text = "In the order of the moves. The numbers show the site after each move."
    moves = [table("Moves", columns, rows, before, text)] if rows else []
    changes = ((name, f"{text} before, {after[name]} after") for name, text in before.items())
    title = "Rebalance" + (f": room for {result.flavor}" if result.flavor else "")
    drawn = relocation_map(hardware, result.moves, result.moves)
    sections = (*moves, drawn, *_notes((*map(sentence, lines), *result.notes)))
    return Page(title=title, lead=lead, tone=tone, facts=(*changes, *facts), sections=sections)


def _measures(measure: model.SiteMeasure) -> dict[str, str]:
    texts = {"Imbalance": f"{measure.imbalance:.1%}"}
    if measure.fragmentation is not None:
        texts = {"Fragmentation": f"{measure.fragmentation:.1%}"} | texts
    return texts if measure.room is None else {"Room": f"{measure.room:,}"} | texts


def purchase_page(result: PurchaseResult, hardware: HardwareListing, facts: Facts = ()) -> Page:
    """Return the page of the smallest purchase that makes nodes fit, with their placement."""
    rows: list[Row] = []
    bought: dict[str, list[str]] = {}
    for one in result.lines or ():
        cells = [one.podm, one.pool, one.block, f"{one.number:,}"]
        if result.priced:
            price = one.price or 0.0
            cells += [amount_text(price), amount_text(price * one.number)]
        rows.append(tuple(cells))
        bought.setdefault(one.podm, []).append(f"{one.number:,} {one.block} for {one.pool}")
    numbers = ("Number", "Price", "Cost") if result.priced else ("Number",)
    columns = ("Podm", "Pool", "Block", *numbers)
    found = result.lines is not None
    short = found and result.placed < result.wanted
    count = f"{result.placed:,} of {result.wanted:,}"
    placed = (("Placed with these blocks", count),) if found else ()
    podms = sorted(hardware.podms, key=lambda one: one.podm.id not in bought)
    drawn = []
    for podm in (one.podm for one in podms[: inventory.MOST_PODMS]):
        role: Role = "buyer" if podm.id in bought else ""
        text = "; ".join(bought.get(podm.id, ()))
        drawn.append(inventory.map_podm(hardware, podm, {}, role=role, text=text))
    buy = [table("Blocks to buy", columns, rows, numbers)] if rows else []
    return Page(
        title=f"Purchase for {result.wanted:,} {result.flavor}",
        lead=sentence(words.purchase_line(result)),
        tone="part" if short else "good" if found else "bad",
        facts=(*placed, *facts),
        sections=(*buy, inventory.hardware_map(hardware, drawn)),
    )


def relocation_map(
    hardware: HardwareListing,
    leaving: Sequence[model.MovedNode],
    moves: Sequence[model.NodeMove],
    sources: Iterable[str] = (),
) -> HardwareMap:
    """Return the map of moves; ``sources`` are marked even if no node leaves them."""
    marks = _marks(hardware, leaving, moves)
    left = Counter(one.podm for one in leaving)
    left.update(dict.fromkeys(sources, 0))
    landed = Counter(move.to_podm for move in moves)

    def role(podm: str) -> Role:
        return "source" if podm in left else "destination" if podm in landed else ""

    order = ("source", "destination", "")
    podms = sorted(hardware.podms, key=lambda one: order.index(role(one.podm.id)))
    drawn = []
    for one in podms[: inventory.MOST_PODMS]:
        name = one.podm.id
        parts = []
        if left[name]:
            parts.append(format_count(left[name], "node leaves", "nodes leave"))
        if landed[name]:
            parts.append(format_count(landed[name], "node arrives here", "nodes arrive here"))
        text = "; ".join(parts)
        drawn.append(inventory.map_podm(hardware, one.podm, marks, role=role(name), text=text))
    return inventory.hardware_map(hardware, drawn, [move.node for move in moves])


def _marks(
    hardware: HardwareListing, leaving: Sequence[model.MovedNode], moves: Sequence[model.NodeMove]
) -> inventory.BlockMarks:
    gone = {(one.podm, one.uri) for one in leaving}
    marks: inventory.BlockMarks = {
        (one.podm.id, uri): ("left", ())
        for one in hardware.podms
        for node in one.podm.nodes
        if (one.podm.id, node.uri) in gone
        for uri in node.blocks
    }
    landed: dict[tuple[str, str], tuple[int, ...]] = {}
    for number, move in enumerate(moves, 1):
        for uri in move.to_blocks:
            key = (move.to_podm, uri)
            landed[key] = (*landed.get(key, ()), number)
    return {**marks, **{key: ("chosen", numbers) for key, numbers in landed.items()}}


def _stuck(stuck: Sequence[model.StuckNode]) -> Iterator[PageTable]:
    rows: list[Row] = [
        (one.node, one.podm, one.owner or "", _hardware(one), _why(one)) for one in stuck
    ]
    if rows:
        columns = ("Node", "Podm", "Owner", "Hardware", "Reason")
        yield table("Nodes that cannot be re-placed", columns, rows, most=MOST_ROWS, noun="nodes")


def _why(one: model.StuckNode) -> str:
    texts = [
        f"{ReasonPhrases().of_reason(it.reason)} ({format_count(it.podms, 'pod manager')})"
        for it in one.reasons
        if it.reason is not None
    ]
    others = len(texts) - MOST_REASONS
    more = [f"and {format_count(others, 'other reason')}"] if others > 0 else []
    return "; ".join([*texts[:MOST_REASONS], *more]) if one.reasons else words.NO_HARDWARE


def _moves(moves: Sequence[model.NodeMove]) -> Iterator[PageTable]:
    rows: list[Row] = [(*_move(one), one.owner or "") for one in moves]
    if rows:
        text = "In the order of the moves. If its request is unknown, a node gets equal hardware."
        yield table("Moves", (*_MOVE, "Owner"), rows, text=text, most=MOST_ROWS, noun="moves")


def _move(one: model.NodeMove) -> tuple[str, ...]:
    place = (f"{one.step}", one.node, one.podm, one.to_podm, one.to_pool)
    return (*place, inventory.names_of(one.to_blocks), _hardware(one))


def _by_podm(result: model.Relocation) -> Iterator[PageTable]:
    landed = Counter(move.to_podm for move in result.moves)
    if not landed:
        return
    left = Counter(one.podm for one in (*result.moves, *result.stuck))
    most = max((*landed.values(), *left.values()))
    order = sorted({*landed, *left}, key=lambda podm: (-landed[podm], podm))
    rows = ((podm, bar(landed[podm], most), bar(left[podm], most)) for podm in order)
    numbers = ("Arrive", "Leave")
    yield table("Nodes by pod manager", ("Podm", *numbers), rows, numbers, most=MOST_ROWS)


def _hardware(one: model.MovedNode) -> str:
    return ", ".join(device_phrases(one.devices, brief=True))


def _notes(notes: tuple[str, ...]) -> Iterator[Section]:
    if notes:
        yield Lines(title="Notes", lines=notes)
