# SPDX-License-Identifier: Apache-2.0
"""What reading a request in another project's words gives: a flavor, and remarks on the words.

A word that restricts where the node may be and that has no counterpart here is an error. One that
matters only once the node is placed is accepted, and a remark says that nobody looked at it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from valence_sched.errors import InputError, one_line
from valence_sched.model.codec import convert
from valence_sched.model.flavor import Flavor

T = TypeVar("T")

#: Flavors by name, looked up only when a document names one.
FlavorLookup = Callable[[], Mapping[str, Flavor]]

_PLAIN = re.compile(r"\w+")


class ForeignFlavor(Struct, frozen=True):
    """A flavor as it was understood, and a line about each word that nobody looks at."""

    flavor: Flavor
    remarks: tuple[str, ...] = ()


class DocumentCursor(Struct, frozen=True):
    """A place in a document: the file, and the path below its root.

    ``ignored`` are keys of extra specs that the user wants to be passed over.
    """

    file: str
    document_path: str = "$"
    ignored: tuple[str, ...] = ()

    def at(self, step: str | int) -> DocumentCursor:
        """Return the place of a key or of a number below this one."""
        if isinstance(step, int):
            return DocumentCursor(self.file, f"{self.document_path}[{step}]", self.ignored)
        plain = _PLAIN.fullmatch(step)
        return DocumentCursor(
            self.file,
            f"{self.document_path}.{step}" if plain else f"{self.document_path}[{step!r}]",
            self.ignored,
        )

    def error(self, found: str, expected: str = "", hint: str = "") -> InputError:
        """Return the error that names this place."""
        return InputError(self.file, self.document_path, found, expected, hint)

    def remark(self, text: str) -> str:
        """Return a line about this place."""
        return one_line(f"{self.file}: {self.document_path}: {text}")

    def convert(self, value: object, type_: type[T]) -> T:
        """Convert plain lists and maps to a noun; numbers may be text."""
        return convert(value, type_, self.file, self.document_path)


def strip_ignored(
    document: Any,
    where: DocumentCursor,
    remarks: list[str],
    *,
    refused: Mapping[str, str],
    noted: Mapping[str, str],
) -> Any:
    """Return a map without its nulls and without the words that only matter later.

    ``refused`` and ``noted`` give per key what to do instead, and why nobody looks at it; each
    noted word adds a line to ``remarks``. What is no map is returned as it is.

    Raises:
        InputError: a refused word is there.
    """
    if not isinstance(document, dict):
        return document
    kept = {}
    for key, value in document.items():
        if value is None:
            continue
        if key in refused:
            raise where.at(key).error("a restriction that has no word here", hint=refused[key])
        if key in noted:
            remarks.append(where.at(key).remark(noted[key]))
        else:
            kept[key] = value
    return kept
