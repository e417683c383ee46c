# SPDX-License-Identifier: Apache-2.0
"""The scheduler in this process: a View, policies, and the straight line between them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from valence_sched.core import plugins
from valence_sched.core.alternatives import Part, count_fits, tried
from valence_sched.core.batch import Batch
from valence_sched.core.decision import Decision, unknown_resources
from valence_sched.core.evaluation import Case
from valence_sched.core.evaluation_cache import Kept
from valence_sched.core.explain.unknown_terms import untold
from valence_sched.core.group_state import Earlier, with_company
from valence_sched.core.ledger import Ledger
from valence_sched.core.multi_request import Decisions, decide_all
from valence_sched.core.policy import BoundPolicy, Reader, bind, for_policy, idle, unread, without
from valence_sched.core.ranking import ranked
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.policy import Policy
from valence_sched.model.request import Mix, Request, sealed
from valence_sched.model.scheduler import Ranking
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.evaluate import check_amounts
from valence_sched.view.update import splice
from valence_sched.view.view import Mask, View

READS_MIX = "fragmentation"  # the weigher that leaves room for what is asked for over time


class Engine:
    """Decides on the View it holds; the View changes only through :meth:`replace`.

    ``mix`` makes what requests leave room for that bring none; it is asked once, and only when a
    policy looks at it.
    """

    def __init__(
        self,
        view: View,
        policies: Iterable[Policy],
        *,
        mix: Callable[[], Mix] = Mix,
        skipped: Sequence[str] = (),
        strict: bool = False,
    ) -> None:
        self._view = view
        self._policies = {policy.name: policy for policy in policies}
        self._bound: dict[str, tuple[BoundPolicy, bytes]] = {}
        self._in_part: dict[tuple[str, frozenset[Reader]], BoundPolicy] = {}
        self._numbers = {podm.id: number for number, podm in enumerate(view.podms)}
        self._builder = ViewBuilder(view.kinds)
        self._kept = Kept()
        self._mix = functools.cache(mix)
        self._skipped = skipped
        self._strict = strict

    def look(self) -> View:
        """Return the current snapshot; it never changes, a newer one takes its place."""
        return self._view

    def policies(self) -> Sequence[Policy]:
        """Return the policies a request may name."""
        return list(self._policies.values())

    def select_destinations(self, request: Request) -> Decision:
        """Choose pool and blocks for every node of a request.

        Returns a decision even when nothing fits: the reasons are in it.

        Raises:
            RequestError: the request asks for nothing, contradicts itself, or states a wish
                that no filter of its policy reads.
            UnknownName: no such policy, a pod manager that is not there, or the name of an
                amount written wrongly.
            PluginError: a plugin broke its contract and the engine is strict.
        """
        return Decision(tried(self._case(request), _schedule), self._skipped)

    def select_all(self, requests: Sequence[Request]) -> Decisions:
        """Choose for several requests, each as if the nodes of those before it were composed.

        All or nothing: a request for which fewer nodes fit than it must have fails them all.
        Errors as for one request.
        """
        asked = []
        for number, request in enumerate(requests, 1):
            try:
                asked.append(self._ready(request)[0])
            except (RequestError, UnknownName) as error:
                alone = len(requests) == 1
                raise (error if alone else error.at(f"request {number}")) from None

        def case(ledger: Ledger, request: Request, earlier: Earlier) -> Case:
            bound, text = self._policy(request.policy)
            passing = functools.partial(self._passing, request, bound, text)
            request = with_company(ledger.view, request, passing, earlier)
            bound = self._reduced(bound, idle(request))
            return ledger.case(request, bound, strict=self._strict)

        return decide_all(self._view, asked, case, _schedule, self._skipped)

    def rank(self, request: Request, limit: int) -> Ranking:
        """Return at most ``limit`` candidates, best first; errors as for a decision."""
        case = self._case(request)
        part = Part(case, Batch([], case.view, case.judgement, case.request))
        decision = Decision([part], self._skipped)
        rows = ranked(case.view, case.judgement.cost, case.request, 0)
        candidates = filter(None, map(decision.candidate, rows))
        return Ranking(candidates=tuple(itertools.islice(candidates, limit)))

    def count_fits(
        self, request: Request, most: int, warnings: list[str] | None = None
    ) -> list[tuple[str, int]]:
        """Return how many more nodes of a request each podm makes, at most ``most`` each.

        ``warnings`` gets a line for each plugin that broke its contract.
        """
        _countable(request)
        case = self._case(request)
        if warnings is not None:
            view, request = case.view, case.request
            notes = [
                *case.judgement.notes,
                *unknown_resources(view, request),
                *untold(view, request),
            ]
            warnings += [note for note in notes if note not in warnings]
        fits = count_fits(case, most)
        return [(self._view.podms[podm].id, number) for podm, number in fits]

    def replace(self, podm: LeanPodm, file: str = "update") -> None:
        """Take in a podm as it is now; the next decision sees it.

        Raises:
            InputError: the podm is not what it must be; the View stays as it was.
        """
        builder = self._builder.emptied()
        builder.add(podm, file)
        number = self._numbers.setdefault(podm.id, len(self._numbers))
        self._view, moved = splice(self._view, number, builder.view())
        self._kept.moved(moved)

    def _case(self, request: Request) -> Case:
        alone, bound, text = self._ready(request)
        # its identity, and what is open, do not depend on the company
        request = with_company(self._view, alone, lambda: self._passing(alone, bound, text))
        return self._judged(request, bound, text)

    def _ready(self, request: Request) -> tuple[Request, BoundPolicy, bytes]:
        """Return a request sealed under its policy, the policy, and what stands for the policy."""
        bound, text = self._policy(request.policy)
        for reader in unread(request, bound):
            raise RequestError(
                f"policy {request.policy!r} has no {reader.kind} {reader.name!r}, so what the "
                f"request says about it would be ignored: add the {reader.kind} or choose "
                "another policy"
            )
        self._check_names(request)
        request = sealed(for_policy(self._mixed(request, bound), bound.policy))
        if request.condition is not None:
            check_amounts(self._view, request.condition)
        return request, bound, text

    def _judged(self, request: Request, bound: BoundPolicy, text: bytes) -> Case:
        bound = self._reduced(bound, idle(request))
        key = (text, request.question)
        judgement, plan = self._kept.judgement(self._view, request, bound, key, strict=self._strict)
        return Case(self._view, request, bound, judgement, plan, self._strict)

    def _passing(self, request: Request, bound: BoundPolicy, text: bytes) -> Mask:
        """Return the rows that pass what depends neither on what is free nor on the group."""
        case = self._judged(msgspec.structs.replace(request, group=None), bound, text)
        fixed = [filter_.name not in case.judgement.moving for filter_ in case.bound.filters]
        passing: Mask = np.logical_and.reduce(case.judgement.verdicts[fixed])
        return passing

    def _reduced(self, bound: BoundPolicy, readers: frozenset[Reader]) -> BoundPolicy:
        key = (bound.policy.name, readers)
        if key not in self._in_part:
            self._in_part[key] = without(bound, readers)
        return self._in_part[key]

    def _mixed(self, request: Request, bound: BoundPolicy) -> Request:
        """Return the request with the usual mix, if its policy looks at one and it has none."""
        looks = any(weigher.name == READS_MIX for weigher in bound.weighers)
        if request.mix.shares or not looks:
            return request
        return msgspec.structs.replace(request, mix=self._mix())

    def _policy(self, name: str) -> tuple[BoundPolicy, bytes]:
        if name not in self._bound:
            policy = self._policies.get(name)
            if policy is None:
                raise UnknownName("policy", name, self._policies)
            self._bound[name] = bind(policy), to_json(policy)
        return self._bound[name]

    def _check_names(self, request: Request) -> None:
        if request.podms or request.exclude_podms:
            known = {name for podm in self._view.podms for name in (podm.id, podm.name) if name}
            for name in (*request.podms, *request.exclude_podms):
                if name not in known:
                    raise UnknownName("pod manager", name, self._view.podm_ids)


def _schedule(case: Case) -> Batch:
    scheduler = plugins.installed(plugins.SCHEDULERS).get(case.bound.policy.scheduler)()
    return scheduler.schedule(case)  # type: ignore[no-any-return]


def _countable(request: Request) -> None:
    """Refuse rules of a group that pod managers keep only together: each is counted alone."""
    group = request.group
    if group is None or not group.hard:
        return
    apart = (*group.anti_affinity, *group.at_most)
    firm = [rule.over for rule in group.spread if not rule.soft]
    if group.affinity or firm or any(domain != "podm" for domain in apart):
        raise RequestError(
            f"group {group.name!r}: each pod manager is counted by itself, so only "
            "anti-affinity and at most per podm can be counted: leave the other rules out"
        )
