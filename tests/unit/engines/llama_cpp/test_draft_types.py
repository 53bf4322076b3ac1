"""Tests of the drafters: those of the slot's own tokens act alike, the others are known and refused with a reason."""

from __future__ import annotations

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput, NotInBuild
from cachesim.cli.main import main
from cachesim.engines.llama_cpp.flags import NGRAM_TYPES, NOT_SIMULATED, SPEC_TYPES, read_flags, write_flags
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line

LINE = "S40>r6{drafts=3:3,2:1}/S.r.A9>2"


def played(kind, model="GGGA", profile="llama_cpp@b11549"):
    server = {"parallel": 1, "ctx_size": 512, "spec_type": kind}
    run = run_judged(from_line(LINE, model=model, profiles=(profile,), server=server), profile, "provenance")
    return [(one.answer.cache_n, one.answer.prompt_n, one.answer.draft_n) for one in run.requests]


def test_all_types_of_the_newest_build_are_known():
    assert len(SPEC_TYPES) == 11 and len(set(SPEC_TYPES)) == 11


@pytest.mark.parametrize("kind", NGRAM_TYPES)
def test_drafters_of_the_slots_own_tokens_act_alike(kind):
    assert played(kind) == played("ngram-simple")
    assert played(kind)[0][2] > 0


@pytest.mark.parametrize("kind", NGRAM_TYPES)
def test_their_flags_are_written_and_read(kind):
    words = write_flags({"spec_type": kind, "spec_draft_n_max": 2})
    assert words[:2] == ["--spec-type", kind]
    assert read_flags(words).options["spec_type"] == kind
    assert kind == "ngram-cache" or words[-1] == "2"


@pytest.mark.parametrize("kind", NOT_SIMULATED)
def test_a_drafter_that_is_not_simulated_is_refused_with_the_reason(kind):
    with pytest.raises(NotInBuild, match=f"spec_type '{kind}' is not simulated: its draft model reads"):
        played(kind)


@pytest.mark.parametrize("kind", ["ngram-mod", "ngram-cache"])
def test_a_build_before_the_drafters_does_not_know_them(kind):
    with pytest.raises(NotInBuild, match="is not in llama_cpp@b7400"):
        played(kind, profile="llama_cpp@b7400")


def test_a_server_with_a_batch_of_one_token_aborts_at_its_start(capsys):
    words = ["run", "A9/A", "--model", "A", "-np", "1", "-c", "256"]
    assert main([*words, "-b", "1"]) == exits.BAD_INPUT
    assert "a server with a batch of 1 token aborts when it starts under llama_cpp@b11549" in capsys.readouterr().err
    assert main([*words, "-b", "2"]) == exits.HOLDS


def test_builds_without_the_probe_start_with_a_batch_of_one_token():
    server = {"parallel": 1, "ctx_size": 256, "batch_size": 1}
    scenario = from_line("A9/A", model="A", profiles=("llama_cpp@b7789",), server=server)
    assert [one.answer.status for one in run_judged(scenario, "llama_cpp@b7789", "provenance").requests] == [200, 200]
    with pytest.raises(BadInput, match="aborts when it starts"):
        run_judged(scenario, "llama_cpp@b8152", "provenance")


@pytest.mark.parametrize("words, option", [
    (["ngram-mod,ngram-simple"], "ngram-simple,ngram-mod"),
    (["ngram-mod,ngram-mod"], "ngram-mod"),
    (["draft-mtp,ngram-cache"], "ngram-cache,draft-mtp"),
    (["ngram-mod,none"], "none"),
    (["none,no-such"], "none"),
    (["none", "ngram-mod"], "ngram-mod"),
    (["ngram-mod", "none"], "ngram-mod"),
    (["draft-mtp", "ngram-mod,ngram-simple"], "draft-mtp,ngram-simple,ngram-mod"),
])  # fmt: skip
def test_a_list_is_read_as_the_newest_build_reads_it(words, option):
    """Names after none are not read, the order does not count, and every further flag adds to the first."""
    line = [word for value in words for word in ("--spec-type", value)]
    assert read_flags(line).options["spec_type"] == option


@pytest.mark.parametrize("text", ["ngram-mod,no-such", "ngram-mod,", " none", "ngram-mod, none"])
def test_an_unknown_name_in_a_list_is_refused(text):
    with pytest.raises(BadInput, match="unknown drafter"):
        read_flags(["--spec-type", text])


@pytest.mark.parametrize(("text", "hint"), [
    ("draft-mtpp", "did you mean 'draft-mtp'?"), ("xyz", ", ".join(SPEC_TYPES)),
])  # fmt: skip
def test_the_hint_names_the_nearest_drafter_or_all(text, hint):
    with pytest.raises(BadInput) as bad:
        read_flags(["--spec-type", text])
    assert bad.value.hint == hint


def test_a_list_with_a_models_drafter_drafts_with_it():
    assert played("draft-mtp,ngram-mod", model="GGGA+M") == played("draft-mtp", model="GGGA+M")
    assert played("ngram-simple,ngram-mod") == played("ngram-mod")
    assert read_flags(["--spec-type", "ngram-mod,draft-mtp"]).drafts_by_model
    assert not read_flags(["--spec-type", "ngram-mod,ngram-cache"]).drafts_by_model


def test_a_list_is_written_with_the_flags_of_every_drafter():
    words = write_flags({"spec_type": "ngram-mod,draft-mtp", "spec_draft_n_max": 2})
    assert words[:2] == ["--spec-type", "ngram-mod,draft-mtp"] and "--spec-ngram-mod-n-max" in words
    assert words[-2:] == ["--spec-draft-n-max", "2"]


@pytest.mark.parametrize("kind, profile, told", [
    ("ngram-simple,ngram-mod", "llama_cpp@b8916", "several spec_type"),
    ("ngram-mod,draft-eagle3", "llama_cpp@b11549", "'draft-eagle3' is not simulated"),
    ("draft-simple,draft-mtp", "llama_cpp@b11549", "one draft context"),
])  # fmt: skip
def test_lists_that_are_not_simulated_are_refused_with_the_reason(kind, profile, told):
    with pytest.raises(NotInBuild, match=told):
        played(kind, profile=profile)
