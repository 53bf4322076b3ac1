"""Parser of tokenizer files, run in a child process: reads a ``tokenizer.json`` or a GGUF and encodes texts."""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping, Sequence

from tokenizers import Tokenizer

from cachesim.base.errors import BadInput, cut
from cachesim.base.gguf_header import gguf_keys

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


def open_parser(first: Mapping[str, Any], data: bytes) -> Callable[[Mapping[str, Any]], list[int]]:
    """Return the tokenizer in a file, see ``cachesim.base.parser_process``. ``first["gguf"]``: whether the file is a
    GGUF. Raise BadInput."""
    inner = _of_gguf(data) if first["gguf"] else _of_json(data)

    def tokens(request: Mapping[str, Any]) -> list[int]:
        try:
            return list(inner.encode(request["text"], add_special_tokens=False).ids)
        except MemoryError:
            raise
        except Exception as error:               # the Rust code rejects lone surrogates, for example
            raise BadInput(f"the tokenizer rejects a prompt: {cut(str(error))}") from None

    return tokens


def _of_json(data: bytes) -> Any:
    """Return the tokenizer in a ``tokenizer.json``. Raise BadInput for another file."""
    try:
        inner = Tokenizer.from_buffer(data)
    except MemoryError:
        raise
    except Exception as error:                   # the Rust code raises plain Exception
        raise BadInput(f"not a tokenizer.json: {cut(str(error))}") from None
    inner.no_truncation()
    inner.no_padding()
    return inner


def _of_gguf(data: bytes) -> Any:
    """Return the byte-level BPE tokenizer of a GGUF file. Raise BadInput for other kinds of vocabulary."""
    found = gguf_keys(data, _KEYS)
    values = {key: found[key] for key in _KEYS if key in found}
    model, pre = values.get(_KEYS[0]), str(values.get(_KEYS[1]))
    if model != "gpt2" or pre not in SPLITS or len(values) < len(_KEYS):
        which = f"model {cut(str(model))}, pre {cut(pre)}"
        raise BadInput(f"unsupported vocabulary in this GGUF ({which})", hint="use the model's tokenizer.json")
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
        return Tokenizer.from_str(json.dumps(form))
    except MemoryError:
        raise
    except Exception as error:
        raise BadInput(f"broken vocabulary: {cut(str(error))}") from None


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
