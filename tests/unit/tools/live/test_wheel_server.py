"""Tests of the launcher of the wheel's server, with a stand-in for the wheel."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.flags import FLAGS as SIMULATED
from cachesim.engines.llama_cpp.flags import READ_OVER
from cachesim.tools.live.llama_server import wheel_server
from cachesim.tools.live.llama_server.process import Process
from cachesim.tools.live.llama_server.server import BASE, ServerStart
from cachesim.tools.live.llama_server.wheel_program import FLAGS, BadCommand, build_of, main, parameters, settings_of
from cachesim.tools.live.llama_server.wheel_server import require_wheel, write_launcher

WHEEL = textwrap.dedent("""
    import os, threading, time

    class Part:
        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return self.__dict__.setdefault(name, Part())

    class CommonParams(Part):
        embedding, kv_unified_per_slot, hostnames, model_alias = False, 0, [""], set()

    llama_flash_attn_type = ggml_type = Part()

    class Server:
        def __init__(self, params):
            print(f"listening on {params.hostnames[0]}:{params.port}", flush=True)
            self.stopped = threading.Event()
            threading.Thread(target=self.stopped.wait, daemon=True).start()

        def __del__(self):
            print("cleaning up before exit", flush=True)
            self.stopped.set()
""")


@pytest.fixture
def python(tmp_path):
    """An interpreter that imports a stand-in for the wheel, also with -I."""
    (folder := tmp_path / "site").mkdir()
    (folder / "xllamacpp.py").write_text(WHEEL)
    (folder / "xllamacpp-2026.10.11549.dist-info").mkdir()
    (folder / "xllamacpp-2026.10.11549.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: xllamacpp\nVersion: 2026.10.11549\n"
    )
    script = tmp_path / "python"
    code = f"import sys, runpy; sys.path.insert(0, {str(folder)!r}); sys.argv = sys.argv[1:]; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__') if sys.argv[0] != '-c' else exec(sys.argv[1])"
    script.write_text(f"#!/bin/sh\nshift\nexec {sys.executable} -I -c \"{code}\" \"$@\"\n")
    script.chmod(0o755)
    return script


class Library:
    """A library whose enumerations have the names that are asked for."""

    class Names:
        def __getattr__(self, name):
            return name

    llama_flash_attn_type = ggml_type = llama_pooling_type = common_speculative_type = Names()

    class CommonAdapterLoraInfo:
        def __init__(self, path, scale):
            self.pair = path, scale

    class CommonParams:
        def __init__(self):
            self.n_parallel, self.kv_unified, self.port = 1, False, 0
            self.n_ctx, self.kv_unified_per_slot, self.embedding, self.n_batch, self.n_ubatch = 0, 0, False, 2048, 512
            self.model = type("Part", (), {"path": ""})()
            self.model_alias, self.hostnames = set(), ["127.0.0.1"]
            self.speculative = type("Part", (), {"types": []})()


class OlderLibrary(Library):
    """A release with other names, without adapters, n-gram sizes and a cache in host memory."""

    class CommonParams:
        def __init__(self):
            self.n_parallel, self.kv_unified, self.port, self.embedding = 1, False, 0, False
            self.hostname, self.model_alias, self.n_swa_checkpoints, self.checkpoint_every_nt = "", "", 3, 8192
            self.clear_idle = True
            self.speculative = type("Part", (), {"type": 0, "n_max": 16})()


def started(python, tmp_path):
    launcher = write_launcher(python, tmp_path)
    log = tmp_path / "log"
    start = ServerStart(launcher, tmp_path / "tiny.gguf", ("-np", "1"), "b11549")
    process = Process(lambda port: start.command(port, tmp_path), log)
    process.wait(lambda: "listening" in log.read_text(), 60, "starting")
    return process, log


def children(group):
    """Return the processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_the_launcher_runs_the_wheel_with_the_flags_of_a_start_until_sigterm_and_no_process_remains(python, tmp_path):
    process, log = started(python, tmp_path)
    with process:
        assert log.read_text() == f"listening on 127.0.0.1:{process.port}\n"
        process.terminate()
    assert process.returncode == 0
    assert log.read_text().endswith("cleaning up before exit\n")
    assert children(process.group) == []


def test_stop_leaves_no_process(python, tmp_path):
    process, _ = started(python, tmp_path)
    process.stop()
    assert children(process.group) == []


