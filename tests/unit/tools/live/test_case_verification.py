"""Verification of a scenario: the fit of its lengths, the start of a server, and what a running server is asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.server import BASE, LlamaServer, ServerStart
from cachesim.tools.live.llama_server.verify import case as module
from cachesim.tools.live.llama_server.verify.case import (
    AMPLIFIED,
    ROUNDING,
    Verification,
    _adapters,
    _moved,
    _options,
    _rounding,
    _scaled,
    _sizes,
    _window,
    _with,
    as_data,
    fitted,
    on_server,
    on_url,
    record_url,
)
from cachesim.tools.live.llama_server.verify.model_of import (
    RECORDED_NEWEST,
    ComparedRequest,
    RealModelFacts,
    RequestResult,
    real_vocabulary,
)
from cachesim.tools.live.token_map import TINY
from tests.live.fake import Fake
from tests.shared import SMALL

NOW = "llama_cpp@b11549"
SIDE = RequestResult(3, 2, 200, True)


def line(text, model="A", **server):
    return from_line(text, model=model, profiles=(NOW,), server=server)


@pytest.mark.parametrize(("old", "new", "moved", "scaled"), [
    (32, 8, [(7, 7), (8, 1), (32, 8), (40, 16)], [(1, 1), (32, 8), (40, 10)]),
    (8, 32, [(7, 7), (8, 32), (9, 33)], [(1, 4), (8, 32), (10, 40)]),
])  # fmt: skip
def test_lengths_are_moved_from_the_smaller_size_on_or_scaled(old, new, moved, scaled):
    assert [(length, _moved(old, new)(length)) for length, _ in moved] == moved
    assert [(length, _scaled(old, new)(length)) for length, _ in scaled] == scaled


def test_sizes_count_only_if_both_sides_have_them_and_they_differ():
    before = line("A9", "W32 A", ubatch_size=64, batch_size=128, checkpoint_min_step=0)
    after = line("A9", "W8 A", ubatch_size=32, batch_size=128, checkpoint_min_step=16)
    assert list(_sizes(before, after)) == [("window", 32, 8), ("ubatch_size", 64, 32)]
    assert list(_sizes(before, line("A9", "A", ubatch_size=64))) == []
    one = line("A9", "A", ubatch_size=1)
    assert list(_sizes(before, one)) == [("ubatch_size", 64, 1)] and list(_sizes(one, before)) == [
        ("ubatch_size", 1, 64)]  # fmt: skip


def test_all_lengths_slices_and_slots_of_a_scenario_are_changed():
    changed = _with(line("A20.B64@1/B[:6].A[4:10]/{save@0 f}/A[5:]", parallel=2), lambda n: n // 2, 0)
    assert [step.text for step in changed.steps if step.action is None] == [
        "A.B@1", "B[:3].A[2:5]@0", "A[2:]@0"]  # fmt: skip
    assert dict(changed.words) == {"A": 10, "B": 32}
    assert [step.request.id_slot for step in changed.steps if step.action is None] == [1, 0, 0]
    assert [len(step.request.prompt) for step in changed.steps if step.action is None] == [42, 6, 8]
    assert [step.request.id_slot for step in _with(line("A9/A@0"), lambda n: n, -1).steps] == [-1, 0]


STALE = "A5/B10/B[:3].C3>2"


def test_a_scenario_without_wrong_requests_keeps_its_lengths():
    found, said = fitted(line("A9/A.B5"), NOW, "GA", {"parallel": 1})
    assert (found.model, found.server, repr(found), said) == ("GA", {"parallel": 1}, "A9/A.B5", "")


def test_lengths_at_which_other_requests_are_wrong_do_not_fit():
    with pytest.raises(BadInput, match=r"the same requests are wrong \(2\) with the model A and these options"):
        fitted(line(STALE, "GGGA", **SMALL), NOW, "A", SMALL)


def verified(monkeypatch, scenario, facts, **more):
    """Return the verification on a server in whose place the simulator answers, and how the server was started."""
    started = []

    def recorder(start, rounding, server):
        started.append((start, rounding, server))
        return Fake(NOW, facts.layers, start.flags)

    monkeypatch.setattr(module, "Recorder", recorder)
    monkeypatch.setattr(module, "from_file", lambda gguf, layers: facts)
    return on_server(scenario, NOW, Path("bin"), Path("x.gguf"), **more), started


def test_a_server_is_started_with_the_options_of_the_scenario(monkeypatch):
    facts = RealModelFacts("GGGA", TINY, True)
    found, started = verified(monkeypatch, line(STALE, "GGGA", **SMALL), facts)
    assert (found.model, found.profile, found.notes, found.undecided) == ("GGGA", NOW, [], "")
    assert [(row.text, row.ours.equal, row.theirs.cache_n) for row in found.rows] == [
        ("A", True, 0), ("B", True, 0), ("B[:3].C>2", False, 1)]  # fmt: skip
    assert found.same is None                              # answers were compared with cold runs on one side only
    [(start, rounding, kind)] = started
    assert (start, rounding, kind) == (ServerStart(Path("bin"), Path("x.gguf"), start.flags, "", BASE), ROUNDING,
                                       LlamaServer)  # fmt: skip
    flags = dict(zip(start.flags, start.flags[1:], strict=False))
    assert (flags["-np"], flags["-c"], len(found.recording["steps"])) == ("1", "1024", 3)


def test_a_server_is_started_with_its_build_its_kind_and_the_given_tolerance(monkeypatch):
    facts = RealModelFacts("A", TINY, True)
    _, started = verified(monkeypatch, line("A9"), facts, tolerance=0.0, build="b9713", kind=QuietServer)
    assert [(start.commit, rounding, kind) for start, rounding, kind in started] == [("b9713", 0.0, QuietServer)]


@pytest.mark.parametrize(("given", "seed"), [({}, 0), ({"seed": 3}, 3)])
def test_the_tokens_are_those_of_the_seed(monkeypatch, given, seed):
    seeds, player = [], module.Player
    monkeypatch.setattr(module, "Player", lambda ours, seed, **more: seeds.append(seed) or player(ours, seed, **more))
    verified(monkeypatch, line("A9"), RealModelFacts("A", TINY, True), **given)
    assert seeds == [seed]


def test_other_layers_and_sizes_of_a_real_model_are_noted(monkeypatch):
    found, _ = verified(monkeypatch, line("A9>r2{drafts=1:1}/A"), RealModelFacts("GA", TINY, False))
    assert found.notes == [
        "written for the model A, compared on GA",
        "state sizes differ from the model's: evictions of the prompt cache by size are not compared",
        "drafts come from the server's own drafter"]  # fmt: skip


def test_tokens_depend_on_the_seed(monkeypatch):
    facts, sent = RealModelFacts("A", TINY, True), []
    for seed in (0, 0, 1):
        found, _ = verified(monkeypatch, line("A9"), facts, seed=seed)
        sent.append(found.recording["steps"][0]["request"]["prompt"])
    assert sent[0] == sent[1] != sent[2]


def test_tokens_are_those_of_the_model_of_the_file(monkeypatch):
    facts = RealModelFacts("A", TINY._replace(plain=tuple(range(200, 220))), True)
    found, _ = verified(monkeypatch, line("A9"), facts)
    assert {*found.recording["steps"][0]["request"]["prompt"]} <= {*range(200, 220)}


def test_a_scenario_that_does_not_fit_starts_no_server(monkeypatch):
    found, started = verified(monkeypatch, line(STALE, "GGGA", **SMALL), RealModelFacts("A", TINY, True))
    assert (found.rows, found.same, started, found.notes) == ([], None, [], [])
    assert found.undecided.startswith("no lengths found at which the same requests are wrong (2)")


def row(same=True):
    return ComparedRequest(0, "A", SIDE, SIDE, same)


@pytest.mark.parametrize(("rows", "undecided", "same"), [
    ([row(), row()], "", True), ([row(), row(None)], "", None), ([row(None), row(False)], "", False),
    ([], "no window", None), ([row(False)], "no window", False), ([], "", True),
])  # fmt: skip
def test_requests_agree_if_all_of_them_do(rows, undecided, same):
    assert Verification(rows, "A", NOW, [], undecided).same is same


def test_a_verification_as_data():
    side = {"cache_n": 3, "prompt_n": 2, "status": 200, "equal": True}
    assert as_data(Verification([row(None)], "A", NOW, ["n"], "why")) == {
        "same": None, "model": "A", "profile": NOW, "undecided": "why", "notes": ["n"], "requests": [
            {"number": 0, "text": "A", "ours": side, "theirs": side, "same": None, "why": "", "first": "",
             "far": None}]}  # fmt: skip


class GivenRemote:
    """Running server in whose place the simulator answers. ``scales``: of its adapters; ``calls``: what is asked."""

    def __init__(self, slots=1, scales=(), layers="A", flags=("-np", "1")):
        self.props, self.models = {"model_path": f"tiny-{layers}.gguf"}, {}
        self.slots, self.context, self.build, self.scales = slots, 256, "b11549", [*scales]
        self.client, self.inexact, self.calls = SimpleNamespace(url="http://x"), [], []
        self.fake = Fake(NOW, layers, flags)
        self.steps = self.fake.steps

    def adapter_scales(self):
        return self.scales

    def clear(self):
        self.calls.append("clear")
        return ["the server cannot erase slots"]

    def seed(self):
        return 3

    def play(self, step):
        self.calls.append(step["op"])
        return self.fake.play(step)

    def compare_all(self):
        self.calls.append("compare")

    def restore_adapters(self):
        self.calls.append("restore")


@pytest.mark.parametrize(("slots", "given", "unified", "size", "words"), [
    (1, {}, False, 256, "1 slots"), (4, {}, True, 256, "4 slots with a unified cache"),
    (4, {"parallel": 4}, False, 1024, "4 slots"), (2, {"kv_unified": True}, True, 256, "2 slots with a unified cache"),
    (4, {"kv_unified": False}, False, 1024, "4 slots"), (3, {}, False, 768, "3 slots"),
])  # fmt: skip
def test_options_of_a_running_server_are_those_it_reports_or_defaults(slots, given, unified, size, words):
    server, notes = _options(line("A9"), GivenRemote(slots), given)
    assert (server["parallel"], server["kv_unified"], server["ctx_size"]) == (slots, unified, size)
    assert notes == [f"assumed server options: defaults, {words}; change them with --set"]
    assert server["ctx_checkpoints"] == line("A9").server.get("ctx_checkpoints", server["ctx_checkpoints"])


def test_options_of_the_user_win_over_those_that_the_server_reports():
    server, _ = _options(line("A9"), GivenRemote(2), {"ctx_size": 64, "ctx_checkpoints": 2})
    assert (server["ctx_size"], server["ctx_checkpoints"], server["parallel"]) == (64, 2, 2)


def adapter_option():
    return module.ENGINES["llama_cpp"].manual.adapter_scales


def test_adapters_of_a_running_server_must_have_the_scales_of_the_scenario():
    name = adapter_option()
    scenario = line("A9/A", "A", **{name: "1,0.5"})
    assert _adapters(line("A9"), GivenRemote(scales=[1.0])) == {}
    assert _adapters(scenario, GivenRemote(scales=[1.0, 0.5])) == {name: "1,0.5"}
    for scales, said in (([0.5, 1.0], "0.5, 1"), ([], "none")):
        with pytest.raises(BadInput, match=f"expected a server with adapters of the scales 1,0.5, found {said}") as bad:
            _adapters(scenario, GivenRemote(scales=scales))
        assert bad.value.file == "http://x"
        assert bad.value.hint == "start it with --lora-scaled FILE0:1,FILE1:0.5; each must change the model's answers"


def test_adapters_that_tokens_activate_need_a_server_of_their_own():
    scenario = line("A9/A", "A", **{adapter_option(): "1@5.6"})
    with pytest.raises(BadInput, match="adapters that tokens of a prompt activate have other tokens") as bad:
        _adapters(scenario, GivenRemote(scales=[1.0]))
    assert bad.value.hint == "use --server BIN --model GGUF with a model of cachesim"


def test_a_running_server_is_cleared_asked_compared_and_left_as_it_was():
    remote = GivenRemote()
    found = on_url(line("A9/A.B5"), NOW, remote)
    assert remote.calls == ["clear", "completion", "completion", "compare", "restore"]
    assert found.notes == ["assumed server options: defaults, 1 slots; change them with --set",
                           "the server cannot erase slots"]  # fmt: skip
    assert [row.text for row in found.rows] == ["A", "A.B"] and found.undecided == ""


def test_a_scenario_with_a_restart_is_not_sent_to_a_running_server():
    remote = GivenRemote()
    found = on_url(line("A9/{restart}/A"), NOW, remote)
    assert (remote.calls, found.rows, found.same) == ([], [], None)
    assert found.undecided == "the scenario restarts the server, which --url cannot do"
    assert found.notes == ["assumed server options: defaults, 1 slots; change them with --set"]


def test_a_scenario_that_does_not_fit_is_not_sent_to_a_running_server():
    remote = GivenRemote()
    found = on_url(line(STALE, "GGGA", **SMALL), NOW, remote)
    assert (remote.calls, found.rows) == ([], []) and found.undecided.startswith("no lengths found")
    assert found.notes == ["assumed server options: defaults, 1 slots; change them with --set"]


def test_adapters_are_restored_after_a_failure(monkeypatch):
    remote = GivenRemote()
    monkeypatch.setattr(remote, "play", None)
    with pytest.raises(TypeError):
        on_url(line("A9"), NOW, remote)
    assert remote.calls == ["clear", "restore"]


def test_a_scenario_with_images_is_not_sent_to_a_server(monkeypatch):
    remote, scenario = GivenRemote(), line("A8.I3x1.B8")
    with pytest.raises(BadInput, match="request 0: an image of a scenario is a size without pixels"):
        record_url(scenario, remote, "", {})
    with pytest.raises(BadInput, match="request 0: an image of a scenario is a size without pixels"):
        verified(monkeypatch, scenario, RealModelFacts("A", TINY, True))
    assert remote.calls == []


def test_a_recording_of_a_running_server_says_that_its_log_was_not_read():
    remote = GivenRemote()
    data, notes = record_url(line("A9/A.B5"), remote, "", {"ctx_checkpoints": 2})
    assert notes == ["assumed server options: defaults, 1 slots; change them with --set",
                     "the server cannot erase slots"]  # fmt: skip
    head = {name: value for name, value in data.items() if name not in ("steps", "flags")}
    assert head == {"engine": "llama.cpp", "commit": "b11549", "model": "tiny-A.gguf", "name": "try", "workload": "try",
                    "seed": 0, "note": None, "log": False, "base_flags": [], "env": {}, "server": {"n_slots": 1},
                    "inexact": []}  # fmt: skip
    flags = data["flags"]
    assert len(data["steps"]) == 2 and flags[flags.index("-ctxcp") + 1] == "2"


def test_words_have_tokens_of_the_vocabulary_of_a_running_server():
    remote = GivenRemote()
    remote.props, remote.models = {}, {"data": [{"meta": {"n_vocab": 8000}}]}
    data, _ = record_url(line("A9/A.B5"), remote, "A", {})
    tokens = {token for step in data["steps"] for token in step["request"]["prompt"]}
    assert tokens and tokens <= {*real_vocabulary(8000).plain}


@pytest.mark.parametrize(("model", "window"), [("A", 0), ("W8 A", 8), ("C W9", 9), ("no model", 0)])
def test_a_model_without_windows_has_none(model, window):
    assert _window(model) == window


@pytest.mark.parametrize(("layers", "is_tiny", "rounding"), [
    ("GA", True, ROUNDING), ("GA", False, ROUNDING), ("W8 A", True, AMPLIFIED), ("W8 A", False, ROUNDING),
    *((layers, True, most) for layers, most in RECORDED_NEWEST.items()), ("minimax-m3", False, ROUNDING),
])  # fmt: skip
def test_log_probabilities_differ_more_where_rounding_is_amplified(layers, is_tiny, rounding):
    assert _rounding(RealModelFacts(layers, TINY, is_tiny)) == rounding
