# SPDX-License-Identifier: Apache-2.0
"""Near misses: pod managers that a node nearly fits, and a node whose removal makes room.

The results are exact: the search frees the blocks of a node on a private copy of its pod manager,
evaluates the copy, and searches for a fit.
"""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import reevaluate
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import INFINITE_COST
from valence_sched.model.decision import NearMiss, NodeRemoval, Shortfall
from valence_sched.model.inventory import Node
from valence_sched.model.quantity import format_count
from valence_sched.view.overlay import Overlay

MOST_PODMS = 8  # most pod managers reported for missing hardware, and as many blocked by policy
MOST_NODES = 64  # nodes of each pod manager whose removal is tried
MOST_FITS = 20_000  # fits tried


@dataclass
class NearMissSearch:
    """Searches the evaluation of a decision for near misses; ``notes`` name the reached limits."""

    decision: Decision
    notes: list[str] = field(default_factory=list)
    _fits: int = 0

    def run(self) -> tuple[NearMiss, ...]:
        """Return near misses: those that one removal resolves come first, then by shortfall."""
        hardware = list(itertools.islice(self._by_hardware(), MOST_PODMS))
        # a stable sort keeps the order by nearness
        hardware.sort(key=lambda miss: miss.freeing is None)
        if self._fits >= MOST_FITS:
            tried = format_count(MOST_FITS, "pool")
            self.notes.append(f"near misses: the search ended after {tried}")
        return (*hardware, *itertools.islice(self._by_policy(), MOST_PODMS))

    def _by_hardware(self) -> Iterator[NearMiss]:
        view, evaluation = self.decision.batch.view, self.decision.batch.evaluation
        readers = evaluation.availability_readers - evaluation.failed_plugins
        fixed = [filter_.name not in readers for filter_ in self.decision.context.bound.filters]
        rows = np.flatnonzero(np.logical_and.reduce(evaluation.verdicts[fixed]))
        if not len(rows):
            return
        missing = np.zeros(len(view))  # as a share of each need
        for need in self.decision.context.request.needs:
            if amount := need.amount * need.count:
                missing += np.clip(1.0 - view.free(need) / amount, 0.0, 1.0)
        seen_podms = self._chosen_podms()
        for row in rows[np.argsort(missing[rows], kind="stable")].tolist():
            podm = int(view.podm_of[row])
            if podm in seen_podms:
                continue
            seen_podms.add(podm)
            if not self._takes_node(podm):
                nodes = view.podms[podm].nodes
                by_size = sorted(nodes, key=lambda node: len(node.blocks))[:MOST_NODES]
                yield NearMiss(
                    podm=view.podms[podm].id,
                    pool=view.pools[row].id,
                    kind="hardware",
                    lacks=self._lacks(row),
                    freeing=self._freeing(podm, by_size),
                    nodes=len(nodes),
                    tried=len(by_size),
                )

    def _by_policy(self) -> Iterator[NearMiss]:
        """Yield the podms that only one filter rejects, if this filter ignores free hardware."""
        evaluation, view = self.decision.batch.evaluation, self.decision.batch.view
        seen_podms, filters = self._chosen_podms(), self.decision.context.bound.filters
        other_reasons = evaluation.availability_readers | evaluation.failed_plugins
        for row in np.flatnonzero((~evaluation.verdicts).sum(axis=0) == 1).tolist():
            podm = int(view.podm_of[row])
            name = filters[int(evaluation.verdicts[:, row].argmin())].name
            if podm in seen_podms or name in other_reasons or self._takes_node(podm):
                continue
            if self._fits >= MOST_FITS:
                return
            self._fits += 1
            if self.decision.row_fit(row) == "fits":
                seen_podms.add(podm)
                name, pool = view.podms[podm].id, view.pools[row].id
                yield NearMiss(podm=name, pool=pool, kind="word", lacks=self._lacks(row))

    def _chosen_podms(self) -> set[int]:
        """Return the chosen podms if all nodes were placed: they are not near misses."""
        return set(self.decision.chosen_podms() if self.decision.outcome == "placed" else ())

    @functools.cached_property
    def _may_fit(self) -> list[bool]:
        """Whether each row passes every filter and may have a fit."""
        passing = self.decision.batch.evaluation.cost != INFINITE_COST
        passing[list(self.decision.batch.rows_without_fit)] = False
        return passing.tolist()  # type: ignore[no-any-return]

    def _takes_node(self, podm: int) -> bool:
        """Return whether a podm takes the next node, or may take it."""
        for row in range(*self.decision.batch.view.rows(podm)):
            if not self._may_fit[row]:
                continue
            if self._fits >= MOST_FITS:
                return True
            self._fits += 1
            if self.decision.row_fit(row) != "none":
                return True
        return False

    def _lacks(self, row: int) -> tuple[Shortfall, ...]:
        reasons = map(msgspec.structs.asdict, Verdicts(self.decision).reasons(row))
        names = Shortfall.__struct_fields__
        return tuple(Shortfall(**{name: reason[name] for name in names}) for reason in reasons)

    def _freeing(self, podm: int, nodes: list[Node]) -> NodeRemoval | None:
        """Return the first of these nodes of a podm whose removal makes the next node fit."""
        context, batch = self.decision.context, self.decision.batch
        first, last = batch.view.rows(podm)
        overlay = Overlay(batch.view.window(first, last))
        table = overlay.view.block_tables[0]
        for node in nodes:
            blocks = [table.numbers[uri] for uri in node.blocks if uri in table.numbers]
            if not any(table.gains[block] for block in blocks):
                continue
            undo = overlay.remove_node(0, blocks)
            view = overlay.view.window(0, last - first)
            part = batch.evaluation.select(slice(first, last)).copy()
            reevaluate(view, context.request, context.bound, part)
            for row in np.flatnonzero(part.cost != INFINITE_COST).tolist():
                if isinstance(context.fit(view, row), Fit):
                    name = node.name or node.uri.rstrip("/").rpartition("/")[2]
                    return NodeRemoval(node=name, uri=node.uri, pool=view.pools[row].id)
            undo()
        return None
