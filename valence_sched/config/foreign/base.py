# SPDX-License-Identifier: Apache-2.0
"""Foreign formats: a cursor into the document, with remarks on keys that have no effect.

A key that restricts the choice in an unsupported way is an error. A key that matters only after the
node is placed is accepted, with a remark that the choice does not use it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from valence_sched.errors import InputError, one_line
from valence_sched.model.codec import convert
from valence_sched.model.flavor import Flavor

T = TypeVar("T")
#: Returns the known flavors by name; called only if a document names one.
FlavorLookup = Callable[[], Mapping[str, Flavor]]
_PLAIN = re.compile(r"\w+")


class DocumentCursor(Struct, frozen=True):
    """A position in a document: file and path; ``ignored`` extra specs are skipped.

    All cursors of a document share its ``remarks``, a line about each key that has no effect.
    """

    file: str
    document_path: str = "$"
    ignored: tuple[str, ...] = ()
    remarks: list[str] = field(default_factory=list)

    def at(self, step: str | int) -> Self:
        plain = isinstance(step, str) and _PLAIN.fullmatch(step)
        below = f".{step}" if plain else f"[{step!r}]"
        return replace(self, document_path=f"{self.document_path}{below}")

    def error(self, found: str, expected: str = "", hint: str = "") -> InputError:
        return InputError(self.file, self.document_path, found, expected, hint)

    def remark(self, text: str) -> None:
        self.remarks.append(one_line(f"{self.file}: {self.document_path}: {text}"))

    def convert(self, value: object, type_: type[T]) -> T:
        return convert(value, type_, self.file, self.document_path)


def strip_ignored(
    document: Any, cursor: DocumentCursor, *, refused: Mapping[str, str], noted: Mapping[str, str]
) -> Any:
    """Return a map without nulls and without keys that only matter after placement.

    A key in ``refused`` raises InputError with its hint. A key in ``noted`` adds a remark with the
    reason why it has no effect. A value other than a map is returned unchanged.
    """
    if not isinstance(document, dict):
        return document
    fields = {}
    for key, value in document.items():
        if value is None:
            continue
        if key in refused:
            found = "a restriction that valence-sched does not support"
            raise cursor.at(key).error(found, hint=refused[key])
        if key in noted:
            cursor.at(key).remark(noted[key])
        else:
            fields[key] = value
    return fields
