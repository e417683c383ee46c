# SPDX-License-Identifier: Apache-2.0
"""Recorded pod managers and traces, and tests of their readings and decisions."""
