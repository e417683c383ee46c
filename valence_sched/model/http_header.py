# SPDX-License-Identifier: Apache-2.0
"""HTTP headers: which values can be sent."""

import re
from collections.abc import Mapping

_UNSENDABLE = re.compile(r"[\r\n\0]|[^\0-\xff]")


def header_problem(headers: Mapping[str, str]) -> str | None:
    """Return what is wrong with the first header that cannot be sent, None where all can.

    It names the header and not its value, which may be a secret.
    """
    if not _UNSENDABLE.search("".join(headers.values())):
        return None
    found = ((name, _UNSENDABLE.search(value)) for name, value in headers.items())
    name, character = next((name, match[0]) for name, match in found if match)
    what = "a character beyond Latin-1" if character > "\xff" else "a line break or NUL"
    return f"header {name}: found {what}, expected one line of Latin-1"
