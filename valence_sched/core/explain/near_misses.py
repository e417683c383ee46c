# SPDX-License-Identifier: Apache-2.0
"""The pod managers that nearly take a node: what each lacks, and which node stands in the way.

Nothing is guessed: a node's blocks are given back on a private copy of its pod manager, which is
judged again and asked for a fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from valence_sched.core.decision import Decision
from valence_sched.core.evaluate import reevaluate
from valence_sched.core.evaluation import INFINITE_COST
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.model.explanation import NearMiss, NodeRemoval, Shortfall
from valence_sched.model.inventory import Node
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import Floats, Mask

MOST_PODMS = 8  # pod managers looked at closely, of each sort
MOST_NODES = 64  # nodes of each that are freed for a try
MOST_FITS = 20_000  # pools asked whether they make the node


@dataclass(slots=True)
class NearMissSearch:
    """Looks for near misses in what a decision left behind; ``notes`` say where it stopped."""

    decision: Decision
    notes: list[str] = field(default_factory=list)
    _fits: int = 0

    def run(self) -> tuple[NearMiss, ...]:
        """Return the near misses: those that one node's going mends first, then by nearness."""
        hardware = list(self._by_hardware())
        hardware.sort(key=lambda miss: miss.freeing is None)  # stable: else in order of nearness
        if self._fits >= MOST_FITS:
            self.notes.append(f"near misses: the fit of only {MOST_FITS:,} pools was tried")
        return (*hardware, *self._by_policy())

    def _by_hardware(self) -> Iterator[NearMiss]:
        """Yield the nearest of those that only free hardware keeps from taking the node."""
        rows = np.flatnonzero(self._passes_fixed_filters())
        if not len(rows):
            return
        lacks = self._missing_share()[rows]
        podms = self.decision.view.podm_of[rows]
        order = np.lexsort((rows, lacks))
        seen = self._chosen_podms()
        found = 0
        for index in order.tolist():
            podm, row = int(podms[index]), int(rows[index])
            if podm in seen:
                continue
            seen.add(podm)
            if self._takes_node(podm):
                continue
            yield self._near_miss(podm, row)
            found += 1
            if found == MOST_PODMS:
                return

    def _by_policy(self) -> Iterator[NearMiss]:
        """Yield those that would take the node but for one filter that hardware cannot mend."""
        judgement, view = self.decision.batch.evaluation, self.decision.batch.view
        seen = self._chosen_podms()
        found = 0
        for row in np.flatnonzero((~judgement.verdicts).sum(axis=0) == 1).tolist():
            podm = int(view.podm_of[row])
            name = self.decision.context.bound.filters[
                int(judgement.verdicts[:, row].argmin())
            ].name
            if (
                podm in seen
                or name in judgement.availability_readers | judgement.failed_plugins
                or self._takes_node(podm)
            ):
                continue
            if self._fits >= MOST_FITS:
                return
            self._fits += 1
            if self.decision.context.fitter.fit(view, row) is None:
                continue
            seen.add(podm)
            yield NearMiss(podm=view.podms[podm].id, pool=view.pools[row].id, kind="word",
                       lacks=self._lacks(row))  # fmt: skip
            found += 1
            if found == MOST_PODMS:
                return

    def _chosen_podms(self) -> set[int]:
        """Return the podms that were chosen where nothing is lacking: they miss nothing."""
        return set(self.decision.chosen_podms() if self.decision.outcome == "placed" else ())

    def _passes_fixed_filters(self) -> Mask:
        """Return per row whether all filters keep it that do not look at what is free."""
        judgement = self.decision.batch.evaluation
        kept = np.ones(len(self.decision.view), dtype=bool)
        for filter_, verdict in zip(self.decision.context.bound.filters, judgement.verdicts,
                                    strict=True):  # fmt: skip
            if (
                filter_.name not in judgement.availability_readers
                or filter_.name in judgement.failed_plugins
            ):
                kept &= verdict
        return kept

    def _missing_share(self) -> Floats:
        """Return per row what is missing: the sum over the needs of the missing parts, 0..1."""
        view = self.decision.batch.view
        missing = np.zeros(len(view))
        for need in self.decision.context.request.needs:
            asked = need.amount * need.count
            if asked:
                missing += np.clip(1.0 - view.free(need) / asked, 0.0, 1.0)
        return missing

    def _takes_node(self, podm: int) -> bool:
        """Return whether a podm takes the next node, or is not known not to."""
        view, cost = self.decision.batch.view, self.decision.batch.evaluation.cost
        first, last = int(view.first_row[podm]), int(view.first_row[podm + 1])
        for row in range(first, last):
            if cost[row] == INFINITE_COST or row in self.decision.batch.rows_without_fit:
                continue
            if self._fits >= MOST_FITS:
                return True
            self._fits += 1
            if self.decision.context.fitter.fit(view, row) is not None:
                return True
        return False

    def _lacks(self, row: int) -> tuple[Shortfall, ...]:
        return tuple(
            Shortfall(
                filter=one.filter, label=one.label, need=one.need, have=one.have, unit=one.unit
            )
            for one in Verdicts(self.decision).reasons(row)
        )

    def _near_miss(self, podm: int, row: int) -> NearMiss:
        view = self.decision.batch.view
        nodes = view.podms[podm].nodes
        by_size = sorted(nodes, key=lambda node: len(node.blocks))[:MOST_NODES]
        freeing = self._freeing(podm, by_size)
        return NearMiss(
            podm=view.podms[podm].id,
            pool=view.pools[row].id,
            kind="hardware",
            lacks=self._lacks(row),
            freeing=freeing,
            nodes=len(nodes),
            tried=len(by_size),
        )

    def _freeing(self, podm: int, nodes: list[Node]) -> NodeRemoval | None:
        """Return the first of some nodes of a podm without which the next node would fit."""
        case, batch = self.decision.context, self.decision.batch
        first, last = int(batch.view.first_row[podm]), int(batch.view.first_row[podm + 1])
        draft = Overlay(batch.view.window(first, last))
        shelf = draft.view.block_tables[0]
        numbers = {uri: number for number, uri in enumerate(shelf.uris)}
        for node in nodes:
            blocks = [numbers[uri] for uri in node.blocks if uri in numbers]
            if not any(shelf.gains[block] for block in blocks):
                continue
            undo = draft.remove_node(0, blocks)
            now = draft.window(0, last - first)
            part = batch.evaluation.window(first, last).copy()
            reevaluate(now, case.request, case.bound, part)
            for row in np.flatnonzero(part.cost != INFINITE_COST).tolist():
                if case.fitter.fit(now, row) is not None:
                    name = node.name or node.uri.rstrip("/").rpartition("/")[2]
                    return NodeRemoval(node=name, uri=node.uri, pool=now.pools[row].id)
            undo()
        return None
