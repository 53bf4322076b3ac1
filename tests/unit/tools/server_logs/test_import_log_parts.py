"""What an import concludes about the server of a log, what it notes as missing, and the scenario file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.limits import lift
from cachesim.engines.registry import ENGINES, present_name
from cachesim.tools.server_logs import import_log as module
from cachesim.tools.server_logs.facts.conclusions import conclude
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.import_log import LogReading, import_log, read_log, rebuild_log, simulate_log
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.report.log_contents import log_contents
from tests.unit.tools.server_logs.records import logged, read_line
from tests.unit.tools.server_logs.simulated_log import simulated_log

RELEASE = "slot release: id  0 | task 7 | stop processing: n_tokens = 5, truncated = 0\n"
MLX = "Prompt Cache: 3 sequences, 0.5 GB\n"
FIRST_ONLY = {"sought": 1}   # work budget of the first candidate


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a log and returns its path."""

    def written(*lines):
        (tmp_path / "a.log").write_text("".join(lines))
        return tmp_path / "a.log"

    return written


def reading(*requests, file="a.log", engine="llama_cpp", **more):
    """Return the reading of a log with these requests."""
    session, grammar = LogSession(engine, list(requests), **more), grammars()[engine]
    return LogReading(Path(file), ENGINES[engine], session, conclude(session), log_contents(session, grammar))


def report(*requests, profiles=(), model="", server=None, name="", **more):
    """Return the import of a log with these requests."""
    return simulate_log(reading(*requests, **more), profiles, model, server, name)


def row(**fields):
    """Return the first request of a server."""
    return logged(**{"n_tokens": 50, "task": 0, "is_whole": True, **fields})


@pytest.mark.parametrize(("lines", "profiles", "name"), [
    ([RELEASE], (), "llama_cpp"), ([RELEASE], ["llama_cpp@b11549"], "llama_cpp"), ([MLX], (), "mlx_lm"),
    ([MLX, RELEASE], ["llama_cpp@b11549"], "llama_cpp"), ([RELEASE, MLX], ["mlx_lm@latest"], "mlx_lm"),
])  # fmt: skip
def test_the_engine_is_the_given_one_if_it_prints_a_line(log, lines, profiles, name):
    assert read_log(log(*lines), profiles).engine.name == name


@pytest.mark.parametrize(("lines", "profiles", "named"), [
    ([RELEASE], ["llama_cpp@b11549", "vllm@latest"], "vllm"), ([RELEASE], ["mlx_lm@latest"], "mlx_lm"),
    (["nothing known\n"], (), ""), (["nothing known\n"], ["vllm@latest"], "not a known")])  # fmt: skip
def test_rule_sets_of_another_engine_and_other_files_are_refused(log, lines, profiles, named):
    with pytest.raises(BadInput) as found:
        read_log(log(*lines), profiles)
    assert named in found.value.cause and found.value.file == str(log(*lines))


def test_the_engine_is_that_of_the_first_lines(log, monkeypatch):
    monkeypatch.setattr(module, "HEAD", 2)                            # 50 lines
    assert read_log(log("nothing known\n" * 49, RELEASE)).engine.name == "llama_cpp"
    with pytest.raises(BadInput):
        read_log(log("nothing known\n" * 50, RELEASE))


@pytest.mark.parametrize(("lines", "profile"), [
    ([], present_name("llama_cpp")),
    (["build: 9231 (0123abc) with cc (Debian) for x86_64-linux-gnu\n"], "llama_cpp@b9231"),
    (["build: 9300 (0123abc) with cc (Debian) for x86_64-linux-gnu\n"], "llama_cpp@b9300"),
    (["build: 1 (0123abc) with cc (Debian) for x86_64-linux-gnu\n"], present_name("llama_cpp")),
])  # fmt: skip
def test_the_newest_rules_are_tried_first_unless_the_printed_build_excludes_them(log, lines, profile):
    lift(FIRST_ONLY)
    start = "slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = 50\n"
    found, _ = import_log(log(*lines, start, RELEASE.replace("task 7", "task 0")))
    assert (found["profile"], found["profile_given"]) == (profile, False)


