"""Tests of what a log shows about its server: sources of options, builds, and what the simulation contradicts."""

import pytest

from cachesim.engines.registry import engine_of
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.scenarios.option_checks import in_force
from cachesim.tools.advise.case_facts import ASSUMED, GIVEN, LEAST, PRINTED
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.rebuild.case_facts_of_log import (
    LoggedOptions,
    case_facts,
    checked,
    logged_options,
    unproved_changes,
)
from cachesim.tools.server_logs.rebuild.line_agreement import Contradiction
from cachesim.tools.server_logs.rebuild.reconstruction import ReconstructedRequest, Reconstruction
from tests.unit.tools.server_logs.records import logged as request_of

PROFILE = "llama_cpp@b10587"
DEFAULTS = in_force({}, PROFILE)


def test_each_option_has_the_strongest_source_that_it_has():
    options = LoggedOptions(
        printed={"parallel": 4, "ctx_size": 512}, known={"parallel": 4, "ctx_size": 512, "batch_size": 64},
        given={"ctx_size": 512},
    )  # fmt: skip
    server = {"parallel": 4, "ctx_size": 512, "batch_size": 64, "ubatch_size": 32, "n_keep": DEFAULTS.get("n_keep")}
    assert options.sources(server, PROFILE) == {
        "parallel": PRINTED, "ctx_size": GIVEN, "batch_size": LEAST, "ubatch_size": ASSUMED,
    }  # fmt: skip


def test_only_options_of_the_engine_with_values_of_their_type_are_known():
    assert checked(engine_of(PROFILE), {"parallel": 4, "ctx_size": "512", "no such": 1}) == {"parallel": 4}


def facts(requests=(), contradicted=(), builds=(), line="A1/B2"):
    reused = {True: 5, False: 4, None: None}
    made = [ReconstructedRequest(request_of(cache_n=5), step=step, simulated_n=reused[agrees])
            for step, agrees in requests]  # fmt: skip
    if contradicted:
        lines = [Contradiction(number, "batch", {}, None) for number in contradicted]
        made.append(ReconstructedRequest(request_of(), step=len(made), contradicted=lines))
    found = Reconstruction(PROFILE, "A", {}, made, line)
    statements = [{"what": "build", "run": run, "numbers": {"build": ends}} for run, ends in builds]
    return case_facts(found, LoggedOptions({}, {}, {}), statements, 1, False)


def test_requests_whose_reuse_differs_and_contradicted_lines_refute_the_simulation():
    assert facts(requests=[(0, True), (1, False), (-1, False), (2, None)]).differing == (1,)
    assert facts(contradicted=[7, 9]).contradicted == (7, 9)
    assert facts(contradicted=[7]).is_refuted and facts(requests=[(0, False)]).is_refuted
    assert not facts(requests=[(0, True), (1, None)]).is_refuted


@pytest.mark.parametrize(("requests", "line", "before"), [
    ([(1, True)], "A1/B2", 1), ([(0, True), (1, True)], "A1/B2", 0), ([], "", 0),
])
def test_requests_of_the_line_that_the_log_lacks_stand_before_it(requests, line, before):
    assert facts(requests=requests, line=line).before == before


@pytest.mark.parametrize(("builds", "low", "high", "printed"), [
    ([(1, (9713, 9713))], 9713, 9713, 9713), ([(1, (9000, None)), (1, (9500, 9700))], 9500, 9700, 0),
    ([(0, (9713, 9713))], None, None, 0), ([(1, (None, 9700))], None, 9700, 0),
])
def test_the_builds_are_those_of_the_server_run(builds, low, high, printed):
    found = facts(builds=builds)
    assert (found.low, found.high, found.printed_build) == (low, high, printed)


def test_a_change_of_slots_needs_a_line_that_names_a_slot():
    assert unproved_changes([{"what": "build"}]) == {"no id_slot"}
    assert unproved_changes([{"what": "slot_by_id"}]) == frozenset()
    assert unproved_changes([{"what": "build"}, {"what": "slot_by_id"}, {"what": "build"}]) == frozenset()


def test_given_options_win_over_printed_ones_and_these_over_those_that_the_lines_need():
    session = LogSession("llama_cpp", facts={"parallel": 4, "ctx_size": 512})
    least, given = {"parallel": 2, "batch_size": 64}, {"ctx_size": 999}
    found = logged_options(engine_of(PROFILE), LogGrammar(options=dict), session, least, given)
    assert found == LoggedOptions({"parallel": 4, "ctx_size": 512}, {"parallel": 4, "ctx_size": 999, "batch_size": 64},
                                  {"ctx_size": 999})  # fmt: skip
