"""Verification of a scenario: its lengths on another model, a server that is started, and one that runs already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.corpus import named
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.gguf_models import find_model, write_model
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.verify.case import Verification, as_data, fitted, on_server, on_url, record_url
from cachesim.tools.live.llama_server.verify.compared_requests import ComparedRequest, RequestResult
from cachesim.tools.live.llama_server.verify.model_of import real_vocabulary
from cachesim.tools.live.llama_server.verify.remote import Remote
from tests.shared import SMALL
from tests.unit.tools.live.in_process import servers
from tests.unit.tools.live.real_llama import launcher
from tests.unit.tools.live.sim_server import simulated

__all__ = ["servers"]       # a fixture
NOW = "llama_cpp@b11549"
STALE = "A5/B10/B[:3].C3>2"
SIDE = RequestResult(3, 2, 200, True)


def line(text, model="A", **server):
    return from_line(text, model=model, profiles=(NOW,), server=server)


# Lengths


@pytest.mark.parametrize(("name", "model", "options", "lengths"), [
    ("llama-first-window-default-gemma3", "W8 A", {}, "A13>3/A[:8]>3"),                   # moved from 32 on
    ("llama-first-window-default-gemma3", "W64 A", {}, "A69>3/A[:64]>3"),
    ("llama-repair-batch-undo", "", {"ubatch_size": 32}, "A281/B1/A.C266"),               # 1 is below 16
    ("llama-embedding-keeps-checkpoints", "", {"ubatch_size": 32}, "A8/B18{task=embedding}/B[:13].C6"),
    ("llama-embedding-keeps-checkpoints", "", {"ubatch_size": 16}, "A10/B12{task=embedding}/B[:11].C2"),     # scaled
    ("llama-embedding-keeps-checkpoints", "", {"batch_size": 16}, "A10/B12{task=embedding}/B[:11].C2"),
])  # fmt: skip
def test_lengths_are_moved_or_scaled_with_the_window_and_the_batches(name, model, options, lengths):
    case = load(named(name))
    found, said = fitted(case, NOW, model or case.model, {**case.server, **options})
    assert (repr(found), found.model, found.server) == (lengths, model or case.model, {**case.server, **options})
    assert said and not found.expect


def test_a_fitted_scenario_leaves_out_in_which_versions_the_original_fails():
    case = load(named("llama-16560-cache-ram-token-limit"))
    found, _ = fitted(replace(case, steps=case.steps[:2]), NOW, case.model, case.server)
    assert case.lives and not found.lives


def test_a_scenario_without_wrong_requests_keeps_its_lengths():
    found, said = fitted(line("A9/A.B5"), NOW, "GA", {"parallel": 1})
    assert (found.model, found.server, repr(found), said) == ("GA", {"parallel": 1}, "A9/A.B5", "")


def test_requests_name_slot_0_where_only_that_shows_the_fault():
    found, said = fitted(line(STALE, "GA", **SMALL), NOW, "GA", {**SMALL, "parallel": 4, "kv_unified": True})
    assert said and [step.request.id_slot for step in found.steps] == [0, 0, 0]


def test_lengths_at_which_other_requests_are_wrong_do_not_fit():
    with pytest.raises(BadInput, match=r"\(2\) with the model A"):
        fitted(line(STALE, "GA", **SMALL), NOW, "A", SMALL)


# The result


def row(same=True):
    return ComparedRequest(0, "A", SIDE, SIDE, same)


@pytest.mark.parametrize(("rows", "undecided", "same"), [
    ([row(), row()], "", True), ([row(), row(None)], "", None), ([row(None), row(False)], "", False),
    ([], "no window", None), ([row(False)], "no window", False), ([], "", True),
])  # fmt: skip
def test_requests_agree_if_all_of_them_do(rows, undecided, same):
    found = Verification(rows, "A", NOW, [], undecided)
    assert found.same is as_data(found)["same"] is same


# A server that is started


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    """Return a function that writes the tiny model of some layers."""
    folder = tmp_path_factory.mktemp("models")

    def make(layers):
        file = folder / find_model(layers).file
        write_model(layers, file)
        return file

    return make


def test_a_server_is_started_with_the_options_of_the_scenario(servers, tmp_path, gguf):
    binary = launcher(tmp_path, "b9713", NOW)
    scenario = line(STALE, "GA", **SMALL)
    found = on_server(scenario, NOW, binary, gguf("GA"), build="b9713", kind=QuietServer)
    assert (found.same, found.model, found.profile, found.notes) == (True, "GA", NOW, [])
    assert [(row.ours.equal, row.theirs.equal, row.theirs.cache_n) for row in found.rows] == [
        (True, True, 0), (True, True, 0), (False, False, 1)]  # fmt: skip
    flags = found.recording["flags"]
    assert (flags[flags.index("-c") + 1], found.recording["commit"]) == ("1024", "b9713")
    other = on_server(line("A5/A", "GGGA", **SMALL), NOW, binary, gguf("GA"), kind=QuietServer, seed=1)
    assert any("GGGA" in note for note in other.notes)
    prompts = [one.recording["steps"][0]["request"]["prompt"] for one in (found, other)]
    assert prompts[0] != prompts[1] and set().union(*prompts) <= {*range(101, 320)}


@pytest.mark.parametrize(("case", "layers", "tolerance", "same"), [
    ((STALE, "GA"), "GA", None, True), ((STALE, "GA"), "GA", 0.01, None),
    (("A13>3/A[:8]>3", "W8 A"), "W8 A", None, None), (("A13>3/A[:8]>3", "W8 A"), "W8 A", 0.001, True),
    (("A13>3/A[:8]>3", "W8 A"), "W8 A", 0.0, True),          # no difference is rounding
])  # fmt: skip
def test_a_small_difference_is_rounding_where_windows_amplify_it_or_the_user_says_so(
        servers, tmp_path, gguf, case, layers, tolerance, same):  # fmt: skip
    """The log-probabilities of a wrong answer differ by 0.003 from those of the cold run."""
    binary = launcher(tmp_path, "b9713", NOW, far=0.003)
    text, model = case
    options = SMALL if model == "GA" else load(named("llama-first-window-default-gemma3")).server
    found = on_server(line(text, model, **options), NOW, binary, gguf(layers), tolerance=tolerance, kind=QuietServer)
    assert found.same is same


def test_a_scenario_that_does_not_fit_or_has_images_starts_no_server(tmp_path):
    found = on_server(line(STALE, "GA", **SMALL), NOW, tmp_path / "none", tmp_path / "tiny-A.gguf")
    assert (found.rows, found.same, found.recording) == ([], None, None) and found.undecided
    with pytest.raises(BadInput, match="request 0: an image"):
        on_server(line("A8.I3x1.B8"), NOW, tmp_path / "none", tmp_path / "tiny-A.gguf")


# A running server


def verified(scenario, layers="", given=None, model="A", **more):
    with simulated(model, **more) as url, Remote(url, 0.2) as remote:
        found = on_url(scenario, NOW, remote, layers, given)
        return found, remote


@pytest.mark.parametrize(("slots", "given", "size"), [
    (1, {}, 256), (4, {"parallel": 4}, 1024), (4, {}, 256), (4, {"kv_unified": False}, 1024),
    (2, {"kv_unified": True}, 256), (3, {}, 768), (2, {"ctx_size": 64}, 64),
])  # fmt: skip
def test_options_of_a_running_server_are_those_it_reports_or_defaults(slots, given, size):
    """Four slots share one cache unless the user says otherwise."""
    props = {"default_generation_settings": {"n_ctx": 256}}
    with simulated("A", options={"parallel": slots}, props=props) as url, Remote(url, 0.2) as remote:
        data, notes = record_url(line("A9"), remote, "", given)
    words = dict(zip(data["flags"], data["flags"][1:], strict=False))
    assert (int(words["-np"]), int(words["-c"])) == (slots, size) and str(slots) in notes[0]
    assert ("-kvu" in data["flags"]) is ((slots == 4 and not given) or given.get("kv_unified", False))


def test_a_running_server_is_left_as_it_was_also_after_a_failure():
    def spoil(out):
        return 200, {**out, "timings": {}}

    options = {"lora_scaled": "1,0.5"}
    for more in ({}, {"spoil": staticmethod(spoil)}):
        with simulated("A", options=options, **more) as url, Remote(url, 0.2) as remote:
            try:
                on_url(line("A9/{lora 0:0.25}/A", lora_scaled="1,0.5"), NOW, remote)
                assert not more
            except BadInput:
                assert more
            assert remote.adapter_scales() == [1.0, 0.5]


def test_a_scenario_that_cannot_be_sent_is_not_sent():
    for text, model in (("A9/{restart}/A", "A"), (STALE, "GA")):
        found, remote = verified(line(text, model, **SMALL))
        assert (found.rows, found.same, remote.steps) == ([], None, []) and found.undecided


def test_a_scenario_with_images_is_refused():
    with simulated("A") as url, Remote(url, 0.2) as remote, pytest.raises(BadInput, match="request 0: an image"):
        record_url(line("A8.I3x1.B8"), remote, "", {})


@pytest.mark.parametrize(("scales", "server", "fits"), [
    ("1,0.5", "1,0.5", True), ("1,0.5", "0.5,1", False), ("1", "", False), ("1@5.6", "1", False), ("", "1", True),
])  # fmt: skip
def test_adapters_of_a_running_server_must_have_the_scales_of_the_scenario(scales, server, fits):
    """Adapters that tokens activate are files with tokens of their own."""
    scenario = line("A9/A", **({"lora_scaled": scales} if scales else {}))
    with simulated("A", options={"lora_scaled": server} if server else {}) as url, Remote(url, 0.2) as remote:
        if fits:
            assert on_url(scenario, NOW, remote).rows
            return
        with pytest.raises(BadInput) as bad:
            on_url(scenario, NOW, remote)
        assert "@" in scales or (scales in str(bad.value) and bad.value.file == url)
        assert remote.steps == []


def test_a_recording_of_a_running_server_says_that_its_log_was_not_read():
    with simulated("A", props={"model_path": "x"}) as url, Remote(url, 0.2) as remote:
        data, _ = record_url(line("A9/A.B5"), remote, "A", {"ctx_checkpoints": 2})
    head = {name: data[name] for name in ("engine", "commit", "model", "log", "server", "inexact")}
    assert head == {"engine": "llama.cpp", "commit": "b11549", "model": "tiny-A.gguf", "log": False,
                    "server": {"n_slots": 1}, "inexact": []}  # fmt: skip
    flags = data["flags"]
    assert len(data["steps"]) == 2 and flags[flags.index("-ctxcp") + 1] == "2"
    tokens = {token for step in data["steps"] for token in step["request"]["prompt"]}
    assert tokens and tokens <= {*real_vocabulary(320).plain}


