"""Events: a frozen class per kind, and the Log that collects them.

Events have two families. A real llama-server prints *logged* events about its caches; ``ev`` and the field names are
those of recorded traces, so a recorded event and a simulated event compare with ``==``. The real server does not print
*silent* events (a removal, a load, a decision). They are kept for the judge and for ``why``, and left out of every
comparison with a trace. Units: ``n_*`` and ``lcp`` are tokens, ``pos_*``, ``p0``, ``p1`` positions, ``mib`` mebibytes
as printed (three decimals), ``f_*`` fractions between 0 and 1 as printed.
"""

from cachesim.events.base import Event, Log, SlotEvent, frozen, mib, share
from cachesim.events.lifecycle import Launch, Release
from cachesim.events.unlogged import (
    Aborted,
    Advanced,
    Compared,
    Decided,
    Declined,
    Decoded,
    Gained,
    Lost,
    MicroBatch,
    SeqRm,
    Settled,
)

__all__ = [
    "Aborted", "Advanced", "Compared", "Decided", "Declined", "Decoded", "Event", "Gained", "Launch", "Log", "Lost",
    "MicroBatch", "Release", "SeqRm", "Settled", "SlotEvent", "frozen", "mib", "share",
]
