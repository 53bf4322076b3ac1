"""Requests in progress, as the scheduler knows them.

Source: vLLM vllm/v1/request.py, vllm/v1/core/kv_cache_utils.py get_request_block_hasher (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Any, Callable, Hashable, NamedTuple, Sequence

from cachesim.base.keyed_tokens import with_keys
from cachesim.base.media_items import is_item, item_at
from cachesim.base.tokens import TokenList, Tokens
from cachesim.engines.shared.request_queue import ReceivedRequest


class RequestStatus(IntEnum):
    """Status of a request; those after ``PREEMPTED`` are final."""

    WAITING = auto()
    WAITING_FOR_REMOTE_KVS = auto()         # it waits, with blocks whose contents come from CPU memory
    RUNNING = auto()
    PREEMPTED = auto()
    FINISHED_STOPPED = auto()
    FINISHED_ABORTED = auto()
    FINISHED_ERROR = auto()


@dataclass(slots=True, eq=False)
class RequestText:
    """The tokens of a request as the worker has them, with what restore points need of it."""

    key: int                        # key that the tokens are computed under, 0 = none
    block_hashes: list[int]         # those of the request
    token_ids: list[int] = field(default_factory=TokenList)
    known: Tokens = ()              # what `full` returned last

    def full(self) -> Tokens:
        """Return all tokens with their key. A shorter text that was returned before is the beginning."""
        if len(self.known) != len(self.token_ids):
            tokens = tuple(self.token_ids)
            self.known = with_keys(tokens, ((0, self.key),)) if self.key else tokens
        return self.known


class RequestBlockHasher:
    """Hashes the complete units of requests. Equal units have equal hashes, which are numbers in the order of their
    first appearance. ``hash_block_size``, ``num_hash_lookahead_tokens``: tokens of a unit, and behind it."""

    def __init__(self, hash_block_tokens: Callable[..., Hashable], hash_block_size: int, num_hash_lookahead_tokens: int,
                 enabled: bool) -> None:
        self.hash_block_tokens = hash_block_tokens
        self.hash_block_size = hash_block_size
        self.num_hash_lookahead_tokens = num_hash_lookahead_tokens
        self.enabled = enabled
        self.numbers: dict[Hashable, int] = {}

    def extend(self, request: Request) -> None:
        """Hash the complete units of a request that are not hashed yet."""
        if not self.enabled:
            return
        unit = self.hash_block_size
        hashes = request.block_hashes
        tokens = request.all_token_ids
        width = unit + self.num_hash_lookahead_tokens
        start = len(hashes) * unit
        while start + width <= len(tokens):
            parent = hashes[-1] if hashes else -1
            hashed = tokens[start : start + width]
            made = self.hash_block_tokens(parent, hashed, request.lora_request, request.cache_salt)
            hashes.append(self.numbers.setdefault(made, len(self.numbers)))
            start += unit


class EncoderInput(NamedTuple):
    """An image of a prompt: its number, its first token, its tokens, and what it shows."""

    number: int
    offset: int
    length: int
    identifier: int

    @property
    def end(self) -> int:
        """End of its tokens."""
        return self.offset + self.length


def encoder_inputs(prompt: Sequence[int]) -> tuple[EncoderInput, ...]:
    """Return the images of a prompt."""
    if not prompt or not is_item(max(prompt)):
        return ()
    found = list[EncoderInput]()
    for at in range(len(prompt)):
        item = item_at(prompt, at)
        if item is not None and not item.number:
            found.append(EncoderInput(len(found), offset=at, length=item.n_tokens, identifier=prompt[at]))
    return tuple(found)


@dataclass(slots=True, eq=False)
class Request:
    """A request. The scheduler counts a token as computed when it is scheduled."""

    request_id: int
    task: ReceivedRequest                   # what the client sent, and its answer
    all_token_ids: TokenList                # prompt and answer
    block_hasher: RequestBlockHasher
    priority: Any = 0
    lora_request: str = ""                  # name of the adapter
    cache_salt: str = ""
    key: int = 0                            # key that the tokens are computed under, 0 = none
    status: RequestStatus = RequestStatus.WAITING
    num_output_placeholders: int = 0        # places for tokens of steps in flight
    num_stale_output_tokens: int = 0        # tokens in flight when it was preempted
    drop_stale_output: bool = False         # these are not delivered
    num_discarded_outputs: int = 0          # results in flight that are dropped, one after the other
    num_in_flight_tokens: int = 0           # computed tokens whose step is not processed
    spec_token_ids: list[int] = field(default_factory=list)
    last_sched_seq: int = 0                 # number of the last step that has tokens of it
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0              # tokens that the server's reply counts as cached
    is_prefill_chunk: bool = False          # its last chunk left tokens of the prompt
    shared_prefix_boundary: int = 0         # length of a prefix that one group alone has
    num_preemptions: int = 0
    block_hashes: list[int] = field(default_factory=list)       # of its complete units
    launched: bool = False                  # it started once
    is_skipped: bool = False                # it waits, and an earlier step passed over it
    num_prompt_tokens: int = field(init=False)
    max_tokens: int = field(init=False)
    mm_features: tuple[EncoderInput, ...] = field(init=False)
    text: RequestText = field(init=False)

    child = False                           # several completions are not supported

    def __post_init__(self) -> None:
        request = self.task.request
        self.num_prompt_tokens = len(request.prompt)
        self.max_tokens = max(1, request.n_predict)
        self.mm_features = encoder_inputs(request.prompt)
        self.text = RequestText(self.key, self.block_hashes)
        self.update_block_hashes()

    def append_output_token_ids(self, token_id: int) -> None:
        """Append a token of the answer."""
        self.all_token_ids.append(token_id)
        self.task.answer.tokens.append(token_id)
        self.task.answer.predicted_n += 1
        self.update_block_hashes()

    def update_block_hashes(self) -> None:
        """Hash the units that became complete."""
        self.block_hasher.extend(self)

    @property
    def num_tokens(self) -> int:
        """Number of known tokens."""
        return len(self.all_token_ids)

    @property
    def num_tokens_with_spec(self) -> int:
        """Number of known tokens and drafts."""
        return len(self.all_token_ids) + len(self.spec_token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Number of tokens of its answer."""
        return self.task.answer.predicted_n

    @property
    def num_remaining_tokens(self) -> int:
        """Most tokens of its answer that are not generated yet."""
        return self.max_tokens - self.num_output_tokens

    @property
    def prefill_end(self) -> int:
        """End of the tokens that a chunk is made for: the prompt, or all tokens known before a preemption."""
        return max(self.num_prompt_tokens, len(self.all_token_ids) - 1)

    @property
    def num_processed_tokens(self) -> int:
        """Number of computed tokens whose step is processed."""
        return self.num_computed_tokens - self.num_in_flight_tokens

    @property
    def skip_reading_prefix_cache(self) -> bool:
        """True if the request looks nothing up."""
        return not self.task.request.cache_prompt

    @property
    def order(self) -> tuple[Any, int]:
        """Priority and arrival."""
        return self.priority, self.request_id

    @property
    def is_running(self) -> bool:
        """True if the request is in the list of running requests."""
        return self.status == RequestStatus.RUNNING

    @property
    def is_finished(self) -> bool:
        """True if the request is answered or given up."""
        return self.status > RequestStatus.PREEMPTED

    # The driver's names, see `shared.server_loop.AnySlot`.

    @property
    def id(self) -> int:
        """Number of the request."""
        return self.request_id

    @property
    def busy(self) -> bool:
        """True if the request is in progress."""
        return not self.is_finished

    @property
    def tokens(self) -> list[int]:
        """The computed tokens."""
        return self.all_token_ids[: self.num_computed_tokens]

    def finish(self) -> None:
        """End a request whose process ended."""
        self.status = RequestStatus.FINISHED_ERROR
