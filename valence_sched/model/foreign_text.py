# SPDX-License-Identifier: Apache-2.0
"""Foreign text: what another service says, within a message, and the message without it.

Operators read it. A tenant does not: where an address leads to another service, or a name was
given by another team, it is none of the tenant's business.
"""

import re

MOST = 60  # characters of one text
#: Each with the words that stand for it; a message may be cut within a text.
_HIDDEN = (
    (re.compile(r"an answer of '[^']*(?:'|$)"), "an answer of another kind"),
    (re.compile(r"a redirect to '[^']*(?:'|$)"), "a redirect to another host"),
    (re.compile(r" \(called '[^']*(?:'\)|$)"), ""),
    (re.compile(r", of server '[^']*(?:'|$)"), ""),
)


def answer_of(text: str) -> str:
    """Return words for what a service answers in place of what it should."""
    return f"an answer of {_quoted(text)}"


def redirect_to(host: str) -> str:
    """Return words for a redirect to another host."""
    return f"a redirect to {_quoted(host)}"


def called(name: str) -> str:
    """Return words for the name that another service gives to something."""
    return f" (called {_quoted(name)})"


def of_server(name: str) -> str:
    """Return words for the name of a server of another service."""
    return f", of server {_quoted(name)}"


def without_foreign_texts(message: str) -> str:
    """Return a message without what other services say in it."""
    if "'" in message:
        for pattern, words in _HIDDEN:
            message = pattern.sub(words, message)
    return message


def _quoted(text: str) -> str:
    """Return a text in quotes, of which it has none itself."""
    flat = " ".join(text.split()).replace("'", "`")
    return f"'{flat[:MOST]}'"
