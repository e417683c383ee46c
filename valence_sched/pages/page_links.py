# SPDX-License-Identifier: Apache-2.0
"""PageLinks: where the pages of a service are, seen from one of them."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode

from valence_sched.model.page import PageLink

NAME_IN_QUERY = "-"  # in place of a name that a path cannot have


class PageLinks(NamedTuple):
    """Links from a page that is ``depth`` steps below the first one.

    They are relative, so that the pages may stand below any path of a server.
    """

    depth: int

    def to(self, path: str = "", **query: object) -> str:
        """Return the link to a path below the first page, such as ``/claims``."""
        return "../" * self.depth + "ui" + path + query_text(query)

    def podm(self, name: str) -> str:
        """Return the link to a pod manager."""
        return self._named("/podms/", name)

    def claim(self, claim_id: str) -> str:
        """Return the link to a claim."""
        return self._named("/claims/", claim_id)

    def decision(self, decision_id: str) -> str:
        """Return the link to a decision."""
        return self._named("/decisions/", decision_id)

    def menu(self, current: str) -> tuple[PageLink, ...]:
        """Return the links to all lists; the one that is called ``current`` is marked."""
        return tuple(
            PageLink(text=text, href=self.to(path), current=text == current)
            for text, path in (
                ("Site", ""),
                ("Decisions", "/decisions"),
                ("Claims", "/claims"),
                ("Nodes", "/nodes"),
            )
        )

    def _named(self, path: str, name: str) -> str:
        if "/" in name or name in (NAME_IN_QUERY, ".", "..", ""):
            return self.to(path + NAME_IN_QUERY, name=name)
        return self.to(path + quote(name, safe=""))


def query_text(words: Mapping[str, object]) -> str:
    """Return a query with those words that are set, empty where none is."""
    text = urlencode({name: word for name, word in words.items() if word}, errors="replace")
    return f"?{text}" if text else ""
