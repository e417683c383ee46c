# SPDX-License-Identifier: Apache-2.0
"""Judge, rank, fit: from a View and a request to the pool and the blocks that make the node."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from valence_sched.core.fit import Fit
from valence_sched.core.policies import BoundFilter, BoundPolicy, BoundWeigher
from valence_sched.errors import PluginError, one_line
from valence_sched.model.request import Request
from valence_sched.model.view import Floats, Ints, Mask, View, watch

#: A score of 1 costs 0, a score of 0 costs this much: costs are whole numbers, low is best.
SCALE = 1_000_000
FAILED = object()  # stands for the answer of a plugin that raised
NEVER = np.iinfo(np.int64).max

_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

Lots = npt.NDArray[np.uint64]
#: How a scheduler goes through the pools: (view, cost, request, turn) to rows, best first.
Order = Callable[[View, Ints, Request, int], Iterator[int]]
#: Finds what makes the node on a row, if anything does.
Fits = Callable[[int], Fit | None]


@dataclass(slots=True)
class Judgement:
    """What every filter and weigher said of every pool.

    ``verdicts`` is bool, filters × pools; ``scores`` is 0..1, weighers × pools; ``cost`` is the
    weighted sum of ``SCALE × (1 - score)`` per pool, ``NEVER`` where a filter rejects.
    ``moving`` names the plugins that looked at what is free: depletion can change only these.
    """

    verdicts: Mask
    scores: Floats
    cost: Ints
    notes: list[str] = field(default_factory=list)
    moving: frozenset[str] = frozenset()

    def copy(self) -> Judgement:
        """Return a judgement whose arrays can be changed without changing this one."""
        return Judgement(
            self.verdicts.copy(),
            self.scores.copy(),
            self.cost.copy(),
            list(self.notes),
            self.moving,
        )

    def window(self, first: int, last: int) -> Judgement:
        """Return rows ``[first, last)`` as windows on the same memory."""
        return Judgement(
            self.verdicts[:, first:last],
            self.scores[:, first:last],
            self.cost[first:last],
            self.notes,
            self.moving,
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
        row[:] = _verdict(filter_, watched, request, fresh.notes, strict)
        if watched.looked:
            moving.add(filter_.name)
    for score, weigher in zip(fresh.scores, bound.weighers, strict=True):
        watched.looked = False
        score[:] = _score(weigher, watched, request, fresh.notes, strict)
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
    notes: list[str] = []
    for row, filter_ in zip(judgement.verdicts, bound.filters, strict=True):
        if filter_.name in judgement.moving:
            row[:] = _verdict(filter_, view, request, notes, strict)
    for score, weigher in zip(judgement.scores, bound.weighers, strict=True):
        if weigher.name in judgement.moving:
            score[:] = _score(weigher, view, request, notes, strict)
    judgement.notes += [note for note in notes if note not in judgement.notes]
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
        judgement.cost[~np.logical_and.reduce(judgement.verdicts)] = NEVER


def _verdict(
    filter_: BoundFilter, view: View, request: Request, notes: list[str], strict: bool
) -> Any:
    answer = _ask("filter", filter_, view, request, notes, strict)
    if isinstance(answer, np.ndarray) and answer.shape == (len(view),) and answer.dtype == bool:
        return answer
    if answer is not FAILED:
        text = f"filter {filter_.name!r} returned {_shape(answer)}, not {len(view)} bools"
        _complain(text, notes, strict)
    return False


def _score(
    weigher: BoundWeigher, view: View, request: Request, notes: list[str], strict: bool
) -> Any:
    answer = _ask("weigher", weigher, view, request, notes, strict)
    if answer is FAILED:
        return 0.0
    name = f"weigher {weigher.name!r}"
    numbers = isinstance(answer, np.ndarray) and np.issubdtype(answer.dtype, np.number)
    if not numbers or answer.shape != (len(view),):
        _complain(f"{name} returned {_shape(answer)}, not {len(view)} numbers", notes, strict)
        return 0.0
    if len(answer) and not (answer.min() >= 0.0 and answer.max() <= 1.0):
        _complain(f"{name} left 0..1: clamped, and NaN counted as 0", notes, strict)
        return np.clip(np.nan_to_num(answer, nan=0.0), 0.0, 1.0)
    return answer


def _ask(
    kind: str,
    plugin: BoundFilter | BoundWeigher,
    view: View,
    request: Request,
    notes: list[str],
    strict: bool,
) -> Any:
    try:
        return plugin.judge(view, request)
    except Exception as error:
        text = one_line(f"{kind} {plugin.name!r} failed: {type(error).__name__}: {error}")
        if strict:
            raise PluginError(text) from error
        notes.append(text)
        return FAILED


def _complain(text: str, notes: list[str], strict: bool) -> None:
    if strict:
        raise PluginError(text)
    notes.append(text)


def _shape(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} of shape {answer.shape}"
    return f"a {type(answer).__name__}"


def drawn(lots: Lots, request: Request, turn: int = 0) -> Lots:
    """Return lots mixed with (request id, seed, turn): random across requests, equal on replay.

    A pool's lot does not depend on which others are there, so zones draw alike whether they are
    flat or a tree. The mixing is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
    """
    return _mixed(lots ^ _salt(request.id, request.seed, turn))


def by_lot(view: View, rows: Ints, request: Request, turn: int = 0) -> Ints:
    """Return ``rows`` in the order in which this request draws them."""
    if len(rows) < 2:
        return rows
    if turn:
        lots = drawn(view.lot[rows], request, turn)
    else:  # asked again for every node of a batch
        key = (request.id, request.seed)
        lots = view.latest("drawn", key, lambda: drawn(view.lot, request))[rows]
    return rows[lots.argsort(kind="stable")]


def _mixed(lots: Lots) -> Lots:
    lots = (lots ^ (lots >> _30)) * _FIRST
    lots = (lots ^ (lots >> _27)) * _SECOND
    return lots ^ (lots >> _31)


@functools.lru_cache(maxsize=16)
def _salt(name: str, seed: int, turn: int) -> np.uint64:
    text = f"{name}\0{seed}\0{turn}".encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big"))


def ranked(view: View, cost: Ints, request: Request, turn: int) -> Iterator[int]:
    """Yield the rows that pass, best first; equals by a lot that is the same on every turn."""
    left = cost
    while len(left):
        best = left.min()
        if best == NEVER:
            return
        rows = (left == best).nonzero()[0]
        yield from by_lot(view, rows, request).tolist()
        left = left.copy() if left is cost else left
        left[rows] = NEVER


def best(
    view: View,
    rows: Iterator[int],
    fits: Fits,
    request: Request,
    bound: BoundPolicy,
    turn: int,
    barren: set[int],
) -> Fit | None:
    """Return the fit of the first of ``rows`` that makes the node, None when none does.

    With ``pick.best_of`` K, one of the first K by lot. Rows that passed all filters but have no
    set of blocks that makes the node are added to ``barren``, and those in it are not asked.
    """
    found: list[Fit] = []
    for row in rows:
        fit = fits(row) if row not in barren else None
        if fit is None:
            barren.add(row)
            continue
        found.append(fit)
        if len(found) == bound.policy.pick.best_of:
            break
    if len(found) < 2:
        return found[0] if found else None
    order = by_lot(view, np.array([fit.row for fit in found]), request, 1 + turn)
    return next(fit for fit in found if fit.row == order[0])


def alternates(
    view: View, rows: Iterator[int], fits: Fits, request: Request, chosen: Fit
) -> list[Fit]:
    """Return the fits of the next best pools, each on a podm of its own other than the chosen."""
    found: list[Fit] = []
    podms = {int(view.podm_of[chosen.row])}
    while len(found) < request.alternates:
        row = next(rows, None)
        if row is None:
            break
        podm = int(view.podm_of[row])
        fit = fits(row) if podm not in podms else None
        if fit is not None:
            found.append(fit)
            podms.add(podm)
    return found


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
