# SPDX-License-Identifier: Apache-2.0
"""A pod manager that leases whole sleds, over Redfish with resources of its own."""
