# SPDX-License-Identifier: Apache-2.0
"""Redaction: removes credentials from documents, texts and pod managers."""

import base64
import binascii
import functools
import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from valence_sched.model.inventory import FullPodm

REDACTION = "***"
MIN_SECRET_LENGTH = 4  # characters of a secret that texts are searched for
_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "pwd", "secret", "credential")
_KEYS = ("apikey", "privatekey", "accesskey", "authkey", "sharedkey", "keytab", "license")
_TOKENS = ("token", "authorization", "cookie", "communitystring", "bearer", "kerberos")
_SECRET_WORDS = (*_PASSWORDS, *_KEYS, *_TOKENS)
_SECRET_SUFFIXES = ("key", "keys", "pin", "pass", "community")
_NAME_KEYS = ("name", "attributename", "key", "id", "field", "header")
_VALUE_KEYS = ("value", "currentvalue", "defaultvalue", "newvalue", "setting")
_PRIVATE_URI = re.compile(
    r"/(AccountService|SessionService|Sessions|Accounts|KeyService|Keys|SecureBoot|"
    r"LicenseService|Certificates|CertificateService)(/|$|\?|#)",
    re.IGNORECASE,
)
_PRIVATE_TYPE = re.compile(
    r"#?(AccountService|SessionService|Session|SessionCollection|ManagerAccount|"
    r"ManagerAccountCollection|Key|KeyCollection|KeyService|License|LicenseService|Certificate)\.",
    re.IGNORECASE,
)
_WORD = r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[-_]?key|x-auth-token|authorization)"
_ASSIGNMENT = re.compile(
    rf"(?i)({_WORD}[\"']?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|(?:basic |bearer )?[^\s,;&\"']+)"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}")
_BASIC = re.compile(r"(?i)\b(basic\s+)([\w+/-]{4,}={0,2})")
#: Texts without a match are not searched for credentials: most are names.
_MAYBE_SECRET = re.compile(r"[:=@]|//|bearer|basic|eyJ|-----", re.IGNORECASE)
_USERINFO = re.compile(r"//[^\s/?#\"'<>]*@")
#: The text before ``@HOST``, which may end in ``user:password``; and the start of ``user`` in it.
_BEFORE_HOST = re.compile(r"(?<![^\s/@\"'])[^\s/@\"']++@(?=[\w\[])")
_USER = re.compile(r"(?<![\w/@:.-])[^:]")
_PEM = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL
)
_JWT = re.compile(r"(?<![\w-])(?=[\w-]++\.[\w-]++\.)((?:[\w-]*?-)?)eyJ[\w-]{8,}+\.[\w-]++\.[\w-]*+")


def redact(json: Any, secrets: Collection[str] = ()) -> Any:
    """Return a copy of JSON without credentials, and with known ``secrets`` replaced."""
    long = [secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH]
    return _redact_json(json, tuple(sorted(long, key=len, reverse=True)), 200)


def redact_documents(documents: Mapping[str, Any], secrets: Collection[str] = ()) -> dict[str, Any]:
    """Return recorded documents by URI without credentials, private documents and their links."""
    private = {path for path, json in documents.items() if _is_private_document(path, json)}
    return {
        redact_text(uri, secrets): _drop_links(redact(json, secrets), private)
        for uri, json in documents.items()
        if uri not in private
    }


def redact_podm(podm: FullPodm, secrets: Collection[str] = ()) -> FullPodm:
    """Return a pod manager without credentials; its facts contain no credentials either."""
    return msgspec.convert(redact(msgspec.to_builtins(podm), secrets), FullPodm)


def _is_private_document(uri: str, json: Any) -> bool:
    kind = json.get("@odata.type") if isinstance(json, dict) else None
    if isinstance(kind, str) and _PRIVATE_TYPE.match(kind.strip()):
        return True
    return bool(uri and _PRIVATE_URI.search(unquote(uri)))


def redact_text(text: str, secrets: Collection[str] = ()) -> str:
    """Return a text in which every apparent credential is replaced."""
    for secret in secrets:
        if len(secret) >= MIN_SECRET_LENGTH and secret in text:
            text = text.replace(secret, REDACTION)
    if "%" in text and (plain := unquote(text)) != text and _redact_patterns(plain) != plain:
        text = plain  # a URI with an encoded credential may stop working
    return _redact_patterns(text)


def _redact_patterns(text: str) -> str:
    if not _MAYBE_SECRET.search(text):
        return text
    text = _USERINFO.sub("//", _PEM.sub(REDACTION, text))
    text = _ASSIGNMENT.sub(rf"\1{REDACTION}", text)
    text = _BEARER.sub(rf"\1{REDACTION}", text)
    text = _BASIC.sub(_without_login, text)
    text = _JWT.sub(rf"\1{REDACTION}", text)
    return _BEFORE_HOST.sub(_without_pair, text)


def _without_login(found: re.Match[str]) -> str:
    """Return ``basic …`` redacted if a user and a password in base64 follow."""
    padded = found[2].replace("-", "+").replace("_", "/") + "=" * (-len(found[2]) % 4)
    try:
        is_login = b":" in base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        is_login = False
    return found[1] + REDACTION if is_login else found[0]


def _without_pair(found: re.Match[str]) -> str:
    begin, host = found.start(), found.end() - 1
    user = _USER.search(found.string, begin, host)
    if user is None or found.string.find(":", user.end(), host - 1) < 0:
        return found[0]
    return found.string[begin : user.start()]


def _redact_json(json: Any, secrets: tuple[str, ...], depth: int) -> Any:
    if isinstance(json, str):
        return redact_text(json, secrets)
    if not isinstance(json, dict | list | tuple):
        return json
    if depth == 0:
        return None
    if not isinstance(json, dict):
        return [_redact_json(item, secrets, depth - 1) for item in json]
    if _is_private_document("", json):
        return {}
    # an object with a name and a value, such as {"Name": "password", "Value": …}
    secret = any(
        isinstance(value, str) and _normalise_key(key) in _NAME_KEYS and _is_secret_key(value)
        for key, value in json.items()
    )
    return {
        redact_text(key, secrets): _redact_json(value, secrets, depth - 1)
        for key, value in json.items()
        if not _is_secret_key(key) and not (secret and _normalise_key(key) in _VALUE_KEYS)
    }


@functools.lru_cache(maxsize=65_536)
def _is_secret_key(key: str) -> bool:
    folded = _normalise_key(key.partition("@")[0])
    return folded.endswith(_SECRET_SUFFIXES) or any(word in folded for word in _SECRET_WORDS)


def _drop_links(json: Any, private: Collection[str]) -> Any:
    if isinstance(json, list):
        return [_drop_links(item, private) for item in json if not _links_to(item, private)]
    if not isinstance(json, dict):
        return json
    public = {key: value for key, value in json.items() if not _links_to(value, private)}
    return {key: _drop_links(value, private) for key, value in public.items()}


def _links_to(json: Any, private: Collection[str]) -> bool:
    target = json.get("@odata.id") if isinstance(json, dict) and len(json) == 1 else None
    if not isinstance(target, str):
        return False
    return bool(target.rstrip("/") in private or _PRIVATE_URI.search(unquote(target)))


@functools.lru_cache(maxsize=65_536)
def _normalise_key(key: str) -> str:
    return "".join(letter for letter in key.casefold() if letter.isalnum())
