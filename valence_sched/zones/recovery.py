# SPDX-License-Identifier: Apache-2.0
"""Recovery: ends claims over several zones that were begun and not ended, as the zones say.

What a zone holds ends by itself; here its claims above it follow, and what was composed is found.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from valence_sched.errors import SchedulerError, errors_at, one_line
from valence_sched.model.claim import Claim, State
from valence_sched.model.lifecycle import Action
from valence_sched.model.zone_claim import ZoneClaim, ZoneClaimState
from valence_sched.zones import paths
from valence_sched.zones.below import ZonesBelow, parts_of, zone_claim_id
from valence_sched.zones.claims import OWN, ZoneClaimStore, merged_claim

COMPOSED: tuple[State, ...] = ("COMPOSED", "SETTLED")
_UNHELD: tuple[ZoneClaimState, ...] = ("PREPARED", "RELEASING")


@dataclass
class _Composed:
    """What became of the parts of a claim: nodes, who still composes, and claims without nodes."""

    nodes: int = 0
    asked: int = 0
    goes_on: str = ""
    held: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        if self.nodes == self.asked:
            return f"found {self.nodes} of its nodes"
        return f"found {self.nodes} of its {self.asked} nodes"


@dataclass(frozen=True)
class ZoneClaimRecovery:
    """Recovers the claims of one zone over what is directly below it."""

    below: ZonesBelow
    rows: ZoneClaimStore

    def reap(self, *, dry_run: bool = False) -> Iterator[Action]:
        """Yield what was done about each claim whose time is over, or that it would be ended."""
        if not dry_run:
            self.rows.expire()
        for row in self.rows.due():
            zones = ", ".join(part.zone or OWN for part in row.parts)
            done = self._planned(row) if dry_run else self._end(row)
            yield Action(kind="claim", id=row.id, podm=zones, done=one_line(done, 200))
        if not dry_run:
            self.settle()

    def composing(self, own: Iterable[Claim], reaped: Container[str]) -> tuple[Claim, ...]:
        """Return the claims that are being composed and were not ``reaped``, the oldest first.

        Those that are this zone's ``own`` stand in a claim of several zones where one has them.
        """
        rows = {row.id: row for row in self.rows.list()}
        found = [merged_claim(row, {}) for row in rows.values()
                 if row.state == "COMPOSING" and row.id not in reaped]  # fmt: skip
        found += [claim for claim in own if zone_claim_id(claim) not in rows]
        return tuple(sorted(found, key=lambda claim: claim.created_at))

    def settle(self) -> None:
        """End claims whose nodes are all gone, as far as their zones answer."""
        rows = self.rows.list(("COMPOSED",))
        if not rows:
            return
        found, silent = self.below.ask(lambda zone: zone.claims())
        whole = found.keys() - {one.zone for one in silent}
        for row in rows:
            zones = {part.zone for part in row.parts}
            if zones <= whole and not any(parts_of(row, found[zone]) for zone in zones):
                self.rows.change(row.id, ["COMPOSED"], "RELEASED", note="its nodes are gone")

    def _end(self, row: ZoneClaim) -> str:
        try:
            if row.state == "COMPOSING":
                return self._find_composed(row)
            if not self.rows.change(row.id, _UNHELD, "RELEASING", ttl_s=0.0, note=row.note):
                return "left as it is: another process changes it"
            for zone, error in self.below.release(row).items():
                return f"left as it is: {paths.line_below(zone, str(error))}"
        except SchedulerError as error:
            return f"left as it is: {error}"
        note = row.note or "nobody went on with it"
        self.rows.change(row.id, ["RELEASING"], "FAILED", note=note)
        return f"freed what it held: {note}"

    def _planned(self, row: ZoneClaim) -> str:
        """Return what would be done about a claim whose time is over."""
        if row.state == "COMPOSING":
            try:
                found = self._composed(row)
            except SchedulerError as error:
                return f"would be left as it is: {error}"
            if found.goes_on:
                return f"would be left as it is: {found.goes_on}"
            if found.nodes:
                return f"would be composed: {found.text}"
        return "would be ended in these zones"

    def _find_composed(self, row: ZoneClaim) -> str:
        """End a claim whose composition nobody saw the end of, as its zones say."""
        found = self._composed(row)
        if found.goes_on:
            return f"left as it is: {found.goes_on}"
        for zone, claim in found.held:
            for error in self.below.part(zone).release([claim]):
                raise error
        if found.nodes:
            note = row.note if found.nodes == found.asked else found.text
            self.rows.change(row.id, ["COMPOSING"], "COMPOSED", note=note)
            return f"composed: {found.text}"
        self.rows.change(row.id, ["COMPOSING"], "FAILED", note="nothing was composed")
        return "freed what it held: nothing was composed"

    def _composed(self, row: ZoneClaim) -> _Composed:
        """Ask the zones of a claim what became of its parts."""
        found = _Composed(asked=sum(len(part.nodes) for part in row.parts))
        for part in row.parts:
            with errors_at(f"zone {part.zone}" if part.zone else None):
                claims = self.below.claims_of(part, row)
            for claim in claims:
                if claim.state in COMPOSED:
                    found.nodes += claim.nodes
                elif claim.state == "COMPOSING":
                    found.goes_on = f"{part.zone or OWN} goes on with claim {claim.id}"
                else:
                    found.held.append((part.zone, claim.id))
        return found
