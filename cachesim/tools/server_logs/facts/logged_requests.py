"""Requests of a log as the reconstruction, `watch`, `advise` and pages read them: frozen views on tied lines and the
numbers that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Sequence

from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.facts.request_numbers import DerivedNumbers
from cachesim.tools.server_logs.lines.kept_prompt_ties import KINDS as KEPT_PROMPT
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import WHOLE, TiedRequest

_WITH_START = frozenset({"fetch", "in_cache", "kept_evaluated", "omlx_differs", *WHOLE})
_NAMELESS = frozenset({"fetch", "progress_of", "usage", *KEPT_PROMPT})
TOGETHER = 12                # overlapping requests in a group, at most


@dataclass(frozen=True, slots=True, eq=False)
class LoggedRequest:
    """Request of a log. Counts and positions are tokens. ``numbers`` has the range of each number that follows from the
    log; the properties of these names are None unless a single value is left. Values of lines that the log does not
    contain are None or empty."""

    slot: int = 0                                                # slot id, 0 if it was not printed
    task: int | None = None                                      # task id, None = not printed
    lines: tuple[int, int] = (0, 0)                              # first line, and last line until its release
    numbers: Mapping[str, ProvenRange] = field(default_factory=dict)
    n_keep: int = 0                                              # n_keep of its context shifts, as printed
    chosen: str = ""                                             # slot selection: "lcp", "lru", "id" or ""
    f_sim: float | None = None                                   # similarity of the slot, as printed
    f_keep: float | None = None                                  # share of the slot that is kept, as printed
    truncated: bool = False                                      # the prompt was shortened, or the context shifted
    pos_min: int | None = None                                   # first position in the memory, as printed
    restored: int | None = None                                  # n_past after a restored checkpoint
    restored_end: int | None = None                              # tokens of that checkpoint
    full: bool = False                                           # the server reports a full evaluation
    is_refused: bool = False                                        # the server refused it
    is_cancelled: bool = False                                      # the client hung up within the prompt
    is_loaded: bool = False                                         # an entry of the prompt cache was loaded for it
    created: Sequence[int] = ()                                  # tokens of the checkpoints made during it
    erased: Sequence[int] = ()                                   # tokens of checkpoints erased, too close to another
    checked: Sequence[tuple[int, int, int]] = ()                 # checkpoints checked: pos_min, pos_max, threshold
    shifts: Sequence[tuple[int, int]] = ()                       # context shifts: n_keep, n_discard
    chunks: Sequence[tuple[int, int]] = ()                       # chunks of the slot that were moved: start, end
    chunk_start: int | None = None                               # tokens before the first moved chunk
    spans: Sequence[tuple[int, int]] = ()                        # pos_min, pos_max of checkpoints created
    seen: int = 0                                                # minimum number of tokens in the slot before it
    is_whole: bool = False                                          # its beginning is in the log
    is_slot_known: bool = True                                      # its slot was printed
    is_named: bool = True                                           # its lines contain slot or task
    tied: TiedRequest | None = None                              # its lines

    @property
    def n_tokens(self) -> int | None:
        """Tokens of its prompt."""
        return self._exact("n_tokens")

    @property
    def cache_n(self) -> int | None:
        """Prompt tokens reused."""
        return self._exact("cache_n")

    @property
    def prompt_n(self) -> int | None:
        """Prompt tokens evaluated."""
        return self._exact("prompt_n")

    @property
    def predicted_n(self) -> int | None:
        """Tokens generated."""
        return self._exact("predicted_n")

    @property
    def lcp(self) -> int | None:
        """Common prefix with the slot."""
        return self._exact("lcp")

    @property
    def held(self) -> int | None:
        """Tokens in the slot before it."""
        return self._exact("held")

    @property
    def end(self) -> int | None:
        """Tokens in the slot after it."""
        return self._exact("end")

    def _exact(self, name: str) -> int | None:
        found = self.numbers.get(name)
        return found.low if found is not None and found.is_exact else None

    @property
    def is_slot_given(self) -> bool:
        """True if the log shows that the request names its slot (id_slot)."""
        return self.chosen == "id"

    def range_of(self, name: str) -> ProvenRange | None:
        """Return the range of a number, None if the log does not bound it from above and below."""
        found = self.numbers.get(name)
        return None if found is None or found.high is None else found

    def least(self, name: str) -> int:
        """Return the least value that a number can have."""
        found = self.numbers.get(name)
        return 0 if found is None else found.low

    def may_be(self, name: str, value: int | None) -> bool | None:
        """True if a number may have a value; None if the log or the value is unknown."""
        found = self.range_of(name)
        if value is None or found is None:
            return None
        return found.meets(ProvenRange(value, value))


def logged_request(derived: DerivedNumbers) -> LoggedRequest:
    """Return the view on a request's lines and numbers."""
    tied, numbers = derived.request, derived.numbers
    return LoggedRequest(
        slot=0 if tied.slot is None else tied.slot,
        task=tied.task,
        lines=_lines(tied),
        numbers=numbers,
        n_keep=_n_keep(tied),
        chosen="" if tied.choice is None else tied.choice.kind.removeprefix("slot_by_"),
        f_sim=_share(tied.choice, "f_sim"),
        f_keep=_share(tied.choice, "f_keep"),
        truncated=bool(tied.of("ctx_shift")) or any(line.read.numbers.get("truncated") for line in tied.of("release")),
        pos_min=next((line.number_of("pos_min") for line in tied.of("n_past", "prefix")), None),
        full=bool(tied.of("full_reprocess", "trim_failed")),
        is_refused=bool(tied.of("too_long")),
        is_cancelled=_is_cancelled(derived),
        is_loaded=bool(tied.of_cache("pc_load")),
        shifts=_pairs(tied, "ctx_shift", "n_keep", "n_discard"),
        chunks=_pairs(tied, "reuse_chunk", "c0", "c1"),
        chunk_start=next((line.number_of("p0") for line in tied.of("reuse_chunk")), None),
        seen=max((high + 1 for kind in _IN_SLOT for (high,) in _counts(tied, kind, "pos_max")), default=0),
        is_whole=tied.start is not None or any(line.kind in _WITH_START for line in tied.lines) or _is_at_start(tied),
        is_slot_known=tied.slot is not None,
        is_named=not any(line.kind in _NAMELESS for line in tied.lines),
        tied=tied,
        **_checkpoints(tied),
    )


