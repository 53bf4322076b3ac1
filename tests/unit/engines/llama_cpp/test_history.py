"""Rules of the older builds: each profile has those of the history document, and the server evaluates all of them."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest

from cachesim.engines.llama_cpp.profiles import BESIDE, LINE, PROFILES
from cachesim.engines.llama_cpp.profiles.between import BETWEEN
from cachesim.engines.llama_cpp.rules import checkpoint_restore
from cachesim.engines.rule import RULES
from cachesim.engines.shared.rule_set import differences
from cachesim.judging.judged_run import run_judged
from cachesim.replay.replay import records
from cachesim.scenarios.load import load
from tests.unit.engines.llama_cpp.talk import Talk, word

SCENARIOS = Path(__file__).resolve().parents[4] / "scenarios" / "llama_cpp"
RULE_FILES = sorted(Path(checkpoint_restore.__file__).parent.glob("*.py"))
# History document, section 3: build, TH, PK, RE, ER, break and creation of CR, RM.
TABLE = {
    "b1573": ("b1573", "TH-NEG", "PK0", "RE0", "ER0", "WHOLE", "NEVER", "RM0"),
    "b2781": ("b2781", "TH-NEG", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b3642": ("b3642", "TH-NEG", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b4094": ("b4094", "TH-NEG", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b4265": ("b4265", "TH-NEG", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b4579": ("b4579", "TH-NEG", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b5308": ("b5308", "TH-NEG", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b5340": ("b5340", "TH-NEG", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b5554": ("b5554", "TH-NEG", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b5630": ("b5630", "TH-NEG", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b5735": ("b5735", "TH0", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b5833": ("b5833", "TH0", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b5913": ("b5913", "TH0", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b6110": ("b6110", "TH0", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b6160": ("b6160", "TH0", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b6388": ("b6388", "TH0", "PK0", "RE0", "ER0", "CR0", "NEVER", "RM0"),
    "b6685": ("b6685", "TH1", "PK1", "RE1", "ER1-NEWEST", "CR0", "NEVER", "RM1"),
    "b6740": ("b6740", "TH1", "PK1", "RE1", "ER1", "CR2", "CR2", "RM1"),
    "b6914": ("b6914", "TH1", "PK1", "RE1", "ER1", "CR2", "CR2", "RM1"),
    "b6998": ("b6998", "TH1", "PK1", "RE1", "ER1", "CR2", "CR2", "RM1"),
    "b7400": ("b7400", "TH1", "PK1", "RE1", "ER1", "CR2", "CR2", "RM2"),
    "b7789": ("b7789", "TH1", "PK1", "RE1", "ER1", "CR2", "CR2", "RM2"),
    "b8152": ("b8152", "TH1", "PK1", "RE2", "ER1", "CR3", "CR2", "RM2"),
    "b8260": ("b8260", "TH1", "PK1", "RE4", "ER1", "CR3", "CR4", "RM2"),
    "b8271": ("b8271", "TH1", "PK1", "RE4", "ER1", "CR5", "CR5", "RM2"),
    "b8392": ("b8392", "TH1", "PK1", "RE4", "ER1", "CR5", "CR5", "RM2"),
    "b8450": ("b8450", "TH2", "PK1", "RE4", "ER2", "CR5", "CR6", "RM2"),
    "b8916": ("b8916", "TH2", "PK2", "RE4", "ER2", "CR5", "CR6", "RM2"),
    "b9063": ("b9063", "TH2", "PK2", "RE4", "ER2", "CR5", "CR6", "RM2"),
    "b9230": ("b9230", "TH2", "PK2", "RE4", "ER2", "CR5", "CR6", "RM3"),
    "b9231": ("b9231", "TH3", "PK2", "RE4", "ER2", "CR5", "CR6", "RM3"),
    "b9473": ("b9473", "TH3", "PK2", "RE4", "ER2", "CR7", "CR7", "RM3"),
    "b9518": ("b9518", "TH4", "PK2", "RE4", "ER2", "CR7", "CR7", "RM3"),
    "b9765": ("b9765", "TH4", "PK3", "RE4", "ER2", "CR8", "CR8", "RM3"),
    "b10587": ("b10587", "TH4", "PK3", "RE4", "ER2", "CR10", "CR10", "RM3"),
    "b10809": ("b10809", "TH4", "PK3", "RE4", "ER2", "CR10", "CR10", "RM3"),
    "b11063": ("b11063", "TH4", "PK3", "RE4", "ER2", "CR10", "CR10", "RM3"),
    "b11312": ("b11312", "TH4", "PK3", "RE4", "ER2", "CR10", "CR10", "RM3"),
    "b11549": ("b11549", "TH4", "PK3", "RE4", "ER2", "CR10", "CR10", "RM3"),
}
COLUMNS = ("ckpt_need", "ckpt_pick", "ckpt_restore", "ckpt_erase", "ckpt_break", "ckpt_create", "rs_rm")


def profile(name):
    return PROFILES[f"llama_cpp@{name}"]


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_the_history_document(name):
    rules = profile(name)
    assert (rules.build, *(getattr(rules, f).rule.partition(".")[2] for f in COLUMNS)) == TABLE[name]


def test_the_line_is_in_order_of_build_and_holds_every_profile():
    assert [name.partition("@")[2] for name in LINE][: len(TABLE)] == list(TABLE), "the document ends there"
    assert {*LINE, *BESIDE} == set(PROFILES)
    builds = [int(PROFILES[name].build[1:]) for name in LINE]
    assert builds == sorted(builds)


def test_neighbours_differ_except_where_the_history_says_they_do_not():
    same = [(a, b) for a, b in pairwise(LINE) if not differences(PROFILES[a], PROFILES[b])]
    assert same == [("llama_cpp@b8271", "llama_cpp@b8392")]


def test_no_profile_has_a_boolean_or_compares_versions():
    values = [getattr(rules, f.name) for rules in PROFILES.values() for f in fields(rules)]
    assert not any(isinstance(value, bool) for value in values)


@pytest.mark.parametrize("name, limit, similarity", [
    ("b6160", 3, 0.5), ("b6685", 3, 0.1), ("b7789", 8, 0.1), ("b8152", 8, 0.1),
    ("b8260", 32, 0.1),
])
def test_defaults_of_flags(name, limit, similarity):
    from cachesim.engines.llama_cpp import start
    from cachesim.events import Log

    server = start(f"llama_cpp@{name}", "GGGA", {"ctx_size": 256}, "none", Log())
    assert (server.core.settings.max_checkpoints, server.core.settings.sps) == (limit, similarity)


def test_the_first_build_takes_a_slot_for_half_of_its_own_content_and_later_ones_for_a_tenth():
    """Read in 4227c9be4 (b6170): the share of the slot's tokens, above 0.5 by default. 40 of 100 tokens are common."""
    from cachesim.engines.base import Request
    from cachesim.engines.llama_cpp import start
    from cachesim.events import Log

    def chosen(name):
        server = start(f"llama_cpp@{name}", "AAAA", {"ctx_size": 512, "parallel": 2}, "none", Log())
        for tail in ("B", "C"):
            answer = server.complete(Request((*word("A", 40), *word(tail, 60)), 1))
        return answer.cache_n

    assert (chosen("b6160"), chosen("b6685")) == (0, 40)


