# SPDX-License-Identifier: Apache-2.0
"""A report that one process hears counts in every process that shares the state."""

from tests.service.application import SMALL, ApplicationCase

RACK = {
    "pools": [{"id": "z"}],
    "blocks": [{"uri": "/b1", "type": ["Compute"], "pools": ["z"],
                "devices": {"processors": [{"cores": 16}]}}],
}  # fmt: skip
PROCESSES = 3


class TestFanOut(ApplicationCase):
    """Three processes of a service, and pod managers that report by themselves."""

    settings = {}  # noqa: RUF012 - no inventory: what was reported is decided on

    def setUp(self):
        super().setUp()
        self.clients = [self.client, *(self.new_client() for _ in range(PROCESSES - 1))]

    def report(self, client, name, **stats):
        result = client.simulate_post(f"/v1/podms/{name}/stats", json={"stats": stats})
        self.assertEqual(200, result.status_code, result.text)

    def decided(self):
        """Return what each process decides on the same request."""
        results = [one.simulate_post("/v1/select_destinations", json=SMALL) for one in self.clients]
        self.assertEqual([200] * PROCESSES, [one.status_code for one in results])
        return [
            [placement["chosen"]["podm"] for placement in one.json["report"]["placements"]]
            for one in results
        ]

    def test_every_scheduler_agrees_after_one_report(self):
        """S48: whichever of them heard it."""
        self.report(self.clients[0], "rack-1", **RACK)
        self.assertEqual([["rack-1"]] * PROCESSES, self.decided())
        self.report(self.clients[1], "rack-2", **RACK)
        self.report(self.clients[2], "rack-1", enabled=False)
        self.assertEqual([["rack-2"]] * PROCESSES, self.decided())
        self.report(self.clients[0], "rack-2", status="Offline")
        self.assertEqual([[]] * PROCESSES, self.decided())
