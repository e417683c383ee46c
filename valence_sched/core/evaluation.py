# SPDX-License-Identifier: Apache-2.0
"""Evaluation: the verdicts, scores and costs of all pools for a request under a policy."""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from valence_sched.core.fit.fit import Fit, Fitter, Spending, Undecided
from valence_sched.core.policy import (
    COST_SCALE,
    INFINITE_COST,
    BoundFilter,
    BoundPolicy,
    BoundWeigher,
)
from valence_sched.errors import PluginError, describe_error, one_line
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request
from valence_sched.view.view import Floats, Ints, Mask, View


def _tracked(name: str) -> Any:
    """Return a property that records reads of data that changes when nodes are placed."""
    field_of = getattr(View, name)

    def read(view: "TrackedView") -> Any:
        view.was_read = True
        return field_of.__get__(view)

    return property(read, field_of.__set__)


def _tracked_call(name: str) -> Any:
    """Return a method that records each read, memoised or not, of data that nodes change."""
    method = getattr(View, name)

    def call(view: "TrackedView", *arguments: Any, **options: Any) -> Any:
        view.was_read = True
        return method(view, *arguments, **options)

    return call


class TrackedView(View):
    """A View that records whether a plug-in reads data that changes when nodes are placed.

    Placing nodes changes block counts, resources, block tables, and memoised values.
    """

    __slots__ = ("was_read",)
    was_read: bool
    block_counts = _tracked("block_counts")
    podm_block_counts = _tracked("podm_block_counts")
    resources = _tracked("resources")
    block_tables = _tracked("block_tables")
    free = _tracked_call("free")
    free_table = _tracked_call("free_table")
    memoise_free = _tracked_call("memoise_free")


def track_view(view: View) -> TrackedView:
    """Return the same View, tracked; it shares the memo of the View."""
    tracked = TrackedView(*_fields(view))
    tracked.was_read = False
    return tracked


_fields = operator.attrgetter(*View.__dataclass_fields__)


class TrackedRequest(Request, frozen=True, kw_only=True, dict=True):
    """A request that records whether a plug-in reads its field ``group_state``."""

    def __getattribute__(self, name: str) -> Any:
        if name == "group_state":
            object.__getattribute__(self, "__dict__")["was_read"] = True
        return super().__getattribute__(name)

    @property
    def was_read(self) -> bool:
        return bool(self.__dict__.get("was_read"))


def track_request(request: Request) -> TrackedRequest:
    """Return the same request, tracked."""
    fields = request.__struct_fields__
    return _tracked_class(type(request))(**{name: getattr(request, name) for name in fields})


@functools.cache
def _tracked_class(kind: type[Request]) -> type[TrackedRequest]:
    """Return the tracking class for a class of requests, which may be a subclass of Request."""
    if kind is Request:
        return TrackedRequest
    struct: Any = type(Request)
    name, bases = f"Tracked{kind.__name__}", (TrackedRequest, kind)
    return struct(name, bases, {}, frozen=True, kw_only=True, dict=True)  # type: ignore[no-any-return]


ONE = np.float64(1.0).view(np.uint64)
FLOAT = np.dtype(np.float64)
Use = BoundFilter | BoundWeigher
#: By kind of plug-in: its name, the kinds of numbers that it may return, their type, and a noun.
FILTER = ("filter", "b", np.dtype(bool), "bool")
WEIGHER = ("weigher", "fiu", FLOAT, "number")


