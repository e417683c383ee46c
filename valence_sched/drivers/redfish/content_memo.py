# SPDX-License-Identifier: Apache-2.0
"""The content memo: what resources mean by their content, each content described once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec

from valence_sched.drivers.fields import Json, Resource
from valence_sched.model.diagnostic import Diagnostics

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

#: The class of a resource, and its content in bytes.
ContentKey = tuple[type[Resource], bytes]
#: Contents that are remembered, and the longest.
MAX_CONTENTS, MAX_CONTENT_BYTES = 4096, 2048
_UNKNOWN = object()


class ContentMemo(Generic[R, T]):
    """Describes resources by their content (``Resource.content_properties``), each content once.

    Names, links and URIs tell resources apart, so the describing function does not see them, but
    for the URI in a note. A note is repeated for each resource. Threads may share it. Of very many
    contents, or very long ones, not all are remembered.
    """

    def __init__(self, understand: Callable[[R], T]) -> None:
        self._understand = understand
        self._memo: dict[ContentKey, T | object] = {}
        self._encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode

    def __contains__(self, key: ContentKey | None) -> bool:
        """Return whether a content was described without a note."""
        return key in self._memo

    def key(self, resource: R) -> ContentKey | None:
        """Return what all resources of one content have in common, None where it has no form."""
        type_ = type(resource)
        try:
            return type_, self._encode([*map(resource.json.get, type_.content_properties)])
        except (OverflowError, RecursionError):  # JSON that we can read and not write
            return None

    def of(self, resource: R, key: ContentKey | None = None) -> T:
        """Return the description of a resource, whose key may be known."""
        key = key or self.key(resource)
        if key is None:
            return self._understand(resource)
        if (known := self._memo.get(key, _UNKNOWN)) is not _UNKNOWN:
            return cast("T", known)
        type_, notes = type(resource), Diagnostics()
        content: Json = {name: resource.json.get(name) for name in type_.content_properties}
        found = self._understand(type_(resource.uri, content, notes))
        if notes:
            resource.notes.extend(notes)
        elif len(key[1]) <= MAX_CONTENT_BYTES:
            if len(self._memo) >= MAX_CONTENTS:
                self._memo.clear()
            self._memo[key] = found
        return found
