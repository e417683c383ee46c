# SPDX-License-Identifier: Apache-2.0
"""The files people write and read: flavors, policies, reports and converted inventories."""

from __future__ import annotations

import contextlib
import gzip
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import zstandard

from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup
from valence_sched.config.foreign.detect import parse_flavor
from valence_sched.core.policy import bind
from valence_sched.errors import InputError, RequestError
from valence_sched.model import expression, extra_specs, request
from valence_sched.model.codec import MAX_HUMAN_BYTES, check_schema, convert, load_yaml
from valence_sched.model.custom_resource import CustomResource
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import (
    SCHEMA,
    VERSION,
    FullPodm,
    InventoryHeader,
    parse_capabilities,
    to_json,
)
from valence_sched.model.policy import Policy, PolicyText
from valence_sched.model.request import Request, sealed
from valence_sched.model.request_spec import RequestFile, RequestSpec, compile_request

T = TypeVar("T")


def read(file: str, limit: int = MAX_HUMAN_BYTES + 1) -> bytes:
    """Read a file that a person wrote, or with a negative ``limit`` all of any file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with open(file, "rb") as stream:
            return stream.read(limit)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(file, "", reason.lower(), "a readable file") from None


def parse_flavors(
    data: bytes,
    file: str,
    known: FlavorLookup = dict,
    remarks: list[str] | None = None,
    ignored: tuple[str, ...] = (),
) -> list[Flavor]:
    """Parse a flavors file: a list, also under ``flavors``, or a single flavor.

    Each is in our words or in those of Valence, Nova or an RSD pod manager. ``known`` returns the
    flavors that one may refer to; words that nobody looks at add a line each to ``remarks``.
    ``ignored`` are keys of Nova's extra specs to pass over.

    Raises:
        InputError: naming the place, what was found and what was expected.
        UnknownName: a flavor refers to one that is not known.
        RequestError: naming the place, a flavor contradicts itself.
    """
    forms = [
        (place, parse_flavor(item, DocumentCursor(file, place, ignored), known))
        for place, item in _items(load_yaml(data, file), "flavors", file)
    ]
    if remarks is not None:
        remarks += [line for _, read in forms for line in read.remarks]
    found = _check_unique_names([(place, read.flavor) for place, read in forms], file)
    for place, flavor in found:
        _check_syntax(flavor, file, place)
        if not all(ask.needs for ask in flavor.alternatives):
            raise InputError(file, f"{place}.properties", "nothing asked for", "at least one need")
        try:
            sealed(compile_request(RequestSpec(flavor=flavor.name), flavor))
        except RequestError as error:
            raise error.at(f"{file}: {place}") from None
    return [flavor for _, flavor in found]


def _check_syntax(noun: Flavor | RequestSpec, file: str, place: str) -> None:
    """Refuse words that have a grammar of their own and do not follow it."""
    if isinstance(noun.capabilities, str):
        try:
            parse_capabilities(noun.capabilities)
        except ValueError as error:
            raise InputError(file, f"{place}.capabilities", str(error), "key=value") from None
    for path, text in noun.attributes.items():
        if wrong := extra_specs.condition_problem(path, text):
            raise InputError(file, f"{place}.attributes[{path!r}]", wrong)
    if noun.where is not None:
        expression.parse_expression(noun.where, file, f"{place}.where")


def parse_policies(data: bytes, file: str) -> list[Policy]:
    """Parse a policies file, a list under ``policies`` or a single policy, and bind each.

    Raises:
        InputError: naming the place, what was found and what was expected.
        UnknownName: a filter, weigher or scheduler that is not installed.
    """
    items = _items(load_yaml(data, file), "policies", file)
    texts = [(place, convert(item, PolicyText, file, place)) for place, item in items]
    found = [text.policy() for _, text in _check_unique_names(texts, file)]
    for policy in found:
        bind(policy, file)
    return found


def parse_requests(data: bytes, file: str) -> list[tuple[str, RequestSpec | Request]]:
    """Parse a file of requests: ``(place, request)`` of each in a list under ``requests``.

    A single request is a file, too, and so is one as a report holds it, compiled.

    Raises:
        InputError: naming the place, what was found and what was expected.
    """
    document = load_yaml(data, file)
    if isinstance(document, dict) and not {"schema", "needs"}.isdisjoint(document):
        words = {"schema": request.SCHEMA, "version": request.VERSION} | document
        check_schema(
            str(words["schema"]), str(words["version"]), request.SCHEMA, request.VERSION, file
        )
        return [("$", convert(document, Request, file))]
    if not (isinstance(document, dict) and "requests" in document):
        asked = convert(document, RequestSpec, file)
        _check_syntax(asked, file, "$")
        return [("$", asked)]
    found = convert(document, RequestFile, file).requests
    ids: set[str] = set()
    for number, asked in enumerate(found):
        if asked.id and asked.id in ids:
            raise InputError(file, f"$.requests[{number}].id", f"{asked.id!r} again", "its own id")
        ids.add(asked.id)
        _check_syntax(asked, file, f"$.requests[{number}]")
    return [(f"$.requests[{number}]", asked) for number, asked in enumerate(found)]


def parse_resources(data: bytes, file: str) -> list[CustomResource]:
    """Parse a resources file: a list under ``resources``, or a single resource.

    Raises:
        InputError: naming the place, what was found and what was expected.
    """
    items = _items(load_yaml(data, file), "resources", file)
    found = [(place, convert(item, CustomResource, file, place)) for place, item in items]
    return [resource for _, resource in _check_unique_names(found, file)]


def write_json(document: object, file: str) -> None:
    """Write a document as indented JSON with a stable order, whole or not at all."""
    with atomic(file) as stream:
        stream.write(msgspec.json.format(to_json(document), indent=2) + b"\n")


def write_inventory(podms: Iterable[FullPodm], file: str) -> tuple[int, int]:
    """Write podms as one inventory file and return how many podms and blocks it holds.

    ``.jsonl`` has a header and a podm a line, ``.json`` is one document; ``.gz`` and ``.zst``
    compress. Whole or not at all.

    Raises:
        InputError: the name ends otherwise, or the file cannot be written.
    """
    plain = file.removesuffix(".gz").removesuffix(".zst")
    if not plain.endswith((".json", ".jsonl")):
        hint = "end it in .json or .jsonl, with .gz or .zst to compress"
        raise InputError(file, "", "a name that does not say which form", hint=hint)
    lines = plain.endswith(".jsonl")
    head = to_json(InventoryHeader(schema=SCHEMA, version=VERSION))
    count = blocks = 0
    with atomic(file) as raw, _compressor(raw, file) as stream:
        stream.write(head + b"\n" if lines else head[:-1] + b',"podms":[\n')
        for podm in podms:
            if count:
                stream.write(b"" if lines else b",\n")
            stream.write(to_json(podm) + (b"\n" if lines else b""))
            count, blocks = count + 1, blocks + len(podm.blocks)
        stream.write(b"" if lines else b"\n]}\n")
    return count, blocks


@contextlib.contextmanager
def atomic(file: str) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name only when all of it is on disk.

    Raises:
        InputError: it cannot be written; what stood there before is untouched.
    """
    path = Path(file)
    temporary = ""
    try:
        if path.exists() and not path.is_file():  # a pipe or a terminal has nothing to replace
            with open(path, "wb") as stream:
                yield stream
            return
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as stream:
            temporary = stream.name
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        temporary = ""
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(file, "", reason, "a place to write to") from None
    finally:
        if temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


@contextlib.contextmanager
def _compressor(stream: IO[bytes], file: str) -> Iterator[Any]:
    if file.endswith(".gz"):
        with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") as packed:
            yield packed
    elif file.endswith(".zst"):
        with zstandard.ZstdCompressor().stream_writer(stream, closefd=False) as packed:
            yield packed
    else:
        yield stream


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _items(document: Any, key: str, file: str) -> list[tuple[str, Any]]:
    """Return ``(place, item)`` of a list, of a list under ``key``, or of a single item."""
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


def _check_unique_names(found: list[tuple[str, T]], file: str) -> list[tuple[str, T]]:
    """Return nouns as they are when no two have one name."""
    names: set[str] = set()
    for place, noun in found:
        name: str = noun.name  # type: ignore[attr-defined]
        if name in names:
            raise InputError(file, f"{place}.name", f"{name!r} again", "a name of its own")
        names.add(name)
    return found