def test_the_build_is_that_of_the_server_run_with_the_most_requests(log):
    lift(FIRST_ONLY)
    launch = "slot update_slots: id  0 | task {} | new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = 50\n"
    builds = [f"build: {build} (0123abc) with cc (Debian) for x86_64-linux-gnu\n" for build in (9231, 9473)]
    found, _ = import_log(log(builds[0], *map(launch.format, (0, 4)), builds[1], launch.format(0)))
    assert found["profile"] == "llama_cpp@b9231"
    found, _ = import_log(log(builds[0], launch.format(0), builds[1], *map(launch.format, (0, 4))))
    assert found["profile"] == "llama_cpp@b9473"


def test_a_given_rule_set_model_and_option_are_the_only_candidates():
    """The second request resumes at a checkpoint, a micro-batch of 512 tokens before the end of the first prompt."""
    lift({"sought": 3_000})
    requests = row(n_tokens=1000, cache_n=0), row(task=1, n_tokens=1000, cache_n=484, lcp=950, lines=(2, 3))
    free = report(*requests).data
    assert (free["model"], free["agree"], free["profile"]) == ("GGGA", 2, present_name("llama_cpp"))
    given = report(*requests, profiles=["llama_cpp@b9231"], model="A", server={"ubatch_size": 64}).data
    assert (given["profile"], given["model"], given["server"]["ubatch_size"]) == ("llama_cpp@b9231", "A", 64)
    assert (given["profile_given"], given["model_given"], given["agree"]) == (True, True, 1)


@pytest.mark.parametrize(("facts", "request_", "model"), [
    ({}, row(), "A"), ({"n_swa": 0}, row(), "A"), ({"n_swa": 1}, row(), "A"), ({}, row(full=True), "GGGA"),
    ({}, row(restored=0), "GGGA"), ({}, row(lcp=10, cache_n=8), "GGGA"), ({}, row(lcp=10, cache_n=9), "A"),
    ({}, row(f_sim=0.5, n_tokens=100, chosen="lcp", cache_n=47), "GGGA"),
    ({}, row(f_sim=0.5, n_tokens=100, chosen="lcp", cache_n=48), "A"),
    ({}, row(f_sim=0.5, n_tokens=100, chosen="lru", cache_n=0), "A"),
    ({"n_swa": 100}, row(), "W100 A"), ({"n_swa": 2}, row(), "W2 A"),
    ({"n_swa": 100, "recurrent_layers": 3}, row(), "G W100"),
    ({}, row(spans=[(5, 644)]), "W128 A"), ({}, row(checked=[(1, 40, 9)]), "W40 A"),
    ({}, row(spans=[(0, 1535)]), "W1024 A"), ({}, row(spans=[(0, 255)]), "W256 A"),
    ({"n_swa": 1}, row(spans=[(9, 9)]), "GGGA"), ({}, row(checked=[(9, 9, 5)]), "GGGA"),
    ({"recurrent_layers": 3}, row(), "GGGA"), ({"recurrent_layers": 3, "attention_layers": 0}, row(), "S"),
    ({"recurrent_layers": 0}, row(), "A"),
    ({}, row(pos_min=8, held=9), "GGGA"), ({}, row(pos_min=7, held=9), "A"), ({}, row(pos_min=0, held=1), "A"),
    ({"dsa": True}, row(), "I2048"), ({"dsv4": True}, row(), "W128 D4.128 D128.128"),
    ({"dsv4": True, "n_swa": 64}, row(), "W64 D4.64 D128.64"), ({"dsa_iswa": 1, "n_swa": "x"}, row(), "W128 I2048"),
])  # fmt: skip
def test_the_most_likely_model_follows_from_the_memory_that_a_log_shows(facts, request_, model):
    """A memory with a window has up to a micro-batch of 512 tokens more than the window."""
    lift(FIRST_ONLY)
    found = report(request_, facts=facts)
    assert found.data["model"] == model and found.data["model_given"] is False


