# SPDX-License-Identifier: Apache-2.0
"""The contract of filters and weighers, as checks that raise AssertionError.

A plug-in is a pure function of a View and a Request. It answers each row independently of the
others, so that any selection of rows gets the same answers as the whole; it gives the same answer
again, and it changes nothing, not even an earlier answer. Each check raises ``AssertionError`` with
a line that says what is wrong.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valence_sched.core import plugins
from valence_sched.errors import describe_error
from valence_sched.model.inventory import to_json
from valence_sched.model.request import Request
from valence_sched.view.stocks import StockColumn
from valence_sched.view.view import View

Answer = npt.NDArray[Any]
PluginFunction = Callable[..., Any]
Scene = tuple[View, Request]


def check_signature(function: PluginFunction) -> None:
    """Check that options are keyword-only with defaults, and that there is a help text."""
    name = _name(function)
    summary = plugins.summary(function).split()
    _require(len(summary) >= 3, f"{name} has no docstring whose first line says what it does")
    for parameter in inspect.signature(function).parameters.values():
        parameter_name = f"{name}: parameter {parameter.name!r}"
        _require(
            parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD),
            f"{parameter_name} takes whatever comes: name each option",
        )
        keyword = parameter.kind is parameter.KEYWORD_ONLY
        default = parameter.default is not parameter.empty
        _require(not keyword or default, f"{parameter_name} is an option without a default")
        _require(keyword or not default, f"{parameter_name} is an option that is not keyword-only")


def check_answers(
    function: PluginFunction,
    options: Mapping[str, Any],
    scenes: Sequence[Scene],
    check: Callable[[str, Any, int], Answer],
) -> None:
    """Check the form of every answer, that a call changes nothing, and that rows are local."""
    for view, request in scenes:
        name = f"{_name(function)} on {view.podm_ids}"
        before = fingerprint(view, request)
        first = check(name, _ask(name, function, view, request, options), len(view))
        answer, second = first.copy(), _ask(name, function, view, request, options)
        _require(_same(answer, second), f"{name} answers differently when asked again")
        _require(
            not first.flags.writeable or not np.shares_memory(first, second),
            f"{name} answers in an array that it has given away: make a new one each time",
        )
        for selection, rows, part in selections(view):
            part_answer = check(name, _ask(name, function, part, request, options), len(part))
            _require(
                _same(answer[rows], part_answer),
                f"{name} is not row-local: {selection} answers {part_answer.tolist()}, "
                f"in the whole view {answer[rows].tolist()}",
            )
        _require(fingerprint(view, request) == before, f"{name} wrote to the view or the request")
        _check_terms(name, function, view, request, options, answer)


def check_mask(name: str, answer: Any, rows: int) -> Answer:
    """Check that an answer is one bool per row."""
    return _array(name, answer, rows, np.bool_)


def check_scores(name: str, answer: Any, rows: int) -> Answer:
    """Check that an answer is one float per row, each within 0..1."""
    scores = _array(name, answer, rows, np.floating)
    _require(not np.isnan(scores).any(), f"{name} answers NaN")
    inside = (scores >= 0.0) & (scores <= 1.0)
    _require(bool(inside.all()), f"{name} leaves 0..1: {scores[~inside].tolist()}")
    return scores


def selections(view: View) -> Iterator[tuple[str, npt.NDArray[np.int64], View]]:
    """Yield parts of a View: each row alone, each podm as a window, and a mix with a row twice."""
    for row in range(len(view)):
        yield f"row {row} taken alone", np.array([row]), view.take([row])
    for podm in range(len(view.podms)):
        first, last = int(view.first_row[podm]), int(view.first_row[podm + 1])
        yield f"window {first}:{last}", np.arange(first, last), view.window(first, last)
    mixed = np.array([*range(len(view) - 1, -1, -1), 0])
    yield "all rows backwards and the first again", mixed, view.take(mixed)


def fingerprint(view: View, request: Request) -> bytes:
    """Return all data that a plug-in could write to, as bytes."""
    labels = (view.zone, view.status, view.aggregates, view.capabilities, view.traits)
    arrays: list[npt.NDArray[Any]] = [view.first_row, view.podm_of, view.position_of]
    arrays += [view.enabled, view.lot]
    arrays += [label.codes for label in labels]
    for counts in (view.block_counts, view.podm_block_counts):
        arrays += [counts.start, counts.kind, counts.free, counts.total]
    columns: list[StockColumn] = list(view.resources.values())
    arrays += [array for column in columns for array in column.arrays()]
    values = [
        [sorted(one) if isinstance(one, frozenset) else one for one in label.values]
        for label in labels
    ]
    tables = [repr(table) for table in view.block_tables]
    kinds = [kind.sort_key.decode() for kind in view.kinds.kinds]
    documents = to_json([view.podms, view.pools, values, tables, kinds, request])
    return documents + b"".join(array.tobytes() for array in arrays)


def _check_terms(
    name: str,
    function: PluginFunction,
    view: View,
    request: Request,
    options: Mapping[str, Any],
    answer: Answer,
) -> None:
    make = getattr(function, "terms", None)
    if make is None:
        return
    conjunction = np.ones(len(view), dtype=bool)
    for term in make(view, request, **options):
        _require(bool(term.label), f"{name} compares without a label")
        whole = term.mask.shape == (len(view),)
        _require(whole, f"{name}: {term.label} is not one comparison a row")
        for row in range(len(view)):
            term.have[row]
        conjunction &= term.mask
    _require(_same(conjunction, answer), f"{name} explains another answer than it gives")


def _ask(
    name: str, function: PluginFunction, view: View, request: Request, options: Mapping[str, Any]
) -> Any:
    try:
        return function(view, request, **options)
    except Exception as error:
        hint = ""
        if isinstance(error, ValueError) and "read-only" in str(error):
            hint = ": it wrote to the view"
        raise AssertionError(f"{name} raised {describe_error(error)}{hint}") from error


def _array(name: str, answer: Any, rows: int, kind: type[np.generic]) -> Answer:
    _require(type(answer) is np.ndarray, f"{name} returned a {type(answer).__name__}, no array")
    array: Answer = answer
    _require(array.shape == (rows,), f"{name} returned shape {array.shape}, there are {rows} rows")
    right = bool(np.issubdtype(array.dtype, kind))
    _require(right, f"{name} returned {array.dtype}, not {kind.__name__}")
    return array


def _same(one: Answer, other: Answer) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype != np.bool_))


def _name(function: PluginFunction) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)
