# SPDX-License-Identifier: Apache-2.0
"""The cost of deciding, reading and starting, as ratios to probes measured in the same run."""

import os

# as our programs set it: on small matrices, threads cost more CPU than they save
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
