"""Tests of the loader of scenario files: valid files, and single-line errors with their place."""

from __future__ import annotations

import os

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.limits import SCENARIO_BYTES
from cachesim.engines.shared.vocab import PIECES
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load, load_each, load_text, neighbour
from cachesim.scenarios.schema import Expect, Lives
from cachesim.scenarios.symptoms import SYMPTOMS
from tests.scenarios.whole import corpus
from tests.unit.scenarios.samples import GOOD

KNOWN = frozenset({"llama_cpp@b10587", "llama_cpp@pr24143-on-b10587"})


def write(folder, text, name="good"):
    file = folder / f"{name}.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def refusal(file, known=KNOWN):
    with pytest.raises(BadInput) as caught:
        load(file, known)
    text = str(caught.value)
    assert text.startswith(str(file)) and "\n" not in text
    return text.removeprefix(str(file))


def test_a_file_of_another_schema_is_refused(tmp_path):
    assert load(write(tmp_path, "schema = 2\n" + GOOD), KNOWN).server == {"parallel": 2}
    for other in (1, 3):
        assert refusal(write(tmp_path, f"schema = {other}\n" + GOOD)) == f":1: schema is {other}, this cachesim reads 2"
    assert refusal(write(tmp_path, "schema = 0\n" + GOOD)) == ":1: schema is 0, it must be at least 1"


def test_a_good_file(tmp_path):
    scenario = load(write(tmp_path, GOOD), KNOWN)
    first, second = scenario.steps
    assert scenario.server == {"parallel": 2}
    assert first.request.prompt == (*range(1000, 1040), *range(1_001_000, 1_001_060))
    assert first.request.forced == tuple(range(2_001_000, 2_001_004))
    assert (first.request.n_predict, first.request.user_starts, first.why) == (4, (40,), "first")
    assert second.request.prompt[-2:] == (2_001_001, 2_001_002)
    assert (second.request.n_predict, second.request.cache_prompt, second.request.id_slot) == (3, False, 1)
    assert second.prompt == "S.A[:5].r[1:3]"
    assert scenario.expect["llama_cpp@b10587"] == Expect(
        cache_n=((0,), (0, 40)), broken=(1,), checkpoints=((), (40, 44)), why="freedom"
    )
    assert repr(scenario) == "S40.|A60>r4/S.A[:5].r[1:3]>3!@1"


def test_a_file_with_another_ending_may_have_any_name(tmp_path):
    file = tmp_path / "case.txt"
    file.write_text(GOOD)
    assert load(file, KNOWN).id == "good"


