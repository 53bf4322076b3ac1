"""Plain caches that reuse as many tokens as the servers do: models of attention alone, one request after the other.

They follow the specification, know tokens only, and share no code with the engines. Each has ``ask(prompt, said)``: the
number of prompt tokens that it reuses; the cache then has the prompt and the generated tokens, too. A server never
evaluates the last generated token.
"""

from __future__ import annotations

from fractions import Fraction


def common(text, prompt):
    """Return the length of the common prefix."""
    pairs = enumerate(zip(text, prompt, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(text), len(prompt)))


class Slots:
    """llama.cpp's slots without a prompt cache: the most similar one above a threshold, else the least recently used;
    of slots that were never used the last one."""

    def __init__(self, number, threshold):
        self.texts = [()] * number
        self.released = [-at for at in range(number)]
        self.clock, self.threshold = 0, threshold

    def ask(self, prompt, said):
        shared = [common(text, prompt) for text in self.texts]
        slot = max(range(len(shared)), key=shared.__getitem__)
        if Fraction(shared[slot], len(prompt)) <= self.threshold:
            slot = min(range(len(shared)), key=self.released.__getitem__)
        self.clock += 1
        self.released[slot] = self.clock
        self.texts[slot] = (*prompt, *said[:-1])
        return min(shared[slot], len(prompt) - 1)


class Entries:
    """mlx-lm's stored conversations, the oldest first: any beginning of one can be continued. A new one replaces those
    that it begins with. Its key names the last generated token, too."""

    def __init__(self, number):
        self.keys, self.number = [], number

    def ask(self, prompt, said):
        found = max((common(key, prompt) for key in self.keys), default=0)
        key = (*prompt, *said)
        self.keys = [old for old in self.keys if key[: len(old)] != old]
        self.keys = [*self.keys, key][-self.number :]
        return min(found, len(prompt) - 1)


class Blocks:
    """vLLM's pool: a block is found by all tokens up to its end, until it is taken again. Blocks that can be found are
    taken last, those of a request in the reverse order of its tokens. One block of the pool is never used."""

    def __init__(self, number, size):
        self.size = size
        self.free = [[] for _ in range(number - 1)]         # a block is the list of its keys: none or one
        self.blocks = {}                                    # key -> blocks that have it, oldest first

    def ask(self, prompt, said):
        text = (*prompt, *said[:-1])
        table = self.find(prompt)
        found = len(table)
        self.free = [block for block in self.free if all(block is not other for other in table)]
        table += [self.take() for _ in range(found, -(-len(text) // self.size))]
        for at in range(found, len(text) // self.size):
            key = text[: (at + 1) * self.size]
            table[at].append(key)
            self.blocks.setdefault(key, []).append(table[at])
        for block in reversed(table):
            self.free.insert(len(self.free) if block else 0, block)
        return found * self.size

    def find(self, prompt):
        """Return the blocks of the longest known beginning that leaves a token to evaluate."""
        table = []
        for end in range(self.size, len(prompt), self.size):
            if not self.blocks.get(prompt[:end]):
                break
            table.append(self.blocks[prompt[:end]][0])
        return table

    def take(self):
        block = self.free.pop(0)
        for key in block:
            self.blocks[key] = [other for other in self.blocks[key] if other is not block]
        block.clear()
        return block


class Tree:
    """SGLang's radix tree with pages of one token. ``used``: the text at the end of each node, and when it was used
    last. Whoever leaves a node inside splits it. For room the least recent leaves go."""

    def __init__(self, room):
        self.room, self.used, self.clock = room, {}, 0

    def ask(self, prompt, said):
        found = self.walk(prompt[:-1])
        self.make_room(len(prompt) - found, 0, prompt[:found])
        self.insert(prompt)
        for at in range(len(said) - 1):
            self.make_room(1, at, prompt)
        self.insert((*prompt, *said[:-1]))
        return found

    def walk(self, text):
        """Return how much of a text the tree has; use the nodes of that part."""
        found = max((common(node, text) for node in self.used), default=0)
        if found and text[:found] not in self.used:
            self.use(min((node for node in self.used if node[:found] == text[:found]), key=len))
            self.use(text[:found])
        for node in sorted((node for node in self.used if text[: len(node)] == node), key=len):
            self.use(node)
        return found

    def insert(self, text):
        self.walk(text)
        self.use(text)

    def use(self, node):
        self.clock += 1
        self.used[node] = self.clock

    def make_room(self, tokens, own, text):
        """Remove leaves until so many tokens fit beside the tree and the ``own`` tokens of the request, but not those
        that its ``text`` passes."""
        while tokens > self.room - own - sum(map(self.length, self.used)):
            leaves = [node for node in self.used if text[: len(node)] != node and self.is_leaf(node)]
            del self.used[min(leaves, key=self.used.__getitem__)]

    def is_leaf(self, node):
        return not any(len(other) > len(node) and other[: len(node)] == node for other in self.used)

    def length(self, node):
        """Return the tokens of a node: those behind the nearest node above it."""
        above = (len(other) for other in self.used if len(other) < len(node) and node[: len(other)] == other)
        return len(node) - max(above, default=0)