@pytest.mark.parametrize(("model", "status"), [
    ("mamba2", 500), ("lfm2", 500), ("falconh1", 500), ("qwen35", 200),
])
def test_a_token_too_late_fails_with_plain_positions_and_is_wrong_with_m_rope(model, status):
    """As recorded: 23 of 500 answers of models with plain positions; 41 wrong answers of qwen35, without an error."""
    scenario = load(SCENARIOS / "error" / "llama-19924-resume-one-token-late-hybrid.toml")
    run = run_judged(replace(scenario, model=model), "llama_cpp@b8152", "provenance")
    assert [one.answer.status for one in run.requests] == [200, status]
    if status == 200:
        assert run.requests[1].judged.equal_cold is False


MARK = re.compile(r"^# \[(?:New|Modified|Gone) in (llama_cpp@\S+)\]$")


def marks():
    """Return (profile, rule) of every "Gone in" mark."""
    found = []
    for file in RULE_FILES:
        waiting = []
        for line in file.read_text().splitlines():
            if line.startswith("# [Gone"):
                waiting.append(MARK.match(line)[1])
            elif rule := re.match(r'@rule\("([^"]+)"', line):
                found += [(name, rule[1]) for name in waiting]
                waiting = []
    return found


@pytest.mark.parametrize("name, rule", marks(), ids=lambda x: x)
def test_a_rule_is_gone_where_its_mark_says(name, rule):
    """The profile and later profiles lack the rule; if any profile has it, the previous profile does."""
    has = [RULES[rule] in PROFILES[one].fields().values() for one in LINE]
    place = LINE.index(name)
    assert not any(has[place:])
    assert not any(has) or has[place - 1]


