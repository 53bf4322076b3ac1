"""Events: a frozen class per kind, and the Log that collects them.

Events have two families. A real llama-server prints *logged* events about its caches; ``ev`` and the field names are
those of recorded traces, so a recorded event and a simulated event compare with ``==``. The real server does not print
*silent* events (a removal, a load, a decision). They are kept for the judge and for ``why``, and left out of every
comparison with a trace. Units: ``n_*`` and ``lcp`` are tokens, ``pos_*``, ``p0``, ``p1`` positions, ``mib`` mebibytes
as printed (three decimals), ``f_*`` fractions between 0 and 1 as printed.
"""

from cachesim.events.adapters import (
    AloraAbsent,
    AloraAgain,
    AloraCap,
    AloraPre,
    AloraStart,
    AloraStop,
    LoraClear,
    LoraKeep,
    LoraSet,
)
from cachesim.events.base import Event, Log, SlotEvent, frozen, mib, share
from cachesim.events.media import MediaDecode, MediaEncode, MediaError
from cachesim.events.prefill_and_checkpoint import (
    Batch,
    Cancel,
    CkptAppend,
    CkptCheck,
    CkptCreate,
    CkptEvict,
    CkptFromFile,
    CkptInvalidate,
    CkptPeriodic,
    CkptRestore,
    CkptSearch,
    CkptSupersede,
    CkptTooClose,
    CopyShared,
    CopyToChild,
    CtxShift,
    DoCkpt,
    Error,
    FullReprocess,
    KvFull,
    Launch,
    NeedOne,
    NewPrompt,
    Release,
    ReuseChunk,
    ReuseResult,
    ReuseUnsupported,
    SpecCkpt,
    SpecRestore,
    SpecStep,
    TrimRefused,
    UserPos,
    Warn,
)
from cachesim.events.slot_and_prompt_cache import (
    IdleSave,
    PcAlready,
    PcBegin,
    PcCand,
    PcEntry,
    PcEvict,
    PcEvictTokens,
    PcLoad,
    PcLoadFailed,
    PcObsolete,
    PcSave,
    PcSearch,
    PcState,
    PcTooBig,
    SlotById,
    SlotByLcp,
    SlotByLru,
    SlotClear,
    SlotPurge,
    SlotSim,
    SlotSkipBusy,
    SlotSkipEmpty,
)
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
    RowsPurged,
    SeqRm,
    Settled,
)

__all__ = [
    "Aborted", "Advanced", "AloraAbsent", "AloraAgain", "AloraCap", "AloraPre", "AloraStart", "AloraStop", "Batch",
    "Cancel", "CkptAppend", "CkptCheck", "CkptCreate", "CkptEvict", "CkptFromFile", "CkptInvalidate", "CkptPeriodic",
    "CkptRestore", "CkptSearch", "CkptSupersede", "CkptTooClose", "Compared", "CopyShared", "CopyToChild", "CtxShift",
    "Decided", "Declined", "Decoded", "DoCkpt", "Error", "Event", "FullReprocess", "Gained", "IdleSave", "KvFull",
    "Launch", "Log", "LoraClear", "LoraKeep", "LoraSet", "Lost", "MediaDecode", "MediaEncode", "MediaError",
    "MicroBatch", "NeedOne", "NewPrompt", "PcAlready", "PcBegin", "PcCand", "PcEntry", "PcEvict", "PcEvictTokens",
    "PcLoad", "PcLoadFailed", "PcObsolete", "PcSave", "PcSearch", "PcState", "PcTooBig", "Release", "ReuseChunk",
    "ReuseResult", "ReuseUnsupported", "RowsPurged", "SeqRm", "Settled", "SlotById", "SlotByLcp", "SlotByLru",
    "SlotClear", "SlotEvent", "SlotPurge", "SlotSim", "SlotSkipBusy", "SlotSkipEmpty", "SpecCkpt", "SpecRestore",
    "SpecStep", "TrimRefused", "UserPos", "Warn", "frozen", "mib", "share",
]
