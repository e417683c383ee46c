# SPDX-License-Identifier: Apache-2.0
"""The application for another WSGI server, such as uWSGI or mod_wsgi.

Its settings are in the file that the environment variable ``VALENCE_SCHEDULER_CONFIG`` names.
"""

import os
import time

from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.settings import DEFAULT_SETTINGS, read_settings

CONFIG_VARIABLE = "VALENCE_SCHEDULER_CONFIG"

_path = os.environ.get(CONFIG_VARIABLE)
application = ServiceProcess(
    read_settings(_path) if _path else DEFAULT_SETTINGS, time.monotonic
).application
