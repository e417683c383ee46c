# SPDX-License-Identifier: Apache-2.0
"""The contract of filters and weighers, as checks that raise AssertionError with one line.

A plug-in is a pure function of a View and a Request. It answers each row independently of the
others: any selection of rows gets the same answers as the whole. It repeats its answer, and changes
nothing, not even an earlier answer.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valence_sched.core import plugins
from valence_sched.errors import describe_error
from valence_sched.model.inventory import to_json
from valence_sched.model.request import Request
from valence_sched.view.view import View

_CPU = {"processors": [{"count": 2, "cores": 16, "model": "Intel Xeon Gold 6338"}]}
_CPU_AND_MEMORY = {**_CPU, "memory": [{"count": 8, "capacity_mib": 16384, "type": "DDR4"}]}
_GPU = {"accelerators": [{"kind": "GPU", "model": "NVIDIA A100 80GB", "memory_mib": 81920}]}
_UNTOLD: dict[str, Any] = {"processors": [{}], "memory": [{"count": 4}], "drives": [{"count": 2}]}
_UNTOLD |= {"accelerators": [{"kind": "GPU"}], "nics": [{}]}

#: Pod managers that differ in everything that a plug-in can read, in the inventory's JSON form.
PODMS: tuple[dict[str, Any], ...] = (
    {"id": "plain", "name": "Plain", "driver": "redfish", "zone": "az1",
     "aggregates": ["rack-1", "ssd"],
     "capabilities": {"hypervisor": ["kvm", "xen"], "os": ["linux"]},
     "traits": ["COOLED"],
     "facts": {"year": 2024, "noise_db": 40.5, "owner": "physics", "labels": ["a", "b"],
      "location": ["dc1/row-3/rack-7", "hall-1"], "rack": 7, "health": "OK"},
     "generation": 7,
     "blocks": [{"uri": "c1", "type": ["Compute"], "devices": _CPU_AND_MEMORY},
      {"uri": "c2", "type": ["Compute"], "devices": _CPU_AND_MEMORY},
      {"uri": "g1", "type": ["Processor"], "devices": _GPU},
      {"uri": "d1", "type": ["Storage"],
       "devices": {"drives": [{"count": 4, "capacity_bytes": 10**12, "media": "SSD"}]}},
      {"uri": "n1", "type": ["Network"], "devices": {"nics": [{"speed_mbps": 25000}]}}],
     "stocks": [{"uri": "s1", "resource": "storage_gib", "unit": "GiB", "total": 1000,
       "used": 250}],
     "nodes": [{"uri": "n", "blocks": ["c2"], "owner": "physics", "group": "web"}]},
    {"id": "pools", "zone": "az2", "aggregates": ["rack-2"],
     "capabilities": {"os": ["windows"], "reserved_for": ["physics", "chemistry"]},
     "facts": {"year": 2016, "noise_db": 71, "location": ["dc1/row-3", "dc2", "hall-1"],
      "rack": "8", "health": "Critical", "quarantine": "no"},
     "pools": [{"id": "1", "limits": {"Compute": {"min": 1, "max": 1}}, "traits": ["CXL"]},
      {"id": "2", "traits": ["WARM"]}, {"id": "3"}],
     "blocks": [{"uri": "c1", "type": ["Compute"], "pools": ["1"], "devices": _CPU_AND_MEMORY},
      {"uri": "c2", "type": ["Compute"], "pools": ["1", "2"], "devices": _CPU},
      {"uri": "c3", "type": ["Compute", "Storage"], "pools": ["2"],
       "status": {"reserved": True}, "devices": _CPU_AND_MEMORY},
      {"uri": "g1", "type": ["Processor"], "pools": ["1", "2"],
       "status": {"state": "ComposedAndAvailable", "shareable": True,
        "max_compositions": 4, "compositions": 1}, "devices": _GPU},
      {"uri": "g2", "type": ["Processor"], "pools": ["2"],
       "status": {"state": "Composed", "compositions": 1}, "devices": _GPU}],
     "stocks": [{"uri": "s1", "resource": "storage_gib", "pools": ["1", "2"], "total": 640,
       "used": 64, "min": 64, "max": 256, "step": 64},
      {"uri": "s2", "resource": "cxl_memory_mib", "pools": ["2"], "total": 65536}]},
    {"id": "untold", "status": "Unknown",
     "blocks": [{"uri": "x1", "type": ["Compute"], "devices": _UNTOLD},
      {"uri": "x2", "devices": _UNTOLD}],
     "stocks": [{"uri": "s1", "resource": "storage_gib"}]},
    {"id": "offline", "status": "Offline", "zone": "az1",
     "facts": {"year": "long ago", "noise_db": -3, "quarantine": "smells",
      "failures": 9},
     "blocks": [{"uri": "c1", "type": ["Compute"], "devices": _CPU_AND_MEMORY}]},
    {"id": "full", "zone": "az1", "aggregates": ["rack-1"],
     "facts": {"year": 1e9, "noise_db": 0},
     "blocks": [{"uri": "c1", "type": ["Compute"],
       "status": {"state": "Composed", "compositions": 1}, "devices": _CPU_AND_MEMORY}],
     "stocks": [{"uri": "s1", "resource": "storage_gib", "total": 10, "used": 10}]},
    {"id": "bare", "enabled": False, "pools": [{"id": "a"}, {"id": "b"}]},
)  # fmt: skip

#: The pod managers of each View: all, some in another order, one with pools, one without blocks.
PODM_SETS: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3, 4, 5), (5, 3, 1, 0), (1,), (5,), (2, 4))

_NODE: dict[str, Any] = {"processor": {"total_cores": 16}, "memory": {"capacity_mib": 32768}}

#: Flavor properties, and the other fields of the request.
REQUESTS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    (_NODE, {}),
    ({"processor": {"sockets": 1}}, {"zone": "az1", "exclude_podms": ["plain"]}),
    ({**_NODE, "accelerators": [{"model": "A100"}, {"count": 2}]},
     {"podms": ["Plain", "pools"]}),
    ({"drives": [{"count": 2, "media": "SSD", "capacity_gib": 100}], "nics": [{}]},
     {"aggregates": ["rack-1"], "capabilities": {"os": ["linux", "windows"]}}),
    ({"stocks": [{"resource": "storage_gib", "amount": 100, "count": 2}], **_NODE},
     {"traits": {"required": ["CXL"], "forbidden": ["WARM"]}}),
    ({"processor": {"sockets": 1}},
     {"attributes": {"year": ">= 2020", "facts.labels": "<or> a <or> c",
       "capabilities.os": "<in> in", "zone": "s!= az9", "status": "Online",
       "driver": "redfish"}}),
    ({"processor": {"sockets": 1}},
     {"locations": ["dc1/row-3"],
      "where": ["and",
       ["or", [">=", "$facts.year", 2020], ["not", ["=", "$zone", "az1", "az2"]]],
       ["in", "$capabilities.os", "linux", "$driver", "$facts.labels"],
       ["<=", "$free.cores", "$facts.noise_db"],
       [">", "$total.storage_gib", "$free.storage_gib"],
       ["!=", "$traits", "$aggregates"], ["=", "$enabled", True]]}),
    ({"processor": {"sockets": 1}},
     {"near": [{"thing": "volume a", "zone": "az1",
        "facts": {"labels": ["b", "z"], "year": 2024}},
       {"thing": "volume b", "aggregates": ["ssd", "rack-2"], "soft": True},
       {"thing": "port c", "zone": "az2", "facts": {"noise_db": 71}, "soft": True}]}),
    ({"stocks": [{"resource": "nobody_has_it", "amount": 1.5}]}, {"count": 3}),
    (_NODE, {"owner": "physics", "group_state": {"owned": {"plain": 2, "full": 1}}}),
    (_NODE, {"owner": "biology", "group": {"name": "web"}}),
    (_NODE,
     {"group": {"name": "web", "affinity": ["location"], "anti_affinity": ["podm"],
       "at_most": {"aggregate": 2, "facts.rack": 1}, "spread": [{"over": "zone"}]},
      "group_state": {"members": {"location": {"hall-1": 2, "row-7": 1},
        "podm": {"plain": 1, "gone": 1}, "aggregate": {"rack-1": 2, "ssd": 1},
        "zone": {"az1": 2}}, "open": {"zone": ["az1", "az2", "az3"]}}}),
    (_NODE,
     {"group": {"name": "web", "soft_affinity": ["zone", "facts.labels"],
       "soft_anti_affinity": ["location"],
       "spread": [{"over": "aggregate", "max_skew": 2, "soft": True}]},
      "group_state": {"members": {"zone": {"az2": 3}, "location": {"hall-1": 1},
        "aggregate": {"rack-1": 5, "rack-2": 1}},
       "open": {"aggregate": ["rack-1", "rack-2", "ssd"]}}}),
    ({"processor": {"total_cores": 10**6}}, {"zone": "nowhere", "aggregates": ["none"]}),
)  # fmt: skip


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
            f"{parameter_name} takes any argument: name each option",
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
    parts = functools.cache(lambda view: [*selections(view)])
    for view, request in scenes:
        name = f"{_name(function)} on {view.podm_ids}"
        before = fingerprint(view, request)
        first = check(name, _ask(name, function, view, request, options), len(view))
        answer, second = first.copy(), _ask(name, function, view, request, options)
        _require(_same(answer, second), f"{name} answers differently when asked again")
        _require(
            not first.flags.writeable or not np.shares_memory(first, second),
            f"{name} returns an array that it returned before: return a new one each time",
        )
        for selection, rows, part in parts(view):
            part_answer = check(name, _ask(name, function, part, request, options), len(part))
            _require(
                _same(answer[rows], part_answer),
                f"{name} is not row-local: {selection} answers {part_answer.tolist()}, "
                f"in the whole view {answer[rows].tolist()}",
            )
        _require(fingerprint(view, request) == before, f"{name} wrote to the view or the request")
        _check_terms(name, function, (view, request), options, answer)


def check_mask(name: str, answer: Any, rows: int) -> Answer:
    return _array(name, answer, rows, np.bool_)


def check_scores(name: str, answer: Any, rows: int) -> Answer:
    scores = _array(name, answer, rows, np.floating)
    _require(not np.isnan(scores).any(), f"{name} answers NaN")
    inside = (scores >= 0.0) & (scores <= 1.0)
    _require(bool(inside.all()), f"{name} is outside 0..1: {scores[~inside].tolist()}")
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
    labels = (view.zone, view.status, view.aggregates, view.capabilities, view.traits)
    arrays: list[npt.NDArray[Any]] = [view.first_row, view.podm_of, view.position_of, view.enabled]
    arrays += [view.lot, *(label.codes for label in labels)]
    for counts in (view.block_counts, view.podm_block_counts):
        arrays += [counts.start, counts.kind, counts.free, counts.total]
    arrays += [array for column in view.resources.values() for array in column.arrays()]
    values = [
        [sorted(one) if isinstance(one, frozenset) else one for one in label.values]
        for label in labels
    ]
    tables = [
        repr([getattr(table, name) for name in table.__struct_fields__ if not name.startswith("_")])
        for table in view.block_tables
    ]
    kinds = [kind.sort_key.decode() for kind in view.kinds.kinds]
    documents = to_json([view.podms, view.pools, values, tables, kinds, request])
    return documents + b"".join(array.tobytes() for array in arrays)


def _check_terms(
    name: str, function: PluginFunction, scene: Scene, options: Mapping[str, Any], answer: Answer
) -> None:
    make = getattr(function, "terms", None)
    if make is None:
        return
    view, request = scene
    conjunction = np.ones(len(view), dtype=bool)
    for term in make(view, request, **options):
        _require(bool(term.label), f"{name} has a comparison without a label")
        whole = term.mask.shape == (len(view),)
        _require(whole, f"{name}: {term.label} is not one comparison per row")
        for row in range(len(view)):
            term.have[row]
        conjunction &= term.mask
    _require(_same(conjunction, answer), f"{name}: its terms give another answer than the filter")


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
    _require(type(answer) is np.ndarray, f"{name} returned a {type(answer).__name__}, not an array")
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
