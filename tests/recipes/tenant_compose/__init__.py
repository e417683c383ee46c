# SPDX-License-Identifier: Apache-2.0
"""Pod managers of DMTF Redfish that compose for a tenant."""
