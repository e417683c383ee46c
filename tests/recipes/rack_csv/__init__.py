# SPDX-License-Identifier: Apache-2.0
"""A pod manager that only exports a spreadsheet."""
