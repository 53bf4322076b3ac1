"""Token counts by the model's own tokenizer file, or as an estimate that is reported as such."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.request_bodies import tokenizer
from cachesim.tools.request_bodies.body import token_character
from cachesim.tools.request_bodies.import_bodies import ImportOptions
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer, TokenPrompts, read_tokenizer
from tests.unit.tools.request_bodies.made import LONG, chat, found

tokenizers = pytest.importorskip("tokenizers")
gguf = pytest.importorskip("gguf")

SIGNS = [*"abcdefghijklmnopqrstuvwxyzĠ.,:<>|_Ċ0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ'-"]
MERGES = [("h", "e"), ("he", "l"), ("l", "o"), ("Ġ", "w"), ("o", "r"), ("Ġw", "or"), ("Ġwor", "d"), ("1", "2")]
VOCAB = [*SIGNS, *("".join(pair) for pair in MERGES), "<|im_start|>", "<|im_end|>"]


@pytest.fixture
def as_json(tmp_path):
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({t: i for i, t in enumerate(VOCAB)}, MERGES))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    inner.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def as_gguf(tmp_path, model="gpt2", pre="gpt-2", words=VOCAB, merges=MERGES, types=()):
    file = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(words)
    writer.add_token_types(types or [3 if token.startswith("<|") else 1 for token in words])
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


TEXT = "<|im_start|>hello world 12<|im_end|>"


def test_a_tokenizer_file_gives_its_tokens(as_json):
    found = read_tokenizer(as_json)
    assert [VOCAB[token] for token in found.tokens(TEXT)] == [
        "<|im_start|>", "hel", "lo", "Ġwor", "l", "d", "Ġ", "12", "<|im_end|>"
    ]  # fmt: skip
    assert found.exact and found.name == "tokenizer.json"


def test_a_tokenizer_json_is_read_to_its_end_and_a_gguf_is_not(tmp_path, as_json, monkeypatch):
    """The header of a GGUF file is at its beginning."""
    monkeypatch.setattr(tokenizer, "HEADER", 9)
    assert len(read_tokenizer(as_json).tokens(TEXT)) == 9
    with pytest.raises(BadInput, match="the header of the GGUF is truncated"):
        read_tokenizer(as_gguf(tmp_path))


@pytest.mark.parametrize("pre", ["gpt-2"])
def test_a_gguf_gives_the_same_tokens(tmp_path, as_json, pre):
    mine = read_tokenizer(as_gguf(tmp_path, pre=pre)).tokens(TEXT)
    assert list(mine) == list(read_tokenizer(as_json).tokens(TEXT))


def test_digits_are_split_as_by_the_model(tmp_path):
    one, three = (read_tokenizer(as_gguf(tmp_path, pre=pre)).tokens("1212") for pre in ("qwen2", "llama-bpe"))
    assert [[VOCAB[token] for token in some] for some in (one, three)] == [["1", "2", "1", "2"], ["12", "1", "2"]]


@pytest.mark.parametrize("model, pre", [("llama", "default"), ("gpt2", "something-new"), ("bert", "gpt-2")])
def test_an_unsupported_vocabulary_is_refused(tmp_path, model, pre):
    with pytest.raises(BadInput, match=rf"model {model}, pre {pre}.*use the model's tokenizer.json"):
        read_tokenizer(as_gguf(tmp_path, model, pre))


def test_a_difference_inside_a_token_excludes_that_token(tmp_path, as_json):
    """The differing byte is inside a token: the token before it is the last common token."""
    bodies = [chat("hello world", system=f"{LONG} 12 {LONG}"), chat("hello world", system=f"{LONG} 13 {LONG}")]
    data = found(tmp_path, *bodies, asking=ImportOptions(tokenizer=str(as_json)))
    one = data["requests"][1]
    exact = read_tokenizer(as_json)
    head = f"<|im_start|>system\n{LONG} 1"
    assert one["characters"] == len(head) and data["tokens_exact"]
    assert one["shared"] == len(exact.tokens(head)) - 1             # `1` is a token of its own in `13` only


def test_the_template_of_a_gguf_is_used(tmp_path):
    pytest.importorskip("jinja2")
    file = str(as_gguf(tmp_path))
    data = found(tmp_path, chat("hello", system=""), chat("hello", "world", "low", system=""),
                 asking=ImportOptions(tokenizer=file, template=file))  # fmt: skip
    tokens = read_tokenizer(tmp_path / "tiny.gguf").tokens("<|im_start|>hello<|im_end|>")
    assert data["requests"][0]["tokens"] == len(tokens) == 4
    assert data["requests"][1]["cause"] == "extends"


def test_an_estimate_is_reported_as_such(tmp_path):
    assert (len(EstimatingTokenizer().tokens("abcde")), EstimatingTokenizer().shared("abcdefgh", "abcdefgx", 7)) == (
        2,
        1,
    )
    data = found(tmp_path, chat("hello"))
    assert (data["tokens_exact"], data["tokenizer"]) == (False, "about 4 bytes per token")


def test_a_file_without_a_tokenizer_gives_a_one_line_error(tmp_path):
    file = tmp_path / "tokenizer.json"
    for text in ("{}", json.dumps({"model": {"type": "BPE"}}), "x", '{"version": "1.0"}'):
        file.write_text(text)
        with pytest.raises(BadInput, match="not a tokenizer"):
            read_tokenizer(file)
    file.write_bytes(b"GGUF\x03\0\0\0garbage")
    with pytest.raises(BadInput, match="the header of the GGUF is truncated"):
        read_tokenizer(file)


def test_a_lone_surrogate_in_a_prompt_gives_tokens_or_a_one_line_error(as_json):
    try:
        assert read_tokenizer(as_json).tokens("a\ud800")         # tokenizers 0.20
    except BadInput as error:
        assert error.cause.startswith("the tokenizer rejects a prompt")


def test_a_prompt_without_tokens_gives_a_one_line_error(tmp_path, as_json):
    form = json.loads(as_json.read_text())
    form["added_tokens"] = []
    form["normalizer"] = {"type": "Replace", "pattern": {"Regex": "[\\s\\S]"}, "content": ""}
    as_json.write_text(json.dumps(form))
    with pytest.raises(BadInput, match="the tokenizer returns no tokens for this prompt"):
        found(tmp_path, chat("hello", system=""), asking=ImportOptions(tokenizer=str(as_json)))


def test_without_the_package_the_error_names_the_package_to_install(monkeypatch, tmp_path, as_json):
    (tmp_path / "tokenizers.py").write_text("raise ImportError(name='tokenizers')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(BadInput, match=r"needs the package tokenizers, .*pip install .*'tokenizers>="):
        read_tokenizer(as_json)


@pytest.mark.long
def test_a_vocabulary_of_150_000_tokens_fits_the_default_limits(tmp_path):
    letters = [chr(sign) for sign in (*range(33, 127), *range(161, 323))]
    pairs = [(a, b) for a in letters for b in letters]
    merges = pairs + [(a + b, c) for a, b in pairs for c in letters[:2]]
    tokens = dict.fromkeys([*letters, *map("".join, merges)])
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.save(str(tmp_path / "tokenizer.json"))
    text = "The rules of this place are many. " * 1_000
    assert len(tokens) > 150_000
    assert list(read_tokenizer(tmp_path / "tokenizer.json").tokens(text)) == inner.encode(text).ids


def test_tokens_of_a_client_are_counted_and_other_texts_estimated():
    own, count = "".join(map(token_character, (0, 5, 9))), EstimatingTokenizer()
    assert [len(count.tokens(text)) for text in (own, "", "abcd", "abcde", "\u00e9\u00e9\u00e9", f"{own}a")] == [
        3, 0, 1, 2, 2, 4]  # fmt: skip
    texts = (own, 2), ("abcdefgh", 7), ("abcdefgh", 8), (f"ab{own}", 3)
    assert [count.shared(text, "", at) for text, at in texts] == [2, 1, 2, 1]


def test_prompts_of_tokens_have_as_many_tokens_as_characters():
    count = TokenPrompts()
    assert (len(count.tokens("abc")), count.shared("abc", "abd", 2), count.exact) == (3, 2, True)
    assert count.name == "tokens of the requests" and count.close() is None


def test_the_tokens_of_a_file_are_compared_by_the_caller(as_json):
    assert read_tokenizer(as_json).shared("a", "a", 1) is None
