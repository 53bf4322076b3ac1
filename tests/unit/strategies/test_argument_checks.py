"""Arguments out of range are refused where a strategy is built, in a single line."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.strategies import (
    BadArgument,
    case,
    conversation,
    conversations,
    joined,
    models,
    request,
    requests,
    rule_sets,
    server,
    servers,
    workloads,
)
from cachesim.strategies.argument_checks import check_names

REFUSED = [
    (lambda: conversations(max_requests=0), "max_requests: expected a whole number from 1 to 12, found 0"),
    (lambda: conversations(max_requests=13), "max_requests: expected a whole number from 1 to 12, found 13"),
    (lambda: conversations(max_requests=True), "max_requests: expected a whole number from 1 to 12, found True"),
    (lambda: conversations(max_prompt=1), "max_prompt: expected a whole number from 2 to 100000, found 1"),
    (lambda: conversations(near=16), "near: expected a list of sizes in tokens, found 16"),
    (lambda: conversations(near=[0]), "near: expected a whole number from 1 to 256, found 0"),
    (lambda: conversations(abilities=["bursts"]), "abilities: unknown name 'bursts' (did you mean 'burst'?)"),
    (lambda: conversations("A5/A"), "server: expected a value of servers(), found str"
                                    " (servers(...).flatmap(conversations))"),
    (lambda: conversations(server("vllm", "A"), near=[4]),
     "near and abilities are those of the server, if there is one"),
    (lambda: conversations(server("vllm", "A"), max_requests=10),
     "max_requests: expected a whole number from 1 to 9, found 10"),
    (lambda: requests(words=27), "words: expected a whole number from 1 to 26, found 27"),
    (lambda: requests(max_words=0), "max_words: expected a whole number from 1 to 26, found 0"),
    (lambda: requests(max_length=0), "max_length: expected a whole number from 1 to 100000, found 0"),
    (lambda: requests(max_predict=0), "max_predict: expected a whole number from 1 to 99, found 0"),
    (lambda: models("lama_cpp"), "unknown engine 'lama_cpp'"),
    (lambda: models(7), "engine: expected the name of an engine, found 7"),
    (lambda: models(layers="X"), "layers: unknown name 'X' (A, W, K, G, S, C, H)"),
    (lambda: models("llama_cpp", layers="K"), "layers: no drawn model has only layers of 'K'"),
    (lambda: servers("vllm", models="A"), "models: expected a list of models, found 'A'"),
    (lambda: servers("vllm", models=["GX"]), "models: "),
    (lambda: rule_sets("vllm", names="vllm@0.33.0"), "names: expected a list of rule sets, found 'vllm@0.33.0'"),
    (lambda: rule_sets("vllm", names=["vllm@1"]), "names: unknown profile 'vllm@1'"),
    (lambda: rule_sets("llama_cpp", changes={"ckpt_pik": [1]}),
     "changes: llama_cpp has no field 'ckpt_pik' (did you mean 'ckpt_pick'?)"),
    (lambda: rule_sets("llama_cpp", changes={"ckpt_pick": []}),
     "changes: expected a list of rules or numbers for ckpt_pick, found []"),
    (lambda: workloads(rules="llama_cpp@b11549"), "rules: expected a RuleSet or a strategy of them, found str"),
    (lambda: workloads(server="A"), "server: expected a ServerSetup or a strategy of them, found str"),
    (lambda: workloads(max_prompt=0), "max_prompt: expected a whole number from 2 to 100000, found 0"),
    (lambda: request("A5/B5"), "expected a request, found 'A5/B5'"),
    (lambda: request("AA5"), "expected a request with the words A to Z, found 'AA5'"),
    (lambda: conversation("A5/A["), "column "),
    (lambda: joined([]), "a conversation needs at least one request"),
    (lambda: case("A5/A", "llama_cpp@nothing"), "unknown profile"),
    (lambda: server("llama_cpp", "A", ctx_siz=5), "unknown server option 'ctx_siz'"),
]


@pytest.mark.parametrize(("build", "text"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_an_argument_out_of_range_is_refused_in_a_line(build, text):
    with pytest.raises(BadArgument) as refused:
        build()
    assert isinstance(refused.value, BadInput) and isinstance(refused.value, ValueError)
    assert str(refused.value).startswith(text) and "\n" not in str(refused.value)


@pytest.mark.parametrize("values, told", [
    ("ab", "x: expected a list of names, found 'ab' (ab, cd)"), (7, "x: expected a list of names, found 7 (ab, cd)"),
    (["ab", "xx"], "x: unknown name 'xx' (ab, cd)"), (["abc"], "x: unknown name 'abc' (did you mean 'ab'?)"),
    (["ab", 7], "x: unknown name 7 (ab, cd)")])  # fmt: skip
def test_a_refusal_of_names_is_whole(values, told):
    with pytest.raises(BadArgument) as bad:
        check_names("x", values, ("ab", "cd"))
    assert str(bad.value) == told


def test_names_are_a_set():
    assert check_names("x", iter(["cd", "ab", "cd"]), ("ab", "cd")) == {"ab", "cd"}
    assert check_names("x", (), ()) == set()


@pytest.mark.parametrize("layers, told", [
    (7, "layers: expected a list of names, found 7 (A, W, K, G, S, C, H)"),
    (["AW"], "layers: unknown name 'AW' (did you mean 'W'?)"),
    ("Z", "layers: unknown name 'Z' (A, W, K, G, S, C, H)"), ("A", None), (iter("A"), None)])  # fmt: skip
def test_layers_are_letters(layers, told):
    if told is None:
        assert models(layers=layers) is not None
        return
    with pytest.raises(BadArgument) as bad:
        models(layers=layers)
    assert str(bad.value) == told
