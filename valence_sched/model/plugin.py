# SPDX-License-Identifier: Apache-2.0
"""PluginList: the plug-ins of one kind that are installed, as lists show them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

PluginKind = Literal["filters", "weighers"]


class PluginSummary(Struct, frozen=True, kw_only=True):
    """One plug-in: what it keeps or prefers, its options with their defaults, and its source."""

    name: str
    description: str
    options: dict[str, Any]
    source: str


class PluginList(Struct, frozen=True, kw_only=True):
    """The plug-ins of one kind; ``kind`` is its noun, such as ``filter``.

    ``load_errors`` says by name why a plug-in could not be loaded.
    """

    kind: str
    plugins: tuple[PluginSummary, ...]
    load_errors: dict[str, str] = {}
