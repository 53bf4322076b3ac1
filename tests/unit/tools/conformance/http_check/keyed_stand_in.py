"""Servers with adapters and images: their caches find prompts by all that they depend on, or mix it up."""

from __future__ import annotations

import re
from hashlib import sha256

from cachesim.base.tokens import common_prefix
from tests.unit.tools.conformance.http_check.text_stand_in import WORDS, TextServer, hash_of

ADAPTERS = ("one", "two")
IMAGE = 5                    # tokens of an image
MIXES = ("", "adapters", "images")


class KeyedServer(TextServer):
    """A server whose answers depend on the model that a request names and on its images. ``mixes``: an entry of MIXES
    that its cache ignores; ``weak``: adapters and images change no answer; ``blind``: it refuses images."""

    def __init__(self, mixes="", weak=False, blind=False, **how):
        super().__init__(switch=True, **how)
        assert mixes in MIXES
        self.mixes, self.weak, self.blind = mixes, weak, blind

    def get(self, path):
        models = [{"id": "toy", "root": "toy"}, *({"id": name, "parent": "toy"} for name in ADAPTERS)]
        return (200, {"data": models}) if path == "/v1/models" else (404, {})

    def _complete(self, body):
        prompt = body.get("prompt", body.get("messages", [{}])[0].get("content"))
        if not body or self.chat != ("messages" in body) or (self.blind and isinstance(prompt, list)):
            return 400, {"error": "no"}
        if isinstance(prompt, list) and not self.chat:
            return 400, {"error": "no"}
        words = [f"#{n}" for n in range(self.base)]
        for part in prompt if isinstance(prompt, list) else [{"type": "text", "text": prompt}]:
            if part["type"] == "text":
                words += re.findall(r"\s*\S+", part["text"])
            else:
                digest = sha256(part["image_url"]["url"].encode()).hexdigest()[:5]
                words += [f"i{digest}"] * IMAGE
        return self._keyed(words, body)

    def _keyed(self, words, body):
        """Answer; what is reused counts as it was computed: under another adapter, of another image."""
        name = body.get("model", "toy")
        true = [(name if name in ADAPTERS and not self.weak else "", self._seen(word)) for word in words]
        best, shared = [], 0
        for one in self.kept if body.get("cache_prompt", True) else ():
            same = common_prefix([self._found(*pair) for pair in true], [self._found(*pair) for pair in one])
            best, shared = (one, same) if same > shared else (best, shared)
        shared = min(shared, len(words) - 1)
        true = [*best[:shared], *true[shared:]]
        said, places = self._said(true, body["max_tokens"])
        self.kept = [*self.kept, [*true, *((true[-1][0], word) for word in said)]][-self.keeps:]
        return 200, self._reply("".join(said), places, len(words), shared)

    def _seen(self, word):
        return "image" if self.weak and re.fullmatch(r"i[0-9a-f]{5}", word) else word

    def _found(self, name, word):
        """Return what the cache compares of a token."""
        plain = "image" if self.mixes == "images" and re.fullmatch(r"i[0-9a-f]{5}", word) else word
        return "" if self.mixes == "adapters" else name, plain

    def _said(self, true, n):
        said, places = [], []
        for _ in range(n):
            digest = hash_of([part for pair in true for part in pair] + said)
            said.append(WORDS[digest % len(WORDS)])
            places.append({WORDS[(digest + m) % len(WORDS)]: -0.5 - m - digest % 97 / 100 for m in range(4)})
        return said, places
