# SPDX-License-Identifier: Apache-2.0
"""What a process does before several threads answer in it."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Prints which nouns of a body msgspec builds when they are decoded, before and after.
PROGRAM = """
import contextlib, json, sys
import msgspec
from valence_sched.server.wiring import prepare_process
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.routes import ROUTES

def built(kind):
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name))
    with contextlib.suppress(msgspec.ValidationError):
        msgspec.json.decode(b"null", type=kind)
    sys.setprofile(None)
    return "get_class_annotations" in seen

bodies = [route.body for route in ROUTES if route.body]
before = built(bodies[0])
prepare_process()
print(json.dumps([before, [str(kind) for kind in bodies if built(kind)]]))
"""


class TestPreparation(unittest.TestCase):
    def test_no_thread_is_the_first_to_decode_a_body(self):
        """Two threads that are first at once end the process by a segmentation fault."""
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                              check=False, cwd=ROOT)  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual([True, []], json.loads(done.stdout))
