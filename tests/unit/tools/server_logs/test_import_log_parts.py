"""What an import concludes about the server of a log, what it notes as missing, and the scenario file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.limits import REBUILT, SOUGHT
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES, present_name
from cachesim.tools.server_logs.import_log import (
    WITHOUT_PROFILE,
    _assumed_options,
    _by_date,
    _data,
    _engine,
    _file,
    _last_step,
    _least,
    _lost,
    _missing,
    _models,
    _prompts,
    _request,
    _rule_sets,
    import_log,
    read_log,
    rebuild_log,
    simulate_log,
)
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.printed_numbers import Contradiction
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.reconstruction import ReconstructedRequest, Reconstruction
from cachesim.tools.server_logs.session import LogSession
from cachesim.tools.server_logs.statements import Statement
from tests.unit.tools.server_logs.simulated_log import simulated_log

LLAMA = ENGINES["llama_cpp"]
RELEASE = "slot release: id  0 | task 7 | stop processing: n_tokens = 5, truncated = 0\n"
MLX = "Prompt Cache: 3 sequences, 0.5 GB\n"


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a log and returns its path."""

    def written(*lines):
        (tmp_path / "a.log").write_text("".join(lines))
        return tmp_path / "a.log"

    return written


@pytest.mark.parametrize(("lines", "profiles", "name"), [
    ([RELEASE], (), "llama_cpp"), ([RELEASE], ["llama_cpp@b11549"], "llama_cpp"), ([MLX], (), "mlx_lm"),
    (["nothing known\n"], ["vllm@latest"], "vllm"),
    ([MLX, RELEASE], ["llama_cpp@b11549"], "llama_cpp"), ([RELEASE, MLX], ["mlx_lm@latest"], "mlx_lm"),
])  # fmt: skip
def test_the_engine_is_the_given_one_if_it_prints_a_line_or_none_does(log, lines, profiles, name):
    assert _engine(log(*lines), profiles).name == name


@pytest.mark.parametrize(("lines", "profiles", "cause"), [
    ([RELEASE], ["llama_cpp@b11549", "vllm@latest"], "a log belongs to one engine, found rule sets of llama_cpp, vllm"),
    ([RELEASE], ["mlx_lm@latest"], "a log of llama_cpp: mlx_lm prints none of its first lines"),
])  # fmt: skip
def test_rule_sets_of_another_engine_are_refused(log, lines, profiles, cause):
    with pytest.raises(BadInput) as found:
        _engine(log(*lines), profiles)
    assert (found.value.cause, found.value.hint) == (cause, WITHOUT_PROFILE)
    assert found.value.file == str(log(*lines))


def test_the_engine_is_that_of_the_first_ten_thousand_lines(log):
    blank = "nothing known\n"
    assert _engine(log(blank * 9_999, RELEASE), ()).name == "llama_cpp"
    with pytest.raises(BadInput):
        _engine(log(blank * 10_000, RELEASE), ())


def test_a_file_of_another_kind_is_refused(log):
    with pytest.raises(BadInput):
        _engine(log("nothing known\n"), ())


def built(low, high, run=1):
    return Statement("follows", "build", (1,), None, None, {"build": (low, high)}, "", run=run)


@pytest.mark.parametrize(("statements", "profile"), [
    ([built(9231, 9231)], "llama_cpp@b9231"), ([built(9231, 9231, run=2)], None), ([built(9231, 9480)], None),
    ([], None), ([built(1, 1)], None),
])  # fmt: skip
def test_a_printed_build_of_the_main_run_has_its_rules(statements, profile):
    found, unknown = _rule_sets(LLAMA, SimpleNamespace(statements=statements, main=1))
    assert (profile is None or (found, unknown) == ((profile,), ())) and (len(found) == 1) is (profile is not None)


@pytest.mark.parametrize(("date", "found"), [
    ("", []), ("2026-02-07", ["llama_cpp@2026-02-07"]), ("2001-01-01", []),
])  # fmt: skip
def test_a_date_names_the_rules_of_that_day(date, found):
    assert _by_date(LLAMA, LogSession("llama_cpp", date=date)) == found