SPOILT = [
    ('title = "a good one"', "", ": title is missing"),
    ('title = "a good one"', 'title = " "', ":2: title must not be empty"),
    ('title = "a good one"', 'titel = "a good one"', ":2: unknown key 'titel' (did you mean 'title'?)"),
    ('id = "good"', 'id = "bad"', ":1: id is 'bad', but the file name is 'good.toml'"),
    ('source = ["cachesim"]', "source = []", ":3: source must be a list of strings"),
    ('source = ["cachesim"]', 'source = "x"', ":3: source must be a list"),
    ('engine = "llama_cpp"', 'engine = "llamacpp"', ":5: unknown engine 'llamacpp' (did you mean 'llama_cpp'?)"),
    ('"GGGA"', '"lfm3"', "(did you mean 'lfm2'? see cachesim "),
    ('profiles = ["llama_cpp@b10587"]', 'profiles = ["llama_cpp@b1058x"]',
     ":7: unknown profile 'llama_cpp@b1058x' (did"),
    ('profiles = ["llama_cpp@b10587"]', 'profiles = ["llama_cpp@b10587", "llama_cpp@b10587"]', ":7: profiles contains"),
    ("parallel = 2", "paralel = 2", ":9: unknown server option 'paralel' (did you mean 'parallel'? see cachesim "),
    ("parallel = 2", "parallel = true", ":9: parallel must be an integer, not True"),
    ("parallel = 2", "parallel = 0", ":9: parallel is 0"),
    ("parallel = 2", "parallel = 4294967296", ":9: parallel is 4294967296"),
    ("parallel = 2", "swa_full = 1", ":9: swa_full must be true or false, not 1"),
    ("parallel = 2", "slot_prompt_similarity = nan", ":9: slot_prompt_similarity is nan"),
    ("S = 40", "S = true", ":11: S must be an integer"),
    ("S = 40", "S = -1", ":11: S is -1"),
    ("S = 40", "S = 2000000", ":11: word 'S': 2,000,000 tokens"),
    ("S = 40", "S1 = 40", ":11: word 'S1': expected letters"),
    ("S = 40", "S = 40\nS = 41", ":12: not TOML"),
    ("r = 4", "r = 4\n[titles]\nB = 'chat'", ":15: title of an unknown word 'B'"),
    ("r = 4", "r = 4\n[titles]\nS = 4", ":15: S must be"),
    ("r = 4", f"r = 4\n[titles]\nS = '{'x' * 25}'", ":15: the title of S must be a line of at most 24 characters"),
    ("r = 4", 'r = 4\n[titles]\nS = "a\\u202eb"', ":15: the title of S must be a line"),
    ('"S.|A"', '"S.|B"', ":15: word 'B' has no length"),
    ('"S.|A"', '"S60.|A"', ":15: S60: lengths belong in [words]"),
    ('"S.|A"', '""', ":15: prompt must not be empty"),
    ('"S.|A"', '"S..A"', ":15: '' is not a word"),
    ("A[:5]", "A[:61]", ":19: slice A[0:61] is out of range"),
    ("A[:5]", "A[5:5]", ":19: slice A[5:5] is out of range"),
    ('answer = "r"', 'answer = "|r"', ":16: a user message cannot start in an answer"),
    ('answer = "r"', 'answer = "r"\nn_predict = 3', ":16: n_predict is 3, but the answer has 4 tokens"),
    ("n_predict = 3", "n_predict = 3.0", ":20: n_predict must be an integer"),
    ("n_predict = 3", "n_predict = -2", ":20: n_predict is -2"),
    ("n_predict = 3", "n_predict = 1000000", ":14: all answers together: 1,000,004 tokens, at most 1,000,000"),
    ('prompt = "S.|A"', 'promt = "S.|A"', ":15: unknown key 'promt' (did you mean 'prompt'?)"),
    ("n_predict = 3", "n_predictt = 3", ":20: unknown key 'n_predictt' (did you mean 'n_predict'?)"),
    ("cache_prompt = false", "cache_prompt = 0", ":21: cache_prompt must be true or false"),
    ("[[request]]", "[request]", ":18: not TOML: cannot declare ('request',) twice"),
    ('[expect."llama_cpp@b10587"]', '[expect."llama_cpp@hed"]', ":23: unknown profile 'llama_cpp@hed' (did you mean"),
    ("cache_n = [0, {", "cache_n = [{", ":24: cache_n has 1 entries for 2 requests"),
    ("either", "eithr", ":24: cache_n:"),
    ('why = "freedom"', "", ":24: cache_n has several values, so the table needs a reason"),
    ("cache_n = [0,", "cache_n = [false,", ":24: cache_n: False must be a count"),
    ("broken = [1]", "broken = [2]", ":25: broken names request 2, there are 2 (from 0)"),
    ("broken = [1]", "broken = [1, 0]", ":25: broken must be in ascending order"),
    ("[40, 44]", "[40, -4]", ":26: checkpoints: [40, -4] is not a list"),
]


@pytest.mark.parametrize(("good", "bad", "told"), SPOILT, ids=lambda text: text[:24])
def test_a_spoilt_file(tmp_path, good, bad, told):
    assert good in GOOD
    assert told in refusal(write(tmp_path, GOOD.replace(good, bad)))


