"""Mutated ``tokenizer.json`` files: normalizers, pre-tokenizers with patterns, vocabularies, merges, added tokens."""

from __future__ import annotations

import json

from tests.hostile.gguf_headers import MERGES, vocabulary
from tests.hostile.mutant import Mutant
from tests.hostile.nasty import TEXTS
from tests.hostile.trees import mutated
from tests.hostile.written import flipped, to_json

PATTERNS = (
    r"\s+|\w+|[^\s\w]+", r"(a+)+$", r"(a|aa)+$", r"(?=(a+))\1*b", r"\p{L}+|\p{N}{1,3}", r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"(?i:'s|'t)|\s+(?!\S)|\s+", "", "(", "[", r"(?<=a)*", r"\1", "(?:" * 200 + "a" + ")" * 200, "a{1,99999}",
    "x" * 9000, r"(x+x+)+y", r"^(([a-z])+.)+[A-Z]([a-z])+$", "(?R)", r"\X", r"(?<n>a)\g<n>", "a{9999}{9999}",
    ".*" * 40,
)  # fmt: skip
PROMPTS = (
    "a" * 60 + "!", "read the file, please: 2026-11-21\n\n\tthen the other", "", "\u0301\u200d💥é" * 40, "a " * 2000,
    "<|im_start|>user\nhi<|im_end|>", "x" * 20_000, "\ud800", "\x00\x1b[31m", "1234567890" * 30,
)  # fmt: skip


def _normalizer(rng, depth=2):
    many = rng.choice((1, 2, 10, 1000))
    made = [
        {"type": rng.choice(("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"))},
        {"type": "Replace", "content": rng.choice(("a", "", "▁")) * many,
         "pattern": rng.choice(({"String": rng.choice(("a", " ", "", "e"))}, {"Regex": rng.choice(PATTERNS)}))},
        {"type": "Prepend", "prepend": "▁" * many}, {"type": "Strip", "strip_left": True, "strip_right": False},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
         "lowercase": True},
        {"type": "Precompiled", "precompiled_charsmap": rng.choice(("", "AAAA", "/////w==", "QUJD" * 300))},
    ]  # fmt: skip
    if depth and rng.random() < 0.3:
        return {"type": "Sequence", "normalizers": [_normalizer(rng, depth - 1) for _ in range(rng.randrange(5))]}
    return rng.choice(made)


def _pre_tokenizer(rng, depth=2):
    made = [
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": rng.random() < 0.5},
        {"type": "Split", "pattern": {"Regex": rng.choice(PATTERNS)}, "invert": rng.random() < 0.3,
         "behavior": rng.choice(("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"))},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": rng.choice(("first", "always", "never")),
         "split": True},
        {"type": rng.choice(("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"))},
        {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Isolated"},
        {"type": "CharDelimiterSplit", "delimiter": "a"},
        {"type": "FixedLength", "length": rng.choice((0, 1, 5, 2**63))},
    ]  # fmt: skip
    if depth and rng.random() < 0.3:
        return {"type": "Sequence", "pretokenizers": [_pre_tokenizer(rng, depth - 1) for _ in range(rng.randrange(4))]}
    return rng.choice(made)


def _model(rng):
    tokens, _, _ = vocabulary()
    numbers = {token: i for i, token in enumerate(tokens)}
    merges = [one.split() for one in MERGES] if rng.random() < 0.5 else list(MERGES)
    bpe = {"type": "BPE", "dropout": rng.choice((None, None, 0.5)), "unk_token": None, "fuse_unk": False,
           "continuing_subword_prefix": None, "end_of_word_suffix": None, "byte_fallback": False,
           "ignore_merges": False, "vocab": numbers, "merges": merges}  # fmt: skip
    return rng.choice((
        bpe, bpe, bpe,
        {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
         "vocab": numbers},
        {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
         "vocab": [[token, -1.0 - i] for i, token in enumerate(tokens)]},
        {"type": "WordLevel", "vocab": numbers, "unk_token": "a"},
    ))  # fmt: skip


def tree(rng):
    """Return a tokenizer as a tree."""
    added = [{"id": n, "content": rng.choice(("<|im_end|>", "<|im_end|>", "a", *TEXTS)), "rstrip": False,
              "single_word": rng.random() < 0.2, "lstrip": rng.random() < 0.2, "normalized": rng.random() < 0.3,
              "special": True} for n in range(263, 263 + rng.randrange(3))]  # fmt: skip
    post = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
            "special_tokens": {}}  # fmt: skip
    cut = {"max_length": 5, "strategy": "LongestFirst", "stride": rng.choice((0, 9)), "direction": "Right"}
    return {
        "version": "1.0", "truncation": rng.choice((None, None, cut)), "padding": None, "added_tokens": added,
        "normalizer": _normalizer(rng) if rng.random() < 0.6 else None,
        "pre_tokenizer": _pre_tokenizer(rng) if rng.random() < 0.9 else None,
        "post_processor": rng.choice((None, post)), "decoder": None, "model": _model(rng),
    }  # fmt: skip


def tokenizer(rng, number):
    """Return an import of prompts with a mutated tokenizer."""
    made = tree(rng)
    if rng.random() < 0.3:
        made = mutated(made, rng, {"x": [tree(rng)]})
    data = to_json(made).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data = flipped(data, rng)
    prompts = [{"prompt": prompt} for prompt in rng.choices(PROMPTS, k=rng.randrange(1, 4))]
    files = {"tokenizer.json": data, "b.json": json.dumps(prompts).encode()}
    argv = ("import", "b.json", "--tokenizer", "tokenizer.json", *rng.choice(((), (), ("--json",), ("--with-text",))))
    return Mutant("tokenizer", number, argv, files)