@pytest.mark.parametrize(("requests", "slots", "found"), [
    ([row()], [None, 2, 1], (3, None)), ([row(slot=4)], [2], (5, None)),
    ([row(n_tokens=3000), row(held=5000, end=3000, task=1), row(seen=10, task=2)], [], (1, 16_384)),
    ([row(end=5000)], [], (1, 16_384)), ([row(seen=9000, held=7000)], [], (1, 32_768)),
    ([row(end=(5000, 9000))], [], (1, 32_768)), ([row(n_tokens=50)], [], (1, 4096)),
])  # fmt: skip
def test_a_server_has_the_slots_and_the_context_that_its_lines_need(requests, slots, found):
    """The context is a power of two, more than twice as large as the largest number of tokens in a slot."""
    lift(FIRST_ONLY)
    lines = [read_line("idle", number, slot=slot) for number, slot in enumerate(slots, 1)]
    server = report(*requests, read_lines=lines).data["server"]
    assert server["parallel"] == found[0] and found[1] in (None, server["ctx_size"])


NOTES = {"trace": "-lv 4", "timings": "timings", "middle": "middle", "reuse": "DEBUG", "before": "before the log",
         "sought": "--limit sought=N", "rebuilt": "--limit rebuilt=N"}  # fmt: skip
"""Notes of a report, each with words that it has."""


def notes(found):
    return [next(name for name, words in NOTES.items() if words in note) for note in found.data["missing"]]


@pytest.mark.parametrize(("requests", "more", "found"), [
    ([row(cache_n=0)], {}, []), ([row(cache_n=0, is_whole=False)], {}, ["middle"]),
    ([row(cache_n=0)], {"kinds": {"prompt_time": 1}}, ["trace"]), ([row(cache_n=0)], {"kinds": {"batch": 1}},
                                                                   ["timings"]),
    ([row(cache_n=0)], {"kinds": {"release": 1}}, ["trace", "timings"]),
    ([row(is_named=False)], {}, ["reuse"]), ([row(is_named=False, cache_n=0)], {"kinds": {}}, []),
    ([row(task=5, held=20, lcp=20, cache_n=20)], {}, ["before"]), ([row(cache_n=0)], {"beyond": 4}, ["sought"]),
])  # fmt: skip
def test_what_a_report_lacks_is_noted(requests, more, found):
    assert notes(report(*requests, **{"kinds": {"prompt_time": 1, "batch": 1}, **more})) == found


def test_the_limit_on_simulated_requests_is_named_with_both_numbers():
    lift({"rebuilt": 1})
    found = report(row(cache_n=0), row(cache_n=0, task=1), kinds={"prompt_time": 1, "batch": 1}, beyond=4)
    assert notes(found) == ["rebuilt"] and " 1 of 6 " in found.data["missing"][0]


def test_a_search_that_stopped_early_is_noted_with_what_it_did_not_try():
    lift({"sought": 400})
    found = report(row(cache_n=0), row(cache_n=50, task=1), kinds={"prompt_time": 1, "batch": 1})
    assert notes(found) == ["sought"] and found.data["complete"] is False
    assert (found.data["undecided"], found.data["differ"], found.data["agree"]) == (1, 0, 1)
    assert all(name in found.data["missing"][0] for name in found.found.untried_settings)


def test_a_server_without_request_lines_is_explained():
    assert report(engine="vllm").data["missing"] == [ENGINES["vllm"].log().nameless] != [""]


@pytest.mark.parametrize(("name", "file", "id_"), [
    ("mine", "a.log", "mine"), ("", "My Log_7.txt", "import-my-log-7"), ("", "--x--.log", "import-x"),
    ("", "..log", "import-log"), ("", "\u4e09" * 9 + ".log", "import-log"),
    ("", "x" * 90 + ".log", "import-" + "x" * 73),
])  # fmt: skip
def test_the_id_of_a_scenario_is_its_name_or_that_of_the_log(name, file, id_):
    made = tomllib.loads(report(row(cache_n=0), name=name, file=file).text)
    assert (made["schema"], made["id"]) == (2, id_) and len(made["title"]) <= 120
    assert file[:90] in made["title"]


