"""Single-line faults in caches, the prompt cache, rules and drivers of mlx-lm."""

from __future__ import annotations

from functools import partial

from tests.meta.fault import Fault

_fault = partial(Fault, engine="mlx_lm")

MLX_LM = [
    _fault("a row leaves its batch without its first token",
           "        start = int(self.left_padding[idx])\n", "        start = int(self.left_padding[idx]) + 1\n"),
    _fault("trim forgets one token too few",
           "        self.offset -= n\n        return n\n\n    def make_mask",
           "        self.offset -= max(n - 1, 0)\n        return n\n\n    def make_mask"),
    _fault("the ring keeps one token too few",
           "self.max_size + self.rules.ring_spare", "self.max_size + self.rules.ring_spare + 1"),
    _fault("a hit lends the stored layers",
           'return HandOut("copy")\n\n\n@rule("ML-LRU-HAND.consume"',
           'return HandOut("lend")\n\n\n@rule("ML-LRU-HAND.consume"'),
    _fault("a longer entry is trimmed in place",
           "layers = entry.layers if own else copy.deepcopy(entry.layers)\n        if not rules.trimmed(",
           "layers = entry.layers\n        if not rules.trimmed("),
    _fault("no token is left to process", "return min(query - 1, common)", "return min(query, common)"),
    _fault("one trimmable layer is enough",
           'return all(layer.is_trimmable() for layer in layers)\n\n\n@rule("ML-LRU-TRIMMED.any"',
           'return any(layer.is_trimmable() for layer in layers)\n\n\n@rule("ML-LRU-TRIMMED.any"'),
    _fault("one entry more than allowed", "return int(entries > max_size)", "return int(entries > max_size + 1)"),
    _fault("an entry that goes takes its branch along",
           "if not node.next and len(path) > 1:", "if len(path) > 1:"),
    _fault("a key on the way counts one token less",
           "ends[-1] if ends else 0", "ends[-1] - 1 if ends else 0"),
    _fault("rows that begin to answer share their caches",
           "deepcopy(self.prompts.caches)", "list(self.prompts.caches)"),
    _fault("padding goes through the model as tokens",
           "                cache.prepare(lengths=lengths, right_padding=padding)\n", "                pass\n"),
    _fault("a segment's key lacks its last token",
           "srv.cache.insert(row, tuple(row.tokens), generator.extract(row)",
           "srv.cache.insert(row, tuple(row.tokens[:-1]), generator.extract(row)"),
    _fault("one rejected draft stays",
           "trim_prompt_cache(self.caches, drafted - accepted)",
           "trim_prompt_cache(self.caches, max(drafted - accepted - 1, 0))"),
    _fault("rows that join are not moved to the common end",
           ", added + (end - addition", ", added + 0 * (end - addition"),
    _fault("a batch forgets that its padding has gone", "        self.left_padding = self.left_padding - spare\n", ""),
]  # fmt: skip