def row(**fields):
    """Return a request whose fields are also its exact numbers."""
    numbers = {name: ProvenRange(value, value) for name, value in fields.items()
               if name in ("n_tokens", "held", "end") and value is not None}  # fmt: skip
    return LoggedRequest(**fields, numbers=numbers)


FULL = ("A", "GGGA", "S")
WINDOWS = ("W128 A", "W512 A", "W1024 A", "W4096 A", "W32 A", "G W128", "G W32")


def of_window(*sizes, recurrent=False):
    both = ("G W{}", "W{} A", "C W{}") if recurrent else ("W{} A", "G W{}", "C W{}")
    return tuple(text.format(size) for size in sizes for text in both)


@pytest.mark.parametrize(("facts", "requests", "models"), [
    ({}, [], (*FULL, *WINDOWS)), ({"n_swa": 0}, [], FULL), ({"n_swa": 1}, [], FULL),
    ({}, [row(full=True)], ("GGGA", "A", "S", *WINDOWS)), ({}, [row(restored=0)], ("GGGA", "A", "S", *WINDOWS)),
    ({}, [row(lcp=10, cache_n=8)], ("GGGA", "A", "S", *WINDOWS)), ({}, [row(lcp=10, cache_n=9)], (*FULL, *WINDOWS)),
    ({"n_swa": 100}, [], of_window(100)), ({"n_swa": 100, "recurrent_layers": 3}, [], of_window(100, recurrent=True)),
    ({"n_swa": 2}, [], of_window(2)),
    ({}, [row(spans=[(5, 644)])], of_window(128, 640, 512, 32)),
    ({}, [row(checked=[(1, 40, 9)])], of_window(40, 32)),
    ({"n_swa": 1}, [row(spans=[(9, 9)])], ("GGGA", "S")), ({}, [row(checked=[(9, 9, 5)])], ("GGGA", "S")),
    ({"recurrent_layers": 3}, [], ("GGGA", "S")), ({"recurrent_layers": 3, "attention_layers": 0}, [], ("S",)),
    ({"recurrent_layers": 3, "attention_layers": 2}, [], ("GGGA", "S")),
    ({"recurrent_layers": 0}, [], (*FULL, *WINDOWS)),
    ({}, [row(pos_min=8, held=9)], ("GGGA", "S")), ({}, [row(pos_min=7, held=9)], (*FULL, *WINDOWS)),
    ({}, [row(pos_min=0, held=1)], (*FULL, *WINDOWS)),
    ({"dsa": True}, [], ("I2048",)), ({"dsv4": True}, [], ("W128 D4.128 D128.128",)),
    ({"dsv4": True, "n_swa": 64}, [], ("W64 D4.64 D128.64",)),
    ({"dsv4": True, "n_swa": 1}, [], ("W128 D4.128 D128.128",)),
    ({"dsv4": True, "n_swa": 2}, [], ("W2 D4.2 D128.2",)), ({"dsa_iswa": 1, "n_swa": "x"}, [], ("W128 I2048",)),
])  # fmt: skip
def test_models_follow_from_the_memory_that_a_log_shows(facts, requests, models):
    assert _models(SimpleNamespace(facts=facts, requests=requests)) == models


@pytest.mark.parametrize(("request_", "is_lost"), [
    (row(lcp=10, cache_n=8), True), (row(lcp=10, cache_n=9), False), (row(lcp=10), False), (row(cache_n=0), False),
    (row(f_sim=0.5, n_tokens=100, chosen="lcp", cache_n=47), True),
    (row(f_sim=0.5, n_tokens=100, chosen="lcp", cache_n=48), False),
    (row(f_sim=0.5, n_tokens=100, chosen="lru", cache_n=0), False), (row(f_sim=0.5, chosen="lcp", cache_n=0), False),
    (row(n_tokens=100, chosen="lcp", cache_n=0), False),
])  # fmt: skip
def test_tokens_are_lost_if_fewer_than_all_but_one_of_the_shared_ones_are_reused(request_, is_lost):
    assert _lost(request_) is is_lost


def named(*slots):
    return [SimpleNamespace(slot=slot, task=None, kind="") for slot in slots]


