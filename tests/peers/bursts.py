"""Comparison of whole bursts: ``python -m tests.peers bursts --bursts 1000 --seed 0`` runs them on the real server and
ours.

Both servers get equal requests. Ours is forced to the tokens that the real run sampled, and counts bytes as the real
model does. Compared after every burst: reused tokens, stored keys and their types in queue order, bytes. ``--release
0.31.1`` compares another version, from 0.28.4 on, whose tree PYTHONPATH names; 0.30.7 and older do not count bytes.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import NamedTuple

from cachesim.engines.base import Request
from cachesim.engines.chat_template import ChatMessage, ChatTemplate, render
from cachesim.engines.mlx_lm import PROFILES
from cachesim.engines.mlx_lm.flags import Options
from cachesim.engines.mlx_lm.model_layout import ModelKind, TokenBytes
from cachesim.engines.mlx_lm.server import Server
from cachesim.engines.shared.flags import options_of
from cachesim.events import Log
from cachesim.model import parse

PROFILE = "mlx_lm@0.32.2"
TRANSCRIPT = Path(__file__).resolve().parents[1] / "data" / "mlx_lm" / "bursts-0.32.2.json"
CONTENT = range(1, 77)             # tokens that no template uses
ROUNDS = 12                        # bursts per server
LATER = {"prompt_cache_bytes": 0, "decode_concurrency": 32, "prompt_concurrency": 8, "prefill_step_size": 2048}
"""Flags that old servers do not have -> the value that they use."""


class Asked(NamedTuple):
    """A request: a chat or a text, number of tokens to generate, optional seed."""

    messages: tuple
    text: tuple
    max_tokens: int
    seed: int | None


class World(NamedTuple):
    """A server: its model, template and flags; ``prompt_cache_bytes`` 0 = unset."""

    model: str
    template: ChatTemplate
    flags: dict


class Talk:
    """Generator of bursts whose requests share prefixes, as real clients send them."""

    def __init__(self, rng, world):
        self.rng, self.world = rng, world
        self.systems = [self._words(rng.randint(0, 9)) for _ in range(2)]
        self.chats: list = []
        self.texts: list = []

    def _words(self, n):
        return tuple(self.rng.choice(CONTENT) for _ in range(n))

    def burst(self):
        return [self._request() for _ in range(self.rng.choice((1, 1, 2, 3, 5)))]

    def _request(self):
        rng, seed = self.rng, 7 if self.rng.random() < 0.06 else None
        if rng.random() < 0.25:
            return Asked((), self._text(), rng.randint(1, 4), seed)
        messages = self._chat()
        self.chats.append(messages)
        return Asked(tuple(messages), (), rng.randint(1, 5), seed)

    def _text(self):
        old = self.rng.choice(self.texts) if self.texts and self.rng.random() < 0.6 else ()
        if old and self.rng.random() < 0.05:
            return old                         # identical to a stored text: the thread dies
        cut = self.rng.randint(0, len(old))
        new = (*old[: cut if self.rng.random() < 0.5 else len(old)], *self._words(self.rng.randint(1, 12)))
        self.texts.append(new)
        return new

    def _chat(self):
        rng = self.rng
        if self.chats and rng.random() < 0.65:
            old = list(rng.choice(self.chats))
            kind = rng.random()
            if kind < 0.4:
                return [*old, ChatMessage("assistant", self._words(rng.randint(0, 4))), self._user()]
            if kind < 0.8:
                return [*old[:-1], self._user()]
            if kind < 0.9 and len(old) > 1:
                return [*old, ChatMessage("tool", self._words(rng.randint(1, 6)))]
            return old
        system = rng.choice(self.systems)
        return [*([ChatMessage("system", system)] if rng.random() < 0.8 else []), self._user()]

    def _user(self):
        return ChatMessage("user", self._words(self.rng.choice((0, 1, 2, 3, 5, 8, 13))))

    def heard(self, request, tokens):
        """Record an answer, so that later requests may begin with it."""
        if request.text:
            self.texts.append((*request.text, *tokens))


def world(rng, model):
    flags = {
        "prompt_cache_size": rng.choice((1, 2, 4, 10)), "prompt_cache_bytes": rng.choice((0, 0, 20_000, 200_000)),
        "decode_concurrency": rng.choice((1, 2, 32)), "prompt_concurrency": rng.choice((1, 2, 8)),
        "prefill_step_size": rng.choice((3, 8, 2048)),
    }  # fmt: skip
    return World(model, ChatTemplate(rng.choice(("plain", "plain", "reasoning", "terse")), rng.random() < 0.5), flags)


class Ours:
    """Our server with equal flags."""

    def __init__(self, where, spec, weights, rules=PROFILES[PROFILE]):
        kind = ModelKind(where.model, parse(spec), tuple(TokenBytes(row, tuple(slots)) for row, slots in weights))
        template = {"template": where.template.kind, "thinking": where.template.thinking}
        opts = options_of(Options, {**where.flags, **template})
        self.template = where.template
        self.server = Server(rules, kind, opts, None, Log())

    def burst(self, requests, said):
        answers = []
        for one, tokens in zip(requests, said, strict=True):
            prompt = render(one.messages, self.template) if one.messages else one.text
            answers.append(self.server.submit(Request(
                prompt, one.max_tokens, forced=tuple(tokens), messages=one.messages, seed=one.seed is not None,
            )))
        while self.server.working:
            self.server.iterate()
        return answers

    def stored(self):
        queues = self.server.core.cache.lru.queues()
        return [(kind, key) for kind in queues for _, key in queues[kind]], self.server.core.cache.lru.nbytes


def possible(request, template):
    """True if the template renders the request and the prompt is not empty."""
    users = any(message.role == "user" for message in request.messages)
    return bool(request.text) or users or template.kind != "reasoning"


def play(rng, name, model, weights, spec, count, transcript, rules):
    """Run bursts on servers of a model. Return the numbers of bursts, requests, reused tokens and deaths."""
    from tests.peers.real_server import RealServer, flags_read

    done = {"bursts": 0, "requests": 0, "tokens found": 0, "threads that died": 0}
    while done["bursts"] < count:
        where = world(rng, name)
        where.flags.update({name: value for name, value in LATER.items() if name not in flags_read()})
        settings = {**where.flags, "prompt_cache_bytes": where.flags["prompt_cache_bytes"] or None}
        ours, talk = Ours(where, spec, weights, rules), Talk(rng, where)
        theirs = RealServer(model, where.template, settings)
        try:
            rounds = _rounds(where, talk, theirs, ours, min(ROUNDS, count - done["bursts"]), done)
        finally:
            theirs.stop()
        transcript.append({"world": [name, list(where.template), where.flags], "bursts": rounds})
    return done


def _rounds(where, talk, theirs, ours, count, done):
    """Run bursts on a server, until its thread dies."""
    rounds = []
    for _ in range(count):
        requests = [one for one in talk.burst() if possible(one, where.template)]
        real = theirs.burst(requests)
        _compare(where, requests, real, ours, theirs)
        rounds.append(_note(requests, real, theirs.stored()))
        done["bursts"] += 1
        done["requests"] += len(requests)
        done["tokens found"] += sum(one.cached for one in real)
        for request, one in zip(requests, real, strict=True):
            talk.heard(request, one.tokens)
        if any(one.error == "died" for one in real):
            done["threads that died"] += 1
            break
    return rounds


def _compare(where, requests, real, ours, theirs):
    mine = ours.burst(requests, [one.tokens for one in real])
    for number, (request, one, other) in enumerate(zip(requests, mine, real, strict=True)):
        what = f"{where}, request {number} {request}: ours {one}, theirs {other}"
        assert one.died == (other.error == "died"), what
        if not one.died:
            assert (one.status != 200) == bool(other.error), what
            assert one.cache_n == other.cached or other.error, what
    if not any(one.died for one in mine):
        own, (keys, size) = ours.stored(), theirs.stored()
        assert own == (keys, own[1] if size is None else size), f"{where}, {requests}: {own} against {keys}, {size}"


def _note(requests, real, stored):
    """Return a burst as data."""
    entries, size = stored
    return {
        "asked": [[[list(m) for m in r.messages], list(r.text), r.max_tokens, r.seed] for r in requests],
        "said": [[one.cached, one.error, one.tokens] for one in real],
        "stored": [[kind, len(key), checksum(key)] for kind, key in entries], "nbytes": size,
    }  # fmt: skip


def repeat(recorded, rules=PROFILES[PROFILE]):
    """Replay the recorded bursts of a server under a rule set. Raise AssertionError at a difference."""
    name, template, flags = recorded["world"]
    ours = Ours(World(name, ChatTemplate(*template), flags), *recorded["spec"], rules)
    for burst in recorded["bursts"]:
        answers = ours.burst([_asked(data) for data in burst["asked"]], [tokens for _, _, tokens in burst["said"]])
        for answer, (cached, error, _) in zip(answers, burst["said"], strict=True):
            assert answer.died == (error == "died"), (answer, error)
            assert error or answer.cache_n == cached, (answer, cached)
        if not any(answer.died for answer in answers):
            entries, size = ours.stored()
            assert [[kind, len(key), checksum(key)] for kind, key in entries] == burst["stored"]
            assert size == burst["nbytes"]


def _asked(data):
    messages, text, max_tokens, seed = data
    return Asked(tuple(ChatMessage(role, tuple(content)) for role, content in messages), tuple(text), max_tokens, seed)


def checksum(key):
    """Return a short number that identifies a key."""
    total = 0
    for token in key:
        total = (total * 1_000_003 + token + 1) % (1 << 40)
    return total


def main(args):
    """Run each model's share of the bursts and print the counts."""
    from tests.peers.real_server import MODELS, build, weights_of
    from tests.peers.releases import NEWEST, rules_at

    began, transcript = time.perf_counter(), []
    rules = rules_at(args.release or NEWEST)
    chosen = args.models or MODELS
    for name in chosen:
        _, spec, _ = MODELS[name]
        model = build(name, args.seed)
        rng = random.Random(f"{args.seed} {name}")
        weights = weights_of(model)
        found = play(rng, name, model, weights, spec, -(-args.bursts // len(chosen)), transcript, rules)
        print(f"{name:12}", ", ".join(f"{value} {key}" for key, value in found.items()), flush=True)
        for one in transcript:
            one.setdefault("spec", [spec, weights])
    print(f"0 mismatches, {time.perf_counter() - began:.0f} s")
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(transcript, file, separators=(",", ":"))
    return 0
