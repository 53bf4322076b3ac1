"""Parts of exported Python programs: code of modules of this package, tiny models, the requests of a scenario.

Text of a scenario enters a program only through the functions of ``escaping``, as a literal or a comment.
"""

from __future__ import annotations

import ast
import inspect
import re
from itertools import groupby
from pprint import pformat
from types import ModuleType
from typing import Any, Iterator, Sequence

from cachesim import __version__
from cachesim.base.escaping import comment_line, python_literal
from cachesim.tools.live.llama_server import tiny_gguf, wheel_program
from cachesim.tools.live.llama_server.export import case_program, talk
from cachesim.tools.live.llama_server.export.script import Script, ScriptAction, ScriptRequest, WordSlice, name_of
from cachesim.tools.live.llama_server.gguf_models import find_model, tiny_model
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel

# Shell script that needs only llama-server and a python3 without packages.
#
# It contains a Python program: the case, the code of ``talk``, ``tiny_gguf`` and ``case_program``, the tiny models.

END = "END_OF_PROGRAM"
MODEL = "# The tiny model: keys of its file; tensors with deviation and mean of their values"
CASE = ("FLAGS", "COLD_FLAGS", "CONSTANT", "WORDS", "SPELLED", "EXPECTED", "TOLERANCE")
SETTINGS = """\
# LLAMA_SERVER=build/bin/llama-server sh FILE
# Needs only that server and a python3 without packages: it writes a tiny model with random weights (below), sends the
# requests, then sends each again to a server without a cache. Other settings, as environment variables:
#   MODELS=FOLDER  keep the model there       TOLERANCE=X  largest log-probability difference that is rounding
#   SEED=N         use other tokens           FIRST=N      first token in use
#   WITHIN=S       seconds for a request      DELAY=S      seconds per iteration, between concurrent requests
#   PYTHON=PATH    the python3"""
STATUS = {
    False: "Exit status: 1 the fault shows, 0 it does not, 2 @UNUSABLE@.",
    True: "Exit status: 1 the loss shows or an answer differs, 0 neither, 2 @UNUSABLE@, 3 undecided: other reuse.",
}
"""Meaning of the exit status of a program: for wrong answers, and for lost reuse."""

WHEEL_SETTINGS = """\
# python3 -m venv server && server/bin/pip install @REQUIREMENT@ && PYTHON=server/bin/python sh FILE
# Needs only that package, which contains llama-server @BUILD@: it writes a tiny model with random weights (below),
# sends the requests, then sends each again to a server without a cache. Settings, as environment variables:
#   LLAMA_SERVER=PATH  a llama-server instead of the package's"""

OWN_FOLDER = ("# Import nothing from the current folder", "import sys", "",
              "sys.path[:] = [folder for folder in sys.path if folder]")  # fmt: skip
"""Lines for a program that Python reads from its standard input: it would look there first."""


def standalone_script(script: Script, wheel: tuple[str, str] | None = None) -> str:
    """Return the text of the script. ``wheel``: requirement and build of a package whose server it runs, None = it
    needs a binary."""
    imports, code = code_of(talk, tiny_gguf, case_program)
    settings = SETTINGS
    if wheel is not None:
        head = filled(WHEEL_SETTINGS, REQUIREMENT=wheel[0], BUILD=wheel[1])
        settings = "\n".join([head, *SETTINGS.splitlines()[3:]])
    status = comment_line(exit_status(script, "the server does not start"))
    lines = ["#!/bin/sh", *comment(script), settings, status, f"exec \"${{PYTHON:-python3}}\" - <<'{END}'"]
    lines += ["from __future__ import annotations", "", *OWN_FOLDER, "", *imports]
    lines += ["", "# The case", "", *_case(script), "", ""]
    lines += [code.rstrip(), "", "", MODEL]
    lines += [models_text(script)]
    if wheel is not None:
        lines += ["", "# The program that runs the server of the package", f"WHEEL = {_program_of(wheel_program)}"]
    more = ["lost=LOST", "reference=REFERENCE"] if script.loss else []
    more += ["wheel=WHEEL"] if wheel is not None else []
    lines += [f"sys.exit(run_case(ExportedCase(MODELS, {', '.join([*CASE, 'history', *more])})))"]
    return "\n".join([*lines, END, ""])


