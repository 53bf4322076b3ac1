"""Tests of small inputs that require much work: refused with the limit named, or completed in the allowed memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import engine_of
from cachesim.judging.judged_run import RunCutOff, run_judged
from cachesim.replay.recorded_trace import read_trace
from cachesim.replay.replay import replay
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import play
from cachesim.tools.replay.command import checker

resource = pytest.importorskip("resource")
MEMORY, SECONDS = 600 << 20, 20
HUGE = 2**31 - 1
IK = "ik_llama@main"


@pytest.fixture
def lift():
    """Other numbers for some limits, until the test ends."""
    yield lambda **numbers: limits.lift({getattr(limits, name).name: value for name, value in numbers.items()})
    limits.lift({})


def bound():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def cachesim(*words):
    """Exit code and what was written, of a process with little memory and time."""
    done = subprocess.run([sys.executable, "-m", "cachesim", *words], capture_output=True, text=True, check=False,
                          preexec_fn=bound, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def trace(tmp_path, flags, steps, engine="ik_llama.cpp", profile="main"):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({
        "engine": engine, "commit": "", "profile": profile, "model": "llama", "name": "t", "flags": flags,
        "server": {}, "inexact": [], "steps": steps,
    }))  # fmt: skip
    return path


def completion(number=0, **request):
    return {"i": number, "op": "completion", "request": {"prompt": [5, 6, 7], **request}, "response": {"cache_n": 0},
            "events": []}  # fmt: skip


def replayed(path):
    return replay(read_trace(path, {**engine_of(IK).profiles, **engine_of("llama_cpp@b10587").profiles}))


# Memory


@pytest.mark.part(2)
@pytest.mark.parametrize("profile", ["llama_cpp@latest", IK])
def test_a_context_of_2_31_tokens_costs_what_is_used_of_it(profile):
    options = [f"--set={name}={HUGE}" for name in ("ctx_size", "batch_size", "ubatch_size", "ctx_checkpoints")]
    code, _, said = cachesim("run", "S40.A60/B80/S.C50>3", "--model", "W8 A", "-p", profile, "-q", *options)
    assert (code, said) == (0, "")


def test_so_does_that_of_a_recording(tmp_path):
    path = trace(tmp_path, ["-c", str(HUGE)], [completion(n_predict=2)], "llama.cpp", "b10587")
    code, out, said = cachesim("replay", str(path), "--mode", "exact", "--json")
    assert (code, said) == (1, "")                              # it differs: no event was recorded
    assert json.loads(out)["traces"][0]["first_difference"]["recorded"] is None


@pytest.mark.parametrize("profile, model", [("llama_cpp@latest", "GGGA"), (IK, "GGGA")])
def test_drafts_that_a_server_is_prepared_for_cost_nothing(profile, model):
    server = {"spec_type": "ngram-simple", "spec_draft_n_max": HUGE}
    assert play(from_line("S40>r9", model=model, profiles=(profile.replace("latest", "b11549"),), server=server),
                profile.replace("latest", "b11549"), "none").events  # fmt: skip


def test_a_server_has_so_many_slots_and_no_more(tmp_path, capsys):
    with pytest.raises(BadInput, match="1,000,000 slots, at most 256 slots"):
        replayed(trace(tmp_path, ["-np", "1000000"], [completion(n_predict=2)]))
    assert main(["run", "A3", "-p", IK, "--set", "parallel=1000000"]) == 2
    assert "parallel: 1,000,000 slots, at most 256 slots" in capsys.readouterr().err


def test_prompts_share_their_tokens():
    one, two = (step.request.prompt for step in from_line("S5000.A5000/A.S").steps)
    assert all(a is b for a, b in zip((*two[5000:], *two[:5000]), one, strict=True))


# Work


@pytest.mark.parametrize("engine, flags, request_", [
    ("ik_llama.cpp", ["-c", "64", "--context-shift", "on"], {}),
    ("ik_llama.cpp", ["-c", "2147483647"], {}),
    ("llama.cpp", ["-c", "256", "--context-shift"], {"n_predict": -1}),
    ("llama.cpp", ["-c", "2147483647"], {"n_predict": 10**9}),
])  # fmt: skip
def test_a_recording_that_never_stops_generating_is_refused(engine, flags, request_, tmp_path, lift):
    lift(SAMPLED_TOKENS=300)
    path = trace(tmp_path, flags, [completion(**request_)], engine, "main" if engine[0] == "i" else "b10587")
    with pytest.raises(BadInput) as refused:
        replayed(path)
    assert str(refused.value) == (f"{path}: step 0: the run generates more tokens than it may, "
                                  "at most 300 tokens are allowed (--limit sampled=N allows more)")


def test_what_was_spent_before_a_restart_counts(tmp_path, lift):
    lift(SAMPLED_TOKENS=25)
    steps = [completion(0, n_predict=10), {"i": 1, "op": "restart", "events": []}, completion(2, n_predict=10)]
    assert replayed(trace(tmp_path, ["-c", "256"], steps)).steps == 3
    with pytest.raises(BadInput, match=r"step 4: .*at most 25 tokens"):
        replayed(trace(tmp_path, ["-c", "256"], [*steps, {"i": 3, "op": "restart", "events": []},
                                                 completion(4, n_predict=10)]))  # fmt: skip


def test_the_cold_runs_of_a_judge_are_limited(tmp_path, lift):
    scenario = from_line("S300.A9/S.B9/S.C9/S.D9", model="AAAA", profiles=(IK,))
    steps = [completion(number, prompt=[5] * 300 + [6 + number], n_predict=1) for number in range(4)]
    recording = trace(tmp_path, ["-c", "512"], steps)
    lift(EXACT_WORK=5_000)
    assert play(scenario, IK, "exact").exact < 5_000 and replayed(recording).steps == 4
    with pytest.raises(RunCutOff, match=r"cold runs do more exact arithmetic .*5,000 work units .*exact=N") as cut_off:
        run_judged(scenario, IK)
    assert len(cut_off.value.run.requests) == 2
    with pytest.raises(BadInput, match="step 2: the cold runs do more"):
        replay(read_trace(recording, engine_of(IK).profiles), "exact", checker())


@pytest.mark.parametrize("profile", ["llama_cpp@b10587", IK, "mlx_lm@d78bf58e"])
def test_new_tokens_are_counted_and_held_ones_are_not(profile):
    log = play(from_line("S40.A60/S.A.B20>5/S.A.B.C3", model="AAAA", profiles=(profile,)), profile, "none")
    assert 100 + 20 + 3 <= log.spent <= 100 + 20 + 5 + 3 + 6            # the last token of a prompt is evaluated again
    assert (log.sampled >= 7, log.exact) == (True, 0)


@pytest.mark.parametrize("profile", ["llama_cpp@b10587", IK, "mlx_lm@d78bf58e"])
@pytest.mark.parametrize("numbers, mode, said", [
    ({"NEW_TOKENS": 99}, "none", "request 0: .*at most 99 tokens are allowed .--limit tokens=N"),
    ({"SAMPLED_TOKENS": 4}, "none", "request 1: .*at most 4 tokens are allowed .--limit sampled=N"),
    ({"PASSES": 5}, "none", "request [01]: .*at most 5 micro-batches are allowed .--limit passes=N"),
    ({"EXACT_WORK": 300}, "exact", "request 0: .*at most 300 work units are allowed .--limit exact=N"),
])  # fmt: skip
def test_every_engine_keeps_every_limit(profile, numbers, mode, said, lift):
    scenario = from_line("S40.A60/S.A.B20>5", model="AAAA", profiles=(profile,))
    lift(**numbers)
    with pytest.raises(BadInput, match=said):
        play(scenario, profile, mode)


@pytest.mark.parametrize("profile", ["llama_cpp@b10587", IK, "mlx_lm@d78bf58e"])
def test_restarts_are_counted(profile, lift):
    scenario = from_line("A4/{restart}/{restart}/{restart}", model="A", profiles=(profile,))
    passes = play(scenario, profile, "none").passes
    assert passes == play(from_line("A4", model="A"), profile, "none").passes + 30
    lift(PASSES=passes - 1)
    with pytest.raises(BadInput, match=rf"request 3: .*at most {passes - 1} micro-batches are allowed"):
        play(scenario, profile, "none")


def test_tokens_for_which_there_was_no_room_are_given_back():
    """The second prompt finds no room for a batch until the first slot is purged."""
    server = {"ctx_size": 256, "parallel": 2, "kv_unified": True}
    log = play(from_line("A200@0/B200@1{together}", model="AA", server=server), "llama_cpp@b10587", "none")
    assert any(event.ev == "kv_full" for event in log.events)
    assert log.spent == 400


def test_what_the_judge_keeps_is_bounded(lift):
    scenario = from_line("A30>r200")
    lift(JUDGED_TOKENS=200)
    with pytest.raises(BadInput, match=r"request 0: what the judge keeps .*at most 200 tokens .*--limit judged=N"):
        run_judged(scenario, "llama_cpp@b10587", "provenance")


def test_a_request_that_comes_long_after_the_server_has_fallen_idle_comes_at_once():
    for profile in ("llama_cpp@b10587", IK, "mlx_lm@d78bf58e"):
        near, far = (play(from_line(f"A3/A.B9>4{{together+{n}}}", profiles=(profile,)), profile, "none")
                     for n in (50, 999_999_999))  # fmt: skip
        assert near.events == far.events


def test_a_server_that_makes_no_progress_is_waited_for_up_to_a_bound(lift):
    """The first request never fits into 64 slots. With 640 it is generated for longer, which is progress."""
    def wait(rounds, slots):
        play(from_line(f"A20>60/B3{{together+{rounds}}}", model="A", server={"max_total_tokens": slots},
                       profiles=("sglang@0.5.23",)), "sglang@0.5.23", "none")  # fmt: skip

    lift(SPINNING=20)
    wait(20, 64), wait(40, 640)
    with pytest.raises(BadInput, match="21 rounds, at most 20 rounds"):
        wait(21, 64)


def test_orders_of_a_group_are_tried_up_to_a_bound(tmp_path, lift):
    """Nine requests that were recorded together and cannot have been."""
    members = [completion(n_predict=20, prompt=list(range(9, 9 + n))) for n in range(3, 12)]
    group = {"i": 0, "op": "parallel", "steps": members, "events": [{"ev": "slot_by_id", "slot": 77}]}
    path = trace(tmp_path, ["-c", "4096", "-np", "4"], [group])
    lift(ORDERS=7)
    found = replayed(path)
    assert (found.steps_agree, found.steps_undecided, found.first) == (0, 1, None)
    assert found.why.startswith("step 0: 7 orders")


@pytest.mark.long
def test_the_limits_can_be_lifted_where_something_runs(tmp_path, capsys):
    path = trace(tmp_path, ["-c", "64"], [completion(n_predict=9)])
    code, _, said = cachesim("replay", str(path), "--limit", "sampled=3")
    assert code == 2 and "at most 3 tokens" in said
    assert cachesim("replay", str(path), "--limit", "sampled=30", "--limit", "orders=1")[0] == 1
