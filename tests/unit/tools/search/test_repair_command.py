"""Arguments of `cachesim repair`."""

from __future__ import annotations

from argparse import ArgumentParser

from cachesim.tools.search import repair_command


def parsed(*words):
    parser = ArgumentParser()
    repair_command.add_arguments(parser)
    return parser.parse_args(words)


def test_every_option_has_its_place():
    args = parsed("llama_cpp@b11549", "a.toml", "--property", "p", "--model", "A", "--set", "parallel=1",
                  "--examples", "3", "--seed", "4", "-p", "ik_llama@main", "--no-shrink", "--json")  # fmt: skip
    assert (args.profile, args.files, args.properties, args.models, args.settings) == (
        "llama_cpp@b11549", ["a.toml"], ["p"], ["A"], ["parallel=1"])  # fmt: skip
    assert (args.examples, args.seed, args.profiles, args.no_shrink, args.json) == (3, 4, ["ik_llama@main"], True, True)
    plain = parsed("llama_cpp@b11549")
    assert (plain.files, plain.examples, plain.seed, plain.no_shrink, plain.json) == ([], None, 0, False, False)