def test_every_rule_belongs_to_a_profile_or_says_that_it_lies_between_two():
    used = {fn.rule for rules in PROFILES.values() for fn in rules.fields().values() if callable(fn)}
    unused = {name for name in RULES if name.startswith("LC-")} - used
    assert unused == {
        "LC-CHILDREN.LAST", "LC-CHILDREN.SELECTED", "LC-CKPT-RESTORE.RE3",
    }
    assert unused <= {getattr(row.value, "rule", "") for row in BETWEEN}


def spy(rules, field, asked):
    """Return the table with a rule replaced by a copy that records its calls."""
    fn = getattr(rules, field)

    def noting(*args):
        asked.append(fn(*args).rule)
        return fn(*args)

    return replace(rules, **{field: noting})


QUIET = [
    ("b10587", "ckpt_after"), ("b10587", "ckpt_count"), ("b8152", "ckpt_count"), ("b10587", "ckpt_periodic"),
    ("b10587", "ckpt_replace"), ("b10587", "limit_told"), ("b10587", "erase_told"), ("b6160", "erase_told"),
    ("b6160", "limit_told"), ("b9231", "kv_state"), ("b10587", "pc_ask"), ("b6160", "rs_rm"),
    ("b6685", "rs_rm"), ("b7789", "rs_rm"),
]  # fmt: skip


@pytest.mark.parametrize("name, field", QUIET, ids=[f"{n}-{f}" for n, f in QUIET])
def test_rules_without_a_log_line_are_evaluated(name, field):
    asked = []
    kind = "R" if field == "rs_rm" else "W32 A"
    talk = Talk(kind, rules={field: getattr(spy(profile(name), field, asked), field)}, profile=name, ctx_size=1024,
                ubatch_size=16, ctx_checkpoints=2)  # fmt: skip
    talk.ask(word("A", 130))
    talk.ask(word("A", 130))
    talk.ask(word("B", 400))
    talk.ask(word("A", 100) + word("C", 30))
    assert set(asked) == {getattr(profile(name), field).rule}


def test_unlogged_fields_are_missing_in_recorded_events():
    talk = Talk("W32 A", "b7789", ctx_size=1024, ubatch_size=16)
    events = talk.log.events
    talk.ask(word("A", 130))
    rules = profile("b7789")
    written = records(events, True, rules.silent, False, rules.unlogged)
    made = [one for one in written if one["ev"] == "ckpt_create"]
    assert made == [{"ev": "ckpt_create", "n": 1, "max": 32, "pos_min": 0, "pos_max": 65, "mib": made[0]["mib"]}]
    assert not {one["ev"] for one in written} & rules.silent


def test_tasks_are_not_counted_by_a_line_that_does_not_name_them():
    talk = Talk("A", "b6685")
    talk.ask(word("A", 40))
    start = len(talk.log.events)
    talk.ask(word("A", 40) + word("B", 10))
    older, newer = profile("b6685"), profile("b7789")
    first = [
        records(talk.log.events[start:], True, rules.silent, True, rules.unlogged)[:2] for rules in (older, newer)
    ]
    assert [(one["ev"], one.get("task")) for one in first[0]] == [("slot_by_lcp", 0), ("launch", 1)]
    assert [(one["ev"], one.get("task")) for one in first[1]] == [("slot_by_lcp", None), ("launch", 0)]


def test_changes_between_neighbours_name_what_ended_them():
    found = {c.field: (c.old, c.new, c.source) for c in profile("b9473").changes(profile("b9518"))}
    assert found == {"ckpt_need": ("LC-CKPT-NEED.TH3", "LC-CKPT-NEED.TH4", "#24110")}
    found = {c.field: c.source for c in profile("b8152").changes(profile("b8260"))}
    assert found["ckpt_restore"] == "#19924" and "silent" not in found
    unknown = {
        (a, c.field) for a, b in pairwise(LINE)
        for c in PROFILES[a].changes(PROFILES[b]) if not c.source
    }
    assert {field for _, field in unknown} == {
        "marks", "task_reuse", "rs_back", "kv_fail", "shared",
        "rows_read",                         # between b10587 and b10809: run on b10566 and b10809
        "pool_read", "pool_keys",            # between b11312 and b11549: read in both trees
        "most_images",                       # images in builds before b10587 were not read
        "image_bytes", "media.cut",
        "spec_types",                        # b5308: drafts of that time are not simulated
        "memories",                          # b7789: no wheel lies between b7964 and b8156, which reads lfm2's window
    }


def test_a_mixture_has_the_chosen_fields_of_the_newer_profile():
    old, new = profile("b8916"), profile("b9231")
    half = old.mixed(new, ["ckpt_need"])
    assert (half.ckpt_need, half.trim) == (new.ckpt_need, old.trim)
    assert old.mixed(new, []) == old