@pytest.mark.parametrize(("requests", "slots", "found"), [
    ([], [], {"n_slots": 1, "needed": 0}), ([], [None, 2, 1], {"n_slots": 3, "needed": 0}),
    ([row(slot=4)], [2], {"n_slots": 5, "needed": 0}),
    ([row(n_tokens=50), row(held=70, end=60), row(seen=10)], [], {"n_slots": 1, "needed": 70}),
    ([row(seen=80, held=70)], [], {"n_slots": 1, "needed": 80}),
    ([LoggedRequest(numbers={"end": ProvenRange(50, 90)})], [], {"n_slots": 1, "needed": 90}),
    ([LoggedRequest(numbers={"end": ProvenRange(50, None)})], [], {"n_slots": 1, "needed": 50}),
])  # fmt: skip
def test_a_server_has_the_slots_and_the_context_that_its_lines_need(requests, slots, found):
    assert _least(LogSession("llama_cpp", requests, read_lines=named(*slots))) == found


def session(*requests, kinds=("prompt_time", "batch"), beyond=0, engine="llama_cpp"):
    return LogSession(engine, list(requests), kinds=dict.fromkeys(kinds, 1), beyond=beyond)


def played(*steps, **more):
    requests = [ReconstructedRequest(row(), step=step, n_tokens=5, is_bounded=True) for step in steps]
    return Reconstruction("llama_cpp@b11549", "A", {}, requests, **more)


NO_TRACE = "no line is about checkpoints or the prompt cache: a server started with -lv 4 logs them"
NO_TIME = "the log has no timings: evaluated tokens are known only from batches or checkpoints"
MIDDLE = "the log starts in the middle of a request"
NO_REUSE = "the log lacks the number of reused tokens: start the server with --log-level DEBUG"
WHOLE = {"is_whole": True, "cache_n": 0}


@pytest.mark.parametrize(("read", "found", "notes"), [
    (session(), None, []), (session(row(**WHOLE)), None, []), (session(row(cache_n=0)), None, [MIDDLE]),
    (session(row(**WHOLE), kinds=["prompt_time"]), None, [NO_TRACE]),
    (session(row(**WHOLE), kinds=["batch"]), None, [NO_TIME]), (session(kinds=[]), None, []),
    (session(row(**WHOLE), kinds=["release"]), None, [NO_TRACE, NO_TIME]),
    (session(row(is_whole=True, is_named=False)), None, [NO_REUSE]), (session(row(is_whole=True)), None, []),
    (session(row(**WHOLE, is_named=False), kinds=[]), None, []),
    (session(row(**WHOLE), row(**WHOLE)), played(0, 1), []),
    (session(row(**WHOLE)), played(1), ["1 request at the start of the scenario: what the slot held before the log "
                                        "begins"]),
    (session(row(**WHOLE), row(**WHOLE)), played(2, -1), ["2 requests at the start of the scenario: what the slot held "
                                                          "before the log begins"]),
    (session(row(**WHOLE), row(**WHOLE)), played(-1, 0), []), (session(row(**WHOLE)), played(-1), []),
    (session(row(**WHOLE), beyond=4), played(0),
     [f"only the first 1 of 5 requests were simulated ({SOUGHT.option} simulates more)"]),
    (session(row(**WHOLE)), None, []),
])  # fmt: skip
def test_what_a_report_lacks_is_noted(read, found, notes):
    assert [*_missing(read, found)] == notes


def test_the_limit_on_simulated_requests_is_named(monkeypatch):
    monkeypatch.setattr(REBUILT, "now", 1)
    notes = [*_missing(session(row(**WHOLE), beyond=4), played(0))]
    assert notes == [f"only the first 1 of 5 requests were simulated ({REBUILT.option} simulates more)"]


def test_a_server_without_request_lines_is_explained():
    [note] = _missing(session(engine="vllm", kinds=[]), None)
    assert note == ENGINES["vllm"].log().nameless != ""


@pytest.mark.parametrize(("name", "file", "id_"), [
    ("mine", "a.log", "mine"), ("", "My Log_7.txt", "import-my-log-7"), ("", "--x--.log", "import-x"),
    ("", "..log", "import-log"), ("", "\u4e09" * 9 + ".log", "import-log"),
    ("", "x" * 90 + ".log", "import-" + "x" * 73),
])  # fmt: skip
def test_the_id_of_a_scenario_is_its_name_or_that_of_the_log(name, file, id_):
    text = _file(Path(file), LLAMA, played(line="A5"), name)
    assert text.startswith(f'schema = 2\nid = "{id_}"\ntitle = "imported from {ascii(file)[1:-1]}'[:140])