BROKEN_FILES = [
    (b"", ": the file is empty"),
    (b" \n\n", ": the file is empty"),
    (b"#" * (SCENARIO_BYTES.value + 1), ": scenario file is larger than"),
    (b"a = 1\nb = \xff\n", ":2: not UTF-8 text"),
    (b'id = "good"\ntitle = \n', ":2: not TOML"),
    (b"id = 'good'\nx = [", ":2: not TOML"),
    (b"x = " + b"[" * 33 + b"]" * 33, ": nested deeper than 32"),
    (b"x = " + b"[" * 100_000 + b"]" * 100_000, ": nested deeper than 32"),
    (b"x = 1\n" + b".".join([b"a"] * 300_000) + b" = 1", ":2: nested deeper than 32"),
    (b"x = " + b"9" * 10_000, ": not TOML"),
    (b"x = 1", ":1: unknown key 'x'"),
    (GOOD.encode().replace(b"[server]", b"[[server]]"), ":8: server must be a table"),
]


@pytest.mark.parametrize(("data", "told"), BROKEN_FILES, ids=[told[:24] for _, told in BROKEN_FILES])
def test_a_broken_file(tmp_path, data, told):
    assert told in refusal(write(tmp_path, data))


def test_a_file_that_cannot_be_opened(tmp_path):
    assert ": no such file" in refusal(tmp_path / "nowhere.toml")
    assert ": expected a scenario file, found a folder" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe.toml")
    assert ": not a regular file" in refusal(tmp_path / "pipe.toml")


def test_any_profile_of_the_engine_passes_where_none_are_known(tmp_path):
    file = write(tmp_path, GOOD.replace("llama_cpp@b10587", "llama_cpp@new"))
    assert load(file).profiles == ("llama_cpp@new",)
    file = write(tmp_path, GOOD.replace("llama_cpp@b10587", "mlx_lm@new"))
    assert "not a profile of the engine 'llama_cpp'" in refusal(file, None)


def test_two_files_with_one_id(tmp_path):
    (tmp_path / "sub").mkdir()
    files = [write(tmp_path, GOOD), write(tmp_path / "sub", GOOD)]
    _, double = load_each(files)
    assert isinstance(double, BadInput) and str(double) == f"{files[1]}: duplicate id 'good': also in {files[0]}"


def test_find_searches_folders_and_names_each_file_once(tmp_path):
    (tmp_path / "sub").mkdir()
    deep, top = write(tmp_path / "sub", GOOD), write(tmp_path, GOOD, "a")
    write(tmp_path, GOOD, "KNOWN")
    assert find([top, tmp_path]) == [top, deep]
    assert find([top, tmp_path / "sub" / ".." / "a.toml"]) == [top]
    assert find([tmp_path / "sub"]) == [deep]
    link = tmp_path / "sub" / "b.toml"
    link.symlink_to(top)
    assert find([tmp_path]) == [top, deep] and find([link, top]) == [link]


def test_find_names_the_neighbour_of_a_missing_file(tmp_path):
    write(tmp_path, GOOD)
    with pytest.raises(BadInput, match=r"did you mean 'good\.toml'"):
        find([tmp_path / "god.toml"])


def test_a_missing_folder_has_no_neighbours(tmp_path):
    assert neighbour(tmp_path / "nowhere" / "good.toml") == "" and neighbour(tmp_path / "no\0where" / "x") == ""
    write(tmp_path, GOOD)
    assert neighbour(tmp_path / "god.toml") == "did you mean 'good.toml'?" and neighbour(tmp_path / "zzz") == ""


def test_an_error_stops_nothing_where_each_is_read(tmp_path):
    """A duplicate names the first file; a file that is not valid has no id."""
    for name in ("sub", "other"):
        (tmp_path / name).mkdir()
    files = [write(tmp_path, GOOD + "x"), write(tmp_path / "sub", GOOD), write(tmp_path / "other", GOOD)]
    bad, scenario, double = load_each([*files], KNOWN)
    assert isinstance(bad, BadInput) and scenario == load(files[1], KNOWN)
    assert str(double) == f"{files[2]}: duplicate id 'good': also in {files[1]}"