class Evaluation(msgspec.Struct):
    """The answers of every filter and weigher for every pool.

    ``filter_verdicts`` and ``weigher_scores`` (0..1) have an array of shape ``(pools,)`` for each
    plug-in. ``cost`` is the weighted sum of ``COST_SCALE × (1 - score)``, and ``INFINITE_COST``
    where a filter rejects. A placed node changes the answers of ``availability_readers`` for its
    own podm, and the answers of ``group_state_readers`` for any pool. ``failed_plugins`` are not
    called again in a decision.
    """

    filter_verdicts: Sequence[Mask] | Mask
    weigher_scores: Sequence[Floats] | Floats
    cost: Ints
    notes: list[str] = msgspec.field(default_factory=list)
    availability_readers: frozenset[str] = frozenset()
    failed_plugins: set[str] = msgspec.field(default_factory=set)
    group_state_readers: frozenset[str] = frozenset()

    @property
    def verdicts(self) -> Mask:
        """The verdicts as one writable table of shape ``(filters, pools)``."""
        if not isinstance(self.filter_verdicts, np.ndarray):
            size = (len(self.filter_verdicts), len(self.cost))
            self.filter_verdicts = np.array(self.filter_verdicts, dtype=bool).reshape(size)
        return self.filter_verdicts

    @property
    def scores(self) -> Floats:
        """The scores as one writable table of shape ``(weighers, pools)``."""
        if not isinstance(self.weigher_scores, np.ndarray):
            size = (len(self.weigher_scores), len(self.cost))
            self.weigher_scores = np.array(self.weigher_scores, dtype=np.float64).reshape(size)
        return self.weigher_scores

    def scores_of(self, row: int) -> tuple[float, ...]:
        return tuple([float(scores[row]) for scores in self.weigher_scores])

    def copy(self) -> "Evaluation":
        """Return an evaluation whose arrays can be changed without changing this one."""
        return self.with_rows(self.verdicts.copy(), self.scores.copy(), self.cost.copy()).detached()

    def select(self, rows: Ints | slice) -> "Evaluation":
        """Return the evaluation of some rows: a copy, or views for a slice."""
        verdicts, scores, cost = self.verdicts, self.scores, self.cost
        if isinstance(rows, slice):
            return self.with_rows(verdicts[:, rows], scores[:, rows], cost[rows])
        return self.with_rows(verdicts.take(rows, axis=1), scores.take(rows, axis=1), cost[rows])

    def write(self, rows: Ints | slice, part: "Evaluation") -> None:
        self.verdicts[:, rows] = part.verdicts
        self.scores[:, rows] = part.scores
        self.cost[rows] = part.cost

    def with_rows(self, verdicts: Mask, scores: Floats, cost: Ints) -> "Evaluation":
        """Return an evaluation of other rows; notes and failed plug-ins are shared."""
        readers = self.availability_readers, self.failed_plugins, self.group_state_readers
        return Evaluation(verdicts, scores, cost, self.notes, *readers)

    def detached(self) -> "Evaluation":
        """Return this evaluation with its own copy of the notes and of the failed plug-ins."""
        self.notes, self.failed_plugins = list(self.notes), set(self.failed_plugins)
        return self


@dataclass(slots=True)
class EvaluationContext:
    """A snapshot, a request under a policy, their evaluation, and the fitter of the needs.

    A context never changes. It is not a frozen class because frozen objects take three times as
    long to make. ``planned`` has the fits that a plan chose, by alternative, from the present
    alternative on; None: the scheduler chooses. ``other_nodes`` is the number of nodes of other
    requests in the same decision, which may take the blocks of an alternate.
    """

    view: View
    request: Request
    bound: BoundPolicy
    evaluation: Evaluation
    fitter: Fitter
    strict: bool = False  # raise an error if a plug-in breaks its contract
    other_nodes: int = 0
    spending: Spending = field(default_factory=Spending)
    planned: tuple[tuple[Fit, ...], ...] | None = None
    earlier: tuple[Fit, ...] = ()  # the fits of nodes that the same decision placed on this View
    turn: int = 0  # the number of nodes that the decision placed in all zones

    def fit(self, view: View, row: int) -> Fit | Undecided | None:
        """Return the fit of the request in one row of a view of these podms."""
        return self.fitter.fit(view, row, self.spending)

    def with_others(self, nodes: int, spending: Spending | None) -> "EvaluationContext":
        """Return the context in a decision that also has ``nodes`` nodes of other requests."""
        return replace(self, other_nodes=nodes, spending=spending or self.spending)

    def window(self, first: int, last: int, count: int) -> "EvaluationContext":
        """Return the context of ``count`` nodes on rows ``[first, last)`` of whole podms."""
        return replace(
            self,
            view=self.view.window(first, last),
            evaluation=self.evaluation.select(slice(first, last)),
            request=msgspec.structs.replace(self.request, count=count, alternates=0),
            spending=Spending(self.bound.policy.budget),
        )


