"""Requests as the scheduler and the worker know them, without a server."""

from __future__ import annotations

from collections.abc import Sequence

from cachesim.base.tokens import TokenList
from cachesim.engines.base import Answer
from cachesim.engines.base import Request as ClientRequest
from cachesim.engines.shared.request_queue import ReceivedRequest
from cachesim.engines.vllm.request import EncoderInput, Request, RequestBlockHasher, RequestText
from cachesim.engines.vllm.worker.model_runner import CachedRequestState, ScheduledChunk


def make_request(number: int = 0, prompt: Sequence[int] = (), hashes: Sequence[int] = (),
                 images: Sequence[EncoderInput] = (), **fields: int) -> Request:  # fmt: skip
    """Return a request of the scheduler, with these hashes of its units and these images."""
    hasher = RequestBlockHasher(lambda *given: given, 4, num_hash_lookahead_tokens=0, enabled=False)
    task = ReceivedRequest(number, ClientRequest(tuple(prompt), 1), Answer(number))
    request = Request(number, task, TokenList(prompt), hasher, block_hashes=[*hashes], **fields)
    request.mm_features = tuple(images)
    return request


def worker_request(number: int = 0, prompt: Sequence[int] = ()) -> CachedRequestState:
    """Return a request of the worker."""
    text = RequestText(key=0, block_hashes=[], token_ids=[*prompt])
    state = CachedRequestState(number, ClientRequest(tuple(prompt), 1), text)
    state.restart(text.token_ids)
    return state


def chunk(state: CachedRequestState, start: int, end: int, drafts: Sequence[int] = ()) -> ScheduledChunk:
    """Return tokens start .. end-1 of a request, the last of them drafted."""
    return ScheduledChunk(state, start, end - start, [*drafts], samples_token=True, has_checkpoint_block=False)
