"""``import`` of KV events: blocks that were stored again, gaps, bodies, unknown fields, and hostile files."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from tests.shared import ROOT


def stored(*hashes, parent=None, tokens=(), medium="GPU", **more):
    """Return a store of blocks of two tokens."""
    return {"type": "BlockStored", "block_hashes": list(hashes), "parent_block_hash": parent,
            "token_ids": list(tokens) or [0] * 2 * len(hashes), "block_size": 2, "lora_id": None, "medium": medium,
            **more}  # fmt: skip


def removed(*hashes, medium="GPU"):
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": medium}


TOKENIZER = ROOT / "tests/unit/tools/request_bodies/captures/mlx_lm/tokenizer.json"
CLEARED = {"type": "AllBlocksCleared"}


def line(seq, *events, ts=0.5, rank=0):
    """Return a message as a line."""
    return json.dumps({"topic": "", "seq": seq, "payload": [ts, list(events), rank]})


@pytest.fixture
def read(tmp_path, capsys):
    """Import lines with these bodies; return the exit code and the data."""

    def run(*lines, bodies=(), words=()):
        file = tmp_path / "events.jsonl"
        file.write_text("\n".join(lines))
        names = [str(file)]
        if bodies:
            other = tmp_path / "bodies.jsonl"
            other.write_text("\n".join(map(json.dumps, bodies)))
            names.append(str(other))
        code = main(["import", *names, *words, "--json"])
        return code, json.loads(capsys.readouterr().out)["events"]

    return run


def test_a_block_that_is_stored_again_is_named_with_the_message_that_removed_it(read):
    code, data = read(line(0, stored(1, 2)), line(1, removed(2), stored(3), ts=2.0), line(2, stored(2, parent=1)))
    [row] = data["missed"]
    assert code == exits.HOLDS and (row["message"], row["blocks"], row["tokens"]) == (2, 1, 2)
    assert row["left"] == {"message": 1, "ts": 2.0, "why": "removed", "stored": 1} and not row["undecided"]
    assert (data["stored"], data["removed"], data["present"]) == (4, 1, 3)


@pytest.mark.parametrize(("lines", "undecided"), [
    ((line(0, stored(1)), line(1, removed(1)), line(4, stored(1))), [True]),          # 2 and 3 are missing
    ((line(0, stored(1)), line(3, removed(1)), line(4, stored(1))), [False]),
    ((line(None, stored(1)), line(None, removed(1)), line(None, stored(1))), [True]),
    ((line(0, stored(1)), line(4, stored(1))), []),
])  # fmt: skip
def test_messages_that_are_missing_between_removal_and_store_make_a_row_undecided(read, lines, undecided):
    code, data = read(*lines)
    assert code == exits.UNDECIDED and [row["undecided"] for row in data["missed"]] == undecided
    assert {gap["messages"] for gap in data["gaps"]} <= {2, 3}


def test_a_gap_belongs_to_one_publisher(read):
    lines = line(0, stored(1)), line(0, stored(1), rank=1), line(1, CLEARED), line(1, CLEARED, rank=1)
    assert read(*lines)[1]["gaps"] == []


@pytest.mark.parametrize(("lines", "why"), [
    ((line(0, stored(1)), line(1, CLEARED), line(2, stored(1))), ["cleared"]),
    ((line(0, stored(1)), line(0, stored(1))), ["restart"]),
    ((line(0, stored(1)), line(1, stored(1)), line(2, removed(1)), line(3, stored(1))), []),   # a duplicate was left
    ((line(0), line(1, stored(2)), line(1, stored(2)), line(2, removed(2)), line(3, stored(2))), ["removed"]),
    ((line(0, CLEARED, stored(1)), line(1, removed(9)), line(2, stored(9))), ["removed"]),      # stored before the file
])  # fmt: skip
def test_why_blocks_left(read, lines, why):
    assert [row["left"]["why"] for row in read(*lines)[1]["missed"]] == why


def test_a_copy_in_another_medium_is_named(read):
    _, data = read(line(0, stored(1), stored(1, medium="CPU")), line(1, removed(1)), line(2, stored(1)))
    assert [row["copies"] for row in data["missed"]] == [["CPU"]]


def test_bodies_are_named_whose_prompts_of_token_ids_have_the_block(read):
    bodies = [{"prompt": [5, 6, 7, 8]}, {"prompt": "text"}, {"prompt": [5, 6, 9]}, {"prompt": [5, 6, 7, 8, 9]}]
    lines = (line(0, stored(1, tokens=(5, 6)), stored(2, parent=1, tokens=(7, 8))), line(1, removed(1, 2)),
             line(2, stored(2, parent=1, tokens=(7, 8))), line(3, stored(1, tokens=(5, 6))))  # fmt: skip
    assert [row["requests"] for row in read(*lines, bodies=bodies)[1]["missed"]] == [[0, 3], [0, 2, 3]]
    assert [row["requests"] for row in read(*lines)[1]["missed"]] == [None, None]


def test_texts_and_chats_are_joined_by_the_tokens_of_a_tokenizer_and_a_template(read, tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `import` is not installed")
    pytest.importorskip("jinja2")
    template = tmp_path / "template.jinja"
    template.write_text("{% for m in messages %} say{{ m.content }}{% endfor %}")
    tokens = tokenizers.Tokenizer.from_file(str(TOKENIZER)).encode(" say open like").ids
    bodies = [{"prompt": " say open like become"}, {"messages": [{"role": "user", "content": " open like"}]},
              {"prompt": " other"}]  # fmt: skip
    lines = line(0, stored(1, tokens=tokens[:2])), line(1, removed(1)), line(2, stored(1, tokens=tokens[:2]))
    _, data = read(*lines, bodies=bodies, words=("--tokenizer", str(TOKENIZER), "--template", str(template)))
    assert data["missed"][0]["requests"] == [0, 1] and (data["bodies"], data["bodies_joined"]) == (3, 2)
    _, data = read(*lines, bodies=bodies, words=("--tokenizer", str(TOKENIZER)))
    assert data["missed"][0]["requests"] == [0] and data["bodies"] == 2


def test_a_prompt_has_the_tokens_that_its_reply_lists(read):
    listed = {"choices": [{"text": "x", "prompt_token_ids": [5, 6]}]}, {"prompt_token_ids": [5, 6], "choices": []}
    bodies = [{"request": {"prompt": "text"}, "response": reply} for reply in listed]
    lines = line(0, stored(1, tokens=(5, 6))), line(1, removed(1)), line(2, stored(1, tokens=(5, 6)))
    assert read(*lines, bodies=bodies)[1]["missed"][0]["requests"] == [0, 1]


def test_unknown_fields_and_events_are_counted(read):
    code, data = read(line(0, stored(1, colour=3), {"type": "BlockMoved"}))
    assert code == exits.HOLDS
    assert data["unknown_fields"] == [{"name": "BlockStored.colour", "number": 1}, {"name": "BlockMoved", "number": 1}]


def test_other_forms_of_messages_are_read(read):
    payload = [0.0, [stored("ab12")]]
    _, data = read(json.dumps(payload), json.dumps({"seq": 7, "ts": 1, "events": [removed("ab12")], "extra": 1}))
    assert (data["messages"], data["unnumbered"], data["removed"], data["present"]) == (2, 1, 1, 0)


@pytest.mark.parametrize("text", [
    line(0, stored(1))[:-9], line(0, stored(1)).replace("0.5", "NaN"), line(-4, stored(1)), line("1", stored(1)),
    line(0, stored("x" * 500)), line(0, stored(2**70)), line(0, stored(1, block_size=0)),
    line(0, stored(1, token_ids="a")), line(0, stored(1, medium=["GPU"])), line(0, stored(1), {"a": 1}),
    f"{line(0, stored(1))}\n\x00",
    line(0, stored(1)).replace("[0, 0]", "[" * 99 + "]" * 99), line(0, {**stored(1), "parent_block_hash": [1]}),
])  # fmt: skip
def test_a_hostile_file_is_refused_in_one_line(tmp_path, capsys, text):
    file = tmp_path / "events.jsonl"
    file.write_text(text)
    assert main(["import", str(file)]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert not out and len(err.strip().splitlines()) == 1 and "events.jsonl:" in err


def test_msgpack_files_are_read_as_they_are_written(tmp_path, capsys):
    msgspec = pytest.importorskip("msgspec")
    file = tmp_path / "events.msgpack"
    assert main(["run", "A8/A.B8/C40/A", "-p", "vllm", "--model", "A", "--set", "block_size=4", "--set",
                 "num_gpu_blocks=13", "--kv-events", str(file)]) == exits.HOLDS  # fmt: skip
    capsys.readouterr()
    assert main(["import", str(file), "--json"]) == exits.HOLDS
    assert json.loads(capsys.readouterr().out)["events"]["missed"]
    for bad in (b"", b"\xc1", msgspec.msgpack.encode([[b"", b"1", b"2"]]), b"\xdd\xff\xff\xff\xff",
                msgspec.msgpack.encode([[b"", bytes(8), b"\x91" * 100_000 + b"\x90"]])):  # fmt: skip
        file.write_bytes(bad)
        assert main(["import", str(file)]) == exits.BAD_INPUT
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
