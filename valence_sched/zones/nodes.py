# SPDX-License-Identifier: Apache-2.0
"""Zone nodes: claims composed in all their zones in parallel, and the nodes of the zones."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.calls import call_all, errors_of
from valence_sched.model import lifecycle
from valence_sched.model.claim import TTL_S, WAIT_S, Claim, State, disabled_error
from valence_sched.model.decision import SilentZone
from valence_sched.model.diagnostic import RECONCILE_HINT
from valence_sched.model.lifecycle import Action, NodeStatus, ProvisionResult, UnverifiedNode
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request
from valence_sched.model.zone import ZoneClaim, ZoneClaimPart, ZoneClaimState, ZonedList
from valence_sched.remote.scheduler import operation_s
from valence_sched.zones import paths
from valence_sched.zones.below import (
    ZoneAnswers,
    ZonesBelow,
    check_nodes,
    in_zone,
    parts_of,
    zone_claim_id,
)
from valence_sched.zones.claims import OWN, Select, ZoneClaimOutcome, ZoneClaims, merged_claim
from valence_sched.zones.selection import Selected

COMPOSED: tuple[State, ...] = ("COMPOSED", "SETTLED")
_UNHELD: tuple[ZoneClaimState, ...] = ("PREPARED", "RELEASING")


@dataclass
class _Composed:
    """The parts of a claim: composed nodes, a zone that is still composing, and held claims."""

    nodes: int = 0
    asked: int = 0
    goes_on: str = ""
    held: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        asked = "" if self.nodes == self.asked else f" {self.asked}"
        return f"found {self.nodes} of its{asked} nodes"


MOST_ROUNDS = 3  # attempts for a request that a zone fails to compose


def provision_below(zone: str, result: ProvisionResult) -> ProvisionResult:
    """Return the result of a zone, without its decision, with the names that its parent uses."""
    return replace(
        result,
        decision=None,
        nodes=tuple(paths.below(zone, node) for node in result.nodes),
        failures=tuple(paths.line_below(zone, line) for line in result.failures),
        unverified=tuple(paths.unverified_below(zone, one) for one in result.unverified),
        notes=tuple(paths.line_below(zone, line) for line in result.notes),
        shrinks=tuple(paths.below(zone, one) for one in result.shrinks),
    )


def _failure_below(zone: str, error: errors.SchedulerError) -> ProvisionResult:
    line = paths.line_below(zone, str(error))
    if isinstance(error, errors.ServiceError | errors.Unverified):  # it may have composed nodes
        text = errors.one_line(f"{line}: its nodes may exist ({RECONCILE_HINT})")
        return ProvisionResult(unverified=(UnverifiedNode(message=text),))
    is_lost = isinstance(error, errors.ClaimLost)
    is_unknown = isinstance(error, errors.BaremetalUnavailable)
    return ProvisionResult(failures=(line,), claim_lost=is_lost, use_unknown=is_unknown)


@dataclass(frozen=True)
class ZoneNodes:
    """The nodes of a zone and the zones below, composed from its claims."""

    claims: ZoneClaims

    @property
    def _below(self) -> ZonesBelow:
        return self.claims.below

    def compose(
        self,
        request: Request,
        select: Select,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        wait_s: float = WAIT_S,
    ) -> tuple[ProvisionResult, Selected | None]:
        """Compose a request, or at least its required nodes; return the result and the decision.

        If too few nodes are composed, they are decomposed, and the request is decided again without
        the failed zones. If the other zones have too few nodes, the failure is returned.
        """
        avoid: tuple[SilentZone, ...] = ()
        notes: list[str] = []
        failed_before: tuple[ProvisionResult, Selected | None] | None = None
        for number in range(1, MOST_ROUNDS + 1):
            try:
                outcome = self.claims.claim(request, select, key=key, ttl_s=ttl_s, avoid=avoid)
            except errors.SchedulerError:
                if failed_before is None:
                    raise
                return failed_before
            if outcome.claim is None:
                return failed_before or (ProvisionResult(), outcome.selected)
            if earlier := self._earlier(outcome):
                return earlier, None
            row = self.claims.rows.get(outcome.claim.id)
            assert row is not None, "it is held"
            if outcome.selected is None:
                self._check_ready(row)
            result, failed = self._compose(row, request.required_count, wait_s)
            failed -= {""} | {one.zone for one in avoid}
            failed_before = replace(result, notes=(*notes, *result.notes)), outcome.selected
            if result.nodes or result.unverified or number == MOST_ROUNDS or not failed:
                return failed_before
            reason = "it did not compose its part"
            avoid += tuple(SilentZone(zone=zone, reason=reason) for zone in sorted(failed))
            zones = ", ".join(sorted(failed))
            notes += [f"{line}: tried without zone {zones}" for line in result.failures]
        raise AssertionError("unreachable")

    def _earlier(self, outcome: ZoneClaimOutcome) -> ProvisionResult | None:
        claim = outcome.claim
        if outcome.selected is not None or claim is None or claim.state == "HELD":
            return None
        if claim.state != "COMPOSED":
            text = f"key {claim.key!r} belongs to claim {claim.id}, which is {claim.state}"
            hint = "wait for it, or run podm claim reap after it expires"
            raise errors.ClaimState(f"{text}: {hint}")
        row = self.claims.rows.get(claim.id)
        nodes = self.claims.claim_record(claim.id).nodes
        failures = []
        for part in row.parts if row is not None else ():
            zones = [paths.split(node.podm, self._below.children)[0] for node in nodes]
            found = zones.count(part.zone)
            if found < len(part.nodes):
                nodes_of = f"{format_count(len(part.nodes), 'node')} of claim {claim.id}"
                line = f"has {found} of {nodes_of}"
                failures.append(paths.line_below(part.zone, line))
        return ProvisionResult(nodes=nodes, failures=tuple(failures))

    def compose_claim(self, claim_id: str, *, wait_s: float = WAIT_S) -> ProvisionResult:
        """Compose all nodes of a claim, or none, in all its zones in parallel."""
        self.claims.rows.expire()
        row = self.claims.rows.get(claim_id)
        if row is not None:
            self._check_ready(row)
            return self._compose(row, sum(len(part.nodes) for part in row.parts), wait_s)[0]
        zone, part, rest = self._below.find(claim_id)
        return provision_below(zone, part.compose_claim(rest, wait_s=wait_s))

    def _compose(
        self, row: ZoneClaim, required: int, wait_s: float
    ) -> tuple[ProvisionResult, set[str]]:
        deadline_s = operation_s(wait_s)
        if not self.claims.rows.change(row.id, ["HELD"], "COMPOSING", ttl_s=deadline_s):
            current = self.claims.rows.get(row.id) or row
            text = f"claim {row.id} is {current.state}: only a held claim can be composed"
            raise errors.ClaimState(text)
        unsure = f"is COMPOSING in {', '.join(part.zone or 'this zone' for part in row.parts)}"
        self.claims.effects.note("claim", row.id, f"{unsure}: {RECONCILE_HINT}")

        def compose(part: ZoneClaimPart) -> ProvisionResult:
            found = self._below.part(part.zone).compose_claim(part.claim, wait_s=wait_s)
            least = 0 if found.failures or found.unverified else len(part.nodes)
            check_nodes(len(found.nodes) + len(found.still_composing), len(part.nodes), least)
            return provision_below(part.zone, found)

        answers = call_all(compose, {part.zone: part for part in row.parts}, deadline_s)
        results = {
            zone: answer if isinstance(answer, ProvisionResult) else _failure_below(zone, answer)
            for zone, answer in answers.items()
        }
        result = lifecycle.added_results(results.values())
        for node in result.nodes:
            self.claims.effects.note("node", node.id, f"is composed on {node.podm}: {node.uri}")
        if len(result.nodes) + len(result.still_composing) < required:
            result = self._take_apart(result, wait_s)
        self._note_end(row, result)
        return result, {zone for zone, one in results.items() if one.failures}

    def _check_ready(self, row: ZoneClaim) -> None:
        if row.state != "HELD":
            return
        podms: list[str] = []
        for zone, answer in self.claims.records(row).items():
            if not isinstance(answer, errors.SchedulerError):
                podms += [paths.path(zone, name) for one in answer for name in one.claim.podms]
            elif zone and not isinstance(answer, errors.UnknownName):
                text = f"{paths.line_below(zone, str(answer))}: no node was composed"
                raise errors.Unverified(f"{text}, and claim {row.id} stays held")

        def is_enabled(podm: str) -> bool:
            _, part, name = self._below.find(podm)
            return part.podm(name).podm.enabled

        answers = call_all(is_enabled, {podm: podm for podm in podms}, self._below.deadline_s)
        for podm, enabled in answers.items():
            if enabled is False:
                zone, _, name = self._below.find(podm)
                raise disabled_error(row.id, name, zone)

    def _note_end(self, row: ZoneClaim, result: ProvisionResult) -> None:
        rows = self.claims.rows
        if result.unverified:
            rows.change(
                row.id, ["COMPOSING"], "COMPOSING", ttl_s=0.0, note="some nodes are unverified"
            )
            return
        if result.nodes:
            rows.change(row.id, ["COMPOSING"], "COMPOSED")
        else:
            # a zone that has not started still holds its part; other parts expire
            self._below.release(row)
            rows.change(row.id, ["COMPOSING"], "FAILED", note="no node was composed")
        self.claims.effects.forget("claim", row.id)

    def _take_apart(self, result: ProvisionResult, wait_s: float) -> ProvisionResult:
        def delete(node_id: str) -> None:
            _, part, rest = self._below.find(node_id)
            for error in part.delete_nodes([rest], wait_s=wait_s):
                raise error

        ids = {node.id: node.id for node in result.nodes}
        failed = errors_of(call_all(delete, ids, operation_s(wait_s)))
        failures, unverified = [*result.failures], [*result.unverified]
        for node in result.nodes:
            if (error := failed.get(node.id)) is None:
                self.claims.effects.forget("node", node.id)
                gone = f"{node.podm}: {node.uri} decomposed: too few nodes were composed"
                failures.append(gone)
                continue
            stays = f"{node.podm}: {node.uri} stays, although too few nodes were composed"
            text = errors.one_line(f"{stays}: {error} (podm node delete)")
            unverified.append(UnverifiedNode(message=text))
        return replace(result, nodes=(), failures=tuple(failures), unverified=tuple(unverified))

    def nodes(
        self, *, podm: str | None = None, owner: str | None = None, live: bool = False
    ) -> ZonedList[NodeStatus]:
        if podm is not None:
            zone, part, rest = self._below.find_podm(podm)
            found = ZoneAnswers({zone: part.nodes(podm=rest, owner=owner, live=live)}, ())
        else:
            found = self._below.records(lambda zone: zone.nodes(owner=owner, live=live))
        nodes = (paths.below(zone, one) for zone, some in found.by_zone.items() for one in some)
        return ZonedList(nodes, found.silent)

    def delete_nodes(
        self, node_ids: Sequence[str], *, wait_s: float = WAIT_S
    ) -> Iterator[errors.SchedulerError]:
        def delete(node_id: str) -> None:
            zone, part, rest = self._below.find(node_id)
            unsure, done = f"may be gone: {RECONCILE_HINT}", "is deleted"
            with self.claims.effects.change("node", node_id, unsure, done):
                for error in part.delete_nodes([rest], wait_s=wait_s):
                    raise in_zone(zone, error)

        yield from errors.each_error(delete, node_ids)
        self.settle()

    def reap(self, *, dry_run: bool = False) -> Iterator[Action]:
        if not dry_run:
            self.claims.rows.expire()
        for row in self.claims.rows.due():
            zones = ", ".join(part.zone or OWN for part in row.parts)
            done = self._planned(row) if dry_run else self._end(row)
            yield Action(kind="claim", id=row.id, podm=zones, done=errors.one_line(done, 200))
        if not dry_run:
            self.settle()

    def composing(self, own: Iterable[Claim], reaped: Container[str]) -> tuple[Claim, ...]:
        """Return the claims that are being composed, without ``own`` parts of zone claims."""
        rows = {row.id: row for row in self.claims.rows.list()}
        going_on = (row for row in rows.values() if row.state == "COMPOSING")
        found = [merged_claim(row, {}) for row in going_on if row.id not in reaped]
        found += [claim for claim in own if zone_claim_id(claim) not in rows]
        return tuple(sorted(found, key=lambda claim: claim.created_at))

    def settle(self) -> None:
        """End the composed claims that have no nodes left, if all their zones answer."""
        rows = self.claims.rows.list(("COMPOSED",))
        if not rows:
            return
        found, silent = self._below.records(lambda zone: zone.claims())
        whole = found.keys() - {one.zone for one in silent}
        for row in rows:
            zones = {part.zone for part in row.parts}
            if zones <= whole and not any(parts_of(row, found[zone]) for zone in zones):
                self.claims.rows.change(row.id, ["COMPOSED"], "RELEASED", note="its nodes are gone")

    def _planned(self, row: ZoneClaim) -> str:
        end = "would be ended in these zones"
        if row.state != "COMPOSING":
            return end
        try:
            found = self._composed(row)
        except errors.SchedulerError as error:
            return f"would stay unchanged: {error}"
        if found.goes_on:
            return f"would stay unchanged: {found.goes_on}"
        return f"would be composed: {found.text}" if found.nodes else end

    def _end(self, row: ZoneClaim) -> str:
        try:
            if row.state == "COMPOSING":
                return self._find_composed(row)
            if not self.claims.rows.change(row.id, _UNHELD, "RELEASING", ttl_s=0.0, note=row.note):
                return "unchanged: another process changes it"
            for zone, error in self._below.release(row).items():
                return f"unchanged: {paths.line_below(zone, str(error))}"
        except errors.SchedulerError as error:
            return f"unchanged: {error}"
        note = row.note or "not composed in time"
        self.claims.rows.change(row.id, ["RELEASING"], "FAILED", note=note)
        return f"freed its holds: {note}"

    def _find_composed(self, row: ZoneClaim) -> str:
        found = self._composed(row)
        if found.goes_on:
            return f"unchanged: {found.goes_on}"
        for zone, claim in found.held:
            for error in self._below.part(zone).release([claim]):
                raise error
        if found.nodes:
            note = row.note if found.nodes == found.asked else found.text
            self.claims.rows.change(row.id, ["COMPOSING"], "COMPOSED", note=note)
            return f"composed: {found.text}"
        self.claims.rows.change(row.id, ["COMPOSING"], "FAILED", note="no node was composed")
        return "freed its holds: no node was composed"

    def _composed(self, row: ZoneClaim) -> _Composed:
        found = _Composed(asked=sum(len(part.nodes) for part in row.parts))
        for part in row.parts:
            with errors.errors_at(f"zone {part.zone}" if part.zone else None):
                claims = self._below.claims_of(part, row)
            for claim in claims:
                if claim.state in COMPOSED:
                    found.nodes += claim.nodes
                elif claim.state == "COMPOSING":
                    found.goes_on = f"{part.zone or OWN} is still composing claim {claim.id}"
                else:
                    found.held.append((part.zone, claim.id))
        return found
