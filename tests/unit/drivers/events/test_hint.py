# SPDX-License-Identifier: Apache-2.0
"""Which events are hints: those about what is read, in every form that services send."""

import json
import unittest

from valence_sched.drivers.events import hint_of

SYSTEM = "/redfish/v1/Systems/1"


def hint(*records):
    return hint_of(json.dumps({"Id": "1", "Events": list(records)}).encode())


class TestHint(unittest.TestCase):
    def test_messages_of_the_registries_of_resources_are_hints(self):
        record = {"EventType": "Other", "MessageId": "ResourceEvent.1.3.ResourceChanged",
                  "OriginOfCondition": {"@odata.id": SYSTEM}}  # fmt: skip
        self.assertEqual(f"ResourceChanged {SYSTEM}", hint(record))
        blocks = {"MessageId": "Composition.1.1.ResourceBlockPoolChanged"}
        self.assertEqual("ResourceBlockPoolChanged", hint(blocks))

    def test_types_and_origins_of_older_services_are_hints(self):
        older = {"EventType": "ResourceAdded", "OriginOfCondition": SYSTEM}
        self.assertEqual(f"ResourceAdded {SYSTEM}", hint(older))
        self.assertEqual("StatusChange", hint({"EventType": "StatusChange", "MessageId": "X1"}))

    def test_an_alert_about_hardware_is_a_hint_and_one_about_nothing_is_none(self):
        alert = {"EventType": "Alert", "MessageId": "CMC9000"}
        self.assertEqual(f"Alert {SYSTEM}", hint({**alert, "OriginOfCondition": SYSTEM}))
        self.assertIsNone(hint(alert))

    def test_what_a_reading_does_itself_is_no_hint(self):
        """A reading logs in and out: it would ask for the next one."""
        for path in ("SessionService/Sessions/4", "sessionservice/Sessions/4", "EventService",
                     "AccountService/Accounts/2", "TaskService/Tasks/1",
                     "Managers/1/LogServices/Log/Entries/7"):  # fmt: skip
            record = {"EventType": "ResourceAdded",
                      "OriginOfCondition": {"@odata.id": f"/redfish/v1/{path}"}}  # fmt: skip
            self.assertIsNone(hint(record), path)
            self.assertEqual(f"ResourceAdded {SYSTEM}",
                             hint(record, {**record, "OriginOfCondition": SYSTEM}))  # fmt: skip

    def test_what_is_no_event_is_no_hint(self):
        for data in (b"", b"{", b"[]", b"7", b'{"Events": {}}', b'{"Events": [1, null, {}]}',
                     b'{"Events": [{"EventType": 4, "OriginOfCondition": [1]}]}', b"\xff",
                     b"[" * 100_000, b'{"MetricValues": []}'):  # fmt: skip
            self.assertIsNone(hint_of(data), data[:40])

    def test_a_hint_is_one_printable_line_of_bounded_length(self):
        text = hint({"EventType": "Alert", "OriginOfCondition": "/x\n\x1b[2J" + "y" * 5000})
        self.assertTrue(text.isprintable())
        self.assertLessEqual(len(text), 120)


if __name__ == "__main__":
    unittest.main()
