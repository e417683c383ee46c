# SPDX-License-Identifier: Apache-2.0
"""Baseline: the first schema, which a new store gets directly from the declared tables."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: older stores do not exist."""


def downgrade() -> None:
    """Do nothing: older stores do not exist."""
