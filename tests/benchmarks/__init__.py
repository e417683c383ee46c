# SPDX-License-Identifier: Apache-2.0
"""What deciding, reading and starting cost, as ratios to probes measured in the same run."""
