# SPDX-License-Identifier: Apache-2.0
"""Arrival: the bytes of one request as they come, and whether a thread can answer it by now."""

from __future__ import annotations

import re

HEAD_END = b"\r\n\r\n"
MOST_HEAD_BYTES = 64 << 10
FRAMING = 8  # bytes for each byte of a body, at most

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked[ \t]*\r\n", re.IGNORECASE)
_CODINGS = re.compile(rb"\r\ntransfer-encoding:([^\r\n]*)", re.IGNORECASE)
_KNOWN_CODINGS = frozenset((b"chunked", b"identity", b""))
_CONTINUE = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*\r\n", re.IGNORECASE)
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n")


class Arrival:
    """What came of one request; bodies larger than ``most_body_bytes`` are not waited for."""

    def __init__(self, most_body_bytes: int) -> None:
        self.data = bytearray()
        self._most = most_body_bytes
        self._body_at = -1  # where its body begins, before the end of its head is there
        self._length: int | None = 0  # of its body, None: in chunks
        self._chunk_at = 0
        self._ended_chunk_bytes = self._chunk_bytes = 0  # of its body; with that of the last chunk
        self.waits_for_continue = False
        self.has_unknown_coding = False  # of its transfer: what its body says nobody can tell
        self.is_malformed = False  # in the framing of its chunks: where it ends nobody can say

    @property
    def is_head_too_large(self) -> bool:
        """Return whether it has more bytes than a head may have, and no end of one."""
        return self._body_at < 0 and len(self.data) > MOST_HEAD_BYTES

    @property
    def is_mostly_framing(self) -> bool:
        """Return whether its chunks are so small that little of what came is its body."""
        return self._length is None and len(self.data) > FRAMING * (self._most + MOST_HEAD_BYTES)

    def add(self, data: bytes) -> None:
        """Take the bytes that came next."""
        searched = max(0, len(self.data) - len(HEAD_END) + 1)
        self.data += data
        if self._body_at < 0 and (end := self.data.find(HEAD_END, searched)) >= 0:
            self._read_head(end + len(HEAD_END))

    @property
    def is_complete(self) -> bool:
        """Return whether its last byte is there."""
        if self._body_at < 0:
            return False
        if self._length is not None:
            return len(self.data) - self._body_at >= self._length
        return self._has_last_chunk()

    def is_whole(self) -> bool:
        """Return whether it is all there, or cannot become a request any more.

        What is too large is refused by those who answer, without waiting for more.
        """
        if self._body_at < 0 or self.has_unknown_coding:
            return False
        if self._length is not None and self._length > self._most:
            return True
        return self.is_complete or self._chunk_bytes > self._most

    def _read_head(self, body_at: int) -> None:
        head = bytes(self.data[:body_at])
        self._body_at = self._chunk_at = body_at
        listed = b",".join(_CODINGS.findall(head)).lower().split(b",")
        self.has_unknown_coding = not {coding.strip() for coding in listed} <= _KNOWN_CODINGS
        if _CHUNKED.search(head):
            self._length = None
        elif found := _LENGTH.search(head):
            self._length = int(found[1])
        self.waits_for_continue = not self.has_unknown_coding and _CONTINUE.search(head) is not None

    def _has_last_chunk(self) -> bool:
        """Return whether the chunks end; each is looked at once."""
        while True:
            self._chunk_bytes = self._ended_chunk_bytes
            found = _CHUNK.match(self.data, self._chunk_at)
            if found is None:  # its line is not there yet, or is none
                self.is_malformed = self.data.find(b"\r\n", self._chunk_at) >= 0
                return False
            size = int(found[1], 16)
            if size == 0:  # after it come trailers, and an empty line
                return self.data.find(HEAD_END, found.end() - 2) >= 0
            if found.end() + size + 2 > len(self.data):
                self._chunk_bytes += min(size, len(self.data) - found.end())
                return False
            if self.data[found.end() + size : found.end() + size + 2] != b"\r\n":
                self.is_malformed = True
                return False
            self._ended_chunk_bytes += size
            self._chunk_at = found.end() + size + 2
