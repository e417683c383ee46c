# SPDX-License-Identifier: Apache-2.0
"""Commands about filters: list."""

from __future__ import annotations

from valence_sched_cli.opinion import ListOpinions


class ListFilter(ListOpinions):
    """List the filters that policies may name, with their options and defaults."""

    group = "valence_sched.filters"
