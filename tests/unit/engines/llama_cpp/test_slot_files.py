"""Slot files: contents, refused files, and the state after a restore."""

import os
from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.keyed_tokens import KeyedToken, identities
from cachesim.engines.llama_cpp.memory.saved_state import Blob
from cachesim.engines.llama_cpp.rules.adapters import SavedAdapters
from cachesim.engines.llama_cpp.slot_save_restore import MAGIC, SlotFile, pack, unpack
from cachesim.engines.shared.array_file import pack_arrays, unpack_arrays
from tests.unit.engines.llama_cpp.talk import Talk, word

A, B = word("A", 40), word("B", 30)


@pytest.mark.parametrize("kind", ["A", "W", "R", "H", "HW"])
@pytest.mark.parametrize("mode", ["none", "provenance", "exact"])
def test_a_restored_slot_continues_as_before(kind, mode, tmp_path):
    talk = Talk(kind, mode=mode)
    talk.ask(A, 3)
    saved = talk.server.slot("save", 0, tmp_path / "a")
    held = tuple(talk.server.core.slots[0].tokens)
    talk.ask(B, 1)
    restored = talk.server.slot("restore", 0, tmp_path / "a")
    assert (saved["n_saved"], restored["n_restored"]) == (42, 42)
    assert saved["n_written"] == restored["n_read"]
    assert talk.lengths() == []                             # checkpoints are not in the file
    answer = talk.ask(held + B, 1)
    # A window of 8 is saved as positions 34..41, the rule requires a begin before 34; HW needs a checkpoint (D6).
    assert answer.cache_n == (0 if "W" in kind else 42)
    if mode != "none":
        assert talk.right(answer) is True


def test_size_of_a_file_by_hand(tmp_path):
    """llama, 40 tokens: 112 + 1036 n bytes of state, 28 of headers, 4 per token (the traces' README)."""
    talk = Talk("llama")
    talk.ask(A, 1)
    assert talk.server.slot("save", 0, tmp_path / "a")["n_written"] == 112 + 1036 * 40 + 28 + 4 * 40


def test_erase_empties_the_slot():
    talk = Talk("A")
    talk.ask(A, 1)
    assert talk.server.slot("erase", 0)["n_erased"] == 40
    assert talk.held() == [0]
    assert talk.server.core.memory.pos_max(0) == -1


@pytest.mark.parametrize(
    ("spoil", "word_"),
    [
        (lambda data: data[:-1], "damaged or truncated"),
        (lambda data: data[:10], "not a slot file"),
        (lambda data: b"GGUF" + data, "not a slot file"),
        (lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:], "damaged or truncated"),
        (lambda data: MAGIC + b"0" * 64 + b"\n", "damaged or truncated"),
        (lambda data: b"", "not a slot file"),
    ],
)
def test_a_spoilt_file_is_refused_and_nothing_changes(tmp_path, spoil, word_):
    talk = Talk("H")
    talk.ask(A, 1)
    file = tmp_path / "a"
    talk.server.slot("save", 0, file)
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(BadInput, match=word_) as caught:
        talk.server.slot("restore", 0, file)
    assert str(file) in str(caught.value)
    assert (talk.held(), talk.server.core.memory.pos_max(0)) == ([40], 39)
    assert talk.lengths()


def cells(talk, part="base"):
    return talk.server.core.memory.parts[part].n_cells(0)


@pytest.mark.parametrize("profile, percent, status, left", [
    ("b6740", 99, 400, 40), ("b6740", 50, 400, 40),      # the cells stay, as on the real b6740 (save: n_written)
    ("b6740", 2, 400, 0),                                # ends within the positions
    ("b6740", 0, 400, 30),                               # ends before them: the cells of another conversation stay
    ("b11549", 99, 0, 40), ("b2781", 99, 0, 40),         # the process ends; the real b11549 does so too
    ("b11549-proposed", 99, 400, 0),
])
def test_a_truncated_file(tmp_path, profile, percent, status, left):
    talk = Talk("AA", profile)
    talk.ask(A, 1)
    talk.server.slot("save", 0, tmp_path / "a")
    talk.server.slot("erase", 0)
    talk.ask(B, 1)
    answer = talk.server.slot("restore", 0, tmp_path / "a", percent)
    assert (answer["status"], talk.server.dead, cells(talk)) == (status, not status, left)
    if status:
        assert talk.held() == [0]
        assert talk.right(talk.ask(A[:20])) is True
        assert cells(talk) == 20


