# SPDX-License-Identifier: Apache-2.0
"""Judging: what every filter and every weigher says of every pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from valence_sched.core.policies import BoundFilter, BoundPolicy, BoundWeigher
from valence_sched.errors import PluginError, one_line
from valence_sched.model.request import Request
from valence_sched.model.view import Floats, Ints, Mask, View
from valence_sched.model.watched import watch

#: A score of 1 costs 0, a score of 0 costs this much: costs are whole numbers, low is best.
SCALE = 1_000_000
NEVER = np.iinfo(np.int64).max
FAILED = object()  # stands for the answer of a plugin that raised


@dataclass(slots=True)
class Judgement:
    """What every filter and weigher said of every pool.

    ``verdicts`` is bool, filters × pools; ``scores`` is 0..1, weighers × pools; ``cost`` is the
    weighted sum of ``SCALE × (1 - score)`` per pool, ``NEVER`` where a filter rejects.
    ``moving`` names the plugins that looked at what is free: depletion can change only these.
    Those that ``failed`` are not asked again: for one decision they fail throughout.
    """

    verdicts: Mask
    scores: Floats
    cost: Ints
    notes: list[str] = field(default_factory=list)
    moving: frozenset[str] = frozenset()
    failed: set[str] = field(default_factory=set)

    def copy(self) -> Judgement:
        """Return a judgement whose arrays can be changed without changing this one."""
        return Judgement(
            self.verdicts.copy(),
            self.scores.copy(),
            self.cost.copy(),
            list(self.notes),
            self.moving,
            set(self.failed),
        )

    def window(self, first: int, last: int) -> Judgement:
        """Return rows ``[first, last)`` as windows on the same memory."""
        return Judgement(
            self.verdicts[:, first:last],
            self.scores[:, first:last],
            self.cost[first:last],
            self.notes,
            self.moving,
            self.failed,
        )


def judge(view: View, request: Request, bound: BoundPolicy, *, strict: bool = False) -> Judgement:
    """Ask every filter and every weigher about every pool.

    A filter that fails rejects everything and a weigher that fails counts as 0; the notes say
    so. With ``strict`` they raise instead.

    Raises:
        PluginError: with ``strict``, the first plugin that broke its contract.
    """
    size = len(view)
    fresh = Judgement(
        np.ones((len(bound.filters), size), dtype=bool),
        np.zeros((len(bound.weighers), size)),
        np.zeros(size, dtype=np.int64),
    )
    watched = watch(view)
    moving = set()
    for row, filter_ in zip(fresh.verdicts, bound.filters, strict=True):
        watched.looked = False
        row[:] = _verdict(filter_, watched, request, fresh, strict)
        if watched.looked:
            moving.add(filter_.name)
    for score, weigher in zip(fresh.scores, bound.weighers, strict=True):
        watched.looked = False
        score[:] = _score(weigher, watched, request, fresh, strict)
        if watched.looked:
            moving.add(weigher.name)
    fresh.moving = frozenset(moving)
    add_up(fresh, bound)
    return fresh


def judge_again(
    view: View,
    request: Request,
    bound: BoundPolicy,
    judgement: Judgement,
    *,
    strict: bool = False,
) -> None:
    """Ask again what depletion can change, and write it over a judgement of the same rows."""
    again = judgement.moving - judgement.failed
    for row, filter_ in zip(judgement.verdicts, bound.filters, strict=True):
        if filter_.name in again:
            row[:] = _verdict(filter_, view, request, judgement, strict)
    for score, weigher in zip(judgement.scores, bound.weighers, strict=True):
        if weigher.name in again:
            score[:] = _score(weigher, view, request, judgement, strict)
    add_up(judgement, bound)


def add_up(judgement: Judgement, bound: BoundPolicy) -> None:
    """Write the cost that verdicts and scores come to."""
    total, cost = np.zeros(len(judgement.cost)), np.empty(len(judgement.cost))
    for score, weigher in zip(judgement.scores, bound.weighers, strict=True):
        np.multiply(score, SCALE, out=cost)
        np.rint(cost, out=cost)
        np.multiply(cost, weigher.weight, out=cost)
        np.subtract(total, cost, out=total)
    np.add(total, SCALE * bound.worst, out=total)
    judgement.cost[:] = total  # whole numbers far below 2**53: exact
    if len(judgement.verdicts):
        rejected = ~np.logical_and.reduce(judgement.verdicts)
        np.putmask(judgement.cost, rejected, NEVER)


def _verdict(
    filter_: BoundFilter, view: View, request: Request, judgement: Judgement, strict: bool
) -> Any:
    answer = _ask("filter", filter_, view, request, judgement, strict)
    if isinstance(answer, np.ndarray) and answer.shape == (len(view),) and answer.dtype == bool:
        return answer
    if answer is not FAILED:
        text = f"filter {filter_.name!r} returned {_shape(answer)}, not {len(view)} bools"
        _fail(filter_.name, text, judgement, strict)
    return False


def _score(
    weigher: BoundWeigher, view: View, request: Request, judgement: Judgement, strict: bool
) -> Any:
    answer = _ask("weigher", weigher, view, request, judgement, strict)
    if answer is FAILED:
        return 0.0
    name = f"weigher {weigher.name!r}"
    numbers = isinstance(answer, np.ndarray) and np.issubdtype(answer.dtype, np.number)
    if not numbers or answer.shape != (len(view),):
        text = f"{name} returned {_shape(answer)}, not {len(view)} numbers"
        _fail(weigher.name, text, judgement, strict)
        return 0.0
    if len(answer) and not (answer.min() >= 0.0 and answer.max() <= 1.0):
        _complain(f"{name} left 0..1: clamped, and NaN counted as 0", judgement, strict)
        return np.clip(np.nan_to_num(answer, nan=0.0), 0.0, 1.0)
    return answer


def _ask(
    kind: str,
    plugin: BoundFilter | BoundWeigher,
    view: View,
    request: Request,
    judgement: Judgement,
    strict: bool,
) -> Any:
    try:
        return plugin.judge(view, request)
    except (Exception, SystemExit) as error:
        text = one_line(f"{kind} {plugin.name!r} failed: {type(error).__name__}: {error}")
        if strict:
            raise PluginError(text) from error
        _fail(plugin.name, text, judgement, strict)
        return FAILED


def _fail(name: str, text: str, judgement: Judgement, strict: bool) -> None:
    _complain(text, judgement, strict)
    judgement.failed.add(name)


def _complain(text: str, judgement: Judgement, strict: bool) -> None:
    if strict:
        raise PluginError(text)
    if text not in judgement.notes:
        judgement.notes.append(text)


def _shape(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} of shape {answer.shape}"
    return f"a {type(answer).__name__}"


def funnel(bound: BoundPolicy, verdicts: Mask, size: int) -> list[tuple[str, int, int]]:
    """Return per filter how many pools came in and how many went on."""
    steps: list[tuple[str, int, int]] = []
    alive = np.ones(size, dtype=bool)
    for filter_, verdict in zip(bound.filters, verdicts, strict=True):
        before = int(alive.sum())
        alive = alive & verdict
        steps.append((filter_.name, before, int(alive.sum())))
    return steps


def first_failures(verdicts: Mask) -> Sequence[int]:
    """Return per pool the first filter that rejects it, -1 where none does."""
    if not len(verdicts):
        return [-1] * verdicts.shape[1]
    rejected = ~verdicts
    first = np.where(rejected.any(axis=0), rejected.argmax(axis=0), -1)
    return first.tolist()  # type: ignore[no-any-return]
