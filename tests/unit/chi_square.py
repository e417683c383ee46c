# SPDX-License-Identifier: Apache-2.0
"""The deviation of counts from equal shares."""

from collections import Counter


def chi_square(counts: Counter, classes: int) -> float:
    """Return Pearson's statistic against equal shares of ``classes`` classes."""
    mean = sum(counts.values()) / classes
    return sum((counts[c] - mean) ** 2 / mean for c in counts) + mean * (classes - len(counts))
