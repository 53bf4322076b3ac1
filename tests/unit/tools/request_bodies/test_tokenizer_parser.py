"""Tokens that the child process with a tokenizer file returns."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput

pytest.importorskip("tokenizers")
pytest.importorskip("gguf")

from cachesim.tools.request_bodies import tokenizer_parser
from cachesim.tools.request_bodies.tokenizer_parser import open_parser
from tests.unit.tools.request_bodies.test_tokenizer import MERGES, TEXT, VOCAB, as_gguf, tokenizers


def words(data, text=TEXT, gguf=True):
    return [VOCAB[token] for token in open_parser({"gguf": gguf}, data)({"text": text})]


def as_json(**parts):
    """Return the bytes of a tokenizer.json with the words of the GGUF files."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({t: i for i, t in enumerate(VOCAB)}, MERGES))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return json.dumps({**json.loads(inner.to_str()), **parts}).encode()


def test_both_kinds_of_files_have_the_same_tokens(tmp_path):
    found = words(as_gguf(tmp_path).read_bytes())
    assert found == ["<|im_start|>", "hel", "lo", "Ġwor", "l", "d", "Ġ", "12", "<|im_end|>"]
    assert words(as_json(), gguf=False) == found


def test_the_prompt_of_a_tokenizer_json_is_neither_cut_nor_filled():
    short = {"truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}}
    filled = {"padding": {"strategy": {"Fixed": 12}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                          "pad_type_id": 0, "pad_token": "a"}}  # fmt: skip
    assert words(as_json(**short, **filled), "hello", gguf=False) == ["hel", "lo"]


def test_a_text_gets_no_token_that_begins_or_ends_every_text():
    """A server adds it once to the whole prompt; here a part of it is counted."""
    ends = tokenizers.processors.TemplateProcessing(single="<|im_start|> $A <|im_end|>", special_tokens=[
        (word, VOCAB.index(word)) for word in ("<|im_start|>", "<|im_end|>")])  # fmt: skip
    inner = tokenizers.Tokenizer.from_str(as_json().decode())
    inner.post_processor = ends
    assert words(inner.to_str().encode(), "hello", gguf=False) == ["hel", "lo"]


@pytest.mark.parametrize("pre, found", [
    ("gpt-2", ["12", "12"]), ("qwen2", ["1", "2", "1", "2"]), ("llama-bpe", ["12", "1", "2"])])
def test_digits_are_split_as_the_pattern_of_the_model_says(tmp_path, pre, found):
    assert words(as_gguf(tmp_path, pre=pre).read_bytes(), "1212") == found


@pytest.mark.parametrize("pre", ["gpt-2", "qwen2", "llama-bpe"])
def test_a_space_belongs_to_the_word_after_it(tmp_path, pre):
    assert words(as_gguf(tmp_path, pre=pre).read_bytes(), "hel word") == ["hel", "Ġword"]


@pytest.mark.parametrize("model, pre", [("llama", "gpt-2"), ("gpt2", "new")])
def test_other_vocabularies_are_refused(tmp_path, model, pre):
    with pytest.raises(BadInput, match=rf"unsupported vocabulary in this GGUF \(model {model}, pre {pre}\)"):
        open_parser({"gguf": True}, as_gguf(tmp_path, model, pre).read_bytes())


def test_broken_files_are_refused(monkeypatch):
    with pytest.raises(BadInput, match=r"not a tokenizer\.json: "):
        open_parser({"gguf": False}, b"{}")
    with pytest.raises(BadInput, match="not a GGUF"):
        open_parser({"gguf": True}, b"{}  " * 9)
    keys = dict(zip(tokenizer_parser._KEYS, ["gpt2", "gpt-2", ["a"], [7], [1]], strict=True))
    monkeypatch.setattr(tokenizer_parser, "gguf_keys", lambda data, names: keys)
    with pytest.raises(BadInput, match="broken vocabulary: "):
        open_parser({"gguf": True}, b"")
    monkeypatch.setattr(tokenizer_parser, "gguf_keys", lambda data, names: dict(list(keys.items())[:4]))
    with pytest.raises(BadInput, match="unsupported vocabulary"):
        open_parser({"gguf": True}, b"")


def test_merges_of_unknown_words_are_left_out(monkeypatch):
    keys = dict(zip(tokenizer_parser._KEYS, ["gpt2", "gpt-2", ["a", "b", "ab"], ["a b", "b a", "a c"], [1, 1, 1]],
                    strict=True))  # fmt: skip
    monkeypatch.setattr(tokenizer_parser, "gguf_keys", lambda data, names: keys)
    assert open_parser({"gguf": True}, b"")({"text": "abba"}) == [2, 1, 0]


def test_control_and_user_tokens_match_verbatim():
    found = list(tokenizer_parser._added(["a", "<c>", "<u>", "", "b"], [1, 3, 4, 3, 2]))
    assert [(one["id"], one["content"], one["special"]) for one in found] == [(1, "<c>", True), (2, "<u>", False)]
    assert not any(one["single_word"] or one["lstrip"] or one["rstrip"] or one["normalized"] for one in found)


def test_a_text_that_the_tokenizer_rejects_is_refused(monkeypatch):
    class Rejecting:
        def encode(self, text, add_special_tokens):
            raise ValueError(f"{text}: surrogates not allowed")

    monkeypatch.setattr(tokenizer_parser, "_of_gguf", lambda data: Rejecting())
    with pytest.raises(BadInput, match="the tokenizer rejects a prompt: abc: surrogates not allowed"):
        open_parser({"gguf": True}, b"")({"text": "abc"})


def test_a_merge_has_two_words(monkeypatch):
    """The second word of a merge may contain a space; here the vocabulary lacks it."""
    keys = dict(zip(tokenizer_parser._KEYS, ["gpt2", "gpt-2", ["a", "b", "c", "abc"], ["a b c"], [1, 1, 1, 1]],
                    strict=True))  # fmt: skip
    monkeypatch.setattr(tokenizer_parser, "gguf_keys", lambda data, names: keys)
    assert open_parser({"gguf": True}, b"")({"text": "abc"}) == [0, 1, 2]


@pytest.mark.parametrize("gguf", [True, False])
def test_a_lack_of_memory_is_not_the_fault_of_the_file(monkeypatch, gguf):
    def fail(*_, **__):
        raise MemoryError

    class Failing:
        from_buffer = from_str = encode = staticmethod(fail)

    keys = dict(zip(tokenizer_parser._KEYS, ["gpt2", "gpt-2", ["a"], [], [1]], strict=True))
    monkeypatch.setattr(tokenizer_parser, "gguf_keys", lambda data, names: keys)
    monkeypatch.setattr(tokenizer_parser, "Tokenizer", Failing)
    with pytest.raises(MemoryError):
        open_parser({"gguf": gguf}, b"")
    monkeypatch.setattr(tokenizer_parser, "_of_gguf", lambda data: Failing)
    with pytest.raises(MemoryError):
        open_parser({"gguf": True}, b"")({"text": "a"})
