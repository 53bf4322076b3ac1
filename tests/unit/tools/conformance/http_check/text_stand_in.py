"""A configurable server with OpenAI's paths, for text or token arrays, that keeps the last conversations."""

from __future__ import annotations

import re
import threading

from cachesim.base.tokens import common_prefix
from cachesim.model.hash_mixing import mix_int

TEXT = " never saw the old white house by cold sea where six dogs eat green fish at noon"
WORDS = re.findall(r" \w+", TEXT)


class TextServer:
    """``keeps``: number of conversations; ``base``: tokens of a prompt before its own. ``stale``: after a part of a
    conversation the answer is that of the whole. ``dies`` at a prompt equal to a whole conversation. ``style`` of
    log-probabilities: "bool", "number" or ""; ``chat``: chats only; ``named``: requires the model's name; ``reports``
    cached tokens; ``strip``: removes the leading space of an answer; ``arrays``: accepts token arrays; ``lies``:
    reports more cached tokens than were sent; ``switch``: supports ``cache_prompt``; ``empties``: an empty request
    clears the cache."""

    def __init__(self, keeps=10, base=0, stale=False, dies=False, style="bool", chat=False, named=False, reports=True,
                 strip=True, arrays=False, lies=False, salts=False, switch=False,
                 empties=False):  # fmt: skip
        self.keeps, self.base, self.stale, self.dies, self.style = keeps, base, stale, dies, style
        self.chat, self.named, self.reports, self.strip, self.arrays = chat, named, reports, strip, arrays
        self.lies, self.salts, self.switch, self.empties = lies, salts, switch, empties
        self.kept, self.lock, self.dead = [], threading.Lock(), False

    def get(self, path):
        return (200, {"data": [{"id": "toy"}]}) if path == "/v1/models" else (404, {})

    def complete(self, body):
        with self.lock:
            return self._complete(body)

    def _complete(self, body):
        prompt = body.get("prompt")
        if not body:
            self.kept = [] if self.empties else self.kept
            return 200 if self.empties else 404, {}
        if self.chat != ("messages" in body):
            return 404, {"error": "no such path"}
        if self.chat:
            prompt = body["messages"][0]["content"]
        if self.chat and isinstance(prompt, list):
            return 400, {"error": "only text is supported"}
        if isinstance(prompt, list) and not self.arrays:
            return 404, {"error": "text input must be a string"}
        if self.dead or (self.named and body.get("model") != "toy"):
            return 404, {"error": "generation thread died"}
        wanted = body.get("logprobs", False)
        if self.style and isinstance(wanted, bool) != (self.style == "bool"):
            return 400, {"error": "logprobs has another type"}
        words = prompt if isinstance(prompt, list) else re.findall(r"\s*\S+", prompt)
        return self._answer([f"#{n}" for n in range(self.base)] + words, body)

    def _answer(self, words, body):
        known = [] if self.switch and not body.get("cache_prompt", True) else self.kept
        salt = [body["cache_salt"]] if self.salts and "cache_salt" in body else []
        best = max(known, key=lambda one: common_prefix([*salt, *words], one), default=[])
        shared = max(0, min(common_prefix([*salt, *words], best) - len(salt), len(words) - 1))
        if self.dies and [*salt, *words] in known:
            self.dead = True
            return 500, {"error": "generation thread died"}
        seen = [*words, "stale"] if self.stale and 2 < shared < min(len(words), len(best)) - 1 else words
        said, places = [], []
        for _ in range(body["max_tokens"]):
            digest = mix_int(hash_of([*seen, *said]))
            said.append(WORDS[digest % len(WORDS)])
            top = {WORDS[(digest + n) % len(WORDS)]: -0.5 - n - digest % 97 / 100 for n in range(4)}
            places.append(top)
        self.kept = [*self.kept, [*salt, *words, *said]][-self.keeps:]
        return 200, self._reply("".join(said), places, len(words), shared)

    def _reply(self, text, places, total, shared):
        text = text[1:] if self.strip else text
        choice = {"message": {"content": text}} if self.chat else {"text": text}
        if self.style == "bool":
            choice["logprobs"] = {"content": [{"top_logprobs": [{"token": key, "logprob": one} for key, one in
                                                                top.items()]} for top in places]}
        elif self.style:
            choice["logprobs"] = {"tokens": [next(iter(top)) for top in places], "top_logprobs": places}
        usage = {"prompt_tokens": total, "prompt_tokens_details": {"cached_tokens": shared + 999 * self.lies}}
        return {"choices": [choice], "usage": usage if self.reports else {"prompt_tokens": total}}


def hash_of(words):
    """Return a hash of the words that is equal in every process."""
    found = 7
    for word in words:
        found = mix_int(found ^ int.from_bytes(str(word).encode()[:7].rjust(7), "big"))
    return found
