# SPDX-License-Identifier: Apache-2.0
"""Zone claims: offers of several zones, held together as one claim or not at all.

::

    PREPARED ── each zone holds its part for a short time ──> each renews it ──> HELD
        │                                                                          │
        └── one refuses or does not answer: the others release ──> FAILED          v
                                                      RELEASED, EXPIRED <── COMPOSED
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.calls import DEADLINE_SHARE, call_all, errors_of
from valence_sched.model import zone as nouns
from valence_sched.model.claim import TTL_S, Claim, NodeAllocation
from valence_sched.model.decision import Candidate, Report, SilentZone
from valence_sched.model.diagnostic import EffectLog, held_state, unsure_state
from valence_sched.model.lifecycle import ClaimRecord
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request, asked_content
from valence_sched.store.zones import ZoneClaimRows
from valence_sched.zones import paths
from valence_sched.zones.below import ZonesBelow, check_nodes, in_zone, parts_of, zone_claim_id
from valence_sched.zones.selection import Selected
from valence_sched.zones.tokens import OwnToken, Tokens

PREPARE_TTL_S = 60.0  # a part waits this long for the other zones
MOST_ATTEMPTS = 8
MOST_LOSSES = 2  # number of lost parts of one zone after which other zones are preferred
MOST_ID = 255  # characters of a zone's claim ID
MOST_CONTENDED = 64  # the limit of attempts lost to claims of the same group
LONGEST_PAUSE_S = 1.0
OWN = "this zone"  # the name in messages of the zone's own pod managers

#: Errors that a new decision may avoid: a lost part, or no answer from a zone.
_AVOIDABLE = (errors.ClaimLost, errors.StaleOffer, errors.ServiceError, errors.ServiceBusy)


class PartLost(errors.ClaimLost):
    """A claim that zones did not hold completely, with the error of each such child."""

    def __init__(self, text: str, by_zone: Mapping[str, errors.SchedulerError]) -> None:
        super().__init__(text)
        self.errors = {zone: error for zone, error in by_zone.items() if zone}

    @property
    def refusal(self) -> errors.SchedulerError | None:
        """Return the error of a child that would occur again in a retry, if any."""
        for zone, error in self.errors.items():
            if not isinstance(error, _AVOIDABLE):
                return in_zone(zone, error)
        return None


class ZoneClaimOutcome(NamedTuple):
    """The claim of a request, None if no node fits; ``selected`` is None for an earlier claim."""

    claim: Claim | None
    selected: Selected | None
    retries: int


#: Selects the nodes of a request without some zones.
Select = Callable[[Request, Sequence[SilentZone]], Selected]


@dataclass
class _Share:
    """The offers for one zone to hold, in the order of the node ``numbers``."""

    numbers: list[int] = field(default_factory=list)
    tokens: list[nouns.Token] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    places: list[nouns.DomainValues] = field(default_factory=list)
    generations: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class ZoneClaims:
    """The claims of one zone over the zones ``below`` it; ``id`` and ``tokens`` are of its tree."""

    id: str
    tokens: Tokens
    below: ZonesBelow
    rows: ZoneClaimRows
    effects: EffectLog = field(default_factory=EffectLog)
    prepare_ttl_s: float = PREPARE_TTL_S
    most_attempts: int = MOST_ATTEMPTS
    pause: Callable[[float], object] = time.sleep

    def claim(
        self,
        request: Request,
        select: Select,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        avoid: Sequence[SilentZone] = (),
        dispatches: bool = False,
    ) -> ZoneClaimOutcome:
        """Decide, and hold the chosen offers; if a zone lost its part, decide again.

        Zones to ``avoid`` and failing zones are left out. Zones that lost their part twice are left
        out if the other zones have enough nodes. ClaimLost: a part was lost in every attempt.
        SchedulerError: a zone refuses, and the others have too few nodes.
        """
        content = asked_content(request).decode()
        lost_parts = contended = 0
        losses, refusal = Counter[str](), None
        while lost_parts < self.most_attempts and contended < MOST_CONTENDED:
            lost: errors.ClaimLost | errors.StaleOffer
            retries = lost_parts + contended
            if key and (earlier := self.rows.find_by_key(request.owner, key, content)):
                return ZoneClaimOutcome(self.claim_record(earlier.id).claim, None, retries)
            losing = [
                SilentZone(zone=zone, reason=f"it lost the race for its part {number} times")
                for zone, number in losses.items()
                if number >= MOST_LOSSES
            ]
            selected = select(request, (*avoid, *losing))
            if losing and len(selected.nodes) < request.required_count:
                selected = select(request, avoid)
            if not selected.nodes or len(selected.nodes) < request.required_count:
                if refusal is not None:
                    raise refusal
                return ZoneClaimOutcome(None, selected, retries)
            body = nouns.ZoneClaimBody(
                request=request,
                tokens=tuple(node.chosen.token for node in selected.nodes),
                ttl_s=ttl_s,
                content=content,
                deadline_s=self.below.deadline_s,
            )
            explain = selected.explain if dispatches else None
            dispatched = explain().report if explain is not None else None
            try:
                return ZoneClaimOutcome(self._hold(body, key, dispatched), selected, retries)
            except PartLost as error:
                lost = error
                refusal = refusal or error.refusal
                for zone, one in error.errors.items():
                    if isinstance(one, errors.ClaimLost | errors.StaleOffer):
                        losses[zone] += 1
                    elif not isinstance(one, errors.ServiceBusy):
                        avoid = (*avoid, SilentZone(zone=zone, reason=errors.one_line(str(one))))
            except (errors.ClaimLost, errors.StaleOffer) as error:
                lost = error
            of_group = bool(getattr(lost, "group", ""))
            lost_parts, contended = lost_parts + (not of_group), contended + of_group
            longest_s = min(LONGEST_PAUSE_S, 0.01 * 2**retries)
            self.pause(longest_s * random.random())  # noqa: S311 - the pause needs no secret
        races = lost_parts + contended
        raise errors.ClaimLost(f"lost {races} consecutive races, the last one: {lost}")

    def hold_offers(self, body: nouns.ZoneClaimBody, *, key: str | None = None) -> Claim:
        """Hold all offers of this zone, in the order of the nodes, or none."""
        if self.id in body.route:
            raise errors.SchedulerError("the zones form a cycle: a zone is below itself")
        if not self.below.children:
            return self._hold_own(body, self._shares(body), key, body.ttl_s)
        try:
            return self._hold(body, key)
        except PartLost as error:
            raise error.refusal or error from None

    def _hold(
        self, body: nouns.ZoneClaimBody, key: str | None, dispatched: Report | None = None
    ) -> Claim:
        shares, request = self._shares(body), body.request
        if not body.hops and set(shares) != {""}:
            raise errors.SchedulerError("the zones below are nested too deeply to be queried")
        parts = [
            nouns.ZoneClaimPart(zone=zone, nodes=tuple(one.numbers), places=tuple(one.places))
            for zone, one in shares.items()
        ]
        row, is_new = self.rows.begin(
            parts,
            owner=request.owner,
            group=request.group.name if request.group else None,
            key=key,
            content=body.content or "\n".join((asked_content(request).decode(), *body.tokens)),
            ttl_s=self.prepare_ttl_s,
            generation=_generation(shares),
        )
        if not is_new:
            return self.claim_record(row.id).claim
        where = ", ".join(zone or OWN for zone in shares)
        unsure = unsure_state(f"held in {where}", row.id)
        with self.effects.change("claim", row.id, unsure, held_state(row.id)):
            return self._prepare(row, body, shares, dispatched)

    def _prepare(
        self,
        row: nouns.ZoneClaim,
        body: nouns.ZoneClaimBody,
        shares: Mapping[str, _Share],
        dispatched: Report | None,
    ) -> Claim:
        """Let each zone hold its part for a short time, then extend all holds to the full time."""
        alone = len(shares) == 1
        ttl_s = body.ttl_s if alone else min(body.ttl_s, self.prepare_ttl_s)

        def hold(zone: str) -> Claim:
            share = shares[zone]
            request = paths.request_for(zone, body.request, self.below.children)
            asked = replace(body, request=request)
            if not zone:
                return self._hold_own(asked, shares, row.id, ttl_s)
            lower = replace(
                asked,
                tokens=tuple(share.tokens),
                ttl_s=ttl_s,
                route=(*body.route, self.id),
                hops=body.hops - 1,
                deadline_s=body.deadline_s * DEADLINE_SHARE,
            )
            claim = self.below.child(zone).hold_offers(lower, key=row.id)
            check_nodes(claim.nodes, len(share.tokens), len(share.tokens))
            if not 0 < len(claim.id) <= MOST_ID:
                length = format_count(len(claim.id), "character")
                raise errors.ServiceError(f"its claim ID has {length}, at most {MOST_ID} allowed")
            return claim

        deadline_s = min(self.below.deadline_s, body.deadline_s)
        answers: Mapping[str, Claim | errors.SchedulerError]
        answers = call_all(hold, {zone: zone for zone in shares}, deadline_s)
        claims = {zone: one for zone, one in answers.items() if isinstance(one, Claim)}
        ids = {zone: claim.id for zone, claim in claims.items()}
        parts = [replace(part, claim=ids.get(part.zone, "")) for part in row.parts]
        self._check_answers(row, parts, answers)
        if not alone and self.rows.change(
            row.id, ["PREPARED"], "PREPARED", parts=parts, ttl_s=self.prepare_ttl_s
        ):
            self._check_answers(row, parts, self._renewed(parts, body.ttl_s))
        held = self.rows.change(
            row.id, ["PREPARED"], "HELD", parts=parts, ttl_s=body.ttl_s, dispatched=dispatched
        )
        if held is None:
            self._abandon(row, parts)
            raise errors.ClaimLost(f"claim {row.id} took too long to prepare")
        return merged_claim(held, {zone: [claim] for zone, claim in claims.items()})

    def _hold_own(
        self, body: nouns.ZoneClaimBody, shares: Mapping[str, _Share], key: str | None, ttl_s: float
    ) -> Claim:
        return self.below.own.claim_candidates(
            body.request,
            shares[""].candidates,
            key=key,
            ttl_s=ttl_s,
            content=body.content,
            generation=_generation(shares),
        )

    def _check_answers(
        self,
        row: nouns.ZoneClaim,
        parts: Sequence[nouns.ZoneClaimPart],
        answers: Mapping[str, Claim | errors.SchedulerError],
    ) -> None:
        """If a zone answered with an error, abandon the claim and raise the error."""
        refusals = errors_of(answers)
        if not refusals:
            return
        # a zone that refuses has no hold; a zone that fails or is silent may hold its part
        unsure = {zone for zone, error in refusals.items() if error.http_status >= 500}
        self._abandon(row, [part for part in parts if part.claim or part.zone in unsure])
        own = refusals.get("")
        if own is not None and not isinstance(own, _AVOIDABLE):
            raise own
        lines = (paths.line_below(zone, str(error)) for zone, error in refusals.items())
        raise PartLost("; ".join(lines), refusals)

    def _abandon(self, row: nouns.ZoneClaim, parts: Sequence[nouns.ZoneClaimPart]) -> None:
        """Release the parts of a claim that is not held; parts in silent zones expire."""
        note = "some parts could not be claimed"
        changed = self.rows.change(
            row.id, ["PREPARED"], "RELEASING", parts=parts, ttl_s=0.0, note=note
        )
        known = tuple(part for part in parts if part.claim)
        refusals = self.below.release(replace(row, parts=known))
        if changed and not refusals and known == tuple(parts):
            self.rows.change(row.id, ["RELEASING"], "FAILED", note=note)

    def claims(
        self, *, podm: str | None = None, owner: str | None = None, ended: bool = False
    ) -> nouns.ZonedList[Claim]:
        """List claims by path; a part of a zone claim appears only within that claim."""
        if podm is not None:
            zone, _, name = self.below.find_podm(podm)
            podm = paths.path(zone, name)
        self.rows.expire()
        states = (*nouns.LIVE_STATES, *nouns.ENDED_STATES) if ended else nouns.LIVE_STATES
        found, silent = self.below.records(lambda zone: zone.claims(owner=owner, ended=ended))
        rows = self.rows.list(states, owner)
        ids = {row.id for row in rows}
        claims = [
            merged_claim(row, {zone: parts_of(row, below) for zone, below in found.items()})
            for row in rows
        ]
        claims += [
            paths.below(zone, claim)
            for zone, below in found.items()
            for claim in below
            if zone_claim_id(claim) not in ids
        ]
        claims.sort(key=lambda claim: claim.created_at)
        wanted = (claim for claim in claims if podm is None or podm in claim.podms)
        return nouns.ZonedList(wanted, silent)

    def claim_record(self, claim_id: str) -> ClaimRecord:
        self.rows.expire()
        row = self.rows.get(claim_id)
        if row is None:
            zone, part, rest = self.below.find(claim_id)
            return paths.below(zone, part.claim_record(rest))
        below: dict[str, list[Claim]] = {}
        records, lines = [], [row.note] if row.note else []
        for zone, answer in self.records(row).items():
            if isinstance(answer, errors.SchedulerError):
                lines.append(paths.line_below(zone, str(answer)))
                continue
            below[zone] = [one.claim for one in answer]
            records += [paths.below(zone, one) for one in answer]
        merged = merged_claim(replace(row, note=errors.one_line("; ".join(lines)) or None), below)
        events = sorted((event for one in records for event in one.events), key=lambda one: one.at)
        nodes = tuple(node for one in records for node in one.nodes)
        return ClaimRecord(claim=merged, nodes=nodes, events=tuple(events))

    def records(self, row: nouns.ZoneClaim) -> dict[str, list[ClaimRecord] | errors.SchedulerError]:
        def of_part(part: nouns.ZoneClaimPart) -> list[ClaimRecord]:
            zone = self.below.part(part.zone)
            found = [zone.claim_record(claim.id) for claim in self.below.claims_of(part, row)]
            check_nodes(sum(one.claim.nodes for one in found), len(part.nodes))
            check_nodes(sum(len(one.nodes) for one in found), len(part.nodes))
            return found

        return call_all(of_part, {part.zone: part for part in row.parts}, self.below.deadline_s)

    def renew(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        self.rows.expire()
        row = self.rows.get(claim_id)
        if row is None:
            zone, part, rest = self.below.find(claim_id)
            return paths.below(zone, part.renew(rest, ttl_s))
        if row.state != "HELD":
            text = f"claim {claim_id} is {row.state}: only a held claim can be renewed"
            raise errors.ClaimState(text)
        below: dict[str, list[Claim]] = {}
        for zone, answer in self._renewed(row.parts, ttl_s).items():
            if isinstance(answer, errors.SchedulerError):
                raise in_zone(zone, answer)
            below[zone] = [answer]
        held = self.rows.change(claim_id, ["HELD"], "HELD", ttl_s=ttl_s)
        if held is None:
            raise errors.ClaimState(f"claim {claim_id} is no longer held: claim again")
        return merged_claim(held, below)

    def _renewed(
        self, parts: Sequence[nouns.ZoneClaimPart], ttl_s: float
    ) -> Mapping[str, Claim | errors.SchedulerError]:
        def renew(part: nouns.ZoneClaimPart) -> Claim:
            claim = self.below.part(part.zone).renew(part.claim, ttl_s)
            check_nodes(claim.nodes, len(part.nodes))
            return claim

        return call_all(renew, {part.zone: part for part in parts}, self.below.deadline_s)

    def release(self, claim_ids: Sequence[str]) -> Iterator[errors.SchedulerError]:
        """Release claims; a part in a silent zone expires, or ends when claims are reconciled."""
        for claim_id in dict.fromkeys(claim_ids):
            try:
                row = self.rows.get(claim_id)
                if row is not None:
                    yield from self._release(row)
                    continue
                zone, part, rest = self.below.find(claim_id)
                for error in part.release([rest]):
                    yield in_zone(zone, error)
            except errors.SchedulerError as error:
                yield error

    def _release(self, row: nouns.ZoneClaim) -> list[errors.SchedulerError]:
        if row.state in nouns.ENDED_STATES:
            return []
        if row.state == "COMPOSING":
            text = f"claim {row.id} is COMPOSING: its nodes may exist"
            raise errors.ClaimState(f"{text}: reap the claim after it expires")
        before: tuple[nouns.ZoneClaimState, ...] = ("PREPARED", "HELD", "RELEASING")
        if row.state != "COMPOSED" and not self.rows.change(
            row.id, before, "RELEASING", ttl_s=0.0, note=row.note
        ):
            text = f"claim {row.id} is being changed by another process: try again"
            raise errors.ClaimState(text)
        unsure = unsure_state("released in part", row.id)
        refusals: list[errors.SchedulerError] = []
        try:
            with self.effects.change("claim", row.id, unsure, "is released"):
                refusals = [in_zone(*one) for one in self.below.release(row).items()]
                for error in refusals:
                    raise error
                self.rows.change(row.id, ["COMPOSED", "RELEASING"], "RELEASED")
        except errors.SchedulerError:
            if not refusals:
                raise
        return refusals

    def _shares(self, body: nouns.ZoneClaimBody) -> dict[str, _Share]:
        shares: dict[str, _Share] = {}
        for number, token in enumerate(body.tokens, 1):
            content = self.tokens.read(token)
            zone = "" if isinstance(content, OwnToken) else content.child
            share = shares.setdefault(zone, _Share())
            share.numbers.append(number)
            if content.generation is not None:
                share.generations.add(content.generation)
            if isinstance(content, OwnToken):
                share.candidates.append(content.candidate)
            elif zone in self.below.children:
                share.tokens.append(content.token)
                if content.place:  # only the zone itself stores the pod manager
                    place = {domain: some for domain, some in content.place.items() if some}
                    share.places.append({**place, "podm": (f"{zone}/",)})
            else:
                raise errors.StaleOffer(f"zone {zone!r} is no longer a child zone: try again")
        return shares


def _generation(shares: Mapping[str, _Share]) -> int | None:
    return min((one for share in shares.values() for one in share.generations), default=None)


def merged_claim(row: nouns.ZoneClaim, below: Mapping[str, Sequence[Claim]]) -> Claim:
    def renumbered(share: NodeAllocation, numbers: Sequence[int]) -> NodeAllocation:
        return replace(share, node=numbers[share.node - 1]) if share.node <= len(numbers) else share

    parts = [
        replace(lower, shares=tuple(renumbered(share, part.nodes) for share in lower.shares))
        for part in row.parts
        for claim in below.get(part.zone, ())
        for lower in paths.below(part.zone, claim).parts
    ]
    return Claim(
        id=row.id,
        state="HELD" if row.state == "RELEASING" else row.state,
        owner=row.owner,
        group=row.group,
        key=row.key,
        content=row.content,
        created_at=row.created_at,
        expires_at=row.expires_at,
        note=row.note,
        parts=tuple(sorted(parts, key=lambda part: part.podm)),
    )
