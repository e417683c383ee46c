# SPDX-License-Identifier: Apache-2.0
"""Parses files of flavors, policies, requests and resources; detects the format of a flavor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup, strip_ignored
from valence_sched.core.policy import bind
from valence_sched.errors import InputError, RequestError, UnknownName
from valence_sched.model import decode_error, request
from valence_sched.model.base import Noun
from valence_sched.model.codec import ShippedJson, check_schema, convert, load_yaml
from valence_sched.model.custom_resource import CustomResource
from valence_sched.model.flavor import Flavor, MemorySpec, ProcessorSpec
from valence_sched.model.policy import Policy, PolicyText
from valence_sched.model.request import Request, sealed
from valence_sched.model.request_spec import RequestFile, RequestSpec, check_syntax, compile_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from valence_sched.model.request_spec import TraceColumn

T = TypeVar("T")
Spec = TypeVar("Spec", bound=RequestSpec)
Total = TypeVar("Total", MemorySpec, ProcessorSpec)
_RECORD_FIELDS = ("created_at", "updated_at", "links")  # ignored fields of a Valence flavor
_REFUSED = {"podm_id": "name the pod manager with --podm"}


def parse_flavors(
    data: bytes,
    file: str,
    known: FlavorLookup = dict,
    remarks: list[str] | None = None,
    ignored: tuple[str, ...] = (),
) -> list[Flavor]:
    """Parse a flavors file: a list, a list under ``flavors``, or a single flavor.

    ``known`` returns the flavors that the file may name. Each key without an effect adds a line to
    ``remarks``. ``ignored`` are the keys of Nova's extra specs to skip. InputError for an invalid
    document, UnknownName for an unknown flavor, RequestError for one that contradicts itself.
    """
    flavors: list[tuple[str, Flavor]] = []
    lines: list[str] = []
    parse = _parse_own_flavor if isinstance(data, ShippedJson) else parse_flavor
    for path, item in _items(load_yaml(data, file), "flavors", file):
        flavors.append((path, parse(item, DocumentCursor(file, path, ignored, lines), known)))
    if remarks is not None:
        remarks += lines
    if isinstance(data, ShippedJson):  # tests check the files of this package
        return [flavor for _, flavor in flavors]
    return check_flavors(flavors, file)


def check_flavors(flavors: list[tuple[str, Flavor]], file: str) -> list[Flavor]:
    """Check that flavors, given with their paths, can be compiled; errors as for parsing."""
    for path, flavor in check_unique_names(flavors, file):
        check_syntax(flavor, file, path)
        if not all(alternative.needs for alternative in flavor.alternatives):
            raise InputError(file, f"{path}.properties", "no requirement", "at least one")
        try:
            sealed(compile_request(RequestSpec(flavor=flavor.name), flavor))
        except RequestError as error:
            raise error.at(f"{file}: {path}") from None
    return [flavor for _, flavor in flavors]


def parse_flavor(document: Any, cursor: DocumentCursor, known: FlavorLookup) -> Flavor:
    """Parse a flavor in the format of Nova, RSD or this project; the last includes Valence's."""
    from valence_sched.config.foreign import nova, rsd  # not needed for built-in flavors

    formats = ((nova.recognises, nova.parse_flavor), (rsd.recognises, rsd.parse_flavor))
    for recognises, parse in formats:
        if recognises(document):
            flavor = parse(document, cursor, known)
            if not flavor.needs:
                raise cursor.error("no requirement", "at least one amount or device")
            return flavor
    return _parse_own_flavor(document, cursor, known)


class FlavorReference(Noun, frozen=True, kw_only=True):
    """A Valence body that names a known flavor."""

    flavor_id: str
    name: str | None = None
    description: str = ""


def _parse_own_flavor(document: Any, cursor: DocumentCursor, known: FlavorLookup) -> Flavor:
    """Parse a flavor in the format of this project or of Valence, which may list totals to sum."""
    if not isinstance(document, dict):
        return cursor.convert(document, Flavor)
    body = strip_ignored(document, cursor, refused=_REFUSED, noted={})
    body = {key: value for key, value in body.items() if key not in _RECORD_FIELDS}
    if "flavor_id" in body:
        return _referenced_flavor(body, cursor, known())
    if isinstance(body.get("properties"), dict):
        properties, below = dict(body["properties"]), cursor.at("properties")
        if isinstance(found := properties.get("memory"), list):
            properties["memory"] = _added(found, MemorySpec, "capacity_mib", below.at("memory"))
        if isinstance(found := properties.get("processor"), list):
            at = below.at("processor")
            properties["processor"] = _added(found, ProcessorSpec, "total_cores", at)
        body["properties"] = properties
    return cursor.convert(body, Flavor)


def _referenced_flavor(
    document: Any, cursor: DocumentCursor, flavors: Mapping[str, Flavor]
) -> Flavor:
    body = cursor.convert(document, FlavorReference)
    for known, flavor in flavors.items():
        if body.flavor_id in (known, flavor.uuid):
            name, description = body.name or flavor.name, body.description or flavor.description
            return msgspec.structs.replace(flavor, uuid=None, name=name, description=description)
    names = {*flavors, *(flavor.uuid for flavor in flavors.values() if flavor.uuid)}
    where = f"{cursor.file}: {cursor.at('flavor_id').document_path}"
    raise UnknownName("flavor", body.flavor_id, names, where)


