# SPDX-License-Identifier: Apache-2.0
"""Evaluates a request: calls every filter and every weigher of its policy on all pools."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from valence_sched.core.evaluation import (
    CostTotal,
    Evaluation,
    EvaluationContext,
    row_weights,
    write_costs,
)
from valence_sched.core.fit.fit import Fitter
from valence_sched.core.fit.spending import Spending
from valence_sched.core.policy import BoundFilter, BoundPolicy, BoundWeigher
from valence_sched.errors import PluginError, describe_error, one_line
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request
from valence_sched.view.tracking import track_request, track_view
from valence_sched.view.view import Floats, Mask, View

ONE = np.float64(1.0).view(np.uint64)
BOOL, FLOAT = np.dtype(bool), np.dtype(np.float64)


def evaluate(
    view: View, request: Request, bound: BoundPolicy, *, strict: bool = False
) -> Evaluation:
    """Call every filter and every weigher on all pools.

    A filter that fails rejects every pool and a weigher that fails scores 0; the notes name them.

    Raises:
        PluginError: with ``strict``, a plug-in broke its contract.
    """
    verdicts: list[Mask] = []
    scores: list[Floats] = []
    evaluation = Evaluation(verdicts, scores, np.empty(len(view), dtype=np.int64))
    tracker = _ReadTracker(view, request)
    passed = every = view.all_rows
    for filter_ in bound.filters:
        mask = _verdict(filter_, tracker.view, tracker.request, evaluation, strict)
        if mask is not every:
            passed = passed & mask
        verdicts.append(mask)
        tracker.note(filter_.name)
    total = CostTotal(bound, len(view))
    for weigher in bound.weighers:
        score = _score(weigher, tracker.view, tracker.request, evaluation, strict)
        if not _all_within(score):
            score = _clamped_score(score, weigher, evaluation, strict)
        total.add(score, weigher.weight)
        scores.append(score)
        tracker.note(weigher.name)
    evaluation.availability_readers = frozenset(tracker.availability_readers)
    evaluation.group_state_readers = frozenset(tracker.group_state_readers)
    write_costs(evaluation, bound, row_weights(view, bound), passed, total)
    return evaluation


def context_of(
    view: View,
    request: Request,
    bound: BoundPolicy,
    *,
    strict: bool = False,
    other_nodes: int = 0,
    spending: Spending | None = None,
) -> EvaluationContext:
    """Return what a decision on a request is made from, with all pools evaluated."""
    evaluation = evaluate(view, request, bound, strict=strict)
    fitter = Fitter(request.needs, view.kinds, request.bonds, bound.policy.budget)
    spending = spending or Spending(bound.policy.budget)
    return EvaluationContext(
        view, request, bound, evaluation, fitter, strict, other_nodes, spending
    )


class _ReadTracker:
    """Notes which plug-ins read what placing nodes changes: free capacity, and the group state."""

    def __init__(self, view: View, request: Request) -> None:
        self.view = track_view(view)
        related = request.group is not None or request.owner is not None
        self._tracked_request = track_request(request) if related else None
        self.request = self._tracked_request or request
        self.availability_readers: set[str] = set()
        self.group_state_readers: set[str] = set()

    def note(self, name: str) -> None:
        if self.view.was_read:
            self.availability_readers.add(name)
            self.view.was_read = False
        if self._tracked_request is not None and self._tracked_request.was_read:
            self.group_state_readers.add(name)
            self._tracked_request.reset()


def reevaluate(
    view: View, request: Request, bound: BoundPolicy, evaluation: Evaluation, strict: bool = False
) -> None:
    """Call again the plug-ins that read free capacity, and write over the same rows."""
    readers = evaluation.availability_readers - evaluation.failed_plugins
    for verdict_row, filter_ in zip(evaluation.verdicts, bound.filters, strict=True):
        if filter_.name in readers:
            verdict_row[:] = _verdict(filter_, view, request, evaluation, strict)
    for score, weigher in zip(evaluation.scores, bound.weighers, strict=True):
        if weigher.name in readers:
            score[:] = _score(weigher, view, request, evaluation, strict)
    _clamp_scores(evaluation, bound, strict)
    write_costs(evaluation, bound, row_weights(view, bound))


def reevaluate_group_state(
    view: View, request: Request, bound: BoundPolicy, evaluation: Evaluation, strict: bool = False
) -> Mask:
    """Call again the plug-ins that read the group state; return the rows with another answer.

    The costs of these rows are left to the caller.
    """
    readers = evaluation.group_state_readers - evaluation.failed_plugins
    changed = np.zeros(len(view), dtype=bool)
    for verdict_row, filter_ in zip(evaluation.verdicts, bound.filters, strict=True):
        if filter_.name in readers:
            answer = _verdict(filter_, view, request, evaluation, strict)
            changed |= verdict_row != answer
            verdict_row[:] = answer
    for score, weigher in zip(evaluation.scores, bound.weighers, strict=True):
        if weigher.name in readers:
            scores = _score(weigher, view, request, evaluation, strict)
            changed |= score != scores
            score[:] = scores
    _clamp_scores(evaluation, bound, strict)
    return changed


def _verdict(
    filter_: BoundFilter, view: View, request: Request, evaluation: Evaluation, strict: bool
) -> Mask:
    try:
        answer: Any = filter_.evaluate(view, request)
    except (Exception, SystemExit) as error:
        text = f"filter {filter_.name!r} failed: {describe_error(error)}"
        _mark_failed(filter_.name, one_line(text), evaluation, strict, error)
        return np.zeros(len(view), dtype=bool)
    is_whole = type(answer) is np.ndarray and answer.shape == evaluation.cost.shape
    if is_whole and answer.dtype == BOOL:
        return answer  # type: ignore[no-any-return]
    expected = format_count(len(view), "bool")
    text = f"filter {filter_.name!r} returned {_shape(answer)}, not {expected}"
    _mark_failed(filter_.name, text, evaluation, strict)
    return np.zeros(len(view), dtype=bool)


def _score(
    weigher: BoundWeigher, view: View, request: Request, evaluation: Evaluation, strict: bool
) -> Floats:
    try:
        answer: Any = weigher.evaluate(view, request)
    except (Exception, SystemExit) as error:
        text = f"weigher {weigher.name!r} failed: {describe_error(error)}"
        _mark_failed(weigher.name, one_line(text), evaluation, strict, error)
        return np.zeros(len(view))
    if type(answer) is np.ndarray and answer.shape == evaluation.cost.shape:
        if answer.dtype == FLOAT:
            return answer
        if answer.dtype.kind in "fiu":
            return answer.astype(FLOAT)
    expected = format_count(len(view), "number")
    text = f"weigher {weigher.name!r} returned {_shape(answer)}, not {expected}"
    _mark_failed(weigher.name, text, evaluation, strict)
    return np.zeros(len(view))


def _clamp_scores(evaluation: Evaluation, bound: BoundPolicy, strict: bool) -> None:
    if _all_within(evaluation.scores):
        return
    for score, weigher in zip(evaluation.scores, bound.weighers, strict=True):
        if not _all_within(score):
            score[:] = _clamped_score(score, weigher, evaluation, strict)


def _clamped_score(
    score: Floats, weigher: BoundWeigher, evaluation: Evaluation, strict: bool
) -> Floats:
    _note(f"weigher {weigher.name!r} left 0..1: clamped, and NaN counted as 0", evaluation, strict)
    return np.clip(np.nan_to_num(score, nan=0.0), 0.0, 1.0)


def _all_within(scores: Floats) -> bool:
    """Return whether all scores are within 0..1; one that is NaN is not."""
    if not scores.size:
        return True
    if scores.strides == (0,):
        return 0.0 <= float(scores[0]) <= 1.0
    # read as whole numbers, floats from 0 to 1 are the least: -0, all below it and NaN are above
    most = np.maximum.reduce(scores.view(np.uint64), axis=None)
    return bool(most <= ONE or scores.min() >= 0 >= scores.max() - 1)


def _mark_failed(
    name: str, text: str, evaluation: Evaluation, strict: bool, cause: BaseException | None = None
) -> None:
    _note(text, evaluation, strict, cause)
    evaluation.failed_plugins.add(name)


def _note(
    text: str, evaluation: Evaluation, strict: bool, cause: BaseException | None = None
) -> None:
    if strict:
        raise PluginError(text) from cause
    if text not in evaluation.notes:
        evaluation.notes.append(text)


def _shape(answer: Any) -> str:
    if type(answer) is np.ndarray:
        return f"an array of {answer.dtype} of shape {answer.shape}"
    return f"a {type(answer).__name__}"


def funnel(bound: BoundPolicy, verdicts: Mask, size: int) -> list[tuple[str, int, int]]:
    """Return per filter how many pools came in and how many went on."""
    steps: list[tuple[str, int, int]] = []
    passing, answers = np.ones(size, dtype=bool), iter(verdicts)
    for name in bound.filter_names:
        before = int(passing.sum())
        passing = passing if name in bound.idle_filters else passing & next(answers)
        steps.append((name, before, int(passing.sum())))
    return steps


def first_failures(verdicts: Mask) -> Sequence[int]:
    """Return per pool the index of the first filter that rejects it, -1 where none does."""
    if not len(verdicts):
        return [-1] * verdicts.shape[1]
    rejected = ~verdicts
    first = np.where(rejected.any(axis=0), rejected.argmax(axis=0), -1)
    return first.tolist()  # type: ignore[no-any-return]
