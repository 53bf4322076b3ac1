"""Hostile chat templates, tokenizers and GGUF headers: a line on stderr, exit code 2, bounded time and memory."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.model_sizes import sizes_of
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.import_bodies import ImportOptions
from cachesim.tools.request_bodies.template import TemplateRenderer, TemplateSource, read_template
from cachesim.tools.request_bodies.tokenizer import read_tokenizer
from tests.shared import ROOT
from tests.unit.tools.request_bodies.made import chat, found

pytest.importorskip("jinja2")
pytest.importorskip("tokenizers")
resource = pytest.importorskip("resource")

TEMPLATES = {
    "repeat": "{% set x = 'a'*1500000000 %}hi",
    "power": "{% set x = 7**(10**8) %}hi",
    "length": "{{ ('a'*2000000000)|length }}",
    "indent": '{{ "a\nb"|indent(2000000000)|length }}',
    "center": "{% set x = 'a'|center(3000000000) %}hi",
    "format": '{% set x = "%3000000000d" % 1 %}hi',
    "filter": '{% set x = "%3000000000d"|format(1) %}hi',
    "lipsum": "{{ lipsum(n=100000000)|length }}",
    "loop": "{% for a in range(99999) %}" * 4 + "{% set x = a %}" + "{% endfor %}" * 4,
    "emoji": "{% for a in range(100) %}" * 2 + "\N{GRINNING FACE}" * 1000 + "{% endfor %}" * 2,
    "memory": "{% set n = namespace(x='a'*1000000) %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "deep": "{{ " + "(" * 100_000 + ")" * 100_000 + " }}",
    "macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
}


def tokenizer(**parts):
    vocab = {sign: number for number, sign in enumerate("abcdefghijklmnopqrstuvwxyz!<>|_ ")}
    form = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
                      "merges": []}}  # fmt: skip
    return json.dumps(form | parts).encode()


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
EMPTY = {"type": "Replace", "pattern": {"Regex": "[\\s\\S]"}, "content": ""}
TOKENIZERS = {
    "plus": tokenizer(pre_tokenizer=split("(a+)+$")),
    "replace": tokenizer(normalizer={"type": "Sequence", "normalizers": [REPLACE] * 4}),
    "nothing": tokenizer(normalizer=EMPTY),
    "deep": b'{"version": "1.0", "model": ' + b"[" * 1_000_000,
    "broken": tokenizer(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}),
}


def key(name, kind, value):
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + value


def gguf(*keys):
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys)


def texts(n):
    return struct.pack("<IQ", 8, n) + b"\0" * 8 * n


ARCH = key("general.architecture", 8, struct.pack("<Q", 5) + b"llama")
GGUFS = {
    "huge list": lambda: gguf(ARCH, key("x", 9, struct.pack("<IQ", 4, 2**62))),
    "huge list of texts": lambda: gguf(ARCH, key("x", 9, struct.pack("<IQ", 8, 2**62))),
    "huge text": lambda: gguf(ARCH, key("x", 8, struct.pack("<Q", 2**62))),
    "nested list": lambda: gguf(ARCH, key("x", 9, struct.pack("<IQIQ", 9, 2**62, 9, 2**62))),
    "many keys": lambda: b"GGUF" + struct.pack("<IQQ", 3, 0, 2**62) + key("x", 0, b"\0") * 100_000,
    "empty texts": lambda: gguf(ARCH, key("x", 9, texts(10**6))),
    "empty tokens": lambda: gguf(ARCH, key("tokenizer.ggml.tokens", 9, texts(10**6))),
    "most empty texts": lambda: gguf(ARCH, key("tokenizer.x", 9, texts(2**23 - 99))),
    "many small numbers": lambda: gguf(ARCH, key("x", 9, struct.pack("<IQ", 0, 60_000_000) + b"\0" * 60_000_000)),
}
LARGE = ("most empty texts", "many small numbers")       # 64 MB: in the long test only


MEASURE = """
import json, resource, subprocess, sys
with open("out", "wb") as out, open("err", "wb") as err:
    code = subprocess.call(sys.argv[1:], stdout=out, stderr=err)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""Runs a command. A small process starts it: the peak memory of a process counts what it has before ``exec``."""


class Ended:
    """End of a command: exit code, output, CPU seconds, and peak memory [MiB] of its largest process."""

    def __init__(self, folder, argv):
        words = [sys.executable, "-m", "cachesim", *map(str, argv)]
        done = subprocess.run([sys.executable, "-c", MEASURE, *words], capture_output=True, check=True, cwd=folder,
                              env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
        self.code, self.cpu, self.mib = json.loads(done.stdout)
        self.out, self.err = ((folder / name).read_text() for name in ("out", "err"))


TEMPLATE_ENDS = {
    "power": "the chat template takes too long", "repeat": "needs too much memory", "length": "needs too much memory",
    "indent": "needs too much memory", "center": "needs too much memory", "format": "needs too much memory",
    "filter": "needs too much memory", "lipsum": "takes too long", "loop": "takes too long",
    "emoji": "the output of the chat template is too long", "memory": "needs too much memory",
    "deep": "not a chat template: RecursionError", "macro": "the chat template failed: RecursionError",
}  # fmt: skip
TOKENIZER_ENDS = {
    "plus": "the tokenizer failed: PanicException",
    "replace": "the tokenizer ended its parser (killed by SIGABRT), probably out of memory",
    "nothing": "the tokenizer returns no tokens", "deep": "not a tokenizer.json", "broken": "not a tokenizer.json",
}  # fmt: skip


@pytest.fixture
def small(lift):
    lift(PARSER_TIME=1, PARSER_MEMORY=200)


@pytest.mark.part(4)
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_hostile_template_is_one_line(small, name):
    with pytest.raises(BadInput) as error, TemplateRenderer(TemplateSource(TEMPLATES[name], {}), "t") as template:
        template.render(bodies_of([FoundBody("x", chat("hi"))]))
    said = str(error.value)
    has_waited = "times its CPU limit" in said            # a busy machine reaches the limit of the clock first
    assert TEMPLATE_ENDS[name] in said or (has_waited and "too long" in TEMPLATE_ENDS[name])
    assert "\n" not in said


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_hostile_tokenizer_is_one_line(small, tmp_path, name):
    file = tmp_path / "tokenizer.json"
    file.write_bytes(TOKENIZERS[name])
    with pytest.raises(BadInput) as error:
        found(tmp_path, chat("a" * 60 + "!"), asking=ImportOptions(tokenizer=str(file), template=""))
    assert TOKENIZER_ENDS[name] in str(error.value) and "\n" not in str(error.value)


@pytest.mark.part(4)
@pytest.mark.parametrize("name", [name for name in GGUFS if name not in LARGE])
def test_a_hostile_gguf_is_read_in_bounded_time(tmp_path, name):
    (tmp_path / "x.gguf").write_bytes(GGUFS[name]())
    for read in (read_template, read_tokenizer, lambda path: sizes_of(str(path))):
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        with pytest.raises(BadInput):
            read(tmp_path / "x.gguf")
        assert sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before < 10


def imported(folder, option, data, *more, prompt="a" * 60 + "!"):
    """Import a body whose prompt the tokenizers do not like."""
    (folder / "b.json").write_text(json.dumps({"messages": [{"role": "user", "content": prompt}]}))
    (folder / "foreign").write_bytes(data)
    return Ended(folder, ["import", "b.json", option, "foreign", *more])


FILES = [
    *(("--template", TEMPLATES, name) for name in ("loop", "memory", "deep")),
    *(("--tokenizer", TOKENIZERS, name) for name in ("plus", "replace")),
    *zip(("--template", "--sizes"), (GGUFS, GGUFS), LARGE, strict=True),
]  # fmt: skip
"""One file for each kind of end: the tests above have the others."""


@pytest.mark.long
@pytest.mark.parametrize("option, table, name", FILES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_command_with_a_hostile_file_ends_in_bounded_time_and_memory(tmp_path, option, table, name):
    data = table[name]() if table is GGUFS else table[name]
    if option == "--sizes":
        (tmp_path / "x.gguf").write_bytes(data)
        end = Ended(tmp_path, ["advise", "A5/A", option, "x.gguf"])
    else:
        end = imported(tmp_path, option, data if isinstance(data, bytes) else data.encode())
    assert (end.code, end.out, end.err.count("\n")) == (2, "", 1) and end.err.startswith("cachesim: "), end.err
    assert end.cpu < 12 and end.mib < 512, (end.cpu, end.mib)
