# SPDX-License-Identifier: Apache-2.0
"""How deep a tree of zones may be."""

MOST_HOPS = 16  # levels of zones below the one that is asked first
