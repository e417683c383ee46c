# SPDX-License-Identifier: Apache-2.0
"""Reads the body of a request, bounded, as the strict noun of its route."""

from __future__ import annotations

import re
from typing import Any

import falcon
import msgspec
from msgspec.structs import replace

from valence_sched.errors import InputError, RequestError, one_line
from valence_sched.model.codec import check_depth, convert, decode
from valence_sched.model.duplicate_keys import refuse_duplicate_keys
from valence_sched.model.quantity import format_count
from valence_sched.model.scheduler import TTL_S
from valence_sched.model.service_bodies import ValenceNodeBody
from valence_sched.model.verbs import NodesBody

NAME = "the body"
NUL_FOUND, NUL_EXPECTED = "the character U+0000", "text without it"
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # in a text of JSON
_CODINGS = ("", "chunked", "identity")
_VALENCE_FIELDS = {"flavor_id", "properties"}


def read_body(req: falcon.Request, kind: type[Any], most: int) -> Any:
    """Return the body as a noun; an empty one is an empty object.

    Raises:
        InputError: it is not JSON, not of the noun, too deep, has a key twice in an object, or has
            a text with a character U+0000.
        falcon.HTTPError: it is of another media type, too large, in a transfer coding that nobody
            decodes, or of unknown length where the server cannot tell its end.
    """
    data = _bounded(req, most)
    # also of an empty body: a page of another site can send none of this type
    if (req.content_type or "").partition(";")[0].strip() != falcon.MEDIA_JSON:
        text = f"the content type must be {falcon.MEDIA_JSON}"
        raise falcon.HTTPUnsupportedMediaType(description=text)
    data = data or b"{}"
    if _NUL.search(data):  # a state on PostgreSQL cannot store it
        raise InputError(NAME, "", NUL_FOUND, NUL_EXPECTED)
    check_depth(data, NAME)  # all that follows may walk it as deep as it is
    refuse_duplicate_keys(data, NAME)
    if kind is NodesBody and _VALENCE_FIELDS & _field_names(data):
        document = decode(data, dict[str, Any], NAME)
        valence = convert(document, ValenceNodeBody, NAME)
        try:
            return valence.nodes_body()
        except ValueError as error:
            raise InputError(NAME, "$", expected=str(error).removeprefix("Expected ")) from None
    return decode(data, kind, NAME)


def limit_ttl(body: Any, most_s: float) -> Any:
    """Return a body whose claim is held for ``most_s`` at most; RequestError if it asks for more.

    One that asks for no time has the usual one, or that.
    """
    asked_s = getattr(body, "ttl_s", None)
    if asked_s is None or asked_s <= most_s:
        return body
    if asked_s == TTL_S:
        return replace(body, ttl_s=most_s)
    raise RequestError(f"ttl_s {asked_s:g}: this service holds a claim for at most {most_s:g} s")


def _bounded(req: falcon.Request, most: int) -> bytes:
    coding = req.env.get("HTTP_TRANSFER_ENCODING", "")
    if coding.strip().lower() not in _CODINGS:
        text = one_line(f"transfer coding {coding!r}: send the body as it is, or chunked", 200)
        raise falcon.HTTPNotImplemented(description=text)
    length = req.content_length
    if length is not None and length > most:
        raise _too_large(most)
    terminated = req.env.get("wsgi.input_terminated")
    if length is None and not terminated:
        if "HTTP_TRANSFER_ENCODING" in req.env:  # a body that this server does not decode
            raise falcon.HTTPLengthRequired(description="send the body with its Content-Length")
        return b""
    stream = req.stream if terminated else req.bounded_stream
    try:
        data: bytes = stream.read(most + 1 if length is None else length)
    except Exception as error:  # each server has errors of its own for what it cannot read
        text = one_line(f"the body cannot be read: {str(error) or type(error).__name__}")
        raise falcon.HTTPBadRequest(description=text) from None
    if len(data) > most:
        raise _too_large(most)
    if length is not None and len(data) < length:
        raise falcon.HTTPBadRequest(description="the body ended before its Content-Length")
    return data


def _too_large(most: int) -> falcon.HTTPError:
    text = f"the body is larger than {format_count(most, 'byte')}, the limit of this service"
    return falcon.HTTPContentTooLarge(description=text)


def _field_names(data: bytes) -> set[str]:
    try:
        return set(msgspec.json.decode(data, type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return set()