def _program_of(module: ModuleType) -> str:
    """Return the source of a module as a literal."""
    return "r" + "'''" + "\n" + inspect.getsource(module) + "'''"


def exit_status(script: Script, unusable: str) -> str:
    """Return the meaning of the exit status of a program. ``unusable``: the problem of status 2."""
    return filled(STATUS[script.loss is not None], UNUSABLE=unusable)


def comment(script: Script) -> Iterator[str]:
    """Yield the comment at the top of a script (``heading``)."""
    yield from map(comment_line, heading(script))


def heading(script: Script) -> Iterator[str]:
    """Yield title, origin, expectation, and deviations from the simulator."""
    scenario = script.scenario
    yield scenario.title
    yield f"Made by cachesim {__version__} from {name_of(scenario)}, expected numbers: {script.profile}."
    for number, fault in script.faults.items():
        yield f"Expected: request {number}: {fault}"
    if script.loss:
        yield f"{script.loss.label}: {script.loss.origin}"
    for note in script.notes:
        yield f"Not as in the simulator: {note}."


def _case(script: Script) -> Iterator[str]:
    """Yield the assignments that describe the case, and the function that runs it."""
    expected = {one.number: script.expected[one.number] for one in script.asks}
    yield assignment("FLAGS", list(script.flags))
    yield assignment("COLD_FLAGS", list(script.cold_flags))
    yield assignment("CONSTANT", list(script.constant))
    yield assignment("WORDS", {word: list(tokens) for word, tokens in script.words.items()})
    yield assignment("SPELLED", sorted(script.spelled))
    yield "# Number of the request: tokens reused, tokens evaluated"
    yield assignment("EXPECTED", {number: (one.cache_n, one.prompt_n) for number, one in expected.items()})
    yield assignment("TOLERANCE", script.tolerance)
    if script.loss:
        yield "# Number of the request: tokens reused with the loss, without it, and evaluated before"
        yield assignment("LOST", script.loss.numbers)
        yield "# Name of the rules without the loss, and a mark of their numbers"
        yield assignment("REFERENCE", (script.loss.label, script.loss.mark))
    yield "\n\ndef history(talk, server, w):"
    yield '    """Send the requests. Answers take the place of tokens of the words ``w``."""'
    for group in script.groups:
        if isinstance(group, ScriptAction) and group.do == "restart":
            flags = "FLAGS" if group.flags is None else python_literal(list(group.flags))
            yield f"    talk.url = server.start(*{flags})"
        else:
            yield from (f"    {line}" for line in group_lines(group))


WIDTH = 116


def filled(text: str, **values: str) -> str:
    """Replace the `@NAME@` placeholders of a text; a placeholder in a value is text."""
    return re.sub("@([A-Z_]+)@", lambda found: values.get(found[1], found[0]), text)


def assignment(name: str, value: Any) -> str:
    """Return an assignment of a literal to a name, in lines of moderate length."""
    text = pformat(value, width=WIDTH, compact=True, sort_dicts=False)
    if "\n" in text:
        text = f"{text[0]}\n {text[1:-1]},\n{text[-1]}"
    return f"{name} = {text}"


def code_of(*modules: ModuleType) -> tuple[list[str], str]:
    """Return the imports that the modules need, and their code after the first line of their docstrings. Imports from
    each other are omitted; other values from cachesim become literals."""
    imports, parts = set[str](), list[str]()
    for module in modules:
        source = inspect.getsource(module)
        docstring, *nodes = ast.parse(source).body
        first = next(node for node in nodes if not isinstance(node, (ast.Import, ast.ImportFrom)))
        title = ast.literal_eval(docstring.value).splitlines()[0]  # type: ignore[attr-defined]
        values = list[str]()
        for node in nodes[: nodes.index(first)]:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cachesim."):
                values += _literals(module, node, modules)
            elif not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                imports.add(ast.unparse(node))
        parts += ["\n".join([f"# {title}", *values]), "\n".join(source.splitlines()[first.lineno - 1 :])]
    return _merged(imports), "\n\n\n".join(parts)


def _literals(module: ModuleType, node: ast.ImportFrom, modules: Sequence[ModuleType]) -> Iterator[str]:
    for name in (one.name for one in node.names if node.module not in {other.__name__ for other in modules}):
        value = getattr(module, name)
        yield assignment(name, list(value) if isinstance(value, tuple) else dict(value))


