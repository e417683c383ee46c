# SPDX-License-Identifier: Apache-2.0
"""Judging: what every filter and every weigher says of every pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from valence_sched.core.costs import Total, add_up, row_weights
from valence_sched.core.evaluation import Judgement
from valence_sched.core.policy import BoundFilter, BoundPolicy, BoundWeigher
from valence_sched.errors import PluginError, one_line, words_of
from valence_sched.model.request import Request
from valence_sched.view.tracking import watch, watch_request
from valence_sched.view.view import Floats, Mask, View

ONE = np.float64(1.0).view(np.uint64)
BOOL, FLOAT = np.dtype(bool), np.dtype(np.float64)


def judge(view: View, request: Request, bound: BoundPolicy, *, strict: bool = False) -> Judgement:
    """Ask every filter and every weigher about every pool.

    A filter that fails rejects everything and a weigher that fails counts as 0; the notes say
    so. With ``strict`` they raise instead.

    Raises:
        PluginError: with ``strict``, a plugin broke its contract.
    """
    kept: list[Mask] = []
    marks: list[Floats] = []
    fresh = Judgement(kept, marks, np.empty(len(view), dtype=np.int64))
    watch_ = _Watch(view, request)
    passed = every = view.every
    for filter_ in bound.filters:
        mask = _verdict(filter_, watch_.view, watch_.request, fresh, strict)
        if mask is not every:
            passed = passed & mask
        kept.append(mask)
        watch_.note(filter_.name)
    total = Total(bound, len(view))
    for weigher in bound.weighers:
        score = _score(weigher, watch_.view, watch_.request, fresh, strict)
        if not _within(score):
            score = _clamped(score, weigher, fresh, strict)
        total.add(score, weigher.weight)
        marks.append(score)
        watch_.note(weigher.name)
    fresh.moving, fresh.social = frozenset(watch_.moving), frozenset(watch_.social)
    add_up(fresh, bound, row_weights(view, bound), passed, total)
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
            now = _score(weigher, view, request, judgement, strict)
            changed |= score != now
            score[:] = now
    _clamp(judgement, bound, strict)
    return changed


def _verdict(
    filter_: BoundFilter, view: View, request: Request, judgement: Judgement, strict: bool
) -> Mask:
    try:
        answer: Any = filter_.judge(view, request)
    except (Exception, SystemExit) as error:
        _broken("filter", filter_.name, error, judgement, strict)
        return np.zeros(len(view), dtype=bool)
    whole = type(answer) is np.ndarray and answer.shape == judgement.cost.shape
    if whole and answer.dtype == BOOL:
        return answer  # type: ignore[no-any-return]
    text = f"filter {filter_.name!r} returned {_shape(answer)}, not {len(view)} bools"
    _fail(filter_.name, text, judgement, strict)
    return np.zeros(len(view), dtype=bool)


def _score(
    weigher: BoundWeigher, view: View, request: Request, judgement: Judgement, strict: bool
) -> Floats:
    try:
        answer: Any = weigher.judge(view, request)
    except (Exception, SystemExit) as error:
        _broken("weigher", weigher.name, error, judgement, strict)
        return np.zeros(len(view))
    if type(answer) is np.ndarray and answer.shape == judgement.cost.shape:
        if answer.dtype == FLOAT:
            return answer
        if answer.dtype.kind in "fiu":
            return answer.astype(FLOAT)
    text = f"weigher {weigher.name!r} returned {_shape(answer)}, not {len(view)} numbers"
    _fail(weigher.name, text, judgement, strict)
    return np.zeros(len(view))


def _clamp(judgement: Judgement, bound: BoundPolicy, strict: bool) -> None:
    """Bring the scores that left 0..1 back into it, and say whose they were."""
    if _within(judgement.scores):
        return
    for score, weigher in zip(judgement.scores, bound.weighers, strict=True):
        if not _within(score):
            score[:] = _clamped(score, weigher, judgement, strict)


def _clamped(score: Floats, weigher: BoundWeigher, judgement: Judgement, strict: bool) -> Floats:
    text = f"weigher {weigher.name!r} left 0..1: clamped, and NaN counted as 0"
    _complain(text, judgement, strict)
    return np.clip(np.nan_to_num(score, nan=0.0), 0.0, 1.0)


def _within(scores: Floats) -> bool:
    """Return whether all scores are within 0..1; one that is NaN is not."""
    if not scores.size:
        return True
    if scores.strides == (0,):
        return 0.0 <= float(scores[0]) <= 1.0
    # read as whole numbers, floats from 0 to 1 are the least: -0, all below it and NaN are above
    most = np.maximum.reduce(scores.view(np.uint64), axis=None)
    return bool(most <= ONE or scores.min() >= 0 >= scores.max() - 1)


def _broken(kind: str, name: str, error: BaseException, judgement: Judgement, strict: bool) -> None:
    text = one_line(f"{kind} {name!r} failed: {words_of(error)}")
    if strict:
        raise PluginError(text) from error
    _fail(name, text, judgement, strict)


def _fail(name: str, text: str, judgement: Judgement, strict: bool) -> None:
    _complain(text, judgement, strict)
    judgement.failed.add(name)


def _complain(text: str, judgement: Judgement, strict: bool) -> None:
    if strict:
        raise PluginError(text)
    if text not in judgement.notes:
        judgement.notes.append(text)


def _shape(answer: Any) -> str:
    if type(answer) is np.ndarray:
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
