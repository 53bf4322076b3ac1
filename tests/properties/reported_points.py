"""Observer that compares every reported restore point with the server's state."""

from __future__ import annotations

from cachesim.events import Advanced, Gained, Lost, Release, Settled
from cachesim.scenarios.runner import SilentObserver
from tests.unit.engines.restore_points import Reported, differences


class Compared(SilentObserver):
    """Compares at every Settled and Release event, and after every step.

    ``seen`` collects (kind, cause) of reported points and of losses, ``found`` the differences. ``excuses``: ignore the
    differences that test_late_points.py expects. Between two events an active slot may have tokens that are not
    reported yet; with drafts it may also have lost some.
    """

    def __init__(self, seen=None, excuses=True):
        self.seen = set() if seen is None else seen
        self.found, self.excuses = [], excuses

    def started(self, server):
        """Start with a new server, without the state of its predecessor."""
        self.server, self.reported, self.rows, self.late = server, Reported(), {}, set()
        self.parts = hasattr(getattr(server.core, "memory", None), "parts")
        server.log.listener = self.hear
        if self.excuses and getattr(server.core, "window_is_shared", False):
            self._excuse_windows(server)

    def hear(self, event):
        """Record an event and compare."""
        self.reported(event)
        if isinstance(event, Gained | Advanced) and event.point.lo <= event.point.hi:
            self.seen.add((event.point.key[0], event.cause))
        elif isinstance(event, Lost):
            self.seen.add((event.key[0], f"lost: {event.cause}"))
        if isinstance(event, Advanced):
            self._slot(event.point)
        elif isinstance(event, Settled | Release):
            self.compare(event.slot)

    def answered(self, number, request, answer):
        """Compare after an answer."""
        self.compare()

    def acted(self, number, action, reply):
        """Compare after a step that is not a completion."""
        self.compare()

    def compare(self, slot=None):
        """Compare all points. ``slot`` is treated as inactive."""
        if self.server.dead:
            return
        at_work = {one.id for one in self.server.core.slots if one.busy and one.id != slot}
        excused = self.late | (at_work if self._drafts() else set())
        for one in differences(self.reported, self.server, {("slot", number, 0) for number in at_work}):
            kind, owner, _ = one[0]
            if (kind not in ("slot", "checkpoint") or owner not in excused) and not (self.excuses and _cut_off(*one)):
                self.found.append(one)
        for key in self.server.inspection.kept():
            if self.reported.lengths(key) and not (key[0] == "checkpoint" and key[1] in at_work):
                reported, actual = self.reported.tokens[key], self.server.inspection.stored(key).tokens
                if reported != actual and not (self.excuses and _cut_off(key, reported, actual)):
                    self.found.append((key, reported, actual))

    def _drafts(self):
        settings = self.server.core.settings
        return bool(getattr(settings, "drafts", False) or getattr(settings, "n_max", 0))

    def _slot(self, point):
        """Check a reported slot: rows of full attention before ``start`` equal those of the last report, as far as they
        exist, and the stored slot equals the memory from ``start`` on. In ik_llama.cpp windows share these cells."""
        key, start = point.key, point.start
        live, stored = self.server.inspection.live(key[1]), self.server.inspection.stored(key, start)
        rows = [_by_position(part) for part in live.rows]
        now = [one if part.window and self.parts else _from(one, start)
               for part, one in zip(live.rows, rows, strict=True)]  # fmt: skip
        self._same(key, [_by_position(part) for part in stored.rows], now)
        self._same(key, stored.state and stored.state.pos, live.state and live.state.pos)
        full = next((one for part, one in zip(live.rows, rows, strict=True) if not part.window), {})
        before, self.rows[key] = self.rows.get(key, {}), full if self._rows_are_there(live) else None
        if None not in (before, self.rows[key]):
            old = {at: row for at, row in full.items() if at < start}
            self._same(key, old, {at: before.get(at) for at in old})

    def _same(self, key, reported, actual):
        if reported != actual:
            self.found.append((key, reported, actual))

    # Known differences.

    def _rows_are_there(self, live):
        """Return False if a copy of rows or a rotation of K waits for the next batch, or if a position has two rows:
        ik_llama.cpp evaluates a part of a batch twice."""
        if self.excuses and self.parts:
            parts = self.server.core.memory.parts.values()
            return not any(cache.copies or cache.cells(live.owner).has_shift for cache in parts)
        return not self.excuses or all(len(set(part.pos.tolist())) == len(part.pos) for part in live.rows)

    def _excuse_windows(self, server):
        """Excuse slots that lose cells to a restored state: their loss is reported with the next batch."""
        read, evaluated = server.core.memory.state_read, server.core.evaluated

        def reads(seq, blob, *home):
            self.late.update(slot.id for slot in server.core.slots if slot.id != seq)
            read(seq, blob, *home)

        def evaluates(rule):
            evaluated(rule)
            self.late.clear()

        server.core.memory.state_read, server.core.evaluated = reads, evaluates


def _cut_off(key, reported, actual):
    """True for ik_llama.cpp's checkpoint that is not reported again when its slot gets the last of its tokens."""
    return key[0] == "checkpoint" and isinstance(reported, tuple) and reported == actual[: len(reported)]


def _by_position(part):
    """Return the provenance of the rows of all layers by position."""
    rows = zip(*(one.digest.tolist() for one in part.rows.values()), strict=True)
    return dict(zip(part.pos.tolist(), rows, strict=True)) if part.rows else dict.fromkeys(part.pos.tolist(), ())


def _from(rows, start):
    return {at: row for at, row in rows.items() if at >= start}