@pytest.mark.parametrize(("profile", "percent", "cause"), [
    ("b6740", 99, "unexpectedly reached end of file"), ("b6740", 0, "unexpectedly reached end of file"),
    ("b11549-proposed", 99, "failed to restore kv cache"), ("b11549-proposed", 0, "unexpectedly reached end of file"),
])  # fmt: skip
def test_the_cause_of_a_failed_restore_is_logged(tmp_path, profile, percent, cause):
    talk = Talk("AA", profile, "none")
    talk.ask(A, 1)
    talk.server.slot("save", 0, tmp_path / "a")
    before = len(talk.log.events)
    talk.server.slot("restore", 0, tmp_path / "a", percent)
    logged = [event.text for event in talk.log.events[before:] if event.ev == "error"]
    assert logged[0] == f"llama_state_seq_load_file: error loading sequence state file: {cause}"
    assert logged[1].startswith("error: Unable to restore slot") and len(logged) == 2


@pytest.mark.parametrize("percent, status", [(10, 400), (99, 200)])
def test_a_truncated_file_of_a_hybrid_model(tmp_path, percent, status):
    """The real b11549 refuses a file that ends in the attention part, and ignores checkpoints that are cut off."""
    talk = Talk("H", "b11549", checkpoint_min_step=0)
    talk.ask(A, 1)
    talk.server.slot("save", 0, tmp_path / "a")
    assert talk.lengths()
    assert talk.server.slot("restore", 0, tmp_path / "a", percent)["status"] == status
    assert (talk.held(), talk.lengths(), cells(talk)) == (([40], [], 40) if status == 200 else ([0], [], 0))


def test_a_file_of_another_model_is_refused(tmp_path):
    one, two = Talk("A"), Talk("H")
    one.ask(A, 1)
    one.server.slot("save", 0, tmp_path / "a")
    with pytest.raises(BadInput, match="expected a file of model GA, found model AA"):
        two.server.slot("restore", 0, tmp_path / "a")


def test_a_wrong_action_and_a_missing_name_are_bad_input(tmp_path):
    talk = Talk("A")
    for arguments in (("save", 0), ("restore", 0), ("sav", 0, tmp_path / "a")):
        with pytest.raises(BadInput):
            talk.server.slot(*arguments)


def test_restoring_a_file_that_is_not_there_empties_the_slot(tmp_path):
    talk = Talk("H")
    talk.ask(A, 1)
    assert talk.lengths()
    reply = talk.server.slot("restore", 0, tmp_path / "none.bin")
    text = "Unable to restore slot: No available space in KV cache or invalid slot save file"
    assert reply == {"status": 400, "error": text}
    assert (talk.held(), talk.lengths(), talk.server.core.memory.pos_max(0)) == ([0], [], -1)
    lost, cleared, told = [e.record(one_slot=True) for e in talk.log.events if e.logged][-3:]
    assert lost["text"].endswith("failed to open SLOTS/none.bin: No such file or directory")
    assert (cleared, told) == ({"ev": "slot_clear", "n_tokens": 40}, {"ev": "error", "text": f"error: {text}"})


def test_older_builds_forget_the_tokens_only(tmp_path):
    talk = Talk("H", "b9518")
    talk.ask(A, 1)
    assert talk.server.slot("restore", 0, tmp_path / "none.bin")["status"] == 400
    assert (talk.held(), bool(talk.lengths()), talk.server.core.memory.pos_max(0)) == ([0], True, 39)


def test_a_restore_without_free_cells_is_refused(tmp_path):
    talk = Talk("A", parallel=2, kv_unified=True, cache_idle_slots=False)
    talk.ask(word("long", 200), 1, id_slot=0)
    talk.server.slot("save", 0, tmp_path / "a")
    assert talk.server.slot("restore", 1, tmp_path / "a")["status"] == 400
    told = [e.text for e in talk.log.events if e.ev == "error"]
    assert told[1] == "llama_state_seq_load_file: error loading sequence state file: failed to restore kv cache"
    assert told[2].startswith("error: Unable to restore slot: No available space") and talk.held() == [200, 0]


@pytest.mark.parametrize("id_slot, erased", [(3, 1), (2, 0), (-1, 1)])
def test_the_slot_of_an_action_is_counted_modulo_the_slots(id_slot, erased):
    talk = Talk("A", parallel=2, cache_idle_slots=False)
    for slot in (0, 1):
        talk.ask(word("a", 20), id_slot=slot)
    assert talk.server.slot("erase", id_slot) == {"status": 200, "n_erased": 20}
    assert talk.held()[erased] == 0


