# SPDX-License-Identifier: Apache-2.0
"""The commands of valence-sched, for its own program and for ``openstack``.

Modules here import heavy packages through ``late``, because ``openstack`` imports every command
module of every plug-in at each start.
"""