def why(found):
    [line] = [line for line in _file(Path("a.log"), LLAMA, found, "").splitlines() if line.startswith("why")]
    return line


MADE = "Reconstructed from a log of llama.cpp: lengths and branches are logged, words invented."


def test_the_scenario_lists_assumptions_and_contradicted_lines():
    assert why(played(0, line="A5")) == f'why = "{MADE}"'
    found = played(0, -1, 1, line="A5/B6")
    for number, request in enumerate(found.requests):
        request.assumed = f"guess {number}"
    assert why(found) == f'why = "{MADE} Assumed: request 0: guess 0; request 1: guess 2."'
    found.requests[2].contradicted = [Contradiction(30 + at, "batch", {}, None) for at in range(21)]
    lines = ", ".join(str(30 + at) for at in range(20))
    assert why(found).endswith(f'guess 2. Not reproduced: the simulation prints other numbers than the log ({lines})."')


def test_a_scenario_that_reuses_other_tokens_says_so():
    found = played(0, line="A5")
    found.requests[0].logged, found.requests[0].simulated_n = row(cache_n=3), 1
    assert why(found).endswith('Not reproduced: the simulation prints other numbers than the log (reused tokens)."')


def test_at_most_twenty_assumptions_are_listed():
    found = played(*range(21), line="/".join(["A5"] + ["A"] * 20))
    for request in found.requests:
        request.assumed = "guess"
    assert why(found).endswith('request 18: guess; request 19: guess."')


def test_options_that_the_search_chose_are_assumed():
    found = Reconstruction("llama_cpp@b11549", "A", {"parallel": 2, "ctx_size": 512})
    facts = SimpleNamespace(sources={"parallel": "printed", "ctx_size": "assumed"})
    assert _assumed_options(found, facts) == {"ctx_size": 512}
    assert _assumed_options(None, facts) == _assumed_options(found, None) == {}


