# SPDX-License-Identifier: Apache-2.0
"""Preparation: checks a request against policy and inventory, and completes it for a decision."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from valence_sched.core.policy import (
    BoundPolicy,
    bind,
    idle_readers,
    missing_readers,
    resolve_needs,
    without_readers,
)
from valence_sched.core.readers import RequestReader
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.policy import Policy
from valence_sched.model.request import Mix, Request, sealed, with_inherited
from valence_sched.view.expression import check_amounts
from valence_sched.view.view import View


class Preparation:
    """Binds the policies that requests name, each once, and seals requests for them.

    ``mix`` returns the workload to leave room for, where a request brings none; it is called once,
    and only when a policy reads it. ``stated`` are the capabilities of the zone itself.
    """

    def __init__(
        self,
        policies: Iterable[Policy],
        mix: Callable[[], Mix] = Mix,
        stated: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._stated = stated or {}
        self._policies = {policy.name: policy for policy in policies}
        self._bound: dict[str, BoundPolicy] = {}
        self._without_idle_readers: dict[tuple[str, frozenset[RequestReader]], BoundPolicy] = {}
        self._mix = functools.cache(mix)

    def policies(self) -> Sequence[Policy]:
        """Return the policies a request may name."""
        return list(self._policies.values())

    def policy(self, name: str) -> BoundPolicy:
        """Return a policy with its plug-ins; UnknownName, or errors as for binding it."""
        if name not in self._policies:
            raise UnknownName("policy", name, self._policies)
        if name not in self._bound:
            self._bound[name] = bind(self._policies[name])
        return self._bound[name]

    def prepare(
        self, request: Request, view: View, *, elsewhere: bool = False
    ) -> tuple[Request, BoundPolicy]:
        """Return a request sealed for decisions on a view, and its policy.

        With ``elsewhere`` it may name pod managers of other zones.

        Raises:
            RequestError: the policy has no plug-in that reads what the request says, or an
                expression compares amounts of different units.
            UnknownName: no such policy or pod manager.
        """
        bound = self.policy(request.policy)
        for reader in missing_readers(request, bound):
            lack = f"policy {request.policy!r} has no {reader.kind} {reader.name!r}"
            raise RequestError(f"{lack}, so what the request says about it would be ignored: "
                               f"add the {reader.kind} or choose another policy")  # fmt: skip
        if not elsewhere:
            _check_names(request, view)
        request = with_inherited(request, self._stated)
        request = sealed(self._with_mix(request, bound))  # its id is the same by any policy
        request = sealed(resolve_needs(request, bound.policy))
        if request.where_expression is not None:
            check_amounts(view, request.where_expression)
        return request, bound

    def active(self, request: Request, bound: BoundPolicy) -> BoundPolicy:
        """Return the policy without the plug-ins that a request gives no work."""
        readers = idle_readers(request, bound)
        key = (bound.policy.name, readers)
        if key not in self._without_idle_readers:
            self._without_idle_readers[key] = without_readers(bound, readers)
        return self._without_idle_readers[key]

    def _with_mix(self, request: Request, bound: BoundPolicy) -> Request:
        if request.mix.shares or "mix" not in bound.fields_read:
            return request
        return msgspec.structs.replace(request, mix=self._mix())


def _check_names(request: Request, view: View) -> None:
    if request.podms or request.exclude_podms:
        known = {name for podm in view.podms for name in (podm.id, podm.name) if name}
        for name in (*request.podms, *request.exclude_podms):
            if name not in known:
                raise UnknownName("pod manager", name, view.podm_ids)
