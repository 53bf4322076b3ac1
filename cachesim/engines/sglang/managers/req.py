"""Requests in progress, and what the memory holds of them.

Source: sgl-project/sglang python/sglang/srt/managers/schedule_batch.py Req, ReqKvInfo (0.5.23).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from cachesim.base.keyed_tokens import IDS
from cachesim.base.tokens import TokenList, Tokens
from cachesim.engines.sglang.mem_cache.base_prefix_cache import TreeLock
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.shared.request_queue import ReceivedRequest


@dataclass(slots=True, eq=False)
class ReqKvInfo:
    """The memory of a request: its slots and its states."""

    kv_committed_len: int = 0                   # computed tokens
    kv_allocated_len: int = 0                   # tokens that have slots
    cache_protected_len: int = 0                # tokens whose slots belong to the tree
    cache_inserted_len: int = 0                 # tokens that the request has inserted
    swa_evicted_seqlen: int = 0                 # tokens at the beginning without window slots of its own
    mamba_pool_idx: int | None = None           # slot of its running state
    mamba_cow_src_index: int | None = None      # slot of the state that its running state is copied from
    mamba_needs_clear: bool = False             # the slot of its running state has the content of another request
    mamba_ping_pong_track_buffer: list[int | None] | None = None        # slots of tracked states, None = empty
    mamba_next_track_idx: int = 0               # place of the next tracked state in the buffer
    mamba_last_track_idx: int = 0               # place of the last one
    mamba_last_track_seqlen: int | None = None  # length of the last tracked state
    mamba_prev_track_seqlen: int | None = None  # length of the tracked state before

    @property
    def mamba_slots(self) -> list[int]:
        """The slots of all its states."""
        slots = (self.mamba_pool_idx, *(self.mamba_ping_pong_track_buffer or ()))
        return [slot for slot in slots if slot is not None]


class KeyOfText(NamedTuple):
    """The tokens of a request, and its key in the tree."""

    text: Tokens
    key: Any


@dataclass(slots=True, eq=False)
class Req:
    """A request."""

    rid: int
    task: ReceivedRequest                       # what the client sent, and its answer
    fill_ids: TokenList                         # prompt and all tokens that were sampled so far; it only grows
    extra_key: Any = None                       # name space of its prefixes
    key: int = 0                                # key that the tokens are computed under, 0 = none
    priority: int = 0
    kv: ReqKvInfo = field(default_factory=ReqKvInfo)
    prefix_len: int = 0                         # tokens before its next chunk
    extend_end: int = 0                         # end of its next chunk
    last_node: UnifiedTreeNode | None = None            # where its last match ended
    best_match_node: UnifiedTreeNode | None = None      # where it ended with copies in host memory
    num_matched_prefix_tokens: int = 0          # tokens of that match, with those that are in host memory only
    host_hit_length: int = 0                    # matched tokens with copies behind those that are on the device
    swa_host_hit_length: int = 0                # tokens of its window that are in host memory only
    mamba_host_hit_length: int = 0              # states at its end that are in host memory only
    lock: TreeLock | None = None
    mamba_branching_seqlen: int | None = None   # where a state would have given a longer hit
    swa_branching_seqlen: int | None = None     # where a window would have given a longer hit
    num_output_ids: int = 0                     # sampled tokens whose steps are processed, with drafts behind the end
    seq_len: int = 0                            # tokens that the steps launched so far evaluate
    decode_batch_idx: int = 0                   # decode steps since it started
    num_unread_tokens: int = 0                  # tokens of its prompt that no step evaluates (S-DEF-9)
    inflight_middle_chunks: int = 0             # launched chunks that do not end its prompt
    is_chunked: bool = False                    # tokens of its prompt follow in another step
    is_retracted: bool = False                  # it waits again; results of its earlier steps are dropped
    mamba_lazy_checkpoint: bool = True          # its tracked state can enter the tree when it ends
    is_answered: bool = False                   # its answer is complete
    launched: bool = False                      # it started once
    known: Tokens = ()                          # what `text` returned last
    compared: KeyOfText = field(default_factory=lambda: KeyOfText((), ()))      # its key in the tree, for that text
    busy: bool = True                           # it is in progress

    child = False                               # several completions are not supported

    @property
    def seqlen(self) -> int:
        """Number of tokens that the scheduler knows: prompt and processed output."""
        return self.num_input_tokens + self.num_output_ids

    @property
    def extend_len(self) -> int:
        """Number of tokens of its next chunk."""
        return self.extend_end - self.prefix_len

    @property
    def num_input_tokens(self) -> int:
        """Number of tokens of the prompt."""
        return len(self.task.request.prompt)

    @property
    def num_output_tokens(self) -> int:
        """Number of tokens of the answer so far."""
        return self.task.answer.predicted_n

    @property
    def max_new_tokens(self) -> int:
        """Most tokens of the answer."""
        return max(1, self.task.request.n_predict)

    @property
    def num_remaining_tokens(self) -> int:
        """Most tokens of the answer that are not generated yet."""
        return self.max_new_tokens - self.num_output_tokens

    @property
    def needs_host_load_back(self) -> bool:
        """True if a part of its match is in host memory only."""
        return self.host_hit_length > 0 or self.swa_host_hit_length > 0 or self.mamba_host_hit_length > 0

    @property
    def skip_radix_cache(self) -> bool:
        """True if the request reuses nothing."""
        return not self.task.request.cache_prompt

    def text(self) -> Tokens:
        """Return all tokens with their key: the same list as before unless a token was appended."""
        if len(self.known) != len(self.fill_ids):
            self.known = tuple(self.token_identities(0, len(self.fill_ids)))
        return self.known

    def radix_key(self, is_eagle: bool) -> Any:
        """Return all tokens as the tree compares them: pairs of neighbours for a server with drafts (EAGLE)."""
        text = self.text()
        if not is_eagle and not self.key:
            return text
        if self.compared.text is not text:
            key = tuple(pairwise(self.fill_ids)) if is_eagle else tuple(self.fill_ids)
            self.compared = KeyOfText(text, key)
        return self.compared.key

    def forget_text(self) -> None:
        """Keep no copies of the tokens of an ended request."""
        self.known = ()
        self.compared = KeyOfText((), ())

    def token_identities(self, start: int, stop: int) -> list[int]:
        """Return tokens start .. stop-1 with the key that they are computed under."""
        tokens = self.fill_ids[start:stop]
        return [token + self.key * IDS for token in tokens] if self.key else tokens

    def append_output_id(self) -> int:
        """Make the next sampled token known to the scheduler, and return it. A token behind the end of the answer,
        from a draft, does not become a part of it."""
        token_id = self.fill_ids[self.seqlen]
        self.num_output_ids += 1
        if not self.is_answered:
            self.task.answer.tokens.append(token_id)
            self.task.answer.predicted_n += 1
        return token_id

    def next_output_finishes_by_length(self, max_req_len: int) -> bool:
        """True if one more token makes the answer as long as it can be."""
        return self.num_remaining_tokens <= 1 or self.seqlen + 1 >= max_req_len

    def reset_for_retract(self) -> None:
        """Begin again, with the answer so far as part of the prompt."""
        self.kv = ReqKvInfo()
        self.prefix_len = 0
        self.last_node = None
        self.lock = None
        self.mamba_branching_seqlen = None
        self.swa_branching_seqlen = None
        self.decode_batch_idx = 0
        self.seq_len = 0
        self.num_unread_tokens = 0
        self.inflight_middle_chunks = 0
        self.is_retracted = True

    # The driver's names, see `shared.server_loop.AnySlot`.

    @property
    def id(self) -> int:
        """Number of the request."""
        return self.rid

    @property
    def tokens(self) -> list[int]:
        """The computed tokens, with their key."""
        return self.token_identities(0, self.seq_len)

    def evaluated_tokens(self, start: int, stop: int) -> list[int]:
        """Return what a step evaluates at positions start .. stop-1, with the key: tokens of the answer follow the last
        token of the prompt that was evaluated."""
        return self.token_identities(start + self.num_unread_tokens, stop + self.num_unread_tokens)

    def finish(self) -> None:
        """End the request."""
        self.busy = False