def _merged(imports: set[str]) -> list[str]:
    """Return imports without repetition, a line per module."""
    plain = sorted(one for one in imports if one.startswith("import "))
    names: dict[str, set[str]] = {}
    for one in imports - set(plain):
        module, _, listed = one.removeprefix("from ").partition(" import ")
        names.setdefault(module, set()).update(listed.split(", "))
    return [*plain, *(f"from {module} import {', '.join(sorted(listed))}" for module, listed in sorted(names.items()))]


def models_text(script: Script) -> str:
    """Return the dictionary MODELS of a program by file name: the server's model, its draft model, its adapters."""
    draft = str(script.scenario.server.get("model_draft") or "")
    models = {script.model.file: tiny_model(script.model),
              **({f"tiny-{draft}.gguf": tiny_model(find_model(draft))} if draft else {}),
              **script.adapters}  # fmt: skip
    entries = (f"    {python_literal(file)}: {_model(one)},\n" for file, one in models.items())
    return "MODELS = {\n" + "".join(entries) + "}"


def _model(made: TinyModel) -> str:
    room = " " * 12
    kinds = "".join(f"{room}{python_literal(kind)}: [\n{_tensors(rows, 16)}{room}],\n"
                    for kind, rows in made.kinds.items())  # fmt: skip
    keys = "".join(f"{room}{python_literal(name)}: {_key(value)},\n" for name, value in made.keys.items())
    return (f"TinyModel(\n        keys={{\n{keys}        }},\n        outer=[\n{_tensors(made.outer, 12)}        ],\n"
            f"        kinds={{\n{kinds}        }},\n        order={python_literal(made.order)},\n"
            f"{f'        seed={made.seed},{chr(10)}' if made.seed else ''}    )")  # fmt: skip


def _key(value: Any) -> str:
    """Return a key's value as an expression; long lists in a short form."""
    long = isinstance(value, list) and len(value) > WIDTH
    if long and isinstance(value[0], int):
        return " + ".join(f"[{number}] * {len(list(run))}" for number, run in groupby(value))
    words = long and not any(" " in one for one in value)
    text = pformat(" ".join(value) if words else value, width=WIDTH - 16)
    if "\n" in text:
        lines = "".join(f"{' ' * 16}{line.strip()}\n" for line in text[1:-1].splitlines())
        text = f"{text[0]}\n{lines}{' ' * 12}{text[-1]}"
    return text + (".split(' ')" if words else "")


def _tensors(tensors: Sequence[Tensor], indent: int) -> str:
    text = ""
    for one in tensors:
        more = {name: value for name, value in zip(one._fields[2:], one[2:], strict=True) if value}
        words = [*map(python_literal, one[:2]), *(f"{name}={python_literal(value)}" for name, value in more.items())]
        text += f"{' ' * indent}Tensor({', '.join(words)}),\n"
    return text


# The requests of a case


def group_lines(group: tuple[ScriptRequest, ...] | ScriptAction) -> Iterator[str]:
    """Yield statements that run a group (not a restart); they use the names ``talk`` and ``w``."""
    if isinstance(group, ScriptAction) and group.do == "lora":
        yield f"talk.adapters({python_literal(list(group.scales))})"
        return
    if isinstance(group, ScriptAction):
        file = f", filename={python_literal(f'{group.file}.bin')}" if group.file else ""
        yield f"talk.slot({group.id_slot}, {python_literal(group.do)}{file})"
        return
    if len(group) == 1:
        yield f"talk.ask({_ask(group[0])})"
    else:
        yield f"talk.together({', '.join(f'({one.after}, lambda: talk.ask({_ask(one)}))' for one in group)})"
    for one in group:
        for completion, at, part in one.heard:
            yield f"talk.hear({one.number}, {completion}, {at}, {_word(part)}, {part.start}, {part.stop})"


def _word(part: WordSlice) -> str:
    return f"w[{python_literal(part.word)}]"


def _ask(request: ScriptRequest) -> str:
    parts = [_word(part) + ("" if part.is_whole else f"[{part.start}:{part.stop}]") for part in request.prompt]
    fields = "".join(f", {name}={python_literal(value)}" for name, value in request.fields.items())
    hang_up = "" if request.hang_up is None else f", hang_up={request.hang_up}"
    return f"{request.number}, {' + '.join(parts) or '[]'}{fields}{hang_up}"
