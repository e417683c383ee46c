# SPDX-License-Identifier: Apache-2.0
"""What every noun of a document is: frozen, and strict about fields it does not know."""

from __future__ import annotations

from msgspec import Struct


class Noun(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a document; fields at their defaults are left out when it is written."""