def test_the_launcher_reports_the_build_of_the_wheel_and_refuses_an_unknown_flag_in_a_line(python, tmp_path):
    launcher = write_launcher(python, tmp_path)
    done = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "version: 11549 (xllamacpp 2026.10.11549)\n"
    done = subprocess.run([launcher, "--no-such-flag"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: unknown flag: '--no-such-flag'\n")


@pytest.mark.parametrize(("text", "words"), [
    ("", "not an executable file"), ("#!/bin/sh\nexit 1\n", "has no xllamacpp"),
])  # fmt: skip
def test_an_environment_without_the_wheel_is_refused(tmp_path, text, words):
    python = tmp_path / "python"
    if text:
        python.write_text(text)
        python.chmod(0o755)
    with pytest.raises(BadInput, match=words):
        write_launcher(python, tmp_path)


def test_every_flag_that_the_simulator_knows_is_mapped():
    known = {word for flag in SIMULATED for word in (*flag.spellings, *flag.off)} | set(READ_OVER)
    assert known - set(FLAGS) == set()


def test_base_flags_are_mapped_to_parameters():
    assert {one.flag.attribute: one.value for one in settings_of(BASE, Library())} == {
        "cpuparams.n_threads": 1, "cpuparams_batch.n_threads": 1, "flash_attn_type": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
        "cache_type_k": "GGML_TYPE_F32", "cache_type_v": "GGML_TYPE_F32", "warmup": False, "fit_params": False,
        "verbosity": 5,
    }  # fmt: skip


@pytest.mark.parametrize(("words", "attribute", "value"), [
    (["-np", "2"], "n_parallel", 2),
    (["-sps", "0.5"], "slot_prompt_similarity", 0.5),
    (["--no-cache-prompt"], "cache_prompt", False),
    (["--alias", "one"], "model_alias", "one"),
    (["--spec-type", "draft-mtp,ngram-simple"], "speculative.types speculative.type",
     ["COMMON_SPECULATIVE_TYPE_DRAFT_MTP", "COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE"]),
])  # fmt: skip
def test_a_flag_sets_an_attribute(words, attribute, value):
    [setting] = settings_of(words, Library())
    assert (setting.flag.attribute, setting.value) == (attribute, value)


def test_an_attribute_has_the_name_and_the_shape_that_it_has_in_the_release():
    words = ["--host", "::1", "-a", "one", "-ctxcp", "4", "-cms", "64", "--no-cache-idle-slots",
             "--spec-type", "draft-simple", "--spec-draft-n-max", "5"]  # fmt: skip
    older = parameters(words, OlderLibrary())
    assert (older.hostname, older.model_alias) == ("::1", "one")
    assert (older.n_swa_checkpoints, older.checkpoint_every_nt) == (4, 64)
    assert (older.clear_idle, older.speculative.n_max) == (False, 5)
    assert older.speculative.type == "COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE"
    newer = parameters(["--host", "::1", "-a", "one", "--spec-type", "draft-mtp,ngram-simple"], Library())
    assert (newer.hostnames, newer.model_alias, len(newer.speculative.types)) == (["::1"], {"one"}, 2)


@pytest.mark.parametrize("words", [["--lora", "x"], ["-cram", "64"], ["--kv-unified-per-slot", "5"], ["-fit", "on"]])
def test_what_a_release_lacks_is_refused_by_name(words):
    with pytest.raises(BadCommand, match=f"this release has no {words[0]}"):
        parameters(words, OlderLibrary())


def test_what_a_release_lacks_is_accepted_where_it_behaves_that_way():
    parameters(["-cram", "0", "-fit", "off", "--kv-unified-per-slot", "0", "--cache-prompt"], OlderLibrary())


@pytest.mark.parametrize(("wheel", "build"), [
    ("2026.10.11549", "11549"), ("2026.4.8672.1", "8672"), ("0.2.14", "0"),
])  # fmt: skip
def test_the_build_of_a_wheel(wheel, build):
    assert build_of(wheel) == build


def test_adapters_have_their_scales():
    [setting] = settings_of(["--lora-scaled", "/a:b.gguf:0.5,/c.gguf:1"], Library())
    assert setting.flag.attribute == "lora_adapters"
    assert [adapter.pair for adapter in setting.value] == [("/a:b.gguf", 0.5), ("/c.gguf", 1.0)]


def test_the_program_needs_the_wheel_to_serve():
    with pytest.raises(ImportError):
        main(["-np", "1"])


@pytest.mark.parametrize(("text", "said"), [
    ("echo 0 0.2.7", ""), ("exit 0", "this Python has no xllamacpp"), ("exit 1", "this Python has no xllamacpp"),
    ("sleep 9", "longer than"), ("yes", "more than"),
])  # fmt: skip
def test_what_the_interpreter_prints_is_not_shown(tmp_path, monkeypatch, capfd, text, said):
    monkeypatch.setattr(wheel_server, "IMPORT_WITHIN", 0.3)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho err >&2; {text}\n")
    python.chmod(0o755)
    refused = ""
    try:
        require_wheel(python)
    except BadInput as error:
        refused = str(error)
    assert said in refused and bool(refused) == bool(said) and capfd.readouterr() == ("", "")
