# SPDX-License-Identifier: Apache-2.0
"""The commands of valence-sched, for its own program and for ``openstack``.

Modules here take what is heavy from ``late``: ``openstack`` loads every command module of every
plug-in at every start.
"""
