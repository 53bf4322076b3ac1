"""Program of a wheel: readers of values, shapes of attributes, its end by a signal, and its exit codes."""

from __future__ import annotations

import pytest

from cachesim.tools.live.llama_server import wheel_program
from cachesim.tools.live.llama_server.wheel_program import (
    ENDING,
    FLAGS,
    TABLE,
    BadCommand,
    Setting,
    WheelFlag,
    apply,
    parameters,
    serve,
    settings_of,
    shaped,
)


class Params:
    """Attributes of a library's object."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Names:
    """Enumeration whose members are their names, except those that are missing."""

    def __init__(self, *missing):
        self.missing = missing

    def __getattr__(self, name):
        if name in self.missing:
            raise AttributeError(name)
        return name


class Library:
    """Stand-in for the module of the wheel."""

    llama_flash_attn_type = ggml_type = llama_pooling_type = Names("GGML_TYPE_X")

    def __init__(self, *missing, **params):
        self.common_speculative_type = Names(*missing)
        defaults = {"embedding": False, "n_batch": 2048, "n_ubatch": 512, "n_ctx": 0, "kv_unified": False}
        self.CommonParams = lambda: Params(**{**defaults, **params})

    @staticmethod
    def CommonAdapterLoraInfo(file, scale):
        return file, scale


def read(*words, library=None):
    return [(one.name, one.value) for one in settings_of(words, library or Library())]


@pytest.mark.parametrize(("words", "value"), [
    (("-c", "512"), 512), (("-sps", "0.5"), 0.5), (("-m", "x"), "x"), (("-fit", "on"), True), (("-fit", "off"), False),
    (("-fa", "on"), "LLAMA_FLASH_ATTN_TYPE_ENABLED"), (("-fa", "auto"), "LLAMA_FLASH_ATTN_TYPE_AUTO"),
    (("-ctk", "q8_0"), "GGML_TYPE_Q8_0"), (("--pooling", "mean"), "LLAMA_POOLING_TYPE_MEAN"),
    (("--lora", "a,b"), [("a", 1.0), ("b", 1.0)]), (("--lora-scaled", "a:0.5,b:2"), [("a", 0.5), ("b", 2.0)]),
    (("--lora-init-without-apply",), True), (("--no-slots",), False), (("--swa-full",), True),
])  # fmt: skip
def test_a_value_is_read_by_its_flag(words, value):
    assert read(*words) == [(words[0], value)]


def test_drafters_have_older_names_in_older_releases():
    start = "COMMON_SPECULATIVE_TYPE_"
    assert read("--spec-type", "draft-simple,ngram-mod")[0][1] == [f"{start}DRAFT_SIMPLE", f"{start}NGRAM_MOD"]
    older = Library(f"{start}DRAFT_SIMPLE", f"{start}DRAFT_EAGLE3")
    assert read("--spec-type", "draft-simple,draft-eagle3", library=older)[0][1] == [f"{start}DRAFT", f"{start}EAGLE3"]


@pytest.mark.parametrize(("words", "said"), [
    (("-c",), "expected a value for -c"), (("-c", "x"), "invalid value for -c: 'x'"),
    (("--xyz",), "unknown flag: '--xyz'"),
    (("-fa", "yes"), "invalid value for -fa: 'yes'"), (("-ctk", "x"), "invalid value for -ctk: 'x'"),
    (("-fit", "true"), "invalid value for -fit: 'true'"),
    (("--lora-scaled", "a"), "invalid value for --lora-scaled: 'a'"),
])  # fmt: skip
def test_a_wrong_command_is_named(words, said):
    with pytest.raises(BadCommand) as refused:
        settings_of(["-np", "2", *words], Library())
    assert str(refused.value) == said


def test_every_spelling_belongs_to_one_flag():
    assert sum(len(names.split()) for names in TABLE) == len(FLAGS)
    assert FLAGS["-md"].attributes == ["speculative.draft.mparams.path", "speculative.mparams_dft.path",
                                       "speculative.model.path"]  # fmt: skip


@pytest.mark.parametrize(("value", "present", "found"), [
    (5, 4, 5), (5, [1], [5]), (5, {1}, {5}), ([5, 6], [1], [5, 6]), ([5, 6], {1}, [5, 6]), ([5], 4, 5),
])  # fmt: skip
def test_a_value_has_the_shape_of_the_present_one(value, present, found):
    assert shaped(value, present) == found


def test_several_values_do_not_fit_a_single_one():
    for value in ([], [5, 6]):
        with pytest.raises(BadCommand, match="takes a single"):
            shaped(value, 4)


@pytest.mark.parametrize(("words", "params", "found"), [
    ((), {}, (8080, 4, True, 0)), (("-np", "2"), {}, (8080, 2, False, 0)), (("-np", "-1"), {}, (8080, 4, True, 0)),
    (("-np", "0"), {}, (8080, 0, False, 0)), (("--port", "9"), {"port": 1}, (9, 4, True, 0)),
    (("--kv-unified-per-slot", "100"), {"kv_unified_per_slot": 0}, (8080, 4, True, 400)),
    (("--kv-unified-per-slot", "100", "-c", "50"), {"kv_unified_per_slot": 0}, (8080, 4, True, 50)),
    (("-np", "3", "--kv-unified-per-slot", "1"), {"kv_unified_per_slot": 0}, (8080, 3, False, 3)),
])  # fmt: skip
def test_a_server_has_the_defaults_of_a_llama_server(words, params, found):
    made = parameters(words, Library(**{"port": 0, "n_parallel": 1, **params}))
    assert (made.port, made.n_parallel, made.kv_unified, made.n_ctx) == found


@pytest.mark.parametrize(("words", "batch"), [((), 2048), (("--embedding",), 512), (("--embedding", "-b", "64"), 64)])
def test_an_embedding_server_has_batches_of_at_most_a_micro_batch(words, batch):
    assert parameters(words, Library(n_parallel=1)).n_batch == batch


def test_a_server_runs_until_a_signal_and_ends_itself(monkeypatch):
    events = []

    class Server:
        def __init__(self, params):
            events.append(("start", params.n_parallel))

        def __del__(self):
            events.append("end")

    library = Library(n_parallel=1)
    library.Server = Server
    monkeypatch.setattr(wheel_program.signal, "pthread_sigmask", lambda how, signals: events.append(("mask", signals)))
    monkeypatch.setattr(wheel_program.signal, "sigwait", lambda signals: events.append(("wait", signals)))
    serve(["-np", "2"], library)
    assert events == [("mask", ENDING), ("start", 2), ("wait", ENDING), "end"]


def test_a_flag_sets_the_attribute_that_the_release_has():
    flag = WheelFlag("newest.name old_name", str, idle="off")
    for params, value in ((Params(newest=Params(name="a"), old_name="b"), ("x", "b")),
                          (Params(newest=Params(), old_name="b"), (None, "x")),
                          (Params(old_name="b"), (None, "x"))):  # fmt: skip
        apply(Setting("--flag", flag, "x"), params)
        assert (getattr(getattr(params, "newest", None), "name", None), params.old_name) == value
    apply(Setting("--flag", flag, "off"), Params())
    with pytest.raises(BadCommand, match="this release has no --flag"):
        apply(Setting("--flag", flag, "x"), Params())
