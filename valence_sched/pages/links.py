# SPDX-License-Identifier: Apache-2.0
"""Links of pages, and the content security policy, which allows only their one script."""

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple
from urllib.parse import quote, urlencode

from valence_sched.model.page import PageLink

NAME_IN_QUERY = "-"  # stands in a path for a name that a path cannot hold

SCRIPT = resources.files("valence_sched.pages").joinpath("templates/page.js").read_text()
_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
#: The content security policy: a page loads nothing, and runs only its embedded script.
POLICY = (
    f"default-src 'none'; script-src 'sha256-{_DIGEST}'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action "
)


def anchor(*names: str) -> str:
    """Return the HTML ID of a pod manager, or of a block or node of it, made from the names.

    The ID is unique, because all characters except letters, digits and ``_.-~`` are quoted.
    """
    return "/".join(quote(name, safe="", errors="replace") for name in names)


class PageLinks(NamedTuple):
    """Relative links from a page that is ``depth`` steps below the first page, at any URL."""

    depth: int

    def to(self, path: str = "", **query: object) -> str:
        return "../" * self.depth + "ui" + path + query_text(query)

    def podm(self, name: str) -> str:
        return self._named("/podms/", name)

    def block(self, podm: str, name: str) -> str:
        return self._named("/blocks/", name, podm=podm)

    def node(self, name: str, podm: str = "") -> str:
        """Return the link to a node by its id, or by its URI on a pod manager."""
        return self._named("/nodes/", name, podm=podm)

    def claim(self, claim_id: str) -> str:
        return self._named("/claims/", claim_id)

    def decision(self, decision_id: str) -> str:
        return self._named("/decisions/", decision_id)

    def menu(self, current: str) -> tuple[PageLink, ...]:
        """Return the links to all lists; the link named ``current`` is marked."""
        lists = {"Site": "", "Decisions": "/decisions", "Claims": "/claims", "Nodes": "/nodes"}
        lists["Would it fit?"] = "/fit"
        return tuple(
            PageLink(text=text, href=self.to(path), current=text == current)
            for text, path in lists.items()
        )

    def _named(self, path: str, name: str, **query: object) -> str:
        if "/" in name or name in (NAME_IN_QUERY, ".", "..", ""):
            return self.to(path + NAME_IN_QUERY, name=name, **query)
        return self.to(path + quote(name, safe=""), **query)


def query_text(words: Mapping[str, object]) -> str:
    text = urlencode({name: word for name, word in words.items() if word}, errors="replace")
    return f"?{text}" if text else ""
