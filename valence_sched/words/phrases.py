# SPDX-License-Identifier: Apache-2.0
"""Hardware, needs, reasons, zones and claims as people read them: ``2 GPU A100``, ``no cores``."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from valence_sched.errors import name_some
from valence_sched.model.base import format_value, is_number
from valence_sched.model.claim import Claim, Grant, NodeShrink
from valence_sched.model.decision import DecisionZones, Reason, SilentZone, Uncounted
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.hardware import PodmOverview, PodmSummary
from valence_sched.model.inventory import Accelerator, Devices, Drive, Nic, uri_tails
from valence_sched.model.lifecycle import NodeStatus, Preview, ProvisionResult
from valence_sched.model.need import Alternative, Need, TopologyConstraint
from valence_sched.model.node_change import NodeChangeResult, format_parts
from valence_sched.model.podm_address import is_unencrypted
from valence_sched.model.quantity import agree, format_bytes, format_count, format_mbps, format_mib
from valence_sched.model.registration import Registration
from valence_sched.model.request import Request
from valence_sched.model.zone_registry import ZoneRegistration

MIB = 1 << 20
_EXCESS = {"cores": "core", "accelerators": "accelerator", "drives": "drive", "nics": "NIC"}
_NOISE = re.compile(r"\((?:R|TM|C)\)|\b(?:\d+-Core )?Processor\b|\bCPU\b|@.*", re.IGNORECASE)
#: States of claims and nodes that people see by another name; machines see the state itself.
_STATES = {"SETTLED": "IN USE", "FOREIGN": "UNMANAGED"}
#: The options that set the need of a filter.
_OPTIONS = {
    "zone": ("zone",),
    "location": ("location",),
    "aggregates": ("aggregate", "exclude_aggregate", "member_of"),
    "capabilities": ("capability",),
    "traits": ("trait", "exclude_trait", "required", "forbidden"),
    "attributes": ("attribute",),
    "json": ("where",),
}
MOST_SHOWN = 3  # zones of a line that are named
MOST_LINES = 20  # diagnostics of one kind; the rest is only counted


def state_text(state: str) -> str:
    """Return a state of a claim or node for people, or the kind of an event in lower case."""
    shown = _STATES.get(state.upper(), state)
    return shown.lower() if state.islower() else shown


def device_phrases(devices: Devices, *, brief: bool = False) -> Iterator[str]:
    """Yield devices, cores first: ``32 cores EPYC``, ``2 GPU A100``, ``1 GPU A100 (Critical)``."""
    every = devices_by_condition(devices)
    for condition, found in sorted(every.items(), key=lambda item: item[0] or ""):
        for phrase in phrases(found, brief=brief):
            yield f"{phrase} ({condition})" if condition else phrase


def devices_by_condition(devices: Devices) -> dict[str | None, Devices]:
    """Return the devices by their Redfish condition, None for a good condition."""
    groups = {name: getattr(devices, name) for name in Devices.__struct_fields__}
    found: dict[str | None, dict[str, tuple[Any, ...]]] = {}
    for name, group in groups.items():
        for one in group:
            alike = found.setdefault(one.condition, {})
            alike[name] = (*alike.get(name, ()), one)
    return {word: Devices(**alike) for word, alike in found.items()}


def phrases(devices: Devices, *, brief: bool = False) -> Iterator[str]:
    """Yield devices in words, without their conditions."""
    by_model: dict[str, list[int | None]] = defaultdict(list)
    for cpu in devices.processors:
        by_model["" if brief else short_model(cpu.model)].append(_product(cpu.count, cpu.cores))
    for model, numbers in by_model.items():
        cores = agree(1 if numbers == [1] else 2, f"cores {model}")
        yield f"{_sum_text(numbers, str)} {cores}".strip()
    if devices.memory:
        sizes = [_product(one.count, one.capacity_mib) for one in devices.memory]
        yield _sum_text(sizes, format_mib) + ("" if any(sizes) else " memory")
    alike: dict[tuple[str, bool], int] = defaultdict(int)  # by words; unknown counts are separate
    others: list[Accelerator | Drive | Nic] = [*devices.accelerators, *devices.drives]
    for device in (*others, *devices.nics):
        words = _device_words(device, brief=brief)
        alike[words, device.count is None] += device.count or 0
    for (words, is_unknown), count in alike.items():
        yield f"{'?' if is_unknown else count} {words}"


def _device_words(device: Accelerator | Drive | Nic, *, brief: bool) -> str:
    match device:
        case Accelerator():
            memory = format_bytes(device.memory_mib * MIB) if device.memory_mib else ""
            words = [device.kind, short_model(device.model), "" if brief else memory]
        case Drive():
            size = format_bytes(device.capacity_bytes) if device.capacity_bytes else ""
            kind = " ".join(filter(None, (device.protocol, device.media))) or "drive"
            words = ["remote" if device.remote else "", kind, size]
        case Nic():
            words = ["NIC", format_mbps(device.speed_mbps) if device.speed_mbps else ""]
    return " ".join(filter(None, words))


def _product(count: int | None, amount: int | None) -> int | None:
    return None if count is None or amount is None else count * amount


def _sum_text(numbers: Sequence[int | None], shown: Callable[[int], str]) -> str:
    known = [number for number in numbers if number is not None]
    if not known:
        return "unknown"
    return shown(sum(known)) + ("+" if len(known) < len(numbers) else "")


def short_model(model: str | None) -> str:
    """Return the name of a model without marks, clock rates and the word CPU."""
    return " ".join(_NOISE.sub(" ", model or "").split())


def node_phrases(status: NodeStatus) -> Iterator[str]:
    """Yield the hardware of a node: devices, amounts of stocks, and the unknown blocks."""
    yield from device_phrases(status.devices, brief=True)
    yield from map(grant_phrase, status.node.grants)
    if status.unknown_blocks:
        yield f"{format_count(status.unknown_blocks, 'block')} unknown"


def grant_phrase(grant: Grant) -> str:
    """Return an amount of a stock: ``524288 MiB cxl_memory_mib``."""
    return " ".join(filter(None, (number_text(grant.amount), grant.unit, grant.resource)))


def number_text(number: float) -> str:
    """Return a number without needless zeros."""
    return f"{number:.6f}".rstrip("0").rstrip(".")


def free_phrases(amounts: PodmSummary) -> Iterator[str]:
    """Yield the free amounts of a pool: ``32 cores``, ``no memory``, ``2 GPUs``."""
    cores, mib = amounts.cores[0], amounts.memory_mib[0]
    yield "unknown cores" if cores is None else format_count(cores, "core") if cores else "no cores"
    yield "unknown memory" if mib is None else format_mib(mib) if mib else "no memory"
    for number, word in ((amounts.gpus[0], "GPU"), (amounts.drives[0], "drive")):
        if number is None:
            yield f"unknown {word}s"
        elif number:
            yield format_count(number, word)
    for name, (free, _) in amounts.stocks.items():
        yield f"{'unknown' if free is None else number_text(free)} {name}"


def usable_lines(podms: Iterable[PodmOverview]) -> Iterator[str]:
    """Yield the usable part of free amounts, if a part of them is unusable."""
    every = list(podms)
    if not (why := unusable_text(every)):
        return
    usable = [one.amounts for one in every if not one.podm.unusable]
    names = ("cores", "memory_mib", "gpus")
    cores, mib, gpus = (sum(getattr(one, name)[0] or 0 for one in usable) for name in names)
    amounts = f"{format_count(cores, 'core')}, {format_mib(mib)}, {format_count(gpus, 'GPU')}"
    yield f"usable: {amounts}"
    yield f"in parentheses: free, but not usable ({why})"


def unusable_text(podms: Iterable[PodmOverview]) -> str:
    """Return the numbers of unusable pod managers, by reason: ``1 disabled, 2 Offline``."""
    reasons = Counter(one.podm.unusable for one in podms if one.podm.unusable)
    return ", ".join(f"{number:,} {word}" for word, number in sorted(reasons.items()))


def need_phrase(need: Need) -> str:
    """Return a need in words: ``256 GiB memory``, ``1 drive SSD of 900 GiB or more``."""
    times = f"{need.count} x" if need.count > 1 else ""
    least = (f"of {size} or more" for size in need.sizes)
    if need.unit == "MiB":
        amount = format_bytes(need.amount * MIB)
    else:
        amount = " ".join(filter(None, [number_text(need.amount), need.unit]))
    return " ".join(filter(None, [times, amount, agree(need.amount, need.label), *least]))


def constraint_phrase(constraint: TopologyConstraint) -> str:
    """Return a topology constraint in words: ``same pcie_root: gpus, nics``."""
    return f"{constraint.relation} {constraint.place}: {', '.join(constraint.of)}"


def alternative_phrase(one: Alternative) -> str:
    """Return an alternative of a flavor in words: its needs, then its topology constraints."""
    return "; ".join([*map(need_phrase, one.needs), *map(constraint_phrase, one.topology)])


def request_phrase(request: Request) -> str:
    """Return a request in words: ``gpu-large: 32 cores, 256 GiB memory, 2 GPU A100``."""
    needs = ", ".join(map(need_phrase, request.needs))
    name = request.flavor or request.id or "request"
    others = len(request.other_alternatives)
    return f"{name}: {needs}" + (f"; or {format_count(others, 'other way')}" if others else "")


def excess_phrases(excess: Mapping[str, float]) -> Iterator[str]:
    """Yield the hardware in the blocks of a candidate beyond the request."""
    for name, amount in excess.items():
        if name == "memory_mib":
            yield format_bytes(amount * MIB)
        else:
            yield format_count(amount, _EXCESS.get(name, name))


class ReasonPhrases:
    """Words the reasons against a pool; they name the ``given`` options that set a need."""

    def __init__(self, given: frozenset[str] = frozenset(), *, names_free: bool = False) -> None:
        self._given, self._names_free = given, names_free

    def of_pool(self, reasons: Sequence[Reason]) -> str:
        none = [one for one in reasons if is_amount(one) and not one.have]
        texts = [self.of_reason(one) for one in reasons if one not in none]
        if none:
            things = [thing(none[0]), *(thing(one).removeprefix("free ") for one in none[1:])]
            last = f" or {things[-1]}" if len(things) > 1 else ""
            first = ", ".join(things[:-1] if last else things)
            few = [replace(one, instead={}, podm_have=None) for one in none]
            some = none if len(none) == 1 else few
            notes = "; ".join(filter(None, map(_notes, some)))
            texts.insert(0, f"no {first}{last}" + (f" ({notes})" if notes else ""))
        return "; ".join(texts) or "no reason is known"

    def without_amounts(self, reasons: Sequence[Reason]) -> str:
        amounts = [one for one in reasons if is_amount(one)]
        others = [self.of_reason(one) for one in reasons if one not in amounts]
        lacking = [one for one in amounts if not one.have]
        bare = [replace(one, instead={}, podm_have=None, uncounted=UNSET) for one in lacking]
        none = self.of_pool(bare)
        short = [too_small(one) for one in amounts if one.have]
        return "; ".join([*others, *([none] if len(short) < len(amounts) else []), *short])

    def of_reason(self, reason: Reason) -> str:
        """Return one reason: ``16 of 32 cores``, ``no GPU A100``, ``status Offline``."""
        if reason.filter == "target":
            excluded = str(reason.need).startswith("not ")
            return "excluded by --exclude-podm" if excluded else "not selected by --podm"
        if is_amount(reason):
            if not reason.have:
                return f"no {thing(reason)}{_elsewhere(reason)}"
            what = agree(float(str(reason.need)), thing(reason))
            free = " free" if self._names_free and reason.filter != "fit" else ""
            return f"{share(reason)} {what}{free}{_elsewhere(reason)}"
        if reason.label == "this filter":
            verb = "rejected by filter {}" if reason.have == "no" else "filter {} failed"
            return verb.format(reason.filter)
        if reason.filter == "spread":
            group, _, rule = reason.label.rpartition(": ")
            have: Any = reason.have
            if not is_number(have):
                return f"{group}: domain unknown here ({rule})"
            return f"{group} has {format_count(have, 'node')} here ({rule})"
        if reason.filter == "fit":
            states = str(reason.have).partition(" ")[0]
            return f"undecided: the search ended after {states} states (budget of the policy)"
        if reason.need is True or reason.need == "yes":
            return f"not {reason.label}"
        given = [name for name in _OPTIONS.get(reason.filter, ()) if name in self._given]
        options = " or ".join(f"--{name.replace('_', '-')}" for name in given)
        return _value_phrase(reason) + (f" ({options})" if options else "")


def is_amount(reason: Reason) -> bool:
    """Return whether a reason compares amounts of hardware, not numbers of nodes of a group."""
    return reason.is_amount and reason.filter != "spread"


def _value_phrase(reason: Reason) -> str:
    """Return the value of a pod manager and the required value: ``zone west, needs east``."""
    need, have = format_value(reason.need), format_value(reason.have)
    if reason.filter == "json":
        return f"needs {need}, but has {have}"
    if reason.filter == "quarantine" and need == "no":
        return f"in quarantine ({have})"
    if reason.filter in ("aggregates", "traits") and need.startswith("not "):
        return f"has the excluded {reason.label} {need.removeprefix('not ')}"
    if reason.filter == "isolation":
        return f"{reason.label} {have}"
    if reason.filter == "near":
        name, _, place = reason.label.partition(" of ")
        return f"{name} {have}, needs {need} (near {place})"
    if reason.filter == "capabilities" and not reason.have:
        return f"no {reason.label}, needs {need}"
    return f"{reason.label} {have}, needs {need}"


def thing(reason: Reason) -> str:
    """Return the counted resource; missing cores and memory are called ``free``."""
    label = re.sub(r"^GPU (?=\S)", "", reason.label)
    return f"free {label}" if not reason.have and reason.label in ("cores", "memory") else label


def too_small(reason: Reason) -> str:
    """Return a lack without numbers: ``too few cores``, ``no A100``."""
    if not reason.have:
        return f"no {thing(reason)}"
    return f"too {'little' if reason.label.startswith('memory') else 'few'} {thing(reason)}"


def share(reason: Reason, amount: Any = None) -> str:
    """Return an amount of the need: ``16 of 32``, ``128 of 256 GiB``."""
    has, needs = amount_pair(reason.have if amount is None else amount, reason.need, reason.unit)
    number, _, unit = has.partition(" ")
    return f"{number} of {needs}" if needs.endswith(f" {unit}") else f"{has} of {needs}"


def amount_text(value: Any, unit: str) -> str:
    """Return an amount with its unit, MiB in the largest unit: ``1.5 TiB``."""
    if unit == "MiB":
        return format_bytes(float(value) * MIB)
    return f"{format_value(value)} {unit}".rstrip()


def amount_pair(one: Any, other: Any, unit: str) -> tuple[str, str]:
    """Return two amounts as texts; different amounts have different texts, exact if necessary."""
    texts = amount_text(one, unit), amount_text(other, unit)
    if one == other or texts[0] != texts[1]:
        return texts
    exact = (f"{value:,.9f}".rstrip("0").rstrip(".") for value in (float(one), float(other)))
    first, second = (f"{text} {unit}".rstrip() for text in exact)
    return first, second


def _elsewhere(reason: Reason) -> str:
    return f" ({notes})" if (notes := _notes(reason)) else ""


def _notes(reason: Reason) -> str:
    notes = []
    if reason.uncounted:
        notes.append(_uncounted(reason, reason.uncounted))
    if reason.podm_have is not None:
        notes.append(f"{amount_text(reason.podm_have, reason.unit)} in all its pools")
    elif reason.instead:
        models = sorted(reason.instead.items(), key=lambda item: (-item[1], item[0]))
        found = ", ".join(f"{count} {short_model(model)}" for model, count in models)
        notes.append(f"free: {found}")
    return "; ".join(notes)


def _uncounted(reason: Reason, found: Uncounted) -> str:
    """Return the uncounted amounts: ``1 of 4 A100 is Critical, 2 are Disabled``."""
    all_of = replace(reason, need=found.installed)
    what = re.sub(r"^GPU (?=\S)", "", reason.label)
    texts = []
    for number, (word, amount) in enumerate(sorted(found.conditions.items())):
        verb = "is" if amount == 1 or reason.unit else "are"
        counted = f"{amount:,}" if number and not reason.unit else f"{share(all_of, amount)} {what}"
        texts.append(f"{counted} {verb} {word}")
    return ", ".join(texts)


def zone_lines(zones: DecisionZones | UnsetType) -> Iterator[str]:
    """Yield a line for the zones without an answer, and one for the zones not queried."""
    if zones and zones.silent:
        yield f"no answer from {_listed(zones.silent)}: a better candidate may be missing"
    if zones and zones.excluded:
        yield f"not queried: {_listed(zones.excluded)}"


def missing_line(silent: Sequence[SilentZone], noun: str) -> str:
    """Return the line about the zones whose claims or nodes a list lacks."""
    whose = "its" if len(silent) == 1 else "their"
    return f"no answer from {_listed(silent)}: the list lacks {whose} {noun}"


def _listed(zones: Sequence[SilentZone]) -> str:
    named = [f"{one.zone} ({one.reason})" for one in zones]
    return f"{format_count(len(zones), 'zone')}: {name_some(named, MOST_SHOWN, '; ', '; and')}"


def format_instant(seconds: float, between: str = "T") -> str:
    """Return a time of the database in UTC; ``between`` separates date and time."""
    try:
        text = datetime.fromtimestamp(seconds, UTC).isoformat(between, "seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g}"
    return text.replace("+00:00", "Z")


def unencrypted_lines(one: Registration | ZoneRegistration) -> Iterator[str]:
    """Yield a warning for each secret that is sent to a pod manager or a zone unencrypted."""
    goes, hint = {"password": one.url}, "it can be read in transit"
    if isinstance(one, ZoneRegistration):
        token_url = one.url if one.auth_url else ""
        goes, hint = {"password": one.auth_url or one.url, "token": token_url}, "name an https URL"
    for what, url in goes.items() if one.password else ():
        if url and is_unencrypted(url):
            yield f"warning: {one.name}: its {what} is sent to {url} unencrypted: {hint}"


DAY_S = 86400.0
MOST_CLAIM_PODMS = 3  # in the line about a claim
MOST_SKIPPED = 3  # claims that are named


def expiry_text(claim: Claim) -> str:
    """Return the end of a claim in UTC, without date if within a day; empty if it has no end."""
    if claim.expires_at is None:
        return ""
    text = format_instant(claim.expires_at)
    return text.partition("T")[2] if claim.expires_at - claim.created_at < DAY_S else text


def held_line(claim: Claim) -> str:
    """Return the resources that a claim holds, their pod managers, and the end of the claim."""
    blocks = sum(part.blocks.total() for part in claim.parts)
    amounts = sum(len(part.amounts) for part in claim.parts)
    what = format_parts(blocks, amounts)
    some = len(claim.podms) > MOST_CLAIM_PODMS
    podms = f"{len(claim.podms):,} pod managers" if some else ", ".join(claim.podms)
    until = "" if claim.expires_at is None else f" until {expiry_text(claim)}"
    return f"claim {claim.id} holds {what or 'nothing'} on {podms}{until}"


def composed_lines(result: ProvisionResult, count: int, by: str = "") -> Iterator[str]:
    """Yield the warnings and failures of composing, then the number of nodes and ``by``."""
    yield from map("warning: {}".format, result.notes)
    yield from map("not composed: {}".format, result.failures)
    for lost in result.unverified:
        yield f"{'still composing' if lost.still_composing else 'not verified'}: {lost.message}"
    composing = len(result.still_composing)
    goes_on = f", {composing} still composing" if composing else ""
    yield f"{len(result.nodes)} of {format_count(count, 'node')} composed{goes_on}{by}"


def skipped_lines(composing: Sequence[Claim]) -> Iterator[str]:
    """Yield the claims whose nodes may still be composed or changed, and so were not reconciled."""
    for claim in composing[:MOST_SKIPPED]:
        doing = "composed" if claim.state == "COMPOSING" else "changed"
        left = f"skipped: claim {claim.id} is being {doing} until {expiry_text(claim)}"
        hint = f"run podm claim renew {claim.id} --ttl 1s, then podm claim reap"
        yield f"{left}: if its command no longer runs, {hint}"
    if (more := len(composing) - MOST_SKIPPED) > 0:
        yield f"skipped: {more:,} more: see podm claim list"


def change_line(result: NodeChangeResult) -> str:
    """Return the outcome of a change of a node that fits: ``1 block attached, power cycled``."""
    node, done = result.node, result.done
    attached = format_parts(len(result.attached), len(result.attached_amounts))
    detached = format_parts(len(result.detached), len(result.detached_amounts))
    changes = [(attached, "attached"), (detached, "detached")]
    if result.no_room:
        changes.reverse()
    texts = [f"{parts} {verb}" for parts, verb in changes if parts]
    texts += ["power cycled"] if result.power_cycled else []
    name = f"node {node.id} on {node.podm}"
    if not texts:
        return f"{name} is unchanged: it is already as requested"
    return f"{name}: {', '.join(texts)}" if done else f"{name} is unchanged: dry run"


def order_line(result: NodeChangeResult) -> str:
    """Return why blocks are detached before others are attached: ``no room: ...``."""
    return f"{'detached' if result.done else 'would detach'} first: {result.no_room}"


def shrink_lines(shrinks: Iterable[NodeShrink]) -> Iterator[str]:
    """Yield a line for each node that loses blocks, so that a plan fits."""
    for one in shrinks:
        taken = f"takes {uri_tails(one.blocks)} from shrinkable node {one.node} on {one.podm}"
        yield f"nothing is free: {taken}"


def check_line(result: NodeChangeResult) -> str:
    """Return whether a pod manager would carry out a change of a node, found by reading it."""
    text = f"would refuse: {result.refusal}" if result.refusal else "would change it"
    return f"{result.node.podm} {text} ({BY_READING})"


BY_READING = "checked by reading: it has no dry run"


def preview_line(answer: Preview) -> str:
    """Return whether a pod manager would compose a node."""
    text = "would compose it"
    if answer.problem is not None:
        text = f"cannot tell: {answer.problem}"
    elif answer.refusal is not None:
        text = f"would refuse: {answer.refusal}"
    note = f" ({BY_READING})" if answer.by_reading else ""
    return f"node {answer.node}: {answer.podm} {text}{note}"


def diagnostic_lines(
    diagnostics: Diagnostics, place: str | None, *, has_named: bool
) -> Iterator[str]:
    """Yield a line for each diagnostic, at most MOST_LINES of a kind.

    Remarks are only counted if ``place`` names the command that lists them. ``has_named``: an error
    has named the skipped document or the unread pod manager, if there is only one.
    """
    unread, skipped = diagnostics.lines("unread"), diagnostics.lines("skipped")
    if has_named and len(skipped) + len(unread) == 1:
        skipped = unread = []
    for word, lines, noun in (
        ("not read", unread, "pod managers"),
        ("skipped", skipped, "documents"),
        ("warning", list(dict.fromkeys(diagnostics.lines("warning"))), "warnings"),
    ):
        yield from (f"{word}: {line}" for line in lines[:MOST_LINES])
        if len(lines) > MOST_LINES:
            yield f"{word}: {len(lines)} {noun} in all; the report lists them"
    remarks = diagnostics.lines("remark")
    if place is None:
        yield from map("remark: {}".format, remarks)
    elif remarks:
        yield f"{format_count(len(remarks), 'remark')} on the inventory: see {place}"
