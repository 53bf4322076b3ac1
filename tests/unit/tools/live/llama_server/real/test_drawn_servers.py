"""Tests of drawn servers for real builds."""

from __future__ import annotations

import functools

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.real.drawn_servers import ALSO, DRAFTERS, MTP, SPREAD, drawn_models, option_set


@functools.cache
def drawn():
    """Return many option sets."""
    return [option_set(0, number) for number in range(400)]


def test_models_without_a_file_are_left_out_and_refused_if_none_is_left():
    found = {option_set(0, number, ("A B2", "AA", "ctx_size=512")).world.model for number in range(8)}
    assert found == {"AA"} and "A B2" not in ALSO
    with pytest.raises(BadInput, match="A B2, W8 A B2") as bad:
        option_set(0, 0, ("A B2", "W8 A B2", "ctx_size=512"))
    assert "--gguf FILE" in bad.value.hint


def test_a_server_has_a_model_of_its_kind_that_llama_cpp_loads():
    plain = [one for one in drawn() if "spec_type" not in one.server]
    assert all(one.model in ALSO[one.world.model] for one in plain) and len({one.model for one in plain}) > 10


def test_conversations_have_the_options_of_the_server_that_is_started():
    assert all(one.server == one.world.server for one in drawn())


def test_a_build_is_started_without_the_options_that_it_lacks():
    every = {name for one in drawn() for name in one.server}
    assert "checkpoint_min_step" in every
    assert all("checkpoint_min_step" not in one.on_build("b8156").server for one in drawn())
    assert all(one.on_build("b8352").server.keys() - one.server.keys() == set() for one in drawn())
    assert any("checkpoint_min_step" in one.on_build("b8352").server for one in drawn())      # as -cpent


def test_a_build_before_any_period_of_windows_gets_a_model_of_five_windows():
    windows = [one for one in drawn() if one.model == "W8 A"]
    assert windows and {one.on_build("b8156").model for one in windows} == {"W8 W8 W8 W8 W8 A"}
    assert all(one.on_build("b8352").model == one.model for one in drawn())


def test_a_server_that_drafts_has_a_drafter_that_llama_cpp_knows():
    kinds = set()
    for one in drawn():
        kind = one.server.get("spec_type")
        kinds.add(kind)
        assert ("model_draft" in one.server) is (kind == "draft-simple")
        assert one.server.get("model_draft", "A") in DRAFTERS
        assert (one.model in MTP) is (kind == "draft-mtp")
    assert kinds == {None, "ngram-simple", "draft-simple", "draft-mtp"}


def test_a_conversation_has_the_model_and_the_options_of_its_server():
    found = option_set(2, 7, ("GGGA",))
    case = found.case(5)
    assert (found.number, found.seed, case.model, case.server) == (7, 2, found.model, found.server)
    assert found._replace(model="qwen35-GGGA").case(5).model == "qwen35-GGGA" != found.world.model
    assert case.seed == (2 * SPREAD + 7) * SPREAD + 5
    assert repr(case) == repr(option_set(2, 7, ("GGGA",)).case(5)) != repr(found.case(6))


def test_no_drafts_are_forced_on_a_real_server():
    found = [one.case(at) for one in drawn()[:60] if "spec_type" in one.server for at in range(3)]
    lines = [case.typed("llama_cpp@b11549")["line"] for case in found]
    assert len(lines) > 9 and not any("drafts" in line or "draft_else" in line for line in lines)


def test_options_of_the_user_hold_for_every_server():
    assert {option_set(0, number, ("ctx_size=512",)).server["ctx_size"] for number in range(4)} == {512}


def test_the_models_that_are_started_are_listed_once_in_order():
    assert drawn_models() == sorted({*drawn_models()}) and {one.model for one in drawn()} <= {*drawn_models()}
    assert {"A", "S", "GGGA+M", "GA+M"} <= {*drawn_models()}


def test_another_seed_draws_other_servers():
    found = [[option_set(seed, number)[3:] for number in range(6)] for seed in (1, 2, 3)]
    assert found[0] != found[1] != found[2] != found[0]
