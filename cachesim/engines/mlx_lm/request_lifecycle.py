"""Lifecycle of a request: its key, its lookup in the prompt cache, its pauses, and what it stores.

Source: mlx-lm mlx_lm/server.py _generate, _serve_single (321e764e to 0.32.2).
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any, Callable, Sequence

from cachesim import events as ev
from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens
from cachesim.engines.base import FixedTokens
from cachesim.engines.chat_template import SENTINEL, ChatMessage, render
from cachesim.engines.mlx_lm.batch import Row, Task
from cachesim.engines.mlx_lm.events import VALUE_ERROR, Died, Fetched
from cachesim.engines.mlx_lm.generator import Generator, SegmentGenerator
from cachesim.engines.mlx_lm.model_layout import make_caches
from cachesim.engines.mlx_lm.rules.segments import Segment
from cachesim.engines.mlx_lm.snapshot import CachedCore
from cachesim.engines.mlx_lm.unbatched_generation import SpeculativeRequest, UnbatchedRequest
from cachesim.engines.mlx_lm.whole_prompt_generator import WholePromptGenerator


def rendered(srv: CachedCore, messages: Sequence[ChatMessage], suffix: bool) -> Tokens | None:
    """Render the messages with the template; None if the template rejects them."""
    try:
        return render(messages, srv.settings.template, suffix)
    except BadInput:
        return None


def cut(srv: CachedCore, row: Row) -> Sequence[Segment]:
    """Return the segments of a prompt, for the generator that feeds a prompt segment by segment. The rules cut a chat
    after its system messages and before its tail (an opened thought)."""
    prompt, messages = row.request.prompt, row.request.messages
    if row.task.role != "user":
        found: Sequence[Segment] = srv.decide(srv.rules.cut_other(prompt, row.task.role), row)
        return found
    system = next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))
    probe = rendered(srv, (*messages[:system], ChatMessage("user", ())), False) if system else None
    sys_end = srv.decide(srv.rules.system_end(prompt, probe), row)
    tail = srv.decide(srv.rules.tail(prompt, sys_end), row) if thinks(srv, row) else len(prompt)
    found = srv.decide(srv.rules.cut_chat(prompt, sys_end, tail), row)
    return found


def thinks(srv: CachedCore, row: Row) -> bool:
    """True if the tail is looked for at a think token. Logged only if the tokenizer has one and it is not."""
    template = srv.settings.template
    found = srv.rules.thinks(template.thinks, template.thinking)
    if not found.value and template.thinks:
        srv.decide(found, row)
    return bool(found.value)


def new_caches(srv: CachedCore) -> list[Any]:
    """Return empty caches for a request in a batch."""
    limit = srv.settings.flags.max_kv_size
    rings = True
    if limit:
        rings = bool(srv.decide(srv.rules.new_cache(limit), None))
    return make_caches(srv.kind.spec, srv.cache_rules, rings)


def keyed(srv: CachedCore, row: Row) -> Tokens:
    """Decide the key and look it up in the prompt cache. Return the tokens left to feed."""
    task = row.task
    prompt = row.request.prompt
    messages = row.request.messages
    bare = render(messages, srv.settings.template, False) if messages else prompt
    parts = (rendered(srv, messages[:i], False) for i in range(1, len(messages) + 1))
    ends = [len(part) for part in parts if part is not None]
    task.key = srv.decide(srv.rules.key(prompt, bare, ends), row)
    got = srv.cache.fetch(row, task.key.asked)
    rest = (*got.rest, *prompt[len(task.key.asked) :])          # assumes that the key is a prefix of the prompt
    row.caches, task.old_key = got.cache or [], got.old_key
    row.tokens = list(prompt[: len(task.key.asked) - len(got.rest)])
    row.prefilled = FixedTokens((*row.tokens, *rest))
    task.answer.reused, task.answer.prompt_n = {"entry": len(row.tokens)}, len(rest)
    task.answer.deciding = got.decision.rule
    srv.emit(Fetched(row.id, task.id, n_tokens=len(task.key.asked), n_cached=len(row.tokens), how=got.how))
    row.left = row.caches
    srv.emit(ev.Settled(row.id, len(row.tokens)))
    row.left = []
    return rest


def feed_whole(srv: CachedCore, row: Row) -> None:
    """Prepare a request for the older generator: a single piece with at most a single checkpoint."""
    rest = keyed(srv, row)
    request, template = row.request, srv.settings.template
    changed = (*request.messages[:-1], ChatMessage("user", (SENTINEL,)))
    probe = rendered(srv, changed, True) if len(request.messages) > 1 else None
    trimmable = all(cache.is_trimmable() for cache in make_caches(srv.kind.spec, srv.cache_rules))
    row.task.position = srv.decide(
        srv.rules.position(request.prompt, row.task.role, template.thinks, trimmable, probe), row)
    row.segments = [rest]


def feed_segments(srv: CachedCore, row: Row) -> None:
    """Prepare a request for the newer generator: the rest of its segments after the cached tokens. Raise Died if
    nothing is left."""
    segments = cut(srv, row)
    keyed(srv, row)
    left = srv.decide(srv.rules.rest(segments, len(row.tokens)), row)
    if left.error:
        raise Died(left.error, left.kind)
    row.segments, row.types = list(left.segments), list(left.types)
    row.prefilled = FixedTokens(tuple(chain(row.tokens, *row.segments)))


FEED = {"whole": feed_whole, "segments": feed_segments}
"""Preparation of a request, by kind of generator."""


def checkpoint(srv: CachedCore, rows: Sequence[Row], pc: int, extract: Callable[[int], list[Any]]) -> None:
    """Store checkpoints at the only halt of the older generator's prefill, pc tokens before the end of every prompt."""
    for i, row in enumerate(rows):
        key = row.request.prompt[:-pc]
        if srv.capture(srv.rules.create_at_pc(len(row.request.prompt) - pc, row.task.position, pc), row):
            whose = srv.decide(srv.rules.row(i, len(rows)), row)
            srv.cache.insert(row, key, extract(whose), srv.rules.checkpoint_type)


