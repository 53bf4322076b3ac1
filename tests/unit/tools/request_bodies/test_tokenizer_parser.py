"""Tokens that the child process with a tokenizer file returns."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput

pytest.importorskip("tokenizers")
pytest.importorskip("gguf")

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


def test_broken_files_are_refused():
    with pytest.raises(BadInput, match=r"not a tokenizer\.json: "):
        open_parser({"gguf": False}, b"{}")
    with pytest.raises(BadInput, match="not a GGUF"):
        open_parser({"gguf": True}, b"{}  " * 9)


@pytest.mark.parametrize(("words", "merges", "text", "found"), [
    (["a", "b", "ab"], [("a", "b"), ("b", "a"), ("a", "c")], "abba", [2, 1, 0]),
    (["a", "b", "c", "abc"], [("a", "b c")], "abc", [0, 1, 2]),
])  # fmt: skip
def test_merges_of_unknown_words_are_left_out(tmp_path, words, merges, text, found):
    """The second word of a merge may contain a space; in the last case the vocabulary lacks it."""
    data = as_gguf(tmp_path, words=words, merges=merges).read_bytes()
    assert open_parser({"gguf": True}, data)({"text": text}) == found


def test_control_and_user_tokens_match_verbatim(tmp_path):
    words = ["a", "<c>", "<u>", "b", "<", "c", "u", ">"]
    data = as_gguf(tmp_path, words=words, merges=[("c", "u")], types=[1, 3, 4, 2, 1, 1, 1, 1]).read_bytes()
    assert open_parser({"gguf": True}, data)({"text": "a<c>a<u>"}) == [0, 1, 0, 2]
