"""The wire of KV events: a released publisher on one side, the subscriber of ``watch`` on the other."""

from __future__ import annotations

from contextlib import contextmanager
from tempfile import TemporaryDirectory

from cachesim.tools.watch.event_endpoint import EventEndpoint

SECONDS = 1.0                   # in which a message must arrive
PROBES = 200                    # messages before the first that arrives, at most


class Wire:
    """A publisher and a subscriber. ``first``: number of the first message after the subscription."""

    def __init__(self, publisher, endpoint, probe):
        self.publisher, self.endpoint = publisher, endpoint
        for self.first in range(1, PROBES):
            publisher.publish(probe())
            if list(endpoint.messages(SECONDS)):
                return
        raise AssertionError("no message arrived")

    def check(self, batches, expected):
        """Publish batches. What arrives, and what the publisher sends again, must be the expected events and ranks, in
        order. Return their number."""
        found = []
        for batch in batches:
            self.publisher.publish(batch)
        while len(found) < len(expected) and (more := list(self.endpoint.messages(SECONDS))):
            found += more
        for read in (found, list(self.endpoint.replayed(self.first, ""))):
            assert [one.seq for one in read] == list(range(self.first, self.first + len(expected)))
            for one, other in zip(read, expected, strict=True):
                assert [list(one.events), one.rank] == other, (one.seq, one, other)
        return len(expected)


@contextmanager
def wire(publisher, probe):
    """Connect a publisher, made from its address and that of the kept messages. ``probe``: returns an empty batch."""
    with TemporaryDirectory(prefix="cachesim-") as folder:
        addresses = f"ipc://{folder}/events", f"ipc://{folder}/replay"
        released = publisher(*addresses)
        endpoint = EventEndpoint(*addresses)
        try:
            yield Wire(released, endpoint, probe)
        finally:
            endpoint.close()
            released.shutdown()