def test_the_scenario_lists_assumptions_and_contradicted_lines(log):
    lines = simulated_log("S900.|A700>a40/T2000>t9", verbosity=4).splitlines(keepends=True)
    plain = rebuild_log(log(*lines), ["llama_cpp@b11549"], "GGGA")
    why = tomllib.loads(plain.text)["why"]
    assert all(one["assumed"] in why for one in plain.data["requests"]) and "900" in why
    at = next(at for at, line in enumerate(lines) if "cache state: " in line)
    lines[at] = lines[at].replace("cache state: ", "cache state: 7")
    found = rebuild_log(log(*lines), ["llama_cpp@b11549"], "GGGA")
    contradicted = [one["line"] for one in found.data["contradicted"]]
    assert contradicted[0] == at + 1 and all(one["by_all"] for one in found.data["contradicted"])
    lift(FIRST_ONLY)
    early = rebuild_log(log(*lines)).data["contradicted"]
    assert early and not any(one["by_all"] for one in early)
    listed = f"({', '.join(map(str, contradicted))})"
    assert listed in tomllib.loads(found.text)["why"] and listed not in why


def test_at_most_twenty_assumptions_are_listed():
    found = report(*(row(cache_n=0, task=task + 5, is_whole=False) for task in range(22)))
    why = tomllib.loads(found.text)["why"]
    assert all(one["assumed"] for one in found.data["requests"]) and "request 19:" in why and "request 20:" not in why


def test_options_that_the_search_chose_are_assumed():
    lift({"sought": 3_000})
    found = report(row(cache_n=50), model="A").data
    assert {*found["assumed_options"]} == {*found["server"]} - {"parallel", "ctx_size"}
    assert report(row(cache_n=0)).data["assumed_options"] == {}


def test_several_logs_share_the_work_budget():
    lift({"sought": 3_000})
    read = reading(*(row(cache_n=0, task=task, predicted_n=500) for task in range(9)))
    alone, shared = (simulate_log(read, (), "A", None, logs=logs).data for logs in (1, 3))
    assert len(alone["requests"]) > len(shared["requests"]) > 0


@pytest.mark.parametrize(("is_known", "slot"), [(True, 3), (False, None)])
def test_a_slot_that_is_not_known_is_not_reported(is_known, slot):
    [data] = report(row(slot=3, task=7, is_slot_known=is_known, lines=(4, 9))).data["requests"]
    assert (data["slot"], data["task"], data["lines"], data["request"]) == (slot, 7, [4, 9], 0)


def test_a_request_that_was_left_out_has_no_number():
    requests = [row(cache_n=0, task=task, lines=(task + 1, task + 2), is_refused=task == 3) for task in (0, 3, 7)]
    found = report(*requests).data["requests"]
    assert [(one["request"], one["left_out"] != "") for one in found] == [(0, False), (None, True), (1, False)]


def test_a_log_that_is_only_read_has_no_given_rule_set_and_no_model(log):
    data = read_log(log(RELEASE)).as_data()
    assert (data["profile_given"], data["model_given"], data["profile"], data["model"]) == (False, False, "", "")


def test_the_texts_of_a_log_are_quoted_only_if_that_is_asked_for(log):
    file = log(simulated_log("A60>a9", "A", 4), 'srv log_server_r: request: {"prompt": "a question"}\n')
    plain = rebuild_log(file, ["llama_cpp@b11549"], "A")
    quoted = rebuild_log(file, ["llama_cpp@b11549"], "A", with_text=True)
    assert plain.text and "a question" not in plain.text
    assert quoted.text.startswith(plain.text) and quoted.text.endswith('"a question"\n')


def test_a_turn_of_the_data_says_what_was_evaluated(log):
    found = rebuild_log(log(simulated_log("A60>a9/A.a.B20>b5", "A", 4)), ["llama_cpp@b11549"], "A")
    assert [turn["evaluated"] for turn in found.data["turns"]][-1] == 21


def test_requests_that_differ_are_counted():
    data = report(row(cache_n=0), row(cache_n=50, task=1), profiles=["llama_cpp@b11549"], model="A").data
    assert (data["agree"], data["differ"], data["undecided"]) == (1, 1, 0)
