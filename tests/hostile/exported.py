"""Scenarios with arbitrary texts, and the programs that run or parse the files that are exported from them.

A text that leaves its field creates a file, an element or a statement whose name is OWNED.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

from cachesim.cli.main import main
from tests.hostile.mutant import Mutant
from tests.hostile.nasty import SURROGATE, TEXTS
from tests.hostile.tame import tame
from tests.hostile.written import to_toml

OWNED = (
    "x\n>OWNED", "x\r>OWNED", "x\n>OWNED\n#", "$(>OWNED)", "`>OWNED`", "';>OWNED;'", "\";>OWNED;\"", "\\\n>OWNED",
    "x;>OWNED", "\nEND\n>OWNED\n", "\nEND_OF_PROGRAM\n>OWNED\n", "&& >OWNED", "'\"$(>OWNED)\"'", "\u2028>OWNED",
    "\x85>OWNED", "\x0c>OWNED", "\x0b>OWNED", "x\n:>OWNED;:", "*/ >OWNED", "@GREEDY@ $(>OWNED)", "\x1c>OWNED",
    "$'\\n'>OWNED", "'''\nopen('OWNED', 'w')\n'''", '"""\nopen("OWNED", "w")\n"""', "x\nopen('OWNED', 'w')", "\\",
    "\\'\nopen('OWNED', 'w') #", "' + str(open('OWNED', 'w')) + '", "{open('OWNED', 'w')}", "\x0copen('OWNED', 'w')",
    "\x00\nopen('OWNED', 'w')", "<owned>", "</title><owned>", "\"><owned>", "' owned='", "\" owned=\"",
    "</script><owned>", "--><owned>", "]]><owned>", "<!-- ", "&lt;owned&gt;", "</text></svg><owned>",
    "javascript:owned", "```\n<owned>\n```", "| a | b |", "[x](javascript:0)", "\x1b[31m", "\x1b]0;t\x07", "\x9b31m",
    "\x00", "\x7f", "\u202e", "\ufffe", "\uffff", "a\tb", "'''", '"""', "]]>", "x" * 5000,
)  # fmt: skip
FORMS = {"curl": "sh", "script": "sh", "pytest": "py", "llama-server-test": "py", "issue": "md", "toml": "toml"}
WEIGHTS = (5, 1, 3, 3, 2, 3)
MADE = ("out.*",)
PACKAGES = ("torch", "vllm")         # packages that exported tests import, and that need not be installed
REPLACED = "sglang"                  # package whose parts an exported test replaces; the test is only parsed
STUBS = """curl() { echo 200; }; jq() { echo null; }; sleep() { :; }; PYTHON=cat; . ./out.sh"""
"""Shell functions instead of the programs that ask a server; ``PYTHON=cat`` prints the program of a script."""


