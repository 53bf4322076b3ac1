"""Readers of the parsers of released servers, on small sources."""

from tests.peers.command_lines import differences, of_calls, of_ik, of_llama, of_sglang


def test_calls_of_argparse_have_spellings_and_switches():
    source = 'p.add_argument("--a", "-b", type=int)\np.add_argument("--c", action="store_true")\n'
    assert of_calls(source) == {"--a": True, "-b": True, "--c": False}


def test_annotated_fields_are_arguments(tmp_path):
    root = tmp_path / "sglang" / "srt"
    (root / "arg_groups" / "fields").mkdir(parents=True)
    (root / "server_args.py").write_text('parser.add_argument("--config")\n')
    (root / "arg_groups" / "fields" / "one.py").write_text(
        'class A1:\n    page_size: A[int, Arg(aliases=["-p"])] = 1\n    fast: A[bool, "help"] = False\n'
        '    hidden: A[int, Arg(no_cli=True)] = 1\n    both: A[bool, Arg(action=BooleanOptionalAction)] = None\n')
    assert of_sglang(tmp_path) == {"--config": True, "--page-size": True, "-p": True, "--fast": False, "--both": False,
                                   "--no-both": False}  # fmt: skip


def test_options_of_a_server_in_c_plus_plus():
    source = '''add_opt(common_arg({"-c", "--ctx-size"}, "N", "text",
        [](common_params & params, int value) {}).set_env("X"));
    add_opt(common_arg({"--jinja"}, {"--no-jinja"}, "text", [](common_params & params, bool value) {}));
    add_opt(common_arg({"--other"}, "N", "", [](common_params & p, int value) {}).set_examples({LLAMA_EXAMPLE_MAIN}));
    add_opt(common_arg({"--gone"}, "N", "", [](common_params &, int) { arg_removed("use --new"); }));
    '''
    assert of_llama(source) == {"-c": True, "--ctx-size": True, "--jinja": False, "--no-jinja": False}


def test_options_of_a_chain_of_comparisons():
    source = '''bool gpt_params_find_arg(int i) {
    if (arg == "-s" || arg == "--seed") {
        CHECK_ARG
        return true;
    }
    if (arg == "-fit") {
        return true;
    }
}
'''
    assert of_ik(source) == {"-s": True, "--seed": True, "-fit": False}


def test_a_missing_a_further_and_a_changed_argument_are_differences():
    found = list(differences("ik_llama", "main", {"-c": False, "--new-flag": True}))
    assert "ik_llama@main: --new-flag is only in the parser" in found
    assert "ik_llama@main: -c: 1 values in our table" in found
    assert "ik_llama@main: --ctx-size is only in our table" in found