def evaluate(
    view: View, request: Request, bound: BoundPolicy, *, strict: bool = False
) -> Evaluation:
    """Call every filter and every weigher on all pools.

    A filter that fails rejects every pool and a weigher that fails scores 0; the notes name them.
    PluginError: with ``strict``, a plug-in broke its contract.
    """
    verdicts: list[Mask] = []
    scores: list[Floats] = []
    evaluation = Evaluation(verdicts, scores, np.empty(len(view), dtype=np.int64))
    related = request.group is not None or request.owner is not None
    tracked = track_view(view)
    asked = track_request(request) if related else request

    def note_reads(name: str) -> None:  # reads of data that a placed node changes
        if tracked.was_read:
            evaluation.availability_readers |= {name}
            tracked.was_read = False
        if isinstance(asked, TrackedRequest) and asked.was_read:
            evaluation.group_state_readers |= {name}
            vars(asked)["was_read"] = False

    passed = every = view.all_rows
    for filter_ in bound.filters:
        mask = _answer(filter_, tracked, asked, evaluation, strict)
        if mask is not every:
            passed = passed & mask
        verdicts.append(mask)
        note_reads(filter_.name)
    for weigher in bound.weighers:
        score = _answer(weigher, tracked, asked, evaluation, strict)
        scores.append(_clamped_score(score, weigher, evaluation, strict))
        note_reads(weigher.name)
    write_costs(evaluation, bound, row_weights(view, bound), passed)
    return evaluation


def context_of(
    view: View, request: Request, bound: BoundPolicy, *, strict: bool = False
) -> EvaluationContext:
    """Return the context of a decision on a request, with all pools evaluated."""
    budget = bound.policy.budget
    evaluation = evaluate(view, request, bound, strict=strict)
    fitter = Fitter(request.needs, view.kinds, request.topology, budget)
    spending = Spending(budget)
    return EvaluationContext(view, request, bound, evaluation, fitter, strict, spending=spending)


def reevaluate(
    view: View, request: Request, bound: BoundPolicy, evaluation: Evaluation, strict: bool = False
) -> None:
    """Call again the plug-ins that read free capacity, and overwrite their rows."""
    _call_again(view, request, bound, evaluation, evaluation.availability_readers, strict)
    write_costs(evaluation, bound, row_weights(view, bound))


def reevaluate_group_state(
    view: View, request: Request, bound: BoundPolicy, evaluation: Evaluation, strict: bool = False
) -> Mask:
    """Call again the plug-ins that read the group state, without costs; return changed rows."""
    changed = np.zeros(len(view), dtype=bool)
    _call_again(view, request, bound, evaluation, evaluation.group_state_readers, strict, changed)
    return changed


def _call_again(
    view: View,
    request: Request,
    bound: BoundPolicy,
    evaluation: Evaluation,
    readers: frozenset[str],
    strict: bool,
    changed: Mask | None = None,
) -> None:
    """Write the new answers of some plug-ins, and mark in ``changed`` the rows that differ."""
    names = readers - evaluation.failed_plugins
    for answers, use in zip((*evaluation.verdicts, *evaluation.scores), bound.plugins, strict=True):
        if use.name in names:
            found = _answer(use, view, request, evaluation, strict)
            if changed is not None:
                changed |= answers != found
            answers[:] = found
    if not _all_within(evaluation.scores):
        for score, weigher in zip(evaluation.scores, bound.weighers, strict=True):
            score[:] = _clamped_score(score, weigher, evaluation, strict)


def row_weights(view: View, bound: BoundPolicy) -> Ints | None:
    """Return the weights, shape ``(weighers, rows)``; None if all rows have the same weights."""
    if not bound.weights_vary:
        return None
    return np.array([weigher.weights(view) for weigher in bound.weighers])


