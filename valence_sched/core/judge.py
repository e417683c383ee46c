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
from valence_sched.model.watched import watch, watch_request

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
    ``social`` names those that looked at the company: a placed node can change these everywhere.
    Those that ``failed`` are not asked again: for one decision they fail throughout.
    """

    verdicts: Mask
    scores: Floats
    cost: Ints
    notes: list[str] = field(default_factory=list)
    moving: frozenset[str] = frozenset()
    failed: set[str] = field(default_factory=set)
    social: frozenset[str] = frozenset()

    def copy(self) -> Judgement:
        """Return a judgement whose arrays can be changed without changing this one."""
        return Judgement(
            self.verdicts.copy(),
            self.scores.copy(),
            self.cost.copy(),
            list(self.notes),
            self.moving,
            set(self.failed),
            self.social,
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
            self.social,
        )

    def part(self, rows: Ints) -> Judgement:
        """Return a copy of these rows; notes and who failed are shared."""
        return Judgement(
            self.verdicts[:, rows],
            self.scores[:, rows],
            self.cost[rows],
            self.notes,
            self.moving,
            self.failed,
            self.social,
        )


def judge(view: View, request: Request, bound: BoundPolicy, *, strict: bool = False) -> Judgement:
    """Ask every filter and every weigher about every pool.

    A filter that fails rejects everything and a weigher that fails counts as 0; the notes say
    so. With ``strict`` they raise instead.

    Raises:
        PluginError: with ``strict``, a plugin broke its contract.
    """
    size = len(view)
    fresh = Judgement(
        np.ones((len(bound.filters), size), dtype=bool),
        np.empty((len(bound.weighers), size)),
        np.empty(size, dtype=np.int64),
    )
    watch_, passed = _Watch(view, request), view.every
    for row, filter_ in zip(fresh.verdicts, bound.filters, strict=True):
        answer = _verdict(filter_, watch_.view, watch_.request, fresh, strict)
        if answer is not view.every:
            row[:] = answer
            passed = passed & row
        watch_.note(filter_.name)
    for score, weigher in zip(fresh.scores, bound.weighers, strict=True):
        score[:] = _score(weigher, watch_.view, watch_.request, fresh, strict)
        watch_.note(weigher.name)
    _clamp(fresh, bound, strict)
    fresh.moving, fresh.social = frozenset(watch_.moving), frozenset(watch_.social)
    add_up(fresh, bound, row_weights(view, bound), passed)
    return fresh


class _Watch:
    """Notes which plugins look at what placing nodes changes: what is free, and the company."""

    def __init__(self, view: View, request: Request) -> None:
        self.view = watch(view)
        related = request.group is not None or request.owner is not None
        self._asked = watch_request(request) if related else None
        self.request = self._asked or request
        self.moving: set[str] = set()
        self.social: set[str] = set()

    def note(self, name: str) -> None:
        """Note what the plugin looked at that was asked last."""
        if self.view.looked:
            self.moving.add(name)
            self.view.looked = False
        if self._asked is not None and self._asked.looked:
            self.social.add(name)
            self._asked.forget()


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
    _clamp(judgement, bound, strict)
    add_up(judgement, bound, row_weights(view, bound))


def judge_company(
    view: View,
    request: Request,
    bound: BoundPolicy,
    judgement: Judgement,
    *,
    strict: bool = False,
) -> Mask:
    """Ask again, of every row, what the company can change; return where an answer changed.

    The costs of these rows are left to be added up.
    """
    again = judgement.social - judgement.failed
    changed = np.zeros(len(view), dtype=bool)
    for row, filter_ in zip(judgement.verdicts, bound.filters, strict=True):
        if filter_.name in again:
            answer = _verdict(filter_, view, request, judgement, strict)
            changed |= row != answer
            row[:] = answer
    for score, weigher in zip(judgement.scores, bound.weighers, strict=True):
        if weigher.name in again:
            answer = _score(weigher, view, request, judgement, strict)
            changed |= score != answer
            score[:] = answer
    _clamp(judgement, bound, strict)
    return changed


def row_weights(view: View, bound: BoundPolicy) -> Ints | None:
    """Return the weights, weighers × rows, where they differ between rows; else None."""
    if not bound.varied:
        return None
    return np.array([weigher.weights(view) for weigher in bound.weighers])


def add_up(
    judgement: Judgement,
    bound: BoundPolicy,
    weights: Ints | None = None,
    passed: Mask | None = None,
) -> None:
    """Write the cost that verdicts and scores come to.

    ``passed`` is where all verdicts are true, for those who know it.
    With ``weights`` a row's cost is the mean by its own weights, scaled as all others are, so
    that rows compare: ``worst × sum(weight × cost) / sum(weight)``, a whole number. Where
    nothing has any weight, nothing speaks for the row: it costs the most.
    """
    if passed is None:
        passed = np.logical_and.reduce(judgement.verdicts)
    if weights is not None:
        _add_up_weighted(judgement, bound, weights)
        _reject(judgement, passed)
        return
    gains = judgement.scores * -SCALE
    np.rint(gains, out=gains)
    # whole numbers far below 2**53: exact in any order
    total = np.array([weigher.weight for weigher in bound.weighers], np.float64) @ gains
    judgement.cost[:] = np.add(total, SCALE * bound.worst, out=total)
    _reject(judgement, passed)


def _add_up_weighted(judgement: Judgement, bound: BoundPolicy, weights: Ints) -> None:
    costs = SCALE - np.rint(judgement.scores * SCALE)
    whole = weights.sum(axis=0)
    mean = np.full(len(judgement.cost), float(SCALE))
    np.divide((weights * costs).sum(axis=0), whole, out=mean, where=whole > 0)
    judgement.cost[:] = np.rint(mean * bound.worst)


def _reject(judgement: Judgement, passed: Mask) -> None:
    """Write the cost of the rows that a filter rejects."""
    if not passed.all():
        judgement.cost[(~passed).nonzero()[0]] = NEVER


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
    numbers = isinstance(answer, np.ndarray) and answer.dtype.kind in "fiu"
    if numbers and answer.shape == (len(view),):
        return answer
    text = f"weigher {weigher.name!r} returned {_shape(answer)}, not {len(view)} numbers"
    _fail(weigher.name, text, judgement, strict)
    return 0.0


def _clamp(judgement: Judgement, bound: BoundPolicy, strict: bool) -> None:
    """Bring the scores that left 0..1 back into it, and say whose they were."""
    if _within(judgement.scores):
        return
    for score, weigher in zip(judgement.scores, bound.weighers, strict=True):
        if not _within(score):
            text = f"weigher {weigher.name!r} left 0..1: clamped, and NaN counted as 0"
            _complain(text, judgement, strict)
            score[:] = np.clip(np.nan_to_num(score, nan=0.0), 0.0, 1.0)


def _within(scores: Floats) -> bool:
    """Return whether all scores are within 0..1; one that is NaN is not."""
    return not scores.size or bool(scores.min() >= 0.0 and scores.max() <= 1.0)


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
    alive, answers = np.ones(size, dtype=bool), iter(verdicts)
    for name in bound.filter_names:
        before = int(alive.sum())
        alive = alive if name in bound.idle else alive & next(answers)
        steps.append((name, before, int(alive.sum())))
    return steps


def first_failures(verdicts: Mask) -> Sequence[int]:
    """Return per pool the first filter that rejects it, -1 where none does."""
    if not len(verdicts):
        return [-1] * verdicts.shape[1]
    rejected = ~verdicts
    first = np.where(rejected.any(axis=0), rejected.argmax(axis=0), -1)
    return first.tolist()  # type: ignore[no-any-return]
