"""Keys of a GGUF header: values, lists that are shortened or skipped, and broken headers."""

from __future__ import annotations

import struct

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.gguf_header import MOST_KEPT, MOST_KEYS, gguf_keys, is_gguf, open_parser, read_gguf


def text(word):
    return struct.pack("<Q", len(word.encode())) + word.encode()


def entry(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def listed(kind, values):
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def header(*entries, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, 7, len(entries)) + b"".join(entries)


SIZES = [entry("general.architecture", 8, text("llama")), entry("llama.block_count", 4, struct.pack("<I", 2))]
TOKENS = entry("tokenizer.ggml.tokens", 9, listed(8, [text(word) for word in ("a", "é", "")]))
LAST = entry("tokenizer.chat_template", 8, text("{{ x }}"))


@pytest.mark.parametrize("kind, form, value", [
    (0, "<B", 255), (1, "<b", -1), (2, "<H", 65535), (3, "<h", -2), (4, "<I", 2**32 - 1), (5, "<i", -3), (6, "<f", 0.5),
    (7, "<?", True), (10, "<Q", 2**64 - 1), (11, "<q", -4), (12, "<d", 0.1),
])  # fmt: skip
def test_numbers_alone_and_in_lists(kind, form, value):
    one = struct.pack(form, value)
    assert gguf_keys(header(entry("x", kind, one), entry("y", 9, listed(kind, [one, one])))) == {
        "x": value, "y": [value, value]}  # fmt: skip


def test_the_vocabulary_is_read_only_if_it_is_named():
    data = header(*SIZES, TOKENS, LAST)
    sizes = {"general.architecture": "llama", "llama.block_count": 2}
    assert gguf_keys(data) == sizes == gguf_keys(header(*SIZES, entry("tokenizer.x", 99, b"")))
    assert gguf_keys(data, ["tokenizer.chat_template"]) == {**sizes, "tokenizer.chat_template": "{{ x }}"}
    assert gguf_keys(data, ["tokenizer.ggml.tokens", "no"])["tokenizer.ggml.tokens"] == ["a", "é", ""]


def test_long_lists_are_shortened_unless_they_are_named():
    long = entry("x", 9, listed(8, [text("w")] * 5000)), entry("y", 9, listed(0, [b"\1"] * 5000))
    found = gguf_keys(header(*long, *SIZES))
    assert [len(found[key]) for key in "xy"] == [MOST_KEPT] * 2 and found["llama.block_count"] == 2
    assert [len(gguf_keys(header(*long), "xy")[key]) for key in "xy"] == [5000] * 2


@pytest.mark.parametrize("data, why", [
    (b"GGUF", "truncated"), (b"XXXX" + bytes(40), "not a GGUF"), (header(version=1), "not a GGUF of version 2 or 3"),
    (header(*SIZES)[:-1], "truncated"), (header(entry("x", 13, b"")), "unknown value type in the GGUF header: 13"),
    (header(entry("x", 9, struct.pack("<IQ", 9, 1))), "unknown value type in the GGUF header: 9"),
    (header(entry("x", 9, struct.pack("<IQ", 4, 2**62))), "truncated"),
    (header(entry("x", 9, struct.pack("<IQ", 8, 2**62))), "truncated"),
    (header(entry("x", 9, struct.pack("<IQQ", 8, 1, 2**64 - 1))), "truncated"),
    (header(entry("tokenizer.x", 9, struct.pack("<IQQQ", 8, 2, 2**64 - 1, 0))), "truncated"),
    (header(entry("tokenizer.x", 9, struct.pack("<IQQQ", 8, 2, 8, 0))), "truncated"),
    (header(entry("x", 8, struct.pack("<Q", 2**63))), "truncated"),
])  # fmt: skip
def test_a_broken_header_is_refused(data, why):
    with pytest.raises(BadInput, match=why):
        gguf_keys(data, ["tokenizer.chat_template"])


def test_a_file_is_read_in_a_child_and_named_in_errors(tmp_path):
    file = tmp_path / "x.gguf"
    file.write_bytes(header(*SIZES, TOKENS) + b"tensors")
    assert read_gguf(file)["llama.block_count"] == 2 and is_gguf(file)
    file.write_bytes(b"GGUF")
    with pytest.raises(BadInput, match=r"x\.gguf: the header of the GGUF is truncated"):
        read_gguf(file)
    assert not is_gguf(tmp_path) and not is_gguf(tmp_path / "none")


def test_the_keys_of_the_package_gguf_are_read_alike(tmp_path):
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_block_count(3)
    writer.add_token_list(["a", "b"])
    writer.add_token_merges(["a b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    theirs = {key: field.contents() for key, field in gguf.GGUFReader(tmp_path / "x.gguf").fields.items()}
    ours = read_gguf(tmp_path / "x.gguf", [key for key in theirs if key.startswith("tokenizer.")])
    assert ours == {key: value for key, value in theirs.items() if not key.startswith("GGUF.")}


def test_later_sizes_are_read_if_they_are_wanted_and_the_vocabulary_is_skipped(tmp_path):
    file = tmp_path / "x.gguf"
    last = entry("llama.late", 9, listed(4, [struct.pack("<I", n) for n in range(MOST_KEPT + 1)]))
    file.write_bytes(header(*SIZES, TOKENS, last, LAST))
    sizes = {"general.architecture": "llama", "llama.block_count": 2}
    late = {**sizes, "llama.late": [*range(MOST_KEPT)]}
    assert (read_gguf(file), read_gguf(file, later=True)) == (sizes, late)
    assert read_gguf(file, ["tokenizer.chat_template"]) == {**sizes, "tokenizer.chat_template": "{{ x }}"}
    assert read_gguf(file, ["llama.late"], later=True) == {**sizes, "llama.late": [*range(MOST_KEPT + 1)]}
    assert read_gguf(file, ["llama.late"]) == {**sizes, "llama.late": [*range(MOST_KEPT + 1)]}


def test_as_many_keys_are_read_as_the_header_counts_up_to_a_bound():
    keys = [entry(f"k{n}", 0, bytes([n % 256])) for n in range(MOST_KEYS + 1)]
    assert len(gguf_keys(header(*keys))) == MOST_KEYS
    data = b"GGUF" + struct.pack("<IQQ", 2, 7, 1) + b"".join(keys[:2])
    assert gguf_keys(data) == {"k0": 0}


def test_a_list_of_texts_is_skipped_to_its_last_byte():
    words = entry("tokenizer.x", 9, listed(8, [text("ab"), text(""), text("cde")]))
    assert gguf_keys(header(words, LAST), ["tokenizer.chat_template"]) == {"tokenizer.chat_template": "{{ x }}"}
    numbers = entry("tokenizer.y", 9, listed(2, [b"ab", b"cd"]))
    assert gguf_keys(header(numbers, LAST), ["tokenizer.chat_template"]) == {"tokenizer.chat_template": "{{ x }}"}
    for cut in (1, 4):
        with pytest.raises(BadInput, match="truncated"):
            gguf_keys(header(words)[:-cut], ["tokenizer.z"])


def test_a_parser_answers_requests_about_one_header():
    parser = open_parser({}, header(*SIZES, TOKENS, LAST))
    sizes = {"general.architecture": "llama", "llama.block_count": 2}
    assert parser({"names": [], "later": False}) == sizes
    assert parser({"names": ["tokenizer.chat_template"], "later": False})["tokenizer.chat_template"] == "{{ x }}"


def test_nothing_is_read_after_the_last_key_that_is_wanted():
    broken = entry("tokenizer.x", 99, b"")
    assert gguf_keys(header(*SIZES, LAST, broken), ["tokenizer.chat_template"])["tokenizer.chat_template"] == "{{ x }}"
    with pytest.raises(BadInput, match="unknown value type"):
        gguf_keys(header(*SIZES, LAST, broken), ["tokenizer.chat_template", "tokenizer.y"])
    with pytest.raises(BadInput, match="unknown value type"):
        gguf_keys(header(*SIZES, LAST, broken), later=True)
