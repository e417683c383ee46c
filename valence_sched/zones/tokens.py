# SPDX-License-Identifier: Apache-2.0
"""Tokens: what a zone offers, signed by it, so that it needs to remember nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from itsdangerous import BadData, SignatureExpired, URLSafeTimedSerializer

from valence_sched.errors import StaleOffer
from valence_sched.model.decision import Candidate
from valence_sched.model.zone import Token

TOKEN_AGE_S = 900  # how long an offer can be claimed


class ChildToken(msgspec.Struct, frozen=True, array_like=True, tag="child"):
    """The token of a child, with the name under which this zone has it."""

    child: str
    token: Token


class OwnToken(msgspec.Struct, frozen=True, array_like=True, tag="own"):
    """A candidate on a pod manager of this zone."""

    candidate: Candidate


class _Codec:
    """Serialises with msgspec; the nouns say what a token may hold."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return msgspec.json.encode(value).decode()

    @staticmethod
    def loads(data: str) -> ChildToken | OwnToken:
        return msgspec.json.decode(data, type=ChildToken | OwnToken)


class Tokens:
    """Signs and reads the tokens of one zone; ``keys`` are its secrets, the newest last."""

    def __init__(self, keys: list[str], zone: str, age_s: int = TOKEN_AGE_S) -> None:
        self._age_s = age_s
        self._serializer: URLSafeTimedSerializer = URLSafeTimedSerializer(
            keys, salt=f"valence-sched zone {zone}", serializer=_Codec
        )

    def sign(self, content: ChildToken | OwnToken) -> Token:
        """Return a token for what is offered."""
        return str(self._serializer.dumps(content))

    def read(self, token: Token) -> ChildToken | OwnToken:
        """Return what a token stands for.

        Raises:
            StaleOffer: it is too old, or was not made by this zone.
        """
        try:
            return self._serializer.loads(token, max_age=self._age_s)  # type: ignore[no-any-return]
        except SignatureExpired:
            raise StaleOffer("an offer is too old: ask again") from None
        except (BadData, msgspec.DecodeError, msgspec.ValidationError):
            raise StaleOffer("an offer is not one of this zone: ask again") from None