@pytest.mark.parametrize("value, told", [
    ("{ either = [] }", "cache_n: either is empty"),
    ("{ either = [1], x = 1 }", "must be a count or { either = [...] }"), ("-1", "cache_n: -1 must be a count"),
    ("true", "cache_n: True must be a count")])  # fmt: skip
def test_a_number_is_allowed_or_several(tmp_path, value, told):
    assert told in refusal(write(tmp_path, GOOD.replace("{ either = [0, 40] }", value)))


def test_every_scenario_of_the_corpus_can_be_read():
    files = find([corpus_root()])
    assert len(files) > 190
    assert len(corpus()) == len(files)


IK = """id = "x"
title = "t"
source = ["s"]
why = "w"
engine = "ik_llama"
model = "llama"
profiles = ["ik_llama@main"]
[words]
P = 9
one = ["Ban"]
two = ["Ba", "n"]
[[request]]
prompt = "P.two[1:].one"
[[request]]
prompt = ""
[[request]]
do = "restart"
server = { ctx_checkpoints = 0 }
"""


def test_words_spelled_out_an_empty_prompt_and_a_restart_with_other_options(tmp_path):
    (tmp_path / "x.toml").write_text(IK)
    first, second, third = load(tmp_path / "x.toml").steps
    tokens = first.request.prompt
    assert (tokens[:9], len(tokens)) == (tuple(range(1000, 1009)), 11)
    assert [PIECES[token] for token in tokens[9:]] == ["n", "Ban"]
    assert (second.request.prompt, third.action.server) == ((), (("ctx_checkpoints", 0),))
    assert third.text == "restart ctx_checkpoints=0"


@pytest.mark.parametrize(("good", "bad", "told"), [
    ('["Ban"]', '["Bam"]', ":10: word 'one': 'Bam' is not a piece of the recorded vocabulary"),
    ('["Ban"]', "[1]", ":10: word 'one': 1 is not a piece"),
    ('["Ban"]', "[]", ":10: word 'one': its length is 0"),
    ('"llama"', '"AAAA"', ":10: model AAAA has no vocabulary to spell words in"),
    ("ctx_checkpoints = 0", "ctx_checkpoint = 0", ":18: unknown server option 'ctx_checkpoint'"),
])  # fmt: skip
def test_what_cannot_be_spelled_or_started(tmp_path, good, bad, told):
    (tmp_path / "x.toml").write_text(IK.replace(good, bad, 1))
    with pytest.raises(BadInput) as caught:
        load(tmp_path / "x.toml")
    assert told in str(caught.value)


def test_a_long_key_is_cut_where_its_value_is_wrong(tmp_path):
    file = tmp_path / "plain.toml"
    file.write_text(f'id = "plain"\ntitle = "t"\nsource = ["cachesim"]\nwhy = "w"\nengine = "llama_cpp"\nmodel = "A"\n'
                    f'profiles = ["llama_cpp@b10587"]\n[words]\n{"x" * 5000} = "5"\n')
    with pytest.raises(BadInput) as bad:
        load(file)
    assert len(bad.value.cause) < 200 and "must be an integer" in bad.value.cause


def test_the_servers_own_spelling_of_an_option(tmp_path):
    said = "ctx-checkpoints = 3\nnp = 2\n\"no-kvu\" = true"
    server = load(write(tmp_path, GOOD.replace("parallel = 2", said))).server
    assert server == {"ctx_checkpoints": 3, "parallel": 2, "kv_unified": False}
    both = "np = 2\nparallel = 2"
    assert "parallel is set twice" in refusal(write(tmp_path, GOOD.replace("parallel = 2", both)))


EVERY = """\
cache_n = [0, 1]
prompt_n = [2, 3]
broken = [0, 1]
checkpoints = [[], [40, 44]]
slots = [4, 5]
status = [200, 500]
entries = [6, 7]
accepted = [8, 9]
evaluated = [10, { either = [11, 12] }]
stored_bytes = [13, 14]
died = [1]
undecided = [0]
why = "freedom"
completed = true
"""