def _text(rng, text):
    """Return a text for a field: a hostile text, or the text of the field around it."""
    put = rng.choice(OWNED if rng.random() < 0.8 else TEXTS)
    return rng.choice((put, put + text, text + put, text[: len(text) // 2] + put + text[len(text) // 2 :]))


def _rename(data, rng):
    """Give a word another name, also in the prompts."""
    old = rng.choice(list(data["words"]))
    new = rng.choice(("é", "A" * 300, "_", "class", "def", "w", "END", "os", "IFS", "PATH", _text(rng, old)))
    data["words"] = {new if name == old else name: size for name, size in data["words"].items()}
    for request in data["request"]:
        for field in [name for name, value in request.items() if isinstance(value, str) and name != "why"]:
            request[field] = re.sub(rf"\b{old}\b", lambda _: new, request[field])


def bent_scenario(data, rng):
    """Change 1 to 3 texts of a scenario in place."""
    for _ in range(rng.choices((1, 2, 3), (4, 4, 2))[0]):
        how = rng.randrange(20)
        if how < 8:
            name = ("title", "why")[how % 2]
            data[name] = SURROGATE if rng.random() < 0.02 else _text(rng, str(data[name]))
        elif how < 11:
            data["source"] = [_text(rng, one) for one in data["source"]]
        elif how < 15:
            request = rng.choice(data["request"])
            request["why"] = _text(rng, str(request.get("why", "")))
        elif how < 17:
            _rename(data, rng)
        else:
            _narrow(data, rng)


def _narrow(data, rng):
    """Change a text of which only some values are accepted."""
    how = rng.randrange(4)
    if how < 3:
        name = ("symptom", "model", "id")[how]
        data[name] = _text(rng, str(data.get(name, "")))
    else:
        name = rng.choice(("model_draft", "slot_save_path", "spec_type", "chat_template", "x"))
        data.setdefault("server", {})[name] = _text(rng, "")


def export(rng, number, texts):
    """Return an export, or a picture, of a scenario with hostile texts. ``texts``: scenario files."""
    data = tomllib.loads(rng.choice(texts).decode())
    if data["engine"] != "llama_cpp":
        data = tomllib.loads(rng.choice(texts).decode())
    bent_scenario(data, rng)
    name = f"{data['id']}.toml" if str(data["id"]).replace("-", "").isalnum() and len(data["id"]) < 99 else "a.toml"
    form = rng.choices(list(FORMS), WEIGHTS)[0]
    written = ["export", name, "--to", form, "--out", f"out.{FORMS[form]}"]
    argv = list(rng.choice((
        written, written, ["why", name, "1", "--html", "out.html"],
        ["run", name, "--provenance", "--svg", "out.svg", "--html", "out.html"],
        ["run", name, "--provenance", "--trace", "out.json", "-v"],
    )))  # fmt: skip
    if argv[0] != "export":
        argv += ["-p", data["profiles"][0]]
    return Mutant("export", number, tame(argv), {name: to_toml(data).encode("utf-8", "surrogatepass")}, MADE,
                  given_to="exported", lines=20)  # fmt: skip


# Programs that run or parse the files


def executed(mutant):
    """Run the command line of a mutant, then run or parse every file that it made. Raise if a text left its field."""
    code = main(list(mutant.argv))
    for path in sorted(Path().glob("out.*")):
        text = path.read_text("utf-8")
        bad = [sign for sign in text if unicodedata.category(sign) in ("Cc", "Cs") and sign not in "\t\n"]
        assert not bad, f"{path}: U+{ord(bad[0]):04X}"
        READ[path.suffix](text)
        assert not Path("OWNED").exists(), f"{path} ran a text"
    return code


def _shell(text):
    """Run a shell script, and the Python program that it contains."""
    env = {**os.environ, "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(["/bin/sh", "-c", STUBS], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                           check=False)  # fmt: skip
    assert b"yntax error" not in ended.stderr and b"not found" not in ended.stderr, ended.stderr[-300:]
    if "<<'END_OF_PROGRAM'" in text:              # not only the word, which a title may contain
        _python(ended.stdout.decode())


def _python(text):
    """Run the statements of a Python program or test, except the last, which starts the case."""
    tree = ast.parse(text)
    assert not any(map(_opens, ast.walk(tree))), "a text is a call"
    if f"\nfrom {REPLACED}." in text:
        return
    if isinstance(tree.body[-1], ast.Expr):
        del tree.body[-1]
    sys.modules["utils"] = _Stub("utils")
    for name in _packages(tree):
        sys.modules[name] = _Package(name)
    module = ModuleType("exported")
    sys.modules["exported"] = module
    exec(compile(tree, "out.py", "exec"), vars(module))


def _packages(tree):
    """Return the modules of PACKAGES that a program imports, and the packages around them."""
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    parts = [name.split(".") for name in sorted(names)]
    return {".".join(path[:size]) for path in parts if path[0] in PACKAGES for size in range(1, len(path) + 1)}


def _opens(node):
    """True if a node of a syntax tree is a call that a hostile text contains."""
    return isinstance(node, ast.Call) and ast.unparse(node).startswith(("open('OWNED'", 'open("OWNED"'))


class _Stub(ModuleType):
    """Stand-in for the module ``utils`` of llama.cpp's server tests."""

    __all__ = ("ServerProcess", "ServerPreset")
    ServerProcess = ServerPreset = object


class _Package(ModuleType):
    """Stand-in for a module of PACKAGES, with every name."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return object


class _Tags(HTMLParser):
    """Parser that refuses elements and attributes of hostile texts."""

    def handle_starttag(self, tag, attrs):
        assert tag != "owned" and not any(name == "owned" for name, _ in attrs), tag


def _svg(text):
    for element in ElementTree.fromstring(text).iter():
        assert not str(element.tag).endswith("owned") and "owned" not in element.attrib, element.tag


READ = {".sh": _shell, ".py": _python, ".md": str, ".toml": tomllib.loads, ".svg": _svg, ".json": json.loads,
        ".html": lambda text: _Tags().feed(text)}  # fmt: skip
