# SPDX-License-Identifier: Apache-2.0
"""The cost of deciding, reading and starting, as ratios to probes measured in the same run."""
