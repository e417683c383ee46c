# SPDX-License-Identifier: Apache-2.0
"""NamespaceLink: a link to a zone through a network namespace; a test cuts it by taking it down.

The kernel then drops the packets of both sides: connections are neither refused nor ended.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
import unittest

from tests.proofs.cut_link import Cut, CutLink

IP = shutil.which("ip")
CLONE_NEWNET = 0x40000000


class NamespaceLink(CutLink):
    """Forwards TCP from an address in a new namespace to the service at ``target``.

    Raises:
        SkipTest: this machine does not permit namespaces.
    """

    def __init__(self, target: str) -> None:
        if os.geteuid() != 0 or IP is None:
            raise unittest.SkipTest("network namespaces need root and the command ip (iproute2)")
        number = os.getpid() % 250
        self._namespace, self._outside, self._inside = (
            f"vs-{os.getpid()}", f"vso{os.getpid()}", f"vsi{os.getpid()}",
        )  # fmt: skip
        self._address, other = f"10.213.{number}.2", f"10.213.{number}.1"
        try:
            _ip("netns", "add", self._namespace)
        except subprocess.CalledProcessError as error:
            raise unittest.SkipTest(f"no network namespaces here: {error.stderr}") from None
        try:
            _ip("link", "add", self._outside, "type", "veth", "peer", self._inside,
                "netns", self._namespace)  # fmt: skip
            _ip("address", "add", f"{other}/30", "dev", self._outside)
            _ip("link", "set", self._outside, "up")
            self._ip_inside("address", "add", f"{self._address}/30", "dev", self._inside)
            self._ip_inside("link", "set", self._inside, "up")
            super().__init__(target)
        except BaseException:
            _ip("netns", "delete", self._namespace)
            raise
        self.url = f"http://{self._address}:{self._port}"

    def mend(self) -> None:
        """Take the link up again; earlier connections are closed."""
        self._ip_inside("link", "set", self._inside, "up")
        super().mend()

    def close(self) -> None:
        """Close the link, and delete the namespace."""
        super().close()
        _ip("netns", "delete", self._namespace)

    def _listening(self, port: int) -> socket.socket:
        """Listen in the namespace: a socket stays in the namespace of the thread that made it."""
        made: list[socket.socket] = []

        def listen() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            with open(f"/run/netns/{self._namespace}", "rb") as namespace:
                if libc.setns(namespace.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(socket.create_server((self._address, port)))

        thread = threading.Thread(target=listen)
        thread.start()
        thread.join()
        (listener,) = made
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _passes(self, data: bytes, answers: bool) -> bool:
        """Forward all bytes: the kernel drops them while the link is down."""
        super()._passes(data, answers)
        return True

    def _cut_now(self, how: Cut) -> None:
        if how == "drop":
            self._ip_inside("link", "set", self._inside, "down")
        super()._cut_now(how)

    def _ip_inside(self, *words: str) -> None:
        _ip("-netns", self._namespace, *words)


def _ip(*words: str) -> None:
    assert IP is not None, "there is one, or the test is skipped"
    subprocess.run([IP, *words], check=True, capture_output=True, text=True)
