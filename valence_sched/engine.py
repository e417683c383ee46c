# SPDX-License-Identifier: Apache-2.0
"""The scheduler in this process: a View, policies, and the straight line between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from valence_sched.core import plugins
from valence_sched.core.batch import Batch
from valence_sched.core.case import Case
from valence_sched.core.decision import Decision
from valence_sched.core.fit import Plan
from valence_sched.core.judge import judge
from valence_sched.core.kept import Kept
from valence_sched.core.many import Decisions, decide_all
from valence_sched.core.parts import Part, count_fits, tried
from valence_sched.core.policies import BoundPolicy, bind, for_policy, unread
from valence_sched.core.rank import ranked
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.api import Ranking
from valence_sched.model.build import ViewBuilder
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.logic import check_amounts
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request, sealed
from valence_sched.model.splice import splice
from valence_sched.model.view import View


class Engine:
    """Decides on the View it holds; the View changes only through :meth:`replace`."""

    def __init__(
        self,
        view: View,
        policies: Iterable[Policy],
        *,
        skipped: Sequence[str] = (),
        strict: bool = False,
    ) -> None:
        self._view = view
        self._policies = {policy.name: policy for policy in policies}
        self._bound: dict[str, tuple[BoundPolicy, bytes]] = {}
        self._numbers = {podm.id: number for number, podm in enumerate(view.podms)}
        self._builder = ViewBuilder(view.kinds)
        self._kept = Kept()
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
        ready = [self._ready(request) for request in requests]
        policies = {request.policy: bound for request, bound, _ in ready}

        def case(view: View, request: Request) -> Case:
            policy = policies[request.policy]
            judgement = judge(view, request, policy, strict=self._strict)
            plan = Plan(request.needs, view.kinds)
            return Case(view, request, policy, judgement, plan, self._strict)

        asked = [request for request, _, _ in ready]
        return decide_all(self._view, asked, case, _schedule, self._skipped)

    def rank(self, request: Request, limit: int) -> Ranking:
        """Return at most ``limit`` candidates, best first; errors as for a decision."""
        case = self._case(request)
        decision = Decision([Part(case, Batch([], case.view, case.judgement))], self._skipped)
        rows = ranked(case.view, case.judgement.cost, case.request, 0)
        candidates = filter(None, map(decision.candidate, rows))
        return Ranking(candidates=tuple(itertools.islice(candidates, limit)))

    def count_fits(
        self, request: Request, most: int, warnings: list[str] | None = None
    ) -> list[tuple[str, int]]:
        """Return how many more nodes of a request each podm makes, at most ``most`` each.

        ``warnings`` gets a line for each plugin that broke its contract.
        """
        case = self._case(request)
        if warnings is not None:
            warnings += [note for note in case.judgement.notes if note not in warnings]
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
        request, bound, text = self._ready(request)
        key = (text, request.question)
        judgement, plan = self._kept.judgement(self._view, request, bound, key, strict=self._strict)
        return Case(self._view, request, bound, judgement, plan, self._strict)

    def _ready(self, request: Request) -> tuple[Request, BoundPolicy, bytes]:
        """Return a request sealed under its policy, the policy, and what stands for the policy."""
        bound, text = self._policy(request.policy)
        for name in unread(request, bound):
            raise RequestError(
                f"policy {request.policy!r} has no filter {name!r}, so what the request says "
                "about it would be ignored: add the filter or choose another policy"
            )
        self._check_names(request)
        request = sealed(for_policy(request, bound.policy))
        if request.condition is not None:
            check_amounts(self._view, request.condition)
        return request, bound, text

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
