"""Reference of the public names, generated from their signatures and docstrings into cachesim/pages/python.md.

    python -m tests.docs.reference
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Iterator

import cachesim
from cachesim.base.errors import BadInput
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools import conformance

PAGE = Path(cachesim.__file__).parent / "pages" / "python.md"
OF_CONFORM = ("Reply", "Report", "PagedMemory")          # names of cachesim.tools.conformance that a test needs
ARGUMENTS = re.compile(r"(?<=^Arguments of ``conform``, all but the first by name:\n\n).*?(?=\n\n\S)", re.M | re.S)
REGION = re.compile(r"(?<=<!-- reference -->\n).*?(?=<!-- /reference -->)", re.S)
WIDTH = 110


def public_members(kind: type) -> dict[str, object]:
    """Return the public methods and properties of a class, by name in the order of their definition, bases last.
    Fields of records are described by the docstring of their class."""
    found: dict[str, object] = {}
    for base in kind.__mro__:
        if not base.__module__.startswith("cachesim"):
            continue
        for name, value in vars(base).items():
            if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                found.setdefault(name, value)
    return found


def undocumented() -> list[str]:
    """Return the public names, and public members of the classes among them, that have no docstring."""
    objects = {name: getattr(cachesim, name) for name in cachesim.__all__}
    members = {f"{name}.{member}": value for name, kind in objects.items() if inspect.isclass(kind)
               for member, value in public_members(kind).items()}  # fmt: skip
    return [name for name, value in {**objects, **members}.items() if not getattr(value, "__doc__", None)]


def reference() -> str:
    """Return the reference as Markdown: functions, results, exceptions."""
    objects = {name: getattr(cachesim, name) for name in cachesim.__all__}
    functions = {name: value for name, value in objects.items() if not inspect.isclass(value)}
    errors = {name: value for name, value in objects.items()
              if inspect.isclass(value) and issubclass(value, AssertionError | BadInput)}  # fmt: skip
    results = {name: value for name, value in objects.items() if name not in functions and name not in errors}
    parts = [part for name, value in functions.items() for part in _function(name, value)]
    parts.insert(3, f"```\n{inspect.cleandoc(ARGUMENTS.search(conformance.__doc__)[0])}\n```")
    parts += [part for name, value in {**results, **errors}.items() for part in _class(name, value)]
    parts += [part for name in OF_CONFORM for part in _class(f"tools.conformance.{name}", getattr(conformance, name))]
    return "\n\n".join(parts) + "\n"


def _function(name: str, function: object) -> Iterator[str]:
    yield f"### `{name}`"
    yield f"```python\n{_call(name, function)}\n```"
    yield _markdown(function)


def _class(name: str, kind: type) -> Iterator[str]:
    yield f"### `{name}`"
    yield _markdown(kind)
    members = [_member(member, value) for member, value in public_members(kind).items()]
    if members:
        yield "\n".join(members)


def _member(name: str, value: object) -> str:
    call = name if isinstance(value, property) else f"{name}{_parameters(value)}"
    return f"- `{call}`: {' '.join(_markdown(value).split())}"


def _call(name: str, function: object) -> str:
    """Return the call of a function without types, wrapped."""
    words = f"cachesim.{name}{_parameters(function)}"
    if len(words) <= WIDTH:
        return words
    head, _, inner = words.partition("(")
    lines, line = [], ""
    for word in re.split(r"(?<=,) (?=[\w*])", inner[:-1]):
        if line and len(line) + len(word) > WIDTH - 6:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return f"{head}(\n    " + "\n    ".join([*lines, line]) + ",\n)"


def _parameters(function: object) -> str:
    signature = inspect.signature(function)
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
    shown = [one.replace(default=_Shown(one.default)) if one.default is not one.empty else one for one in plain]
    return str(signature.replace(parameters=shown, return_annotation=signature.empty))


class _Shown:
    """Default value of a parameter. A function is shown by its name; the newest rule set, which changes, by a word."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        if self.value == DEFAULT_PROFILE:
            return "NEWEST"
        return getattr(self.value, "__name__", None) or repr(self.value)


def _markdown(value: object) -> str:
    """Return a docstring as Markdown: code between single backticks, aligned columns as they are."""
    return "\n\n".join(map(_paragraph, (inspect.getdoc(value) or "").split("\n\n")))


def _paragraph(text: str) -> str:
    if re.search(r"\S {3,}\S", text):
        return f"```\n{text.replace('``', '')}\n```"
    return re.sub(r"``(.+?)``", r"`\1`", text)


def renewed(text: str) -> str:
    """Return the text of the page with the current reference."""
    return REGION.sub(lambda _: reference(), text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
