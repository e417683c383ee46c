# SPDX-License-Identifier: Apache-2.0
"""Tokens and signatures: signed offers and plans, so that a zone need not store them.

The keys are the secrets of the zone, the newest last. The newest key signs, and all keys verify.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from itsdangerous import BadData, SignatureExpired, Signer, URLSafeTimedSerializer
from msgspec.structs import replace

from valence_sched.errors import AccessDenied, StaleOffer
from valence_sched.model.decision import Candidate
from valence_sched.model.plan import Plan, signed_content
from valence_sched.model.zone import DomainValues, Token

TOKEN_AGE_S = 900  # lifetime of an offer


class ChildToken(msgspec.Struct, frozen=True, array_like=True, tag="child"):
    """The token of an offer of a child zone, with the ``place`` of the offer.

    If the group has hard rules, ``generation`` is the group's generation in this zone at the time
    of the offer.
    """

    child: str
    token: Token
    generation: int | None = None
    place: DomainValues = {}


class OwnToken(msgspec.Struct, frozen=True, array_like=True, tag="own"):
    """A candidate on a pod manager of this zone; ``generation`` as for a child."""

    candidate: Candidate
    generation: int | None = None


class _Codec:
    """Serialises with msgspec; the types limit the content of a token."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return msgspec.json.encode(value).decode()

    @staticmethod
    def loads(data: str) -> ChildToken | OwnToken:
        return msgspec.json.decode(data, type=ChildToken | OwnToken)


class Tokens:
    """Signs and reads the tokens of one zone with its ``keys``."""

    def __init__(self, keys: list[str], zone: str, age_s: int = TOKEN_AGE_S) -> None:
        self._age_s = age_s
        self._serializer: URLSafeTimedSerializer = URLSafeTimedSerializer(
            keys, salt=f"valence-sched zone {zone}", serializer=_Codec
        )

    def sign(self, content: ChildToken | OwnToken) -> Token:
        return str(self._serializer.dumps(content))

    def read(self, token: Token) -> ChildToken | OwnToken:
        """Return the content of a token; StaleOffer if it is too old or of another zone."""
        try:
            return self._serializer.loads(token, max_age=self._age_s)  # type: ignore[no-any-return]
        except SignatureExpired:
            raise StaleOffer("an offer has expired: request new offers") from None
        except (BadData, msgspec.DecodeError, msgspec.ValidationError):
            raise StaleOffer("an offer was made by another zone: request new offers") from None


class PlanSignatures:
    """Signs and verifies plans with ``keys``; a scheduler with one of the keys accepts a plan.

    A signature begins with a digest of its key, to tell an unknown key from a changed plan.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._signers = {
            hashlib.sha256(f"valence-sched key id\0{key}".encode()).hexdigest()[:8]: Signer(
                key, salt="valence-sched plan", digest_method=hashlib.sha256
            )
            for key in keys
        }

    def sign(self, plan: Plan) -> Plan:
        key_id, signer = list(self._signers.items())[-1]
        signature = signer.get_signature(signed_content(plan)).decode()
        return replace(plan, signature=f"{key_id}.{signature}")

    def check(self, plan: Plan) -> None:
        """Raise AccessDenied for a plan without a valid signature by one of the keys."""
        key_id, _, signature = plan.signature.partition(".")
        signer = self._signers.get(key_id)
        if not plan.signature:
            text = "the plan is not signed"
        elif signer is None:
            text = f"the plan is signed by key {key_id[:16]!r}, which this service does not have"
        elif not signer.verify_signature(signed_content(plan), signature):
            text = "the plan was changed after it was signed"
        else:
            return
        hint = "make the plan again with this service, or with a program that has its key"
        raise AccessDenied(f"{text}: {hint}")
