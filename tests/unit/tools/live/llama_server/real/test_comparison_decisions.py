"""What a comparison with a real server sends, repeats and leaves undecided, without a server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.real import comparison
from cachesim.tools.live.llama_server.real.comparison import (
    REPEATED,
    TIE,
    UNMARKED,
    RealComparison,
    compare_case,
    compare_cases,
    comparison_data,
    kind_of,
    model_file,
    record_case,
    unsendable,
    without_marks,
)
from cachesim.tools.live.llama_server.real.real_server import RealServer
from cachesim.tools.live.llama_server.server import LlamaServer, ServerStart
from cachesim.tools.live.llama_server.verify.case import Verification
from cachesim.tools.live.llama_server.verify.model_of import ComparedRequest, RequestResult
from tests.live.fake import Fake

RIGHT, TIED, ENDED = RequestResult(3, 2, 200, True), RequestResult(3, 2, 200, False), RequestResult(None, None, 0, None)


def server(is_logged=True):
    build = "b11549" if is_logged else "b9713"
    found = RealServer(build, Path("/bin/llama-server"), f"llama_cpp@{'b11549' if is_logged else 'b9518'}", "", ())
    assert found.is_logged is is_logged
    return found


def case(line="A9/A.B5", **more):
    return from_line(line, model="A", profiles=("llama_cpp@b11549",), **more)


def row(ours=RIGHT, theirs=RIGHT, same=True, first=""):
    return ComparedRequest(0, "A9", ours, theirs, same, "", first)


@pytest.fixture
def compared(monkeypatch):
    """Return a function that compares a case with these rows in turn, and the seeds of the comparisons."""
    monkeypatch.setattr(comparison, "model_file", Path)

    def run(*answers, scenario=None, real=None, gguf=None):
        seeds, sent = [], []
        run.started = []

        def on_server(scenario, profile, binary, model, build, kind, seed):
            run.started.append((profile, binary, model, build, kind))
            seeds.append(seed)
            sent.append(scenario)
            rows = answers[min(len(seeds), len(answers)) - 1]
            if rows is None:
                raise BadInput("the model is too large")
            return Verification([*rows], scenario.model, profile, ["a note"])

        monkeypatch.setattr(comparison, "on_server", on_server)
        return compare_case(scenario or case(), real or server(), gguf), seeds, sent

    return run


def test_equal_rows_are_compared_once(compared):
    found, seeds, _ = compared([row()])
    assert (found.same, seeds, found.left_out, found.found.notes) == (True, [0], "", ["a note"])


@pytest.mark.parametrize("doubtful", [False, True])
def test_only_a_difference_of_the_cold_run_alone_is_repeated(compared, doubtful):
    first = "" if doubtful else "slot: id 1 there, 0 here"
    found, seeds, _ = compared([row(theirs=TIED, same=False, first=first)], [row()])
    assert seeds == [*range(REPEATED + 1 if doubtful else 1)]
    assert found.same is (None if doubtful else False)
    assert [one.why for one in found.found.rows] == [TIE if doubtful else ""]


@pytest.mark.parametrize("theirs", [RequestResult(4, 1, 200, False), RequestResult(3, 2, 500, False)])
def test_other_counts_are_no_doubt(compared, theirs):
    found, seeds, _ = compared([row(theirs=theirs, same=False)])
    assert (found.same, seeds) == (False, [0])


def test_a_difference_that_recurs_with_other_tokens_is_one(compared):
    found, seeds, _ = compared([row(theirs=TIED, same=False)], [row()], [row(theirs=TIED, same=False)])
    assert (found.same, seeds) == (False, [0, 1, 2])


def test_a_server_that_ends_at_any_prompt_with_a_model_is_left_out(compared):
    ends = [row(theirs=ENDED, same=False)]
    found, seeds, sent = compared(ends)
    assert (found.found, found.left_out) == (None, "the real b11549 ends at any prompt with this model")
    assert seeds == [0, 0] and repr(sent[1]) == "A9"
    assert sent[1].server == {"parallel": 1, "kv_unified": True, "ctx_size": 256}
    found, seeds, _ = compared(ends, [row()])
    assert found.same is False and len(seeds) == 2
    found, seeds, _ = compared([row(ours=ENDED, theirs=ENDED)])
    assert found.same is True and len(seeds) == 1


def test_a_model_that_cannot_be_run_is_left_out_with_the_reason(compared):
    found, _, _ = compared(None)
    assert (found.found, found.same, found.left_out) == (None, None, "the model is too large")
    data = comparison_data(found)
    assert data["requests"] == [] and data["model"] == "A"


def test_a_case_that_cannot_be_sent_is_not_sent(compared):
    found, seeds, _ = compared([row()], scenario=case("S40>r4{drafts=1:1}"))
    assert seeds == [] and found.left_out.startswith("request 0: its drafts are forced")


def test_older_builds_get_no_marks_and_a_note_says_so(compared):
    marked = case("A9.|B3")
    found, _, sent = compared([row()], scenario=marked, real=server(is_logged=False))
    assert sent[0].steps[0].request.user_starts == () and found.found.notes == [UNMARKED, "a note"]
    found, _, sent = compared([row()], scenario=marked)
    assert sent[0] is marked and found.found.notes == ["a note"]


def test_marks_are_removed_from_every_text():
    marked, plain = case("A9.|B3/A.|B.C2"), case()
    assert without_marks(plain) is plain
    bare = without_marks(marked)
    assert [step.request.user_starts for step in bare.steps] == [(), ()]
    assert [step.request.prompt for step in bare.steps] == [step.request.prompt for step in marked.steps]
    assert not any(piece.user for step in bare.steps for piece in step.asked.prompt)


@pytest.mark.parametrize(("line", "logged", "why"), [
    ("S40/S.A5", False, ""),
    ("S40>r4{drafts=1:1}", True, "request 0: its drafts are forced; a real server drafts itself"),
    ("A9/B9@0{together+1}", False,
     "request 1 arrives after some iterations, which only the log of b10566 and newer shows"),
    ("A9/B9@0{together+1}", True, ""), ("A9>4{cancel_after=2}/B9", True, ""),
    ("A9>4{cancel_after=2}/B9", False,
     "request 0: when its client has disconnected, only the log of b10566 and newer shows"),
])  # fmt: skip
def test_the_first_reason_why_a_case_cannot_be_sent(line, logged, why):
    assert unsendable(case(line), logged) == why


def test_other_engines_and_drafts_of_older_builds_cannot_be_sent():
    other = from_line("A9", model="A", profiles=("vllm@0.33.0",))
    assert unsendable(other, True) == "only scenarios of llama_cpp are run on real servers"
    drafts = case(server={"spec_type": "ngram-simple"})
    assert unsendable(drafts, True) == ""
    assert unsendable(drafts, False) == "the lengths of drafts stand only in the log of b10566 and newer"


def test_the_kind_of_server_follows_from_its_log():
    assert kind_of(server()) is LlamaServer and kind_of(server(is_logged=False)) is QuietServer


def test_a_tiny_model_is_made_once(monkeypatch, tmp_path):
    made = []

    def write(notation, file):
        made.append(notation)
        file.write_text(notation)

    monkeypatch.setattr(comparison, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(comparison, "write_model", write)
    first = model_file("GA")
    assert model_file("GA") == first and made == ["GA"] and first.read_text() == "GA"
    assert [one.name for one in first.parent.iterdir()] == [first.name]
    assert model_file("A").parent == first.parent and made == ["GA", "A"]


def test_every_case_meets_every_server(monkeypatch):
    monkeypatch.setattr(comparison, "compare_case", lambda scenario, server, gguf: (scenario, server, gguf))
    assert list(compare_cases(["a", "b"], ["x", "y"], None)) == [
        ("a", "x", None), ("a", "y", None), ("b", "x", None), ("b", "y", None)]  # fmt: skip


def test_a_comparison_starts_the_server_with_its_rule_set_build_and_model(compared):
    binary, own = Path("/bin/llama-server"), Path("own.gguf")
    compared([row()])
    assert compared.started == [("llama_cpp@b11549", binary, Path("A"), "b11549", LlamaServer)]
    compared([row()], real=server(is_logged=False), gguf=own)
    assert compared.started == [("llama_cpp@b9518", binary, own, "b9713", QuietServer)]


def test_the_short_prompt_runs_with_the_same_model_and_one_slot(compared):
    own = Path("own.gguf")
    _, _, sent = compared([row(theirs=ENDED, same=False)], gguf=own)
    short = {"ctx_size": 256, "kv_unified": True, "parallel": 1}
    assert (repr(sent[1]), sent[1].model, sent[1].profiles) == ("A9", "A", ("llama_cpp@b11549",))
    assert short.items() <= sent[1].server.items()
    assert [started[2] for started in compared.started] == [own, own]


def test_only_an_end_at_the_first_request_asks_for_the_short_prompt(compared):
    found, seeds, _ = compared([row(), row(theirs=ENDED, same=False)])
    assert (found.same, seeds) == (False, [0])


def test_a_repeated_case_keeps_the_rows_without_doubt(compared):
    doubt = row(theirs=TIED, same=False)
    found, _, _ = compared([row(), doubt], [row(), row()], gguf=Path("own.gguf"))
    assert [(one.same, one.why) for one in found.found.rows] == [(True, ""), (None, TIE)]
    assert {started[2] for started in compared.started} == {Path("own.gguf")}


def test_the_draft_model_is_made_beside_the_model(compared, monkeypatch):
    made = []
    monkeypatch.setattr(comparison, "model_file", lambda name: made.append(name) or Path(name))
    drafts = {"spec_type": "draft-simple", "model_draft": "S"}
    compared([row()], scenario=case(server=drafts))
    compared([row()], scenario=case(server=drafts), gguf=Path("own.gguf"))
    assert made == ["A", "S", "S"]


def test_a_comparison_as_data():
    head = {"build": "b9713", "server": "", "profile": "llama_cpp@b9518", "log_read": False, "model": "A"}
    left_out = RealComparison(case(), server(is_logged=False), None, "no flag")
    assert comparison_data(left_out) == {
        **head, "scenario": "A9/A.B5", "same": None, "left_out": "no flag", "notes": [], "requests": []}  # fmt: skip
    sides = {"ours": RIGHT._asdict(), "theirs": TIED._asdict()}
    found = Verification([row(theirs=TIED, same=False)], "A", "llama_cpp@b9518", ["a note"])
    of_file = replace(case(), id="one", file="one.toml")
    assert comparison_data(RealComparison(of_file, server(is_logged=False), found)) == {
        **head, "scenario": "one", "same": False, "left_out": "", "notes": ["a note"],
        "requests": [{"number": 0, "text": "A9", **sides, "same": False, "why": "", "first": "",
                      "far": None}]}  # fmt: skip


def test_a_recording_has_the_name_of_the_scenario_and_the_rule_set_of_the_build(monkeypatch):
    starts = []

    def recorder(start, server):
        starts.append((start, server))
        return Fake("llama_cpp@b9518", "A", start.flags)

    monkeypatch.setattr(comparison, "Recorder", recorder)
    monkeypatch.setattr(comparison, "model_file", Path)
    scenario = replace(case("A9>r2/A.r.B5{drafts=1:1}", server={"parallel": 1}), id="two")
    trace, notes = record_case(scenario, server(is_logged=False), gguf=None)
    assert (trace["name"], trace["profile"], len(trace["steps"])) == ("two", "b9518", 2)
    assert notes == ["drafts come from the server's own drafter"]
    assert starts == [(ServerStart(Path("/bin/llama-server"), Path("A"), ("-np", "1"), "b9713"), QuietServer)]
    record_case(scenario, server(), Path("own.gguf"))
    assert (starts[1][0].gguf, starts[1][1]) == (Path("own.gguf"), LlamaServer)


def test_an_image_cannot_be_sent():
    plain = case("A9/A.B5")
    second = replace(plain.steps[1], request=replace(plain.steps[1].request, prompt=(5, *image_items("I", 2, 1), 6)))
    assert unsendable(replace(plain, steps=(plain.steps[0], second)), True) == (
        "request 1: an image of a scenario has no pixels")


@pytest.mark.parametrize(("server", "models"), [
    ({"model_draft": "tiny-A"}, ["tiny-A"]), ({"model_draft": ""}, []), ({"model_draft": 3}, []), ({}, [])])
def test_a_server_loads_the_draft_model_that_it_names(server, models):
    assert [*comparison._draft_models(SimpleNamespace(server=server))] == models


def test_the_marks_of_some_requests_are_removed_from_all():
    plain = without_marks(case("S9.A5/S.|B5"))
    assert [step.request.user_starts for step in plain.steps] == [(), ()]
    assert [step.text for step in plain.steps] == ["S.A", "S.B"]


@pytest.mark.parametrize(("ours", "theirs", "ends"), [
    (200, 0, True), (0, 0, False), (200, 200, False), (0, 200, False), (None, None, False)])
def test_a_process_ends_unforeseen_if_the_simulated_one_does_not(ours, theirs, ends):
    """The status is 0 at the end of a process."""
    row = SimpleNamespace(ours=SimpleNamespace(status=ours), theirs=SimpleNamespace(status=theirs))
    found = SimpleNamespace(rows=[] if ours is None else [row])
    assert comparison._ends_unforeseen(SimpleNamespace(found=found)) is ends
    assert comparison._ends_unforeseen(SimpleNamespace(found=None)) is False
