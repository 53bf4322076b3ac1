"""What every engine and every server offers."""

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.capabilities import Flag
from cachesim.engines.contract import Server
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.command_table import default_table
from cachesim.events import Log

LLAMA = ENGINES["llama_cpp"]


class Counting(Server):
    """Answers a request in the third round after its arrival."""

    def __init__(self):
        self.steps, self.left, self.log, self.model, self.constants = [], 0, Log(), None, ()

    dead = False

    @property
    def idle(self):
        return not self.left

    def submit(self, request):
        self.steps.append("submit")
        self.left = 3
        return Answer(len(request.prompt))

    def take_tasks(self):
        self.steps.append("take")

    def update(self):
        self.steps.append("update")
        self.left -= 1


def test_a_request_is_completed_round_by_round():
    server = Counting()
    assert server.working is False
    assert server.complete(Request((1, 2))).request == 2
    assert server.steps == ["submit", *["take", "update"] * 3] and server.idle


def test_a_server_without_slots_or_adapters_refuses_to_act_on_them():
    server = Counting()
    with pytest.raises(BadInput, match=r"this server has no slots to save \(restart\)"):
        server.slot("save", 0, None)
    with pytest.raises(BadInput, match="this engine has no adapters"):
        server.set_adapters([])
    assert server.stuck is False


def test_a_copy_of_a_server_runs_on_its_own_and_shares_what_does_not_change():
    server = LLAMA.start("llama_cpp@b10587", "A", {}, "provenance")
    server.complete(Request(tuple(range(20)), 2))
    fork = server.fork()
    assert fork.model is server.model and fork.log.events == server.log.events
    assert fork.log.events[0] is server.log.events[0]
    assert fork.complete(Request(tuple(range(30)), 2)).cache_n == 20
    assert len(fork.log.events) > len(server.log.events)
    assert server.complete(Request(tuple(range(15)), 1)).cache_n == 14


def test_an_unknown_rule_set_is_refused_with_the_nearest_name():
    with pytest.raises(BadInput, match=r"unknown profile 'llama_cpp@b10588' \(did you mean .*b10587"):
        LLAMA.rules("llama_cpp@b10588")
    assert LLAMA.rules("llama_cpp@b10587").name == "llama_cpp@b10587"


@pytest.mark.parametrize(("takes", "known"), [
    (frozenset(), "a prompt and an answer"), (frozenset({"n_keep", "stop"}), "n_keep, stop"),
])  # fmt: skip
def test_a_field_that_a_server_does_not_support_is_refused_with_those_that_it_does(takes, known):
    engine = replace(LLAMA, manual=replace(LLAMA.manual, takes=takes))
    with pytest.raises(BadInput) as bad:
        engine.check_request(Request((1,), n_predict=2, cancel_at=3))
    assert str(bad.value) == f"request field not supported by this engine: cancel_after (supported: {known})"
    assert engine.check_request(Request((1,), n_predict=2)) is None


def test_a_rule_family_lists_the_options_that_govern_it_before_those_that_affect_it():
    flags = (Flag("a", 0, affects="F G"), Flag("b", 0, governs="G"), Flag("c", 0, governs="H G", affects="F"))
    engine = replace(LLAMA, manual=replace(LLAMA.manual, flags=flags))
    assert engine.rule_flags == {"G": ["b", "c", "a"], "H": ["c"], "F": ["a", "c"]}


def test_the_arguments_of_a_server_are_its_own_or_those_of_its_manual():
    assert LLAMA.command_table is LLAMA.command_table and LLAMA.command_table == LLAMA.command()
    made = replace(LLAMA, name="toy", command=lambda: None).command_table
    assert made == default_table("toy", LLAMA.manual.flags, LLAMA.manual.silent) != LLAMA.command()


def test_a_started_server_logs_into_the_given_log():
    log = Log()
    server = LLAMA.start(LLAMA.rules("llama_cpp@b10587"), "A", {"ctx_size": 512}, "none", log)
    assert server.log is log and server.model is None and server.sizes.n_ctx_slot == 512
    assert LLAMA.start("llama_cpp@b10587", "A", {}, "exact").model is not None