def _checkpoint_place(srv: CachedCore, lengths: Sequence[int], positions: Sequence[int | None]) -> int:
    """Return how many tokens before the end of every prompt the older generator's prefill halts."""
    return int(srv.decide(srv.rules.pc(lengths, positions), None))


def _tails(srv: CachedCore, rests: Sequence[Tokens], pc: int) -> list[Tokens] | None:
    """Return the last ``pc`` tokens of every row, which the older generator feeds after that halt. None: they differ in
    length, which ends the thread."""
    found: list[Tokens] | None = srv.decide(srv.rules.tails(rests, pc), None)
    return found


def generator_of(srv: CachedCore) -> Generator:
    """Create the generator of this version. Its callbacks are no closures: a copy of the server has its own."""
    if srv.decide(srv.rules.batching(), None) == "segments":
        return SegmentGenerator(srv.machine)
    rules = srv.rules
    return WholePromptGenerator(
        srv.machine, partial(_checkpoint_place, srv), tails=partial(_tails, srv), checkpoint=partial(checkpoint, srv),
        fresh=lambda empty, sizes: bool(rules.fresh(empty, sizes).value),
        right_lengths=lambda rest, pc: int(rules.right_lengths(rest, pc).value))


def pause(srv: CachedCore, row: Row, end_of_segment: bool, generator: Generator) -> None:
    """Handle a halt of the row's prefill: store an entry if the rule says so."""
    if srv.capture(srv.rules.create(len(row.tokens), end_of_segment, len(row.types)), row):
        srv.cache.insert(row, tuple(row.tokens), generator.extract(row), row.types.pop(0))


def finish(srv: CachedCore, row: Row, caches: list[Any], why: str, keep: bool = True) -> None:
    """End a request: answer its client, then store the row's caches under its key. Raise Died if storing fails."""
    task, answer = row.task, row.task.answer
    answer.stop_type, answer.tokens_cached = why, len(row.tokens)
    answer.slot_tokens = tuple(row.tokens[: len(row.request.prompt) + len(answer.outputs) - 1])
    answer.done = True
    if keep:
        key = tuple(row.tokens) if task.key.stored == "held" else task.key.asked
        srv.cache.insert(row, key, caches, srv.rules.final_type, task.key.boundaries, task.old_key)
    if row in srv.active:
        srv.active.remove(row)
    row.busy = False
    row.caches = []
    row.prefilled = FixedTokens()
    row.left = caches
    srv.cache.report_lent()
    srv.emit(ev.Release(row.id, task.id, len(row.tokens), 0))
    row.left = []


def serve_alone(srv: CachedCore, task: Task) -> None:
    """Serve a request that cannot be batched, to its end. An error ends only this request, whether it comes from the
    prompt cache, the model, or the final insert (then the client already has its answer)."""
    row = srv.row(task)
    try:
        _serve_unbatched(srv, row)
    except (ValueError, Died) as error:
        if not task.answer.done:
            task.answer.fails(404, str(error), getattr(error, "kind", VALUE_ERROR))
            task.answer.done = True
        row.busy = False


def _serve_unbatched(srv: CachedCore, row: Row) -> None:
    """Serve the request. Raise ValueError if no token of the prompt is left, and Died in the cases that would end a
    batch."""
    rest = keyed(srv, row)
    if not row.caches:
        specs = [srv.kind.spec, *([] if srv.draft is None else [srv.draft[1]])]
        row.caches = [layer for spec in specs for layer in make_caches(spec, srv.cache_rules)]
    caches = row.caches

    def paused(paused_row: Row) -> None:
        srv.capture(srv.rules.create_alone(len(paused_row.tokens)), paused_row)

    def begin(*facts: Any) -> int:
        return int(srv.decide(srv.rules.start_drafting(*facts), row))

    def most(usual: int, room: int) -> int:
        return int(srv.decide(srv.rules.draft_round(usual, room), row))

    alone = (UnbatchedRequest(srv.machine, row, paused) if srv.draft is None else
             SpeculativeRequest(srv.machine, row, paused=paused, draft=srv.draft, start=begin, most=most))
    if not rest:
        raise ValueError("no tokens left to evaluate in the prompt")
    alone.run(rest)
    row.task.answer.cancelled = row.stop
    del row.tokens[srv.decide(srv.rules.key_alone(len(row.tokens), len(row.tokens) - alone.unfed), row) :]
    if row.stop:
        del row.tokens[srv.decide(srv.rules.key_stopped(len(row.request.prompt), len(row.tokens)), row) :]
    finish(srv, row, caches, "none" if row.stop else "limit")
