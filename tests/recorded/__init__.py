# SPDX-License-Identifier: Apache-2.0
"""Recorded pod managers and traces, and what is read from and decided on them."""
