"""Watching processes end, without sleeping."""

from __future__ import annotations

import os
import select

import pytest


@pytest.fixture
def wait_until_gone():
    """Block until a process that need not be a child of this one has ended; fail after 60 s."""
    if not hasattr(os, "pidfd_open"):
        pytest.skip("needs Linux process descriptors")

    def wait(pid):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return

        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            assert poll.poll(60_000), f"process {pid} is still there"
        finally:
            os.close(descriptor)

    return wait
