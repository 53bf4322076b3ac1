"""Restore points that the prompt cache takes from a server, with their causes: they are those that are left."""

from __future__ import annotations

import pytest

from cachesim.events import Advanced, Lost
from tests.unit.engines.ik_llama.feature_conversations import Client, P, Q, R
from tests.unit.engines.restore_points import Reported, differences


class Told(Reported):
    """Also keeps (cause, rule) of every point that is lost, and with the number of tokens of every changed slot."""

    def __init__(self):
        super().__init__()
        self.changes = []

    def __call__(self, event):
        super().__call__(event)
        if isinstance(event, Lost):
            self.changes.append((event.cause, event.rule))
        elif isinstance(event, Advanced) and event.cause != "evaluated":
            self.changes.append((event.cause, event.rule, event.point.n))


class Heard:
    """A client whose server's restore points are compared after each request."""

    def __init__(self, version, **flags):
        self.client, self.told = Client(version, "A", cache_ram=1, cache_ram_n_min=0, **flags), Told()
        self.client.server.log.listener = self.told

    def ask(self, prompt, **fields):
        """Return the changes that a request leads to, and the lengths of the entries after it."""
        self.told.changes = []
        self.client.ask(prompt, **fields)
        assert differences(self.told, self.client.server) == []
        return self.told.changes, [len(entry.tokens) for entry in self.client.server.core.cache.entries]


def test_an_entry_that_a_longer_one_replaces_is_evicted():
    heard = Heard("pr1877")
    for prompt in (P[:40], Q, P[:40], Q, P[:40] + R):
        changes, _ = heard.ask(prompt)
        assert "evicted" not in [change[0] for change in changes]
    changes, entries = heard.ask(Q)
    assert (changes[0], entries) == (("evicted", "IK-PC-ALLOC"), [40, 52])


def test_another_system_prompt_takes_all_entries():
    heard = Heard("main")
    heard.ask(P), heard.ask(Q)
    changes, entries = heard.ask((*R, *P), extra={"system_tokens": 12})
    assert changes[:4] == [("overwritten", "IK-PC-LOAD.KEEP", 80), ("consumed", "IK-PC-HIT.TAKE"),
                           ("cleared", "IK-SYSTEM.ALL"), ("cleared", "IK-SYSTEM.ALL", 12)]  # fmt: skip
    assert entries == []


@pytest.mark.parametrize("version", ["main", "2020"])
def test_a_comparison_of_whole_texts_empties_the_lists_of_the_slot_and_of_all_entries(version):
    """The next conversation is stored in place of the emptied entry, which is a beginning of everything."""
    heard = Heard(version, reasoning_tokens="none")
    assert heard.ask(P) == ([], [])
    assert heard.ask(Q) == ([("cleared", "IK-PC-PEEK.MOVE", 0)], [0])
    [slot] = heard.client.server.core.slots
    for prompt in (R, P):
        assert heard.ask(prompt) == ([("evicted", "IK-PC-ALLOC"), ("cleared", "IK-PC-PEEK.MOVE", 0)], [0])
        assert tuple(slot.tokens) == prompt and dict(heard.client.answers[-1].reused) == {"slot": 0}