def _is_at_start(tied: TiedRequest) -> bool:
    """True if the first line of a request reports that nothing of its prompt is evaluated yet."""
    return tied.lines[0].kind == "progress_of" and tied.lines[0].number_of("n_tokens") == 0


def _checkpoints(tied: TiedRequest) -> dict[str, Any]:
    """Return the fields of a request about checkpoints."""
    return {
        "restored": _restored(tied),
        "restored_end": next(_ends(tied, "ckpt_restore"), None),
        "created": tuple(_ends(tied, "ckpt_create")),
        "erased": tuple(_ends(tied, "ckpt_too_close")),
        "checked": checked_checkpoints(tied),
        "spans": _pairs(tied, "ckpt_create", "pos_min", "pos_max"),
    }


def _lines(tied: TiedRequest) -> tuple[int, int]:
    """Return the number of a request's first line, and that of its last line until its release."""
    end = next((line.number for line in tied.of("release")), max(line.number for line in tied.lines))
    return min(line.number for line in tied.lines), end


def _is_cancelled(derived: DerivedNumbers) -> bool:
    """True if the client hung up, and the slot then held less than the prompt, or maybe less."""
    end, length = derived.numbers.get("end"), derived.numbers.get("n_tokens")
    if end is None or end.high is None or derived.request.of("prompt_time", "eval_time", "ctx_shift"):
        return False
    is_less = length is not None and end.high < length.low
    return is_less or (derived.request.is_cancelled and (length is None or not length.is_exact))


def _n_keep(tied: TiedRequest) -> int:
    """Return the printed n_keep of a request, 0 if none was printed; -1 stands for the whole prompt."""
    found = [line.read.numbers.get("n_keep") for line in tied.of("new_prompt")]
    return next((keep for keep in found if isinstance(keep, int)), 0)


def _share(line: ReadLine | None, name: str) -> float | None:
    """Return a share between 0 and 1 that a line prints, None if it prints none."""
    found = None if line is None else line.read.numbers.get(name)
    return float(found) if isinstance(found, int | float) and 0 <= found <= 1 else None


_IN_SLOT = ("ckpt_check", "ckpt_invalidate")
"""Kinds of lines about checkpoints of what the slot holds."""


def checked_checkpoints(tied: TiedRequest) -> tuple[tuple[int, int, int], ...]:
    """Return the checkpoints that a server checked for a request: first and last position, and the threshold."""
    found = _counts(tied, "ckpt_check", "pos_min", "pos_max", "thold")
    return tuple((low, high, thold) for low, high, thold in found)


def _pairs(tied: TiedRequest, kind: str, first: str, second: str) -> tuple[tuple[int, int], ...]:
    """Return two numbers of each line of a kind that prints both."""
    return tuple((low, high) for low, high in _counts(tied, kind, first, second))


def _counts(tied: TiedRequest, kind: str, *names: str) -> Iterator[tuple[int, ...]]:
    """Yield these numbers of each line of a kind that prints all of them."""
    for line in tied.of(kind):
        found = [line.number_of(name) for name in names]
        if None not in found:
            yield tuple(number for number in found if number is not None)


def _ends(tied: TiedRequest, kind: str) -> Iterator[int]:
    """Yield the tokens of the checkpoints in lines of a kind."""
    for line in tied.of(kind):
        end = checkpoint_end(line)
        if end is not None and line.number_of("pos_max") is not None:
            yield end


def checkpoint_end(line: ReadLine) -> int | None:
    """Return the tokens of the checkpoint that a line is about, None if it prints neither them nor a last position."""
    end = line.number_of("n_tokens")
    last = line.number_of("pos_max")
    if end is not None:
        return end
    return None if last is None else last + 1


def _restored(tied: TiedRequest) -> int | None:
    """Return the tokens after which a request continues that restored a checkpoint."""
    for line in tied.of("ckpt_restore"):
        n_past, last = line.number_of("n_past"), line.number_of("pos_max")
        return n_past if n_past is not None else None if last is None else last + 1
    return None


def overlapping(requests: Sequence[LoggedRequest]) -> Iterator[list[LoggedRequest]]:
    """Yield groups of requests that were active at the same time, by their line numbers in the log."""
    group: list[LoggedRequest] = []
    end = 0
    for request in requests:
        if group and (request.lines[0] > end or len(group) == TOGETHER):
            yield group
            group, end = [], 0
        group.append(request)
        end = max(end, request.lines[1])
    if group:
        yield group
