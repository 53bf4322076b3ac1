"""Token counts of texts: by the tokenizer file of a model, or estimated at 4 bytes per token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, Sequence

from cachesim.base.errors import BadInput, cut
from cachesim.base.extras import install_command
from cachesim.base.limits import TRACE_BYTES
from cachesim.base.untrusted_files import kind, read_bytes
from cachesim.tools.request_bodies.body import FIRST_TOKEN, encoded


def is_gguf(path: Path) -> bool:
    """Return whether a file begins like a GGUF file; False for an unreadable file."""
    if kind(path) != "file":
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(4) == b"GGUF"
    except OSError:
        return False


def gguf_metadata(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of these keys that the GGUF file contains, read by the package ``gguf`` (extra ``import``).
    Tensors are not read. Raises BadInput."""
    try:
        from gguf import GGUFReader
    except ImportError:
        cause = "reading a GGUF file needs the package gguf, which is not installed"
        raise BadInput(cause, hint=install_command("import")) from None
    try:
        fields = GGUFReader(path).fields
        return {key: fields[key].contents() for key in keys if key in fields}
    except Exception as error:                   # third-party parser on an untrusted file
        raise BadInput(f"broken GGUF file ({type(error).__name__})", file=str(path)) from None


BYTES = 4                    # estimated bytes per token

_ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPLITS: Mapping[str, str | None] = {
    "gpt-2": None,
    "llama-bpe": rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_ENDS}",
    "qwen2": rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_ENDS}",
}
"""Pre-tokenizer patterns by the name in a GGUF file (``tokenizer.ggml.pre``); None = the pattern of GPT-2.
Source: ggml-org/llama.cpp src/llama-vocab.cpp, llm_tokenizer_bpe."""
_KEYS = ("tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.merges",
         "tokenizer.ggml.token_type")  # fmt: skip
CONTROL, USER = 3, 4         # token types that match verbatim in a text


class Tokenizer:
    """Base class of tokenizers. ``exact``: whether its counts are those of the model. ``name``: its source."""

    exact = True
    name = ""

    def tokens(self, text: str) -> Sequence[int]:
        """Return the tokens of a text, or as many placeholders."""
        raise NotImplementedError

    def shared(self, a: str, b: str, common: int) -> int | None:
        """Return the number of common tokens of two texts with ``common`` equal characters; None if the tokens must be
        compared."""
        return None


class Estimate(Tokenizer):
    """Estimate of ``BYTES`` bytes per token. Tokens chosen by the client are counted exactly."""

    exact = False
    name = f"about {BYTES} bytes per token"

    def tokens(self, text: str) -> Sequence[int]:
        return range(self._count(text, up=True))

    def shared(self, a: str, b: str, common: int) -> int | None:
        return self._count(a[:common], up=False)

    def _count(self, text: str, up: bool) -> int:
        """Return the estimated number of tokens, rounded up or down."""
        own = sum(sign >= chr(FIRST_TOKEN) for sign in text) if not text.isascii() else 0
        if own and own == len(text):
            return own
        size = len(encoded(text))
        return -(-size // BYTES) if up else size // BYTES


class Exact(Tokenizer):
    """Tokenizer of the model."""

    def __init__(self, name: str, inner: Any) -> None:
        self.name, self.inner = name, inner

    def tokens(self, text: str) -> Sequence[int]:
        try:
            return list(self.inner.encode(text, add_special_tokens=False).ids)
        except Exception as error:               # the Rust code rejects lone surrogates, for example
            raise BadInput(f"the tokenizer rejects a prompt: {cut(str(error))}") from None


class TokenPrompts(Tokenizer):
    """Tokenizer for prompts that are token lists already."""

    name = "tokens of the requests"

    def tokens(self, text: str) -> Sequence[int]:
        return [ord(sign) - FIRST_TOKEN for sign in text]

    def shared(self, a: str, b: str, common: int) -> int | None:
        return common


def read_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer in a ``tokenizer.json`` or a GGUF file. Raises BadInput for other files, and for a
    vocabulary that cannot be reproduced exactly."""
    try:
        import tokenizers
    except ImportError:
        cause = "reading a tokenizer needs the package tokenizers, which is not installed"
        raise BadInput(cause, hint=install_command("import")) from None
    if is_gguf(path):
        return Exact(path.name, _of_gguf(tokenizers, path))
    data = read_bytes(path, TRACE_BYTES, "tokenizer")
    try:
        inner = tokenizers.Tokenizer.from_buffer(data)
    except Exception as error:                   # the Rust code raises plain Exception
        raise BadInput(f"not a tokenizer.json: {cut(str(error))}", file=str(path)) from None
    inner.no_truncation()
    inner.no_padding()
    return Exact(path.name, inner)


def _of_gguf(tokenizers: Any, path: Path) -> Any:
    """Return the byte-level BPE tokenizer of a GGUF file. Raises BadInput for other kinds of vocabulary."""
    values = gguf_metadata(path, _KEYS)
    model, pre = values.get(_KEYS[0]), str(values.get(_KEYS[1]))
    if model != "gpt2" or pre not in SPLITS or len(values) < len(_KEYS):
        which = f"model {cut(str(model))}, pre {cut(pre)}"
        raise BadInput(f"unsupported vocabulary in this GGUF ({which})", file=str(path),
                       hint="use the model's tokenizer.json")  # fmt: skip
    try:
        vocab = {token: number for number, token in enumerate(values[_KEYS[2]])}
        merges = [tuple(merge.split(" ", 1)) for merge in values[_KEYS[3]]]
        merges = [merge for merge in merges if {*merge, "".join(merge)} <= vocab.keys()]
        form = {
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "decoder": None, "added_tokens": list(_added(values[_KEYS[2]], values[_KEYS[4]])),
            "pre_tokenizer": _split(SPLITS[pre]),
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": pre == "llama-bpe", "vocab": vocab, "merges": merges},
        }  # fmt: skip
        return tokenizers.Tokenizer.from_str(json.dumps(form))
    except Exception as error:
        raise BadInput(f"broken vocabulary: {cut(str(error))}", file=str(path)) from None


def _added(tokens: Sequence[str], kinds: Sequence[int]) -> Any:
    """Yield the control and user-defined tokens, which match verbatim in a text."""
    for number, (text, sort) in enumerate(zip(tokens, kinds, strict=False)):
        if sort in (CONTROL, USER) and text:
            yield {"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                   "normalized": False, "special": sort == CONTROL}  # fmt: skip


def _split(pattern: str | None) -> dict[str, Any]:
    """Return the pre-tokenizer for a split pattern."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": pattern is None}
    if pattern is None:
        return level
    cut_at = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [cut_at, level]}
