# SPDX-License-Identifier: Apache-2.0
"""Baseline: the first schema, which a new store gets from the declared tables themselves."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: no store is older than this one."""


def downgrade() -> None:
    """Do nothing: nothing is older than this one."""
