# SPDX-License-Identifier: Apache-2.0
"""What every Redfish resource has: a name, and how it is."""

from __future__ import annotations

from valence_sched.drivers.fields import Field, Resource, choice, text


class Named(Resource):
    """Any resource: its name and its health."""

    name = Field("Name", text, "what people call it; not an identity")
    state = Field("Status/State", text, "Enabled, Disabled, Absent, StandbyOffline, …")
    health = Field("Status/Health", choice("OK", "Warning", "Critical"), "of the resource itself")
    rollup = Field("Status/HealthRollup", choice("OK", "Warning", "Critical"), "of all below it")
