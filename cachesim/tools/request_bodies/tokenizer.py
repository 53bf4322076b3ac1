"""How many tokens is a text? By the model's own tokenizer file, or estimated: 4 bytes are taken for a token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, Sequence

from cachesim.base.errors import BadInput, cut
from cachesim.base.extras import install_command
from cachesim.base.limits import TRACE_BYTES
from cachesim.base.untrusted_files import kind, read_bytes
from cachesim.tools.request_bodies.body import FIRST_TOKEN, encoded

# What a GGUF file says of a model's tokenizer, read by the package ``gguf`` (extra ``import``). No tensor is read.

def is_gguf(path: Path) -> bool:
    """Returns True for a file that begins as a GGUF does. False for one that cannot be read: who reads it says why."""
    if kind(path) != "file":
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(4) == b"GGUF"
    except OSError:
        return False


def metadata(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The values of these keys, those that the file has. Raises BadInput."""
    try:
        from gguf import GGUFReader
    except ImportError:
        cause = "a GGUF file needs the package gguf, which is not installed"
        raise BadInput(cause, hint=install_command("import")) from None
    try:
        fields = GGUFReader(path).fields
        return {key: fields[key].contents() for key in keys if key in fields}
    except Exception as error:                   # somebody else's parser, on a file that may hold anything
        raise BadInput(f"a broken GGUF file ({type(error).__name__})", file=str(path)) from None


BYTES = 4                    # taken for a token where no tokenizer is given

_ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPLITS: Mapping[str, str | None] = {
    "gpt-2": None,
    "llama-bpe": rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_ENDS}",
    "qwen2": rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_ENDS}",
}
"""How a text is cut before merging, by the name that a GGUF has for it (``tokenizer.ggml.pre``); None = as GPT-2.
Source: ggml-org/llama.cpp src/llama-vocab.cpp, llm_tokenizer_bpe."""
_KEYS = ("tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.merges",
         "tokenizer.ggml.token_type")  # fmt: skip
CONTROL, USER = 3, 4         # types of tokens that are found in a text as they stand


class Tokenizer:
    """``exact``: are its numbers those of the model? ``name`` says whose they are."""

    exact = True
    name = ""

    def tokens(self, text: str) -> Sequence[int]:
        """The tokens of a text, or as many placeholders."""
        raise NotImplementedError

    def shared(self, a: str, b: str, common: int) -> int | None:
        """Tokens in common of two texts whose first ``common`` characters are equal; None = compare the tokens."""
        return None


class Estimate(Tokenizer):
    """Takes ``BYTES`` bytes for a token; tokens that a client chose itself are counted."""

    exact = False
    name = f"about {BYTES} bytes a token"

    def tokens(self, text: str) -> Sequence[int]:
        return range(self._count(text, up=True))

    def shared(self, a: str, b: str, common: int) -> int | None:
        return self._count(a[:common], up=False)

    def _count(self, text: str, up: bool) -> int:
        own = sum(sign >= chr(FIRST_TOKEN) for sign in text) if not text.isascii() else 0
        if own and own == len(text):
            return own
        size = len(encoded(text))
        return -(-size // BYTES) if up else size // BYTES


class Exact(Tokenizer):
    """The model's own tokenizer."""

    def __init__(self, name: str, inner: Any) -> None:
        self.name, self.inner = name, inner

    def tokens(self, text: str) -> Sequence[int]:
        try:
            return list(self.inner.encode(text, add_special_tokens=False).ids)
        except Exception as error:               # half a surrogate, for one, is no text to the Rust part
            raise BadInput(f"the tokenizer refuses a prompt: {cut(str(error))}") from None


class Given(Tokenizer):
    """Prompts that are tokens already."""

    name = "the tokens of the requests"

    def tokens(self, text: str) -> Sequence[int]:
        return [ord(sign) - FIRST_TOKEN for sign in text]

    def shared(self, a: str, b: str, common: int) -> int | None:
        return common


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a ``tokenizer.json`` or a GGUF file. Raises BadInput for another file, and for a vocabulary that
    cannot be used here with the server's own result."""
    try:
        import tokenizers
    except ImportError:
        cause = "a tokenizer needs the package tokenizers, which is not installed"
        raise BadInput(cause, hint=install_command("import")) from None
    if is_gguf(path):
        return Exact(path.name, _of_gguf(tokenizers, path))
    data = read_bytes(path, TRACE_BYTES, "tokenizer")
    try:
        inner = tokenizers.Tokenizer.from_buffer(data)
    except Exception as error:                   # the Rust part raises plain Exception
        raise BadInput(f"not a tokenizer.json: {cut(str(error))}", file=str(path)) from None
    inner.no_truncation()
    inner.no_padding()
    return Exact(path.name, inner)


def _of_gguf(tokenizers: Any, path: Path) -> Any:
    """Byte-level BPE as the server has it. Raises BadInput for other kinds of vocabulary."""
    said = metadata(path, _KEYS)
    model, pre = said.get(_KEYS[0]), str(said.get(_KEYS[1]))
    if model != "gpt2" or pre not in SPLITS or len(said) < len(_KEYS):
        which = f"model {cut(str(model))}, pre {cut(pre)}"
        raise BadInput(f"the vocabulary of this GGUF ({which}) cannot be used here", file=str(path),
                       hint="give the model's tokenizer.json")  # fmt: skip
    try:
        vocab = {token: number for number, token in enumerate(said[_KEYS[2]])}
        merges = [tuple(merge.split(" ", 1)) for merge in said[_KEYS[3]]]
        merges = [merge for merge in merges if {*merge, "".join(merge)} <= vocab.keys()]
        form = {
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "decoder": None, "added_tokens": list(_added(said[_KEYS[2]], said[_KEYS[4]])),
            "pre_tokenizer": _split(SPLITS[pre]),
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": pre == "llama-bpe", "vocab": vocab, "merges": merges},
        }  # fmt: skip
        return tokenizers.Tokenizer.from_str(json.dumps(form))
    except Exception as error:
        raise BadInput(f"a broken vocabulary: {cut(str(error))}", file=str(path)) from None


def _added(tokens: Sequence[str], kinds: Sequence[int]) -> Any:
    for number, (text, sort) in enumerate(zip(tokens, kinds, strict=False)):
        if sort in (CONTROL, USER) and text:
            yield {"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                   "normalized": False, "special": sort == CONTROL}  # fmt: skip


def _split(pattern: str | None) -> dict[str, Any]:
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": pattern is None}
    if pattern is None:
        return level
    cut_at = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [cut_at, level]}
