"""Comparison of drawn conversations with servers up to 0.28.3, which keep a single one:
``PYTHONPATH=TREE python -m tests.peers single --release 0.28.3 --ops 1000``.

TREE is that version's package. The real handler compares the prompts and trims the caches of a tiny random model, which
the real generate_step evaluates. Compared after every request: reused tokens, the tokens of the conversation, the
tokens that each layer claims to hold, and whether an error came in place of an answer.
"""

from __future__ import annotations

import random
from importlib.util import find_spec
from types import SimpleNamespace

from cachesim.engines.base import Request
from cachesim.engines.chat_template import ChatTemplate
from cachesim.engines.mlx_lm.model_layout import rows_of
from cachesim.engines.mlx_lm.rules import keys
from tests.peers.bursts import CONTENT, Ours, World
from tests.peers.releases import rules_at

MODELS = ("llama", "gemma3", "mamba2")
TURNS = 12                         # requests of a server


class Theirs:
    """The handler of the real server, without HTTP."""

    def __init__(self, model, extends):
        from mlx_lm import server

        self.handler = server.APIHandler.__new__(server.APIHandler)
        self.handler.prompt_cache = server.PromptCache()
        self.handler.model_provider = SimpleNamespace(model=model, draft_model=None, model_key=("m", None, None))
        self.model, self.extends = model, extends

    def ask(self, prompt, count, leave):
        """Return the reused tokens and the answer; None for an error. ``leave``: the client leaves after so many
        tokens, 0 = it stays. ``extends``: the version adds the answer to the conversation at its end."""
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        held, tokens = self.handler.prompt_cache, []
        rest = self.handler.get_prompt_cache(list(prompt))
        try:
            for token, _ in generate_step(mx.array(rest), self.model, max_tokens=count, prompt_cache=held.cache):
                tokens.append(int(token))
                if not self.extends:
                    held.tokens.append(tokens[-1])
                if leave and len(tokens) == leave:
                    break
            else:
                leave = 0
        except Exception:
            return None
        if self.extends and not leave:
            held.tokens.extend(tokens)
        return len(prompt) - len(rest), tokens

    def held(self):
        """Return the tokens of the conversation, and the offset of each layer that counts."""
        held = self.handler.prompt_cache
        return tuple(held.tokens), [one.offset for one in held.cache if hasattr(one, "offset")]


def mine(ours, prompt, count, leave, said):
    """Return what ours answers: reused tokens, or None for an error; the entry's key, and the offsets of its layers."""
    request = Request(tuple(prompt), count, forced=tuple(said), cancel_at=len(prompt) + leave - 1 if leave else None)
    answer = ours.server.submit(request)
    while ours.server.working:
        ours.server.iterate()
    [((_, key), entry)] = ours.server.core.cache.lru.entries().items()
    layers = [rows_of(layer) for layer in entry.layers]
    found = None if answer.status != 200 else answer.cache_n
    return found, key, [layer.offset for layer in layers if layer is not None]


def prompt_of(rng, held):
    """Draw a prompt: often a continuation, a prefix or a branch of the conversation, sometimes the same."""
    new = tuple(rng.choice(CONTENT) for _ in range(rng.randint(1, 14)))
    kind = rng.random()
    if not held or kind < 0.1:
        return new
    cut = len(held) if kind < 0.5 else rng.randint(1, len(held))
    return held[:cut] if kind > 0.85 else (*held[:cut], *new)


def main(args):
    """Run conversations of each model and print the counts."""
    from tests.peers.real_server import MODELS as KNOWN
    from tests.peers.real_server import build, weights_of

    rules = rules_at(args.release)
    extends = rules.key_stopped is keys.key_of_prompt
    for name in MODELS:
        if find_spec(f"mlx_lm.models.{KNOWN[name][0]}") is None:
            print(f"{name:8} is not in this version")
            continue
        model, rng, done = build(name, args.seed), random.Random(f"{args.seed} {name}"), {"requests": 0}
        weights = weights_of(model)
        while done["requests"] < args.ops // len(MODELS):
            where = World(name, ChatTemplate(), {})
            theirs, ours, last = Theirs(model, extends), Ours(where, KNOWN[name][1], weights, rules), ()
            for _ in range(TURNS):
                prompt, count = prompt_of(rng, last), rng.randint(1, 6)
                leave = rng.randint(1, count) if rng.random() < 0.2 else 0
                real = theirs.ask(prompt, count, leave if leave < count else 0)
                said = real[1] if real else ()
                found, key, offsets = mine(ours, prompt, count, leave if leave < count else 0, said)
                what = (name, prompt, count, leave, real, found)
                assert (None if real is None else real[0]) == found, what
                last = theirs.held()[0]
                assert (key, offsets) == theirs.held(), (what, key, offsets, theirs.held())
                done["requests"] += 1
                done["tokens found"] = done.get("tokens found", 0) + (found or 0)
                done["errors"] = done.get("errors", 0) + (found is None)
                done["clients that left"] = done.get("clients that left", 0) + (0 < leave < count)
        print(f"{name:8}", ", ".join(f"{value} {key}" for key, value in done.items()), "- 0 differences", flush=True)
    return 0