def _added(items: list[Any], type_: type[Total], total: str, cursor: DocumentCursor) -> Any:
    """Return one map with the sum of the totals of items; None without items."""
    specs = [cursor.at(number).convert(item, type_) for number, item in enumerate(items)]
    if len(specs) < 2:
        return msgspec.to_builtins(specs[0]) if specs else None
    without_totals = [msgspec.structs.replace(spec, **{total: 1}) for spec in specs]
    for number, other in enumerate(without_totals):
        if other != without_totals[0]:
            expected = f"the same values as in [0], except for {total}"
            hint = "a node has one kind: use the stricter values in every item"
            raise cursor.at(number).error("another kind", expected, hint)
        if getattr(specs[number], total) is None:
            raise cursor.at(number).error(f"no {total}", "one in every item of the list")
    summed = sum(getattr(spec, total) for spec in specs)
    return msgspec.to_builtins(msgspec.structs.replace(specs[0], **{total: summed}))


def parse_policies(data: bytes, file: str) -> list[Policy]:
    """Parse a policies file, a list under ``policies`` or one policy; UnknownName for a plug-in."""
    items = _items(load_yaml(data, file), "policies", file)
    texts = [(path, convert(item, PolicyText, file, path)) for path, item in items]
    if isinstance(data, ShippedJson):  # its plug-ins are checked when a request names a policy
        return [text.policy() for _, text in texts]
    return check_policies(texts, file)


def check_policies(texts: list[tuple[str, PolicyText]], file: str) -> list[Policy]:
    """Check that the plug-ins of policies, given with their paths, exist; errors as for parsing."""
    policies = [text.policy() for _, text in check_unique_names(texts, file)]
    for policy in policies:
        bind(policy, file)
    return policies


def parse_requests(data: bytes, file: str) -> list[tuple[str, RequestSpec | Request]]:
    """Parse a list of requests, one request, or the request of a report; return them with paths."""
    document = load_yaml(data, file)
    if isinstance(document, dict) and not {"schema", "needs"}.isdisjoint(document):
        schema = str(document.get("schema", request.SCHEMA))
        version = str(document.get("version", request.VERSION))
        check_schema(schema, version, request.SCHEMA, request.VERSION, file)
        return [("$", convert(document, Request, file))]
    decode_error.refuse_other_kind(document, "request", file)
    if not (isinstance(document, dict) and "requests" in document):
        return [("$", parse_spec(document, RequestSpec, file, "$"))]
    specs = convert(document, RequestFile, file).requests
    ids: set[str] = set()
    for number, spec in enumerate(specs):
        if spec.id and spec.id in ids:
            raise InputError(file, f"$.requests[{number}].id", f"{spec.id!r} again", "a unique id")
        ids.add(spec.id)
        check_syntax(spec, file, f"$.requests[{number}]")
    return [(f"$.requests[{number}]", spec) for number, spec in enumerate(specs)]


def parse_spec(document: Any, type_: type[Spec], file: str, path: str) -> Spec:
    """Convert lists and maps to a request spec, or to a noun that extends it."""
    spec = convert(document, type_, file, path)
    check_syntax(spec, file, path)
    return spec


def parse_trace_columns(data: bytes, file: str) -> dict[str, TraceColumn]:
    """Parse the file that maps the fields of a workload to columns of a recorded trace."""
    from valence_sched.model.request_spec import TraceFile, parse_trace_column  # only for a replay

    text = load_yaml(data, file)
    decode_error.refuse_other_kind(text, "columns", file)
    document = convert(text, TraceFile, file)
    columns = {}
    for field, text in document.columns.items():
        try:
            columns[field] = parse_trace_column(text)
        except ValueError as error:
            raise InputError(file, f"$.columns.{field}", str(error)) from None
    return columns


def parse_resources(data: bytes, file: str) -> list[CustomResource]:
    """Parse a resources file: a list under ``resources``, or a single resource."""
    items = _items(load_yaml(data, file), "resources", file)
    resources = [(path, convert(item, CustomResource, file, path)) for path, item in items]
    return [resource for _, resource in check_unique_names(resources, file)]


def parse_settings(data: bytes, file: str, kind: type[T], check: Callable[[T, str], object]) -> T:
    """Parse a settings file; an empty one gives the defaults. ``check`` raises if invalid."""
    settings = convert(load_yaml(data, file) or {}, kind, file)
    check(settings, file)
    return settings


def _items(document: Any, key: str, file: str) -> list[tuple[str, Any]]:
    decode_error.refuse_other_kind(document, key, file)
    many = isinstance(document, dict) and key in document
    if not many and not isinstance(document, list):
        return [("$", document)]
    items, above = (document[key], f"$.{key}") if many else (document, "$")
    if many and set(document) != {key}:
        extra = sorted(str(name) for name in set(document) - {key})
        raise InputError(file, "$", f"unknown field {extra[0]!r}", f"only {key!r}")
    if not isinstance(items, list) or not items:
        raise InputError(file, above, "nothing", f"a list of {key}")
    return [(f"{above}[{number}]", item) for number, item in enumerate(items)]


def check_unique_names(nouns: list[tuple[str, T]], file: str) -> list[tuple[str, T]]:
    """Check that nouns, given with their paths, have different names; or raise InputError."""
    names: set[str] = set()
    for path, noun in nouns:
        name: str = noun.name  # type: ignore[attr-defined]
        if name in names:
            raise InputError(file, f"{path}.name", f"{name!r} again", "a unique name")
        names.add(name)
    return nouns
