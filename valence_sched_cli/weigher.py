# SPDX-License-Identifier: Apache-2.0
"""Commands about weighers: list."""

from __future__ import annotations

from valence_sched_cli.opinion import ListOpinions


class ListWeigher(ListOpinions):
    """List the weighers that policies may name, with their options and defaults."""

    group = "valence_sched.weighers"