def test_before_19207_an_unknown_slot_is_refused():
    talk = Talk("A", "b7789")
    assert talk.server.slot("erase", 7) == {"status": 400, "error": "Invalid slot ID"}


def test_a_text_longer_than_the_context_empties_the_slot(tmp_path):
    large, small = Talk("A", ctx_size=512), Talk("A", ctx_size=256)
    large.ask(word("A", 400), 1)
    large.server.slot("save", 0, tmp_path / "a")
    small.ask(B, 1)
    assert small.server.slot("restore", 0, tmp_path / "a")["status"] == 400
    assert small.held() == [0]


def test_nothing_is_half_written(tmp_path, monkeypatch):
    talk = Talk("A")
    talk.ask(A, 1)
    talk.server.slot("save", 0, tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(BadInput, match="disk"):
        talk.server.slot("save", 0, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_pack_and_unpack_are_inverse():
    talk = Talk("HW", mode="exact")
    talk.ask(A, 2)
    state = talk.server.core.memory.state_write(0, partial=False)
    ckpts = tuple(talk.server.core.slots[0].checkpoints)
    made = SlotFile("C W8", 2, tuple(talk.server.core.slots[0].tokens), state, ckpts, "A")
    again = unpack(pack(made), "x")
    assert pack(again) == pack(made)
    assert [c.facts.id_task for c in again.checkpoints] == [-1] * len(ckpts) and ckpts
    assert not again.blob.recr.rows[0].conv.flags.writeable


@pytest.mark.parametrize("keys", [(0, 0, 0), (0, 5, 5), (7, 7, 7)])
def test_a_file_has_the_keys_of_its_tokens(keys):
    """A file without keys does not name them."""
    tokens = tuple(KeyedToken(number, key) if key else number for number, key in enumerate(keys, start=40))
    data = pack(SlotFile("AA", 2, tokens, Blob(0)))
    again = unpack(data, "x")
    assert identities(again.tokens) == identities(tokens) and list(again.tokens) == [40, 41, 42]
    assert (b"keys.npy" in data) is any(keys)


def test_a_file_that_names_no_streams_is_of_a_memory_without_them():
    data = pack(SlotFile("AA", 2, (4,), Blob(9), streams=3))
    named = unpack_arrays(MAGIC, data, "x", dict)
    assert unpack(pack_arrays(MAGIC, named), "x").streams == 3
    del named["streams"]
    assert unpack(pack_arrays(MAGIC, named), "x") == unpack(data, "x")._replace(streams=0)


@pytest.mark.parametrize(("kind", "streams"), [("A", 0), ("W", 0), ("deepseek4", 2)])
def test_only_a_file_of_compressed_rows_names_its_streams(kind, streams, tmp_path):
    talk = Talk(kind, "b11549", parallel=2, ctx_size=512)
    talk.server.slot("save", 0, tmp_path / "a")
    assert unpack((tmp_path / "a").read_bytes(), "a").streams == streams


@pytest.mark.parametrize("noted", [None, SavedAdapters((0.5, 1.0), 3), SavedAdapters((0.0,), -1)])
def test_a_file_has_the_adapters_of_its_slot(noted):
    again = unpack(pack(SlotFile("AA", 2, (4,), Blob(9), noted=noted, streams=3)), "x")
    assert (again.noted, again.streams, again.blob.size, again.checkpoints, again.draft_model) == (noted, 3, 9, (), "")


def errors_since(talk, first):
    return [event.text for event in talk.log.events[first:] if event.ev in ("error", "warn")]


@pytest.mark.parametrize(("fields", "error"), [
    ({"form": 9}, "state_seq_load_file: unknown (magic, version) for sequence state file: 67677371, 00000009"),
    ({"streams": 4}, "llama_state_seq_load_file: error loading sequence state file: n_stream mismatch"),
])  # fmt: skip
def test_a_file_of_another_format_is_refused_with_its_reason(tmp_path, fields, error):
    talk, file = Talk("A"), tmp_path / "a"
    talk.ask(A, 1)
    talk.server.slot("save", 0, file)
    file.write_bytes(pack(unpack(file.read_bytes(), "a")._replace(**fields)))
    first = len(talk.log.events)
    text = "Unable to restore slot: No available space in KV cache or invalid slot save file"
    assert talk.server.slot("restore", 0, file) == {"status": 400, "error": text}
    assert errors_since(talk, first) == [error, f"error: {text}"] and talk.held() == [0]


DRAFTS = {"spec_type": "draft-simple", "model_draft": "AA", "checkpoint_min_step": 0}
DROPPED = ["draft context checkpoint data does not match the draft context - dropped"]


@pytest.mark.parametrize(("flags", "fits", "warned"), [
    ({}, True, []), ({"model_draft": "W8 A"}, False, DROPPED), ({"ctx_size": 512}, True, []),
])  # fmt: skip
def test_checkpoints_of_a_file_lose_the_part_of_another_draft_model(tmp_path, flags, fits, warned):
    one, two = Talk("H", "b11549", **DRAFTS), Talk("H", "b11549", **{**DRAFTS, **flags})
    one.ask(A, 1)
    [kept] = one.server.core.slots[0].checkpoints
    one.server.slot("save", 0, tmp_path / "a")
    two.ask(B, 1)
    first = len(two.log.events)
    assert two.server.slot("restore", 0, tmp_path / "a")["n_restored"] == 40
    [ckpt] = two.server.core.slots[0].checkpoints
    size = kept.facts.size - (0 if fits else kept.draft.size + two.server.core.rules.host_header)
    assert (ckpt.facts.n_tokens, ckpt.facts.size, ckpt.draft is not None) == (36, size, fits)
    assert errors_since(two, first) == warned
    assert two.server.core.dft.memory.pos_max(0) == -1, "the part was loaded as a test"
    assert [event.n for event in two.log.events[first:] if event.ev == "ckpt_from_file"] == [1]


def test_an_erased_slot_needs_no_file(tmp_path):
    talk = Talk("A")
    for file in (None, tmp_path / "a"):
        talk.ask(A, 1)
        assert talk.server.slot("erase", 0, file) == {"status": 200, "n_erased": 40}
        assert talk.held() == [0] and not (tmp_path / "a").exists()


@pytest.mark.parametrize(("n", "status"), [(255, 200), (256, 200), (257, 400)])
def test_a_restored_text_may_fill_the_context(tmp_path, n, status):
    large, small = Talk("A", ctx_size=512), Talk("A", ctx_size=512)
    large.ask(word("A", n), 1)
    large.server.slot("save", 0, tmp_path / "a")
    small.server.core.settings = replace(small.server.core.settings, n_ctx_slot=256)
    reply = small.server.slot("restore", 0, tmp_path / "a")
    assert (reply["status"], small.held()) == (status, [n if status == 200 else 0])


def test_the_checkpoints_that_a_file_keeps_and_a_slot_takes_are_decisions(tmp_path):
    talk = Talk("H", "b11549", checkpoint_min_step=0)
    talk.ask(A, 1)
    kept = [*range(len(talk.lengths()))]
    for action in ("save", "restore"):
        first = len(talk.log.events)
        talk.server.slot(action, 0, tmp_path / "a")
        decided = [event for event in talk.log.events[first:] if event.ev == "decided"]
        assert [[*event.value] for event in decided if event.rule.startswith("LC-SLOT-FILE")] == [kept] and kept


@pytest.mark.parametrize("drafters", [("none", "draft-mtp"), ("draft-mtp", "none"), ("draft-mtp", "draft-mtp")])
def test_a_checkpoint_of_a_file_is_restored_with_its_draft_part_or_without(tmp_path, drafters):
    first, second = (Talk("GA+M", "b11549", spec_type=kind, checkpoint_min_step=0, ubatch_size=16) for kind in drafters)
    first.ask(word("a", 60))
    first.server.slot("save", 0, tmp_path / "a")
    assert second.server.slot("restore", 0, tmp_path / "a")["status"] == 200
    ends = second.lengths()
    assert ends == first.lengths() and ends
    answer = second.ask(word("a", 58) + word("b", 5))
    assert answer.reused == {"checkpoint": max(end for end in ends if end < 58)}


def test_a_slot_file_is_not_flushed_to_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    talk = Talk("A")
    talk.ask(A, 1)
    assert talk.server.slot("save", 0, tmp_path / "a")["status"] == 200 and synced == []


def test_an_action_on_a_slot_is_a_step_of_its_own(tmp_path):
    talk = Talk("A")
    talk.ask(A, 1)
    for number, action in enumerate(("save", "erase", "restore"), start=1):
        talk.server.slot(action, 0, tmp_path / "a")
        assert len(talk.log.marks) == number + 1
    assert [event.ev for event in talk.log.of(2) if event.ev == "seq_rm"] == ["seq_rm"]