def test_every_expectation_has_its_field(tmp_path):
    head = GOOD.partition("cache_n")[0]
    scenario = load(write(tmp_path, head + EVERY), KNOWN)
    assert scenario.expect == {"llama_cpp@b10587": Expect(
        cache_n=((0,), (1,)), prompt_n=((2,), (3,)), broken=(0, 1), checkpoints=((), (40, 44)), slots=((4,), (5,)),
        status=((200,), (500,)), entries=((6,), (7,)), accepted=((8,), (9,)), evaluated=((10,), (11, 12)),
        stored_bytes=((13,), (14,)), died=(1,), undecided=(0,), why="freedom", completed=True)}  # fmt: skip
    for line in EVERY.splitlines()[:12]:
        key = line.partition(" =")[0]
        bad = "[0]" if key == "checkpoints" else "[-1, 0]"
        text = head + EVERY.replace(line, f"{key} = {bad}")
        assert refusal(write(tmp_path, text)).startswith(f":{24 + EVERY.splitlines().index(line)}: {key}")
    assert load(write(tmp_path, head), KNOWN).expect == {"llama_cpp@b10587": Expect()}


def test_a_scenario_is_read_from_a_text_as_from_its_file(tmp_path):
    scenario = load_text(GOOD, KNOWN)
    assert (scenario.id, scenario.words, scenario.steps) == (
        "good", {"S": 40, "A": 60, "r": 4}, load(write(tmp_path, GOOD), KNOWN).steps)  # fmt: skip
    assert not os.path.exists(scenario.file)
    with pytest.raises(BadInput, match="unknown profile"):
        load_text(GOOD, frozenset({"llama_cpp@other"}))
    assert load_text(GOOD.replace("llama_cpp@b10587", "llama_cpp@new")).profiles == ("llama_cpp@new",)


LIVES = '[[lives]]\nrequest = 1\nfrom = "llama_cpp@b10587"\n[[lives]]\nrequest = 0\nto = "llama_cpp@b10587"\n'


def test_the_versions_of_a_fault_have_a_first_and_a_last(tmp_path):
    found = load(write(tmp_path, GOOD + LIVES), KNOWN).lives
    assert found == (Lives(1, "llama_cpp@b10587", ""), Lives(0, "", "llama_cpp@b10587"))
    assert refusal(write(tmp_path, GOOD + LIVES.replace("request = 1", "request = 2"))) == (
        ":29: unknown request 2 (0 to 1)")  # fmt: skip
    assert refusal(write(tmp_path, GOOD + LIVES.replace("from", "form"))).startswith(":30: unknown key 'form'")
    for key, line in (("from", 30), ("to", 33)):
        text = GOOD + LIVES.replace(f'{key} = "llama_cpp@b10587"', f'{key} = "llama_cpp@b1058x"')
        assert refusal(write(tmp_path, text)).startswith(f":{line}: unknown profile 'llama_cpp@b1058x'")


def test_a_title_has_as_many_characters_as_fit(tmp_path):
    text = GOOD.replace("r = 4", f'r = 4\n[titles]\nr = "last"\nS = "{"x" * 24}"')
    assert list(load(write(tmp_path, text), KNOWN).titles.items()) == [("S", "x" * 24), ("r", "last")]


def test_a_symptom_is_one_of_the_list(tmp_path):
    assert load(write(tmp_path, GOOD), KNOWN).symptom == ""
    name = next(iter(SYMPTOMS))
    assert load(write(tmp_path, f'symptom = "{name}"\n{GOOD}'), KNOWN).symptom == name
    assert refusal(write(tmp_path, f'symptom = "{name}x"\n{GOOD}')).startswith(f":1: unknown symptom '{name}x' (did")
    assert refusal(write(tmp_path, f'symptom = "0"\n{GOOD}')) == f":1: unknown symptom '0' ({', '.join(SYMPTOMS)})"
