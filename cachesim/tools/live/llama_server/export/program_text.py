"""Texts of which exported programs in Python consist: code of our modules, tiny models, the requests of a case.

What a scenario says enters a program as a Python literal, or as a comment of one line: it is never code.
"""

from __future__ import annotations

import ast
import inspect
from itertools import groupby
from pprint import pformat
from types import ModuleType
from typing import Any, Iterator, Sequence

from cachesim.tools.live.llama_server.export.script import Act, Script, ScriptRequest, WordSlice
from cachesim.tools.live.llama_server.gguf_models import GgufModel, find_model, tiny_model
from cachesim.tools.live.llama_server.tiny_gguf import Tensor

WIDTH = 116


def one_line(text: str) -> str:
    """A text as it may stand in a comment."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def assignment(name: str, value: Any) -> str:
    """A literal that is assigned to a name, in lines of moderate length."""
    text = pformat(value, width=WIDTH, compact=True, sort_dicts=False)
    if "\n" in text:
        text = f"{text[0]}\n {text[1:-1]},\n{text[-1]}"
    return f"{name} = {text}"


def code_of(*modules: ModuleType) -> tuple[list[str], str]:
    """The imports that modules of ours need, and their code under the first lines of their docstrings. What they import
    from each other is there; other values from cachesim become literals."""
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
    if node.module not in {one.__name__ for one in modules}:
        yield from (assignment(one.name, _plain(getattr(module, one.name))) for one in node.names)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else dict(value)


def _merged(imports: set[str]) -> list[str]:
    """Imports without repetition: one line for each module."""
    plain = sorted(one for one in imports if one.startswith("import "))
    names: dict[str, set[str]] = {}
    for one in imports - set(plain):
        module, _, listed = one.removeprefix("from ").partition(" import ")
        names.setdefault(module, set()).update(listed.split(", "))
    return [*plain, *(f"from {module} import {', '.join(sorted(listed))}" for module, listed in sorted(names.items()))]


def models_text(script: Script) -> str:
    """The dictionary MODELS of a program: by the name of the file the server's model, then its draft model."""
    draft = str(script.scenario.server.get("model_draft") or "")
    models = {script.model.file: script.model, **({f"tiny-{draft}.gguf": find_model(draft)} if draft else {})}
    return "MODELS = {\n" + "".join(f"    {file!r}: {_model(one)},\n" for file, one in models.items()) + "}"


def _model(model: GgufModel) -> str:
    made = tiny_model(model)
    kinds = "".join(f"{' ' * 12}{kind!r}: [\n{_tensors(rows, 16)}{' ' * 12}],\n" for kind, rows in made.kinds.items())
    keys = "".join(f"{' ' * 12}{name!r}: {_key(value)},\n" for name, value in made.keys.items())
    return (
        f"TinyModel(\n        keys={{\n{keys}        }},\n        outer=[\n{_tensors(made.outer, 12)}        ],\n"
        f"        kinds={{\n{kinds}        }},\n        order={made.order!r},\n    )"
    )


def _key(value: Any) -> str:
    """A key's value as an expression; long lists in a short form."""
    long = isinstance(value, list) and len(value) > WIDTH
    if long and isinstance(value[0], int):
        return " + ".join(f"[{number}] * {len(list(run))}" for number, run in groupby(value))
    words = long and not any(" " in one for one in value)
    text = pformat(" ".join(value) if words else value, width=WIDTH - 16, sort_dicts=False)
    if "\n" in text:
        lines = "".join(f"{' ' * 16}{line.strip()}\n" for line in text[1:-1].splitlines())
        text = f"{text[0]}\n{lines}{' ' * 12}{text[-1]}"
    return text + (".split(' ')" if words else "")


def _tensors(tensors: Sequence[Tensor], indent: int) -> str:
    return "".join(f"{' ' * indent}{_tensor(one)},\n" for one in tensors)


def _tensor(one: Tensor) -> str:
    more = [f"{name}={value!r}" for name, value in zip(one._fields[2:], one[2:], strict=True) if value]
    return f"Tensor({', '.join([repr(one.name), repr(one.shape), *more])})"


# The requests of a case


def group_lines(group: tuple[ScriptRequest, ...] | Act) -> Iterator[str]:
    """Statements that play a group, but no restart; ``talk`` and the words ``w`` must be there."""
    if isinstance(group, Act):
        file = f", filename={f'{group.file}.bin'!r}" if group.file else ""
        yield f"talk.slot({group.id_slot}, {group.do!r}{file})"
        return
    if len(group) == 1:
        yield f"talk.ask({_ask(group[0])})"
    else:
        yield f"talk.together({', '.join(f'({one.after}, lambda: talk.ask({_ask(one)}))' for one in group)})"
    for one in group:
        yield from _heard(one)


def _ask(one: ScriptRequest) -> str:
    prompt = " + ".join(map(_part, one.prompt)) or "[]"
    fields = "".join(f", {name}={value!r}" for name, value in one.fields.items())
    hang_up = "" if one.hang_up is None else f", hang_up={one.hang_up}"
    return f"{one.number}, {prompt}{fields}{hang_up}"


def _part(one: WordSlice) -> str:
    return f"w[{one.word!r}]" + ("" if one.whole else f"[{one.start}:{one.stop}]")


def _heard(one: ScriptRequest) -> Iterator[str]:
    for completion, parts in enumerate(one.answers):
        at = 0
        for part in parts:
            yield f"talk.hear({one.number}, {completion}, {at}, w[{part.word!r}], {part.start}, {part.stop})"
            at += part.stop - part.start
