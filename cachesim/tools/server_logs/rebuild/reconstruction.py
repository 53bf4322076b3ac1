"""Reconstruction of a log: its requests as a scenario, and their agreement with the simulation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.schema import Scenario
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.rebuild.assumed_lengths import AssumedLength
from cachesim.tools.server_logs.rebuild.candidate_server import RunningPrompt
from cachesim.tools.server_logs.rebuild.line_agreement import Contradiction
from cachesim.tools.server_logs.rebuild.slot_contents import SlotText

NEW_CONVERSATION = "a new conversation"
"""Assumption about a request that reused nothing, if the log does not show what it has in common with earlier ones."""


class PromptChoice(NamedTuple):
    """Assumed beginning of a prompt: the first ``lcp`` tokens of ``base``. ``why``: the assumption, "" = known from the
    log. ``marks``: tokens at which user messages begin, as far as known. ``length``: length of the prompt.
    ``is_cached``: False if the request sets ``cache_prompt`` to false."""

    base: SlotText
    lcp: int
    why: str
    marks: tuple[int, ...] = ()
    length: AssumedLength = AssumedLength(0)
    is_cached: bool = True


class SentRequest(NamedTuple):
    """Request that was sent: its notation, the tokens that it reused, and the slot contents that it leaves."""

    text: str                  # its notation
    sent: RunningPrompt
    choice: PromptChoice             # beginning of its prompt
    word: str                  # word for the new part of its prompt
    new: int                   # tokens of the new part
    content: SlotText          # its answer
    held: SlotText             # slot contents after it
    contradicted: Sequence[Contradiction]      # lines of its prompt that the simulated server does not print

    def agrees_with(self, logged: LoggedRequest) -> bool:
        """True if the log does not contradict the reused and the evaluated tokens."""
        evaluated = None if logged.cache_n is not None else self.sent.prompt_n
        found = logged.may_be("cache_n", self.sent.cache_n), logged.may_be("prompt_n", evaluated)
        return False not in found

    def is_nearer(self, prompt: SentRequest) -> bool:
        """True if this prompt contradicts fewer lines than another."""
        return len(self.contradicted) < len(prompt.contradicted)


@dataclass(slots=True)
class ReconstructedRequest:
    """Reconstructed request of a log."""

    logged: LoggedRequest
    step: int = -1                                           # number in the scenario, -1 = left out
    text: str = ""                                           # notation
    simulated_n: int | None = None                           # tokens that the simulator reuses
    slot: int | None = None                                  # slot in the simulation
    assumed: str = ""                                        # assumptions that are not in the log
    left_out: str = ""                                       # reason for leaving it out
    n_tokens: int | None = None                              # length of its prompt in the simulation
    is_bounded: bool = False                                 # the log determines or bounds that length
    lcp: int = 0                                             # common prefix with `before`
    before: SlotText = field(default_factory=SlotText)       # text that its prompt continues
    contradicted: list[Contradiction] = field(default_factory=list)      # lines that the simulation does not print

    def __post_init__(self) -> None:
        if self.logged.n_tokens is not None:
            self.n_tokens, self.is_bounded = self.logged.n_tokens, True

    @property
    def common(self) -> int:
        """Tokens that its prompt shares with what its slot held: as simulated, within what the log proves."""
        known = self.logged.numbers.get("lcp")
        return self.lcp if known is None else known.nearest(self.lcp)

    @property
    def agrees(self) -> bool | None:
        """True if the simulator reuses as many tokens as the log says; None if either number is unknown.
        A log that only limits the number from above can contradict the simulator, not confirm it."""
        found = self.logged.may_be("cache_n", self.simulated_n) if self.step >= 0 else None
        return None if found and not logs_reuse(self.logged) else found


def logs_reuse(logged: LoggedRequest) -> bool:
    """True if the log contains the number of reused tokens, so that the simulation can be compared with it."""
    found = logged.range_of("cache_n")
    return found is not None and not found.is_upper_bound


@dataclass(slots=True)
class Reconstruction:
    """Log as a scenario under a rule set and a model."""

    profile: str
    model: str
    server: Mapping[str, Any]
    requests: list[ReconstructedRequest] = field(default_factory=list)
    line: str = ""                                           # notation of the whole scenario
    untried_requests: set[int] = field(default_factory=set)           # requests for which not every choice was tried
    untried_settings: list[str] = field(default_factory=list)        # settings not fully tried, in words
    candidates: int = 1                                      # candidates tried
    unmet: set[int] = field(default_factory=set)             # lines that every candidate contradicts

    @property
    def is_complete(self) -> bool:
        """True if the search tried all values."""
        return not self.untried_settings and not self.untried_requests and not (self.is_rejected and self.with_length)

    @property
    def with_length(self) -> list[int]:
        """Requests whose prompts have an assumed length. Lengths of several requests are not tried in combination."""
        return [number for number, request in enumerate(self.requests)
                if request.step >= 0 and request.logged.n_tokens is None]  # fmt: skip

    def agrees(self, number: int) -> bool | None:
        """True if simulator and log agree on the reused tokens of a request. None if either number is unknown,
        or if they differ and the search stopped early."""
        return None if self.open(number) else self.requests[number].agrees

    def open(self, number: int) -> bool:
        """True if a request differs from the log but could agree if the search had not stopped early."""
        is_open = bool(self.untried_settings) or number in self.untried_requests
        return self.requests[number].agrees is False and (is_open or any(one <= number for one in self.with_length))

    @property
    def undecided(self) -> int:
        """Number of requests that differ from the log but could agree if the search had not stopped early."""
        return sum(map(self.open, range(len(self.requests))))

    @property
    def score(self) -> tuple[int, int, int, int]:
        """Number of agreeing requests, then negative numbers of differing requests, of contradicted lines and of
        requests with an assumption."""
        found = [request.agrees for request in self.requests]
        lines = len(self.contradicted)
        assumed = sum(request.assumed not in ("", NEW_CONVERSATION) for request in self.requests)
        return sum(request is True for request in found), -sum(request is False for request in found), -lines, -assumed

    @property
    def contradicted(self) -> list[Contradiction]:
        """Lines of the log that the simulated server does not print."""
        return [line for request in self.requests for line in request.contradicted]

    @property
    def is_rejected(self) -> bool:
        """True if a printed number contradicts the simulation."""
        return bool(self.score[1] or self.contradicted)

    def can_exceed(self, best: Reconstruction, left: Sequence[LoggedRequest]) -> bool:
        """True if this score can still exceed the score of ``best`` with the remaining requests ``left``. False
        if more requests differ or more lines are contradicted already."""
        agree, differ, lines, assumed = self.score
        most = agree + sum(map(logs_reuse, left)), differ, lines, assumed
        return (differ, lines) >= best.score[1:3] and most > best.score

    @property
    def scenario(self) -> Scenario:
        """Reconstructed scenario."""
        return from_line(self.line, model=self.model, profiles=(self.profile,), server=self.server)