def test_logs_share_the_work_budget(log, monkeypatch):
    budgets = []
    monkeypatch.setattr("cachesim.tools.server_logs.import_log.solve", lambda *given: budgets.append(given[-1]))
    read = read_log(log(RELEASE))
    simulate_log(read, server=None, model="", profiles=())
    simulate_log(read, logs=3, server=None, model="", profiles=())
    main(["import", str(read.path), str(read.path), "-q"])
    assert budgets == [SOUGHT.now, SOUGHT.now // 3, SOUGHT.now // 2, SOUGHT.now // 2]


def test_a_given_rule_set_and_model_are_the_only_candidates(log, monkeypatch):
    spaces = []
    monkeypatch.setattr("cachesim.tools.server_logs.import_log.solve", lambda read, space, most: spaces.append(space))
    import_log(log(RELEASE), ["llama_cpp@b9231"], "GGGA", {"ubatch_size": 64})
    import_log(log(RELEASE))
    given, free = spaces
    assert (given.profiles, given.models, given.server["ubatch_size"]) == (("llama_cpp@b9231",), ("GGGA",), 64)
    assert free.profiles[0] == present_name("llama_cpp") and free.models == (*FULL, *WINDOWS)
    assert "ubatch_size" in free.options and "ubatch_size" not in given.options
    assert [*free.joint] == ["ubatch_size"] and [*given.joint] == []


@pytest.mark.parametrize(("lines", "profiles"), [
    ([RELEASE], [present_name("llama_cpp")]),
    (["build: 9231 (0123abc) with cc (Debian) for x86_64-linux-gnu\n", RELEASE], ["llama_cpp@b9231"]),
])  # fmt: skip
def test_the_newest_rules_are_tried_first_unless_the_printed_build_excludes_them(log, monkeypatch, lines, profiles):
    spaces = []
    monkeypatch.setattr("cachesim.tools.server_logs.import_log.solve", lambda read, space, most: spaces.append(space))
    import_log(log(*lines))
    assert [*spaces[0].profiles[:1]] == profiles
    assert (len(spaces[0].profiles) == 1) is (len(lines) == 2)


def test_a_build_without_a_table_of_its_own_has_the_rules_in_force():
    found, unknown = _rule_sets(LLAMA, SimpleNamespace(statements=[built(9300, 9300)], main=1))
    assert (found, unknown) == (("llama_cpp@b9300",), ())


@pytest.mark.parametrize(("is_known", "slot"), [(True, 3), (False, None)])
def test_a_slot_that_is_not_known_is_not_reported(is_known, slot):
    found = played(0)
    found.requests[0].logged = row(slot=3, task=7, is_slot_known=is_known, lines=(4, 9))
    data = _request(found, 0)
    assert (data["slot"], data["task"], data["lines"], data["request"]) == (slot, 7, [4, 9], 0)


def test_a_line_that_all_candidates_contradict_is_reported_as_such_if_all_were_tried(log):
    read = read_log(log(RELEASE))
    found = played(0, unmet={5})
    found.requests[0].contradicted = [Contradiction(line, "a batch", {"p0": 1}, None) for line in (5, 6)]
    found.requests[0].logged = row(n_tokens=5)
    assert [(one["line"], one["by_all"]) for one in _data(read, found, False, False)["contradicted"]] == [
        (5, True), (6, False)]  # fmt: skip
    found.untried_requests.add(0)
    assert [one["by_all"] for one in _data(read, found, False, False)["contradicted"]] == [False, False]


def test_a_log_that_is_only_read_has_no_given_rule_set_and_no_model(log):
    data = read_log(log(RELEASE)).as_data()
    assert (data["profile_given"], data["model_given"], data["profile"], data["model"]) == (False, False, "", "")


def test_the_texts_of_a_log_are_quoted_only_if_that_is_asked_for(log):
    file = log(simulated_log("A60>a9", "A", 4), 'srv log_server_r: request: {"prompt": "a question"}\n')
    plain = rebuild_log(file, ["llama_cpp@b11549"], "A")
    quoted = rebuild_log(file, ["llama_cpp@b11549"], "A", with_text=True)
    assert plain.text and "a question" not in plain.text
    assert quoted.text.startswith(plain.text) and quoted.text.endswith('prompt: "a question"\n')


def test_a_title_has_at_most_120_characters():
    text = _file(Path("x" * 150 + ".log"), LLAMA, played(line="A5"), "")
    assert f'title = "imported from {"x" * 106}"' in text.splitlines()


def test_hints_come_from_requests_of_known_length():
    session = LogSession("llama_cpp", [LoggedRequest(n_tokens=9, cache_n=4, created=(5,)), LoggedRequest(cache_n=3)])
    assert _prompts(session) == [(9, 4, (5,))]


def test_a_turn_of_the_data_says_what_was_evaluated(log):
    found = rebuild_log(log(simulated_log("A60>a9/A.a.B20>b5", "A", 4)), ["llama_cpp@b11549"], "A")
    assert [[*turn] for turn in found.data["turns"]] == [
        ["number", "how", "lcp", "evaluated", "lost", "n_tokens"]] * len(found.data["turns"])  # fmt: skip
    assert [turn["evaluated"] for turn in found.data["turns"]][-1] == 21


def test_requests_that_differ_are_counted_unless_the_search_left_them_open(log):
    found = played(0, 1, 2, 3)
    for request, simulated in zip(found.requests, (3, 4, 4, 4), strict=True):
        request.logged, request.simulated_n = row(n_tokens=5, cache_n=3), simulated
    found.untried_requests.add(3)
    data = _data(read_log(log(RELEASE)), found, False, False)
    assert (data["agree"], data["differ"], data["undecided"]) == (1, 2, 1)


@pytest.mark.parametrize(("steps", "size"), [
    ([512], (512, False)), ([508], (508, False)), ([600, 512], (516, False)), ([600, 508], (512, True)),
    ([600, 500], (500, False)), ([9, 512, 600], (600, False)), ([512, 600], (600, False)),
])  # fmt: skip
def test_the_last_step_of_a_prompt_is_a_batch_without_its_end_or_a_micro_batch(steps, size):
    """The end has 4 tokens; a step of 508 tokens is that of a batch of 512, if another batch was before it."""
    assert _last_step(steps, 4) == size