def write_costs(
    evaluation: Evaluation,
    bound: BoundPolicy,
    weights: Ints | None = None,
    passed: Mask | None = None,
) -> None:
    """Compute the costs of an evaluation; ``passed`` is the mask of rows that pass all filters.

    With ``weights``, a row's cost is a mean with its own weights, scaled so that rows are
    comparable: ``worst × sum(weight × cost) / sum(weight)``, as a whole number. If all weights of a
    row are 0, it has the largest cost.
    """
    if passed is None:
        passed = np.logical_and.reduce(evaluation.verdicts)
    if weights is not None:
        costs = COST_SCALE - np.rint(evaluation.scores * COST_SCALE)
        whole = weights.sum(axis=0)
        mean = np.full(len(evaluation.cost), float(COST_SCALE))
        np.divide((weights * costs).sum(axis=0), whole, out=mean, where=whole > 0)
        evaluation.cost[:] = np.rint(mean * bound.worst_cost)
    elif isinstance(evaluation.weigher_scores, np.ndarray):
        # whole numbers far below 2**53, which are exact as floats
        gains = np.rint(evaluation.weigher_scores * COST_SCALE)
        gains *= bound.weights
        evaluation.cost[:] = COST_SCALE * bound.worst_cost - np.add.reduce(gains)
    else:
        total = np.full(len(evaluation.cost), float(COST_SCALE * bound.worst_cost))
        for score, weigher in zip(evaluation.weigher_scores, bound.weighers, strict=True):
            # a broadcast array: the score is the same for all pools
            if score.strides == (0,) and len(score):
                total -= weigher.weight * round(float(score[0]) * COST_SCALE)
                continue
            gain = score * COST_SCALE
            np.rint(gain, out=gain)
            gain *= weigher.weight
            total -= gain
        evaluation.cost[:] = total
    evaluation.cost[(~passed).nonzero()[0]] = INFINITE_COST


def _answer(use: Use, view: View, request: Request, evaluation: Evaluation, strict: bool) -> Any:
    """Return the array of a plug-in's answers, False or 0 for all if it breaks its contract."""
    kind, dtypes, dtype, noun = FILTER if isinstance(use, BoundFilter) else WEIGHER
    cause = None
    try:
        answer: Any = use.evaluate(view, request)
        is_whole = type(answer) is np.ndarray and answer.shape == evaluation.cost.shape
        if is_whole and answer.dtype.kind in dtypes:
            return answer.astype(dtype, copy=False)
        found = f"a {type(answer).__name__}"
        if type(answer) is np.ndarray:
            found = f"an array of {answer.dtype} of shape {answer.shape}"
        text = f"returned {found}, not {format_count(len(view), noun)}"
    except (Exception, SystemExit) as error:
        text, cause = f"failed: {describe_error(error)}", error
    _note(one_line(f"{kind} {use.name!r} {text}"), evaluation, strict, cause)
    evaluation.failed_plugins.add(use.name)
    return np.zeros(len(view), dtype=dtype)


def _clamped_score(
    score: Floats, weigher: BoundWeigher, evaluation: Evaluation, strict: bool
) -> Floats:
    if _all_within(score):
        return score
    text = "returned scores outside 0..1: clamped, NaN counted as 0"
    _note(f"weigher {weigher.name!r} {text}", evaluation, strict)
    return np.clip(np.nan_to_num(score, nan=0.0), 0.0, 1.0)


def _all_within(scores: Floats) -> bool:
    """Return whether all scores are within 0..1; NaN is not."""
    if not scores.size:
        return True
    if scores.strides == (0,):
        return 0.0 <= float(scores[0]) <= 1.0
    # compared as unsigned integers, the bits of 0..1 are the smallest: the bits of -0, negative
    # numbers, numbers above 1 and NaN are larger
    most = np.maximum.reduce(scores.view(np.uint64), axis=None)
    return bool(most <= ONE or scores.min() >= 0 >= scores.max() - 1)


def _note(
    text: str, evaluation: Evaluation, strict: bool, cause: BaseException | None = None
) -> None:
    if strict:
        raise PluginError(text) from cause
    if text not in evaluation.notes:
        evaluation.notes.append(text)


def funnel(bound: BoundPolicy, verdicts: Mask, size: int) -> list[tuple[str, int, int]]:
    """Return each filter with the numbers of pools before and after it."""
    steps: list[tuple[str, int, int]] = []
    passing, before, answers = np.ones(size, dtype=bool), size, iter(verdicts)
    for name in bound.filter_names:
        if name not in bound.idle_filters:
            passing &= next(answers)
        after = int(passing.sum())
        steps.append((name, before, after))
        before = after
    return steps


def first_failures(verdicts: Mask) -> Sequence[int]:
    """Return the index of the first filter that rejects each pool; -1 if it passes all filters."""
    if not len(verdicts):
        return [-1] * verdicts.shape[1]
    rejected = ~verdicts
    first = np.where(rejected.any(axis=0), rejected.argmax(axis=0), -1)
    return first.tolist()  # type: ignore[no-any-return]
