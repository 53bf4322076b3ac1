"""Parts of exported programs: literals, code of modules, models, and the lines that send requests."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server import tiny_gguf
from cachesim.tools.live.llama_server.export import case_program, talk
from cachesim.tools.live.llama_server.export import program_text as module
from cachesim.tools.live.llama_server.export.program_text import (
    WIDTH,
    assignment,
    code_of,
    comment,
    filled,
    group_lines,
    models_text,
    standalone_script,
)
from cachesim.tools.live.llama_server.export.script import ScriptAction, ScriptRequest, WordSlice, make_script
from cachesim.tools.live.llama_server.gguf_models import tiny_model
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel

PROFILE = "llama_cpp@b11549"


def script(line="A9>r2/A.r", model="A", **server):
    return make_script(from_line(line, model=model, server=server), PROFILE)


def test_placeholders_are_replaced_once():
    assert filled("@A@ @B@ @C@ a@b", A="@B@", B="x") == "@B@ x @C@ a@b"


def test_a_long_literal_has_lines_of_moderate_length():
    assert assignment("X", [1, 2]) == "X = [1, 2]"
    text = assignment("X", {name: list(range(20)) for name in ("b", "a", "c")})
    assert text.startswith("X = {\n 'b': [0, 1") and text.endswith("],\n}")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert ast.literal_eval(text.partition(" = ")[2]) == {name: list(range(20)) for name in "bac"}


def test_lines_of_a_long_literal_are_filled():
    first, *lines, last = assignment("X", list(range(100, 200))).splitlines()
    assert (first, last, [line.count(",") for line in lines]) == ("X = [", "]", [23, 23, 23, 23, 8])
    assert max(map(len, lines)) == len(" 100,") * 23 <= WIDTH < len(" 100,") * 24


def test_the_code_of_modules_has_their_imports_once_and_values_as_literals():
    imports, code = code_of(talk, tiny_gguf, case_program)
    plain = [one for one in imports if one.startswith("import ")]
    assert imports[: len(plain)] == sorted(plain) and len({*imports}) == len(imports)
    modules = [one.split(" ")[1] for one in imports[len(plain) :]]
    assert modules == sorted(set(modules)) and not any(one.startswith(("cachesim", "__future__")) for one in modules)
    names = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    assert "GREEDY" in names and "\nGREEDY = {" in code and "class TinyModel(" in code and "\nfrom " not in code
    assert code.startswith(f"# {talk.__doc__.splitlines()[0]}\n")


def word(name, start, stop, size):
    return WordSlice(name, start, stop, (start, stop) == (0, size))


def test_a_request_is_a_statement_and_its_answers_are_heard():
    ask = ScriptRequest(3, (word("A", 0, 9, 9), word("é", 2, 5, 9)), {"n_predict": 2}, ((word("r", 0, 2, 2),), (
        word("s", 1, 2, 3),)), hang_up=1)  # fmt: skip
    assert [*group_lines((ask,))] == [
        "talk.ask(3, w['A'] + w['é'][2:5], n_predict=2, hang_up=1)", "talk.hear(3, 0, 0, w['r'], 0, 2)",
        "talk.hear(3, 1, 0, w['s'], 1, 2)"]  # fmt: skip
    both = ask._replace(prompt=(), fields={}, answers=(), hang_up=None), ask._replace(answers=(), after=4, number=4)
    assert [*group_lines(both)] == ["talk.together((0, lambda: talk.ask(3, [])), (4, lambda: talk.ask(4, w['A'] + "
                                    "w['é'][2:5], n_predict=2, hang_up=1)))"]  # fmt: skip


@pytest.mark.parametrize(("action", "line"), [
    (ScriptAction(1, "save", 2, "f"), "talk.slot(2, 'save', filename='f.bin')"),
    (ScriptAction(1, "erase", 0), "talk.slot(0, 'erase')"),
    (ScriptAction(1, "lora", scales=[{"id": 0, "scale": 0.5}]), "talk.adapters([{'id': 0, 'scale': 0.5}])"),
])  # fmt: skip
def test_an_action_is_a_statement(action, line):
    assert [*group_lines(action)] == [line]


def evaluated(text):
    return eval(text.partition(" = ")[2], {"TinyModel": TinyModel, "Tensor": Tensor})


@pytest.mark.parametrize("model", ["A", "W8 A", "GGGA", "qwen35-GA"])
def test_the_text_of_a_model_is_the_model(model):
    made = script(model=model)
    found = evaluated(models_text(made))
    assert list(found) == [made.model.file]
    one, same = found[made.model.file], tiny_model(made.model)
    assert (one.keys, [*one.outer], one.order, one.seed) == (same.keys, [*same.outer], same.order, same.seed)
    assert {kind: [*rows] for kind, rows in one.kinds.items()} == {kind: [*rows] for kind, rows in same.kinds.items()}


def test_a_program_has_the_draft_model_and_the_adapters():
    made = script(spec_type="draft-simple", model_draft="A", lora_scaled="1,0")
    assert [*evaluated(models_text(made))] == [*dict.fromkeys([made.model.file, "tiny-A.gguf", *made.adapters])]
    assert len(evaluated(models_text(script(lora_scaled="1,0")))) == 3


def test_the_head_has_title_origin_faults_and_deviations():
    made = script("A9>4{cancel_after=2}/A")
    lines = [*comment(made)]
    origin = f"from 'A9>4{{cancel_after=2}}/A', expected numbers: {PROFILE}."
    assert lines[0].startswith("# ") and lines[1].endswith(origin)
    assert lines[2:] == [f"# Not as in the simulator: {note}." for note in made.notes]
    expected = tuple(one._replace(equal=False, fault="it is wrong") for one in made.expected)
    wrong = replace(made, notes=(), expected=(expected[0], *made.expected[1:]))
    assert [*comment(wrong)][2:] == ["# Expected: request 0: it is wrong"]


def test_a_script_describes_its_case():
    text = standalone_script(script("A9>r2/{restart}/{restart ctx_size=128}/{save@0 f}/r.B9", batch_size=64))
    assert text.startswith("#!/bin/sh\n# ") and "exec \"${PYTHON:-python3}\" - <<'END_OF_PROGRAM'\n" in text
    lines = text.splitlines()
    for line in ("FLAGS = ['-b', '64']", "SPELLED = []", "EXPECTED = {0: (0, 9), 4: (0, 11)}",
                 "def history(talk, server, w):", "    talk.ask(0, w['A'], n_predict=2)",
                 "    talk.hear(0, 0, 0, w['r'], 0, 2)", "    talk.url = server.start(*FLAGS)",
                 "    talk.slot(0, 'save', filename='f.bin')"):  # fmt: skip
        assert line in lines, line
    restarted = [line for line in lines if line.startswith("    talk.url = server.start(*[")]
    assert len(restarted) == 1 and "'128'" in restarted[0] and "'64'" in restarted[0]
    assert "WHEEL = " not in text and text.rstrip().endswith("END_OF_PROGRAM") and "pip install" not in text
    assert "TOLERANCE, history)))\n" in text


def test_a_script_for_a_package_has_the_program_of_the_package():
    text = standalone_script(script(), ("xllamacpp==1", "b1"))
    assert "pip install xllamacpp==1 &&" in text and "llama-server b1:" in text and "\nWHEEL = r'''\n" in text
    assert "TOLERANCE, history, wheel=WHEEL)))\n" in text and "LLAMA_SERVER=build/bin/llama-server" not in text


def test_a_script_for_a_package_has_the_settings_of_both():
    lines = standalone_script(script(), ("llama-x==1.0", "b9")).splitlines()
    at = lines.index("#   LLAMA_SERVER=PATH  a llama-server instead of the package's")
    assert lines[at + 1] == module.SETTINGS.splitlines()[3] and lines[at + 1].startswith("#   MODELS=FOLDER ")
    assert not any("LLAMA_SERVER=build/bin" in line for line in lines)
