"""Names of builds, dates, commits and versions, and the rules in force at them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines import registry
from cachesim.engines.build_names import (
    build_of,
    build_with,
    builds_in_order,
    in_force,
    life_in,
    main_branch,
    resolve_name,
    without_place,
)
from cachesim.engines.registry import ENGINES, engine_of, present_name, rules_of, written_name
from cachesim.engines.shared.timeline import Commit
from tests.shared import forget_engines

NEWEST = ENGINES["llama_cpp"].newest
DATED = ["llama_cpp", "ik_llama", "mlx_lm"]


@pytest.mark.parametrize(("text", "profile"), [
    ("b9473", "llama_cpp@b9473"), ("b9508", "llama_cpp@b9473"), ("b9509", "llama_cpp@b9518"),
    ("b9573", "llama_cpp@b9518"), ("b8300", "llama_cpp@b8271"), ("b6160", "llama_cpp@b6160"),
    ("llama_cpp@b9500", "llama_cpp@b9473"),
    ("2026-06-03", "llama_cpp@b9473"), ("2026-06-04", "llama_cpp@b9518"), ("b10587", "llama_cpp@b10587"),
    ("llama_cpp@2026-08-22", "llama_cpp@b10587"), ("b8271", "llama_cpp@b8271"), ("latest", NEWEST),
    ("b11549", "llama_cpp@b11549"), ("b11063", "llama_cpp@b11063"),
    ("3f545be", "llama_cpp@b10587"), ("24035-v3", "llama_cpp@24035-v3"),
    ("ik_llama@2026-07-01", "ik_llama@2020"), ("ik_llama@606d9db30", "ik_llama@2105"), ("606d9db", "ik_llama@2105"),
    ("ik_llama@2026-07-30", "ik_llama@2205"), ("ik_llama@52836917a", "ik_llama@2205"),
    (f"ik_llama@52836917a{'0' * 31}", "ik_llama@2205"),          # a full hash, whose beginning the table has
    ("ik_llama@8337e4cd3861406fc04e0854b1409cd1b027fbc9", "ik_llama@main"),
    ("ik_llama@2026-05-23", "ik_llama@1889-base"),
    ("0.31.0", "mlx_lm@0.31.0"), ("0.31.1", "mlx_lm@0.31.1"), ("mlx_lm@v0.31.1", "mlx_lm@0.31.1"),
    ("0.31.3", "mlx_lm@0.31.3"), ("mlx_lm@0.32.0", "mlx_lm@0.32.2"), ("0.32.2", "mlx_lm@0.32.2"),
    ("mlx_lm@2026-03-30", "mlx_lm@m1019"),
])  # fmt: skip
def test_a_point_in_the_life_of_a_recorded_rule_set(text, profile):
    found = resolve_name(text)
    assert found.profile == profile
    assert found.note.startswith(f"{text.rpartition('@')[2]} -> {profile}")


@pytest.mark.parametrize(("text", "base", "pulls", "changed"), [
    ("b9700", "llama_cpp@b9518", "#24190, #24411",
     {"idle_save": "LC-IDLE-SAVE.ALL", "ckpt_pick": "LC-CKPT-PICK.PK3"}),
    ("b9940", "llama_cpp@b9765", "#25070, #25078, #25278, #25420", {"ckpt_break": "LC-CKPT-BREAK.CR10"}),
    ("2026-06-12", "llama_cpp@b9518", "#24190, #24411", {"slot_select": "LC-SLOT-SELECT.SL2"}),
    ("0.31.2", "mlx_lm@m1072", "#1114, #1106, #1109, #1093", {"tail": "ML-SEG-TAIL.SEQUENCE"}),
    ("ik_llama@dd837ff21", "ik_llama@2105", "#2205", {"spec_save": "IK-SPEC-SAVE.ROOT-ONLY"}),
])  # fmt: skip
def test_a_point_between_two_of_them_has_the_changes_that_had_come(text, base, pulls, changed):
    found = resolve_name(text)
    name = text.rpartition("@")[2]
    assert found.profile == f"{base.partition('@')[0]}@{name}"
    told = found.note.removeprefix(f"{name} -> {base} with ")
    assert sorted(told.split(";")[0].split(", ")) == sorted(pulls.split(", "))
    rules = rules_of(found.profile)
    assert {field: rules.fields()[field].rule for field in changed} == changed
    later = {one.field for one in rules_of(base).changes(rules)}
    assert set(changed) - {"slot_select"} <= later
    assert rules.name not in ENGINES[base.partition("@")[0]].beside


@pytest.mark.parametrize(("text", "words"), [
    ("b999999999", f"{NEWEST} of {build_of(NEWEST)}, the newest recorded: b999999999 itself was not compared"),
    ("2999-01-01", "the newest recorded: 2999-01-01 itself was not compared"),
    ("b10700", "b10700 -> llama_cpp@b10587 (in force b10587+)"),
    ("b8180", "b8180 -> llama_cpp@b8152 with #19928, #19924"),
])  # fmt: skip
def test_what_is_not_known_is_said(text, words):
    assert words in resolve_name(text).note


@pytest.mark.parametrize(("text", "line"), [
    ("b10700", "LC-CTX-POOL: changed between b10587 and b10809 (#24124); its build is not known: "
               "the older variant is used"),
    ("b10700", "ext_bytes: changed between b10587 and b10809 (#27762); its build is not known: "
               "the older value is used"),
    ("b10700", "outside.preserve_reasoning: changed between b10587 and b10809; its build is not known: "
               "the older value is used"),
    ("b8200", "log (silent.warn): changed between b8152 and b8260; its build is not known: the older value is used"),
    ("ik_llama@2026-08-20", "IK-CKPT-EVICT: changed between 2026-08-15 and 2026-09 (#2491); its build is not known: "
                            "the older variant is used"),
])  # fmt: skip
def test_a_field_whose_value_is_unknown_has_a_line(text, line, capsys):
    assert line in resolve_name(text).unknown
    main(["profiles", "show", text, "--json"])
    assert f"cachesim: {line}\n" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["b6300", "b7000", "b9000", "b9500", "mlx_lm@2026-04-10", "ik_llama@2026-07-01"])
def test_nothing_is_unknown_where_every_change_is_dated(text):
    assert not resolve_name(text).unknown


def test_a_pull_request_names_the_point_at_which_it_landed():
    assert rules_of(resolve_name("ik_llama@1970").profile).spec_start.rule != rules_of("ik_llama@1949").spec_start.rule
    assert resolve_name("mlx_lm@1109").note == "1109 -> mlx_lm@m1072 with #1093, #1106, #1109"
    assert resolve_name("llama_cpp@24110").profile == "llama_cpp@b9518"


@pytest.mark.parametrize(("text", "words"), [
    ("b1572", "older than the oldest rule set (llama_cpp@b1573, b1573 (2023-11-27))"),
    ("2023-01-01", "older than the oldest"), ("mlx_lm@2025-05-01", "older than the oldest"),
    ("mlx_lm@0.32.3", "0.31.3, 0.32.0, 0.32.1, 0.32.2)"), ("ik_llama@abcdef123", "give a date"),
])  # fmt: skip
def test_what_nothing_is_known_of_is_refused(text, words):
    with pytest.raises(BadInput) as bad:
        resolve_name(text)
    assert words in str(bad.value)


@pytest.mark.parametrize("text", ["hea", "b99x", "2026-13-01", "lama@b33", "llama_cpp@b10587", "ik_llama@b4700", ""])
def test_what_is_no_such_name(text):
    assert resolve_name(text) is None


@pytest.mark.parametrize(("text", "profile"), [
    ("llama.cpp", NEWEST), ("LLAMA_CPP", NEWEST), ("llama.cpp@latest", NEWEST), ("llamacpp", NEWEST),
    ("llama.cpp-b10587", "llama_cpp@b10587"), ("llama.cpp b9508", "llama_cpp@b9473"),
    ("ik_llama.cpp", present_name("ik_llama")), ("ik_llama.cpp@2026-07-01", "ik_llama@2020"),
    ("mlx-lm", present_name("mlx_lm")), ("mlx-lm==0.31.1", "mlx_lm@0.31.1"),
    ("vLLM", present_name("vllm")), ("vllm==0.32.0", "vllm@0.32.0"), ("vLLM v0.32.0", "vllm@0.32.0"),
    ("sglang[all]==0.5.9", "sglang@0.5.9"), ("SGLang-0.5.9", "sglang@0.5.9"), ("sglang:v0.5.9", "sglang@0.5.9"),
])  # fmt: skip
def test_a_name_as_people_write_it(text, profile):
    found = resolve_name(text)
    assert found.profile == profile
    assert found.note.startswith(text)


@pytest.mark.parametrize("text", ["llama.cpp-", "llama.cppx", "llama.cpp@b99x", "vllm== ", "my-vllm", "vllm[==0.32.0"])
def test_what_only_resembles_the_name_of_an_engine(text):
    assert resolve_name(text) is None


@pytest.mark.parametrize(("text", "name"), [
    ("vllm@0.32.0", "vllm@0.32.0"), ("vllm@x y", "vllm@x y"), ("vllm", "vllm"), ("nothing", "nothing"),
    ("vLLM", "vllm"), ("mlx-lm/0.32.2", "mlx_lm@0.32.2"), ("Ik_Llama.cpp: b12", "ik_llama@b12"),
])  # fmt: skip
def test_the_name_that_people_mean(text, name):
    assert written_name(text) == name


@pytest.mark.parametrize("name", DATED)
def test_a_recorded_rule_set_is_in_force_where_it_was_recorded(name):
    engine = ENGINES[name]
    assert set(engine.when.own) == set(engine.line)
    for profile, point in engine.when.own.items():
        found = main_branch(engine).at(point)
        assert found.rules.leaves() == engine.profiles[profile].leaves() or profile == "ik_llama@2195"
        assert not found.notes


@pytest.mark.parametrize("name", DATED)
def test_every_change_came_between_the_rule_sets_that_it_lies_between(name):
    """The older of two neighbours does not contain the change, and the newer does."""
    engine = ENGINES[name]
    for a, b in pairwise(engine.line):
        older, newer = engine.profiles[a], engine.profiles[b]
        old, new = older.leaves(), newer.leaves()
        for path in {**old, **new}:
            points = engine.when.parts(older.source_of(newer, path))
            if old.get(path) != new.get(path) and points and (a, b) != SAME_DAY:
                assert engine.when.own[a].number < min(points).number, (a, b, path)
                assert max(points).number <= engine.when.own[b].number, (a, b, path)


SAME_DAY = ("ik_llama@2195", "ik_llama@2205")                       # recorded in the opposite order


@pytest.mark.parametrize("name", DATED)
def test_numbers_and_dates_grow_together(name):
    when = ENGINES[name].when
    points = sorted({*when.own.values(), *when.landed.values(), *when.releases.values()})
    assert [one.date for one in points] == sorted(one.date for one in points)


def test_commands_take_such_names(capsys):
    assert main(["run", "S8/S", "--model", "A", "-p", "b9700", "-p", "2026-06-03", "--json"]) == exits.HOLDS
    out, err = capsys.readouterr()
    assert [run["profile"] for run in json.loads(out)["runs"]] == ["llama_cpp@b9700", "llama_cpp@b9473"]
    assert "cachesim: b9700 -> llama_cpp@b9518 with #24190, #24411\n" in err
    assert "cachesim: 2026-06-03 -> llama_cpp@b9473 (in force b9473..b9508)\n" in err


def test_the_date_of_the_newest_rule_set_is_that_rule_set():
    day = ENGINES["llama_cpp"].when.own[NEWEST].date
    found = resolve_name(day)
    assert (found.profile, found.note.startswith(f"{day} -> {NEWEST}")) == (NEWEST, True)
    assert "not compared" not in found.note


def test_processes_that_share_the_work_know_it_too(capsys):
    argv = ["fuzz", "-p", "b9700", "--examples", "4", "-j", "2", "--model", "A", "--no-shrink", "--json"]
    assert main(argv) in (exits.HOLDS, exits.BROKEN)
    assert json.loads(capsys.readouterr().out)["profile"] == "llama_cpp@b9700"


def test_a_composed_rule_set_is_known_by_its_own_name_a_recorded_one_is_no_name_of_a_build(monkeypatch):
    forget_engines(monkeypatch)
    composed = resolve_name("b9700")
    assert resolve_name("b9700") is resolve_name("llama_cpp@b9700") is composed and composed.is_composed
    assert resolve_name("b9508").profile == "llama_cpp@b9473" and resolve_name("llama_cpp@b9473") is None


@pytest.mark.parametrize(("engine", "profile", "periods"), [
    ("llama_cpp", "llama_cpp@b9473", ("b9473..b9508", "2026-06-02..2026-06-04")),
    ("ik_llama", "ik_llama@2020", ("2026-06-24..2026-07-10",)),
    ("llama_cpp", "llama_cpp@24035-v1", ()),
    ("mlx_lm", "mlx_lm@0.31.0", ("2026-03-06..2026-03-10",)),
])  # fmt: skip
def test_a_rule_set_is_in_force_in_builds_if_its_engine_has_them_and_in_dates(engine, profile, periods):
    assert in_force(ENGINES[engine], profile) == periods


def test_the_list_shows_builds_and_dates(capsys):
    main(["profiles", "list"])
    out = capsys.readouterr().out
    assert "b9473..b9508" in out and "2026-06-02..2026-06-04" in out
    assert in_force(ENGINES["llama_cpp"], "llama_cpp@24035-v1") == ()


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    """Restore the registry: builds between the recorded ones are added to it."""
    forget_engines(monkeypatch)


SMALL = ("S100.A40/S.B40", "--set", "batch_size=64", "--set", "ubatch_size=16", "--set", "parallel=1")


@pytest.mark.long
def test_bisect_answers_in_builds(capsys):
    main(["bisect", *SMALL, "-v"])
    out = " ".join(capsys.readouterr().out.split())
    assert "reuses 0, output correct by b8271 (2026-03-10), llama_cpp@b8271" in out
    assert "reuses 76, output correct by b6711 (2025-10-08), llama_cpp@b6711" in out
    assert "(#20288, b8271 of 2026-03-10)" in out
    main(["bisect", *SMALL, "--json"])
    turns = json.loads(capsys.readouterr().out)["requests"][1]["turns"]
    assert turns[-1]["build"] and all("build" in change for one in turns for cause in one["causes"]
                                      for change in cause["changes"])  # fmt: skip


def test_a_change_whose_build_is_not_known():
    engine = ENGINES["llama_cpp"]
    changes = engine.rules("llama_cpp@b10587").changes(engine.rules("llama_cpp@b10809"))
    assert {build_with("llama_cpp@b10587", one) for one in changes} == {""}
    assert Commit(1, "2026-01-02").by(Commit(0, "2026-01-02")) and not Commit(2, "").by(Commit(1, ""))


@pytest.mark.parametrize("name", DATED)
def test_the_versions_in_order_contain_every_recorded_one_and_every_change(name):
    engine = ENGINES[name]
    names = builds_in_order(engine)
    assert [one for one in names if one in engine.line] == list(engine.line)
    rules = [rules_of(one) for one in names]
    assert all(a.changes(b) for a, b in pairwise(rules) if b.name not in engine.line)
    changes = [change for a, b in pairwise(rules) for change in a.changes(b)]
    dated = [change for change in changes if change.source in engine.when.landed]
    assert len(dated) >= {"llama_cpp": 70, "ik_llama": 30, "mlx_lm": 30}[name]


@pytest.mark.parametrize(("last", "unknown"), [("vllm@0.33.0", 27), ("sglang@0.5.23", 28)])
def test_most_changes_up_to_a_release_name_their_pull_requests(last, unknown):
    engine = engine_of(last)
    line = engine.line[: engine.line.index(last) + 1]
    changes = [change for a, b in pairwise(line) for change in engine.rules(a).changes(engine.rules(b))]
    assert len([change for change in changes if "#" not in change.source]) <= unknown


@pytest.mark.parametrize("place", [0, 2, 11])
def test_a_version_without_a_date_follows_its_predecessor(place):
    engine = ENGINES["mlx_lm"]
    own = {name: at for name, at in engine.when.own.items() if name != engine.line[place]}
    undated = replace(engine, when=replace(engine.when, own=own, landed={}, load_between=tuple))
    assert builds_in_order(undated) == list(engine.line)
    assert builds_in_order(replace(engine, when=replace(engine.when, own={}))) == list(engine.line)


def test_a_registry_in_place_of_another_knows_every_name(monkeypatch):
    """A test runs with a registry of its own, and the next one with the first again."""
    resolve_name("b9230")
    with monkeypatch.context() as patch:
        patch.setattr(registry, "ENGINES", registry.Engines())
        assert [resolve_name(name).profile in registry.profiles() for name in ("b9230", "b9179")] == [True, True]
        builds_in_order(registry.ENGINES["llama_cpp"])
    for name in builds_in_order(registry.ENGINES["llama_cpp"]):
        assert resolve_name(name) is None or name in registry.profiles()
    assert rules_of(resolve_name("b9179").profile) is rules_of("llama_cpp@b9179")


def test_the_life_of_a_rule_is_known_on_the_main_branch_alone():
    rule = rules_of("llama_cpp@b9231").ckpt_need
    assert life_in("llama_cpp@b9231", rule) == {"ckpt_need": "since b9231 (#23280), until b9509 (#24110)"}
    for profile in ("nobody@x", "llama_cpp@b1", *ENGINES["llama_cpp"].beside):
        assert life_in(profile, rule) == {}


def test_a_change_is_known_by_the_build_in_which_its_last_part_landed():
    older, newer = rules_of("llama_cpp@b9231"), rules_of("llama_cpp@b9518")
    found = {change.field: (change.source, build_with("llama_cpp@b9518", change)) for change in older.changes(newer)}
    assert found["ckpt_need"] == ("#24110", "b9509 (2026-06-04)")
    assert build_with("nobody@x", next(iter(older.changes(newer)))) == ""


def test_a_rule_set_outside_the_main_branch_without_a_base_has_no_place():
    engine = ENGINES["llama_cpp"]
    assert without_place(engine) == []
    beside = {name: base for name, base in engine.beside.items() if name != "llama_cpp@24035-v3"}
    assert without_place(replace(engine, beside=beside)) == ["llama_cpp@24035-v3"]
    line = tuple(name for name in engine.line if name != "llama_cpp@b9473")
    assert without_place(replace(engine, line=line)) == [], "the name of a build is that of a point"


def test_the_versions_in_order_are_those_of_the_line_and_those_between():
    names = builds_in_order(ENGINES["mlx_lm"])
    assert names.index("mlx_lm@m1072") < names.index("mlx_lm@1093") < names.index("mlx_lm@0.31.3")
    between = builds_in_order(ENGINES["llama_cpp"])
    start, stop = between.index("llama_cpp@b9518"), between.index("llama_cpp@b9765")
    assert stop - start > 1 and len({*between}) == len(between)
    assert all(9518 < int(name.partition("@b")[2]) < 9765 for name in between[start + 1 : stop])
