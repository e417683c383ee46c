# SPDX-License-Identifier: Apache-2.0
"""A filter and a weigher of a site that wants quiet rooms and new hardware."""
