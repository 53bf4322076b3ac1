"""Defaults of releases of SGLang, and what their start makes of them, against our options.

    python -m tests.peers.sglang_defaults FOLDER --release 0.5.23

FOLDER: an unpacked wheel of the release. Its defaults are read from its sources. Its functions that resolve the
source of states, and those that refuse combinations, run as they are; stand-ins give them the options and the kind of
the model.
"""

from __future__ import annotations

import ast
import itertools
import sys
from dataclasses import fields
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

from cachesim.base.errors import BadInput
from cachesim.engines.sglang import PROFILES
from cachesim.engines.sglang.flags import Options, options
from cachesim.engines.sglang.pool_sizes import resolved
from cachesim.model import parse
from cachesim.tools.run.pasted_command import read_pasted
from tests.peers import sglang_source as source

DERIVED = {
    "page_size": "1 token, unless an attention backend needs more", "max_total_tokens": "from free memory",
    "max_mamba_cache_size": "from free memory", "max_running_requests": "from free memory",
    "chunked_prefill_size": "2048 to 16384 by the memory of the GPU", "speculative_num_steps": "by the model",
    "hicache_ratio": "2.0, less if host memory is short", "hicache_storage_backend": "no storage",
    "speculative_algorithm": "no drafts",
}  # fmt: skip
"""Options whose default is None in a release, with what its start makes of it."""
MODELS = {"A": "LlamaForCausalLM", "GA": "Qwen3NextForCausalLM", "CA": "Lfm2ForCausalLM"}
OLDER = {"mamba_radix_cache_strategy": "mamba_scheduler_strategy"}
"""Names that an option has in 0.5.9."""


def released_defaults(folder):
    """Return the defaults in the sources of a release, by name."""
    root, found = folder / "sglang" / "srt", {}
    for file in (root / "server_args.py", *(root / "arg_groups" / "fields").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                words = {word.arg: word.value for word in ast.walk(node.annotation) if isinstance(word, ast.keyword)}
                try:
                    found.setdefault(node.target.id, ast.literal_eval(words.get("fallback", node.value)))
                except ValueError:                  # not a literal
                    found.setdefault(node.target.id, None)
    return found


def functions(file, names, **given):
    """Return the functions and constants of a source with these names, compiled without their decorators and
    with annotations that are not evaluated."""
    space = {"Any": object, "Dict": dict, "logger": MagicMock(), **given}
    for node in ast.walk(ast.parse(file.read_text())):
        target = node.targets[0] if isinstance(node, ast.Assign) else node
        if getattr(target, "id", getattr(target, "name", "")) in names and not isinstance(node, ast.Name):
            node.decorator_list = []
            exec(compile(ast.Module([node], []), str(file), "exec", annotations.compiler_flag, True), space)
    return SimpleNamespace(**{name: space[name] for name in names})


class Release:
    """The start of 0.5.20 and 0.5.23."""

    CONSTANTS = ("_MAMBA_RADIX_CACHE_ARCHS", "_MAMBA_EXTRA_BUFFER_ARCHS")

    def __init__(self, folder):
        root = folder / "sglang" / "srt" / "arg_groups"
        registry = ModuleType("linear_attn_model_registry")
        registry.get_linear_attn_spec = registry.get_linear_attn_spec_by_arch = lambda config: None
        sys.modules["sglang.srt.configs.linear_attn_model_registry"] = registry
        platform = SimpleNamespace(is_xpu=False, is_hip=False, is_npu=False, is_cuda=True)
        self.chosen = functions(
            root / "overrides.py", (*self.CONSTANTS, "supports_mamba_cache_extra_buffer",
                                    "_mamba_radix_cache_resolution"),
            model_config_of=lambda view: SimpleNamespace(hf_config=view.config), get_platform=lambda: platform)
        self.checks = functions(
            root / "mamba_hook.py", ("validate_mamba_extra_buffer", "validate_mamba_no_buffer"),
            supports_mamba_cache_extra_buffer=self.chosen.supports_mamba_cache_extra_buffer,
            _platform_supports_mamba_cache_extra_buffer=lambda: True, get_platform=lambda: platform)

    def start(self, view):
        """Return the source of states, whether steps overlap, and whether there is a prefix cache; None if the server
        does not start."""
        found = self.chosen._mamba_radix_cache_resolution(view)
        vars(view).update(found)
        if not found:                               # a model without states
            return None, not view.disable_overlap_schedule, True
        arch = view.config.architectures[0]
        try:
            if view.mamba_radix_cache_strategy == "no_buffer":
                self.checks.validate_mamba_no_buffer(view, arch)
            else:
                check = self.checks.validate_mamba_extra_buffer
                model = view.config if "hf_config" in check.__code__.co_varnames else arch
                check(view, model, mamba_cache_chunk_size_of=lambda: 64)
            assert view.mamba_radix_cache_strategy != "extra_buffer_lazy" or not view.disable_overlap_schedule, (
                "kv_cache_configurator.py, _calculate_mamba_ratio")
        except AssertionError:
            return None
        return view.mamba_radix_cache_strategy, not view.disable_overlap_schedule, True


class Release059:
    """The start of 0.5.9."""

    def __init__(self, folder):
        file = folder / "sglang" / "srt" / "server_args.py"
        self.args = functions(file, ("_handle_mamba_radix_cache", "enable_mamba_extra_buffer"), is_cuda=lambda: True,
                              is_sm100_supported=lambda: False, FLA_CHUNK_SIZE=64)  # fmt: skip

    def start(self, view):
        view.mamba_scheduler_strategy = view.mamba_radix_cache_strategy
        if view.mamba_scheduler_strategy == "auto":
            view.mamba_scheduler_strategy = "no_buffer"          # server_args.py, line 874
        arch, view.attention_backend = view.config.architectures[0], None
        view.disable_overlap_schedule = view.disable_overlap_schedule or view.speculative_algorithm is not None
        if arch == MODELS["A"]:
            return None, not view.disable_overlap_schedule, True
        view.enable_mamba_extra_buffer = lambda: self.args.enable_mamba_extra_buffer(view)
        try:
            self.args._handle_mamba_radix_cache(
                view, model_arch=arch, support_mamba_cache_extra_buffer=arch == MODELS["GA"])
        except AssertionError:
            return None
        return view.mamba_scheduler_strategy, not view.disable_overlap_schedule, not view.disable_radix_cache


def compare_starts(folder, release, rules):
    """Compare every combination of the options that a start resolves; return their number."""
    start = (Release059 if release == "0.5.9" else Release)(folder)
    tried = 0
    for model, strategy, disabled, page, drafts in itertools.product(
            MODELS, sorted(rules.strategies), (False, True), (1, 64), ("", "EAGLE", "NGRAM")):
        given = {"mamba_radix_cache_strategy": strategy, "disable_overlap_schedule": disabled, "page_size": page,
                 "speculative_algorithm": drafts, "speculative_num_steps": 3}  # fmt: skip
        view = SimpleNamespace(
            **{**given, "speculative_algorithm": drafts or None}, disable_radix_cache=False, mamba_track_interval=256,
            linear_attn_backend="triton", disaggregation_mode="null", attention_backend="fa3",
            chunked_prefill_size=2048, speculative_num_draft_tokens=4 if drafts else None,
            config=SimpleNamespace(architectures=[MODELS[model]]))
        theirs = start.start(view)
        try:
            found = resolved(rules, options(given), parse(model))
            ours = (None if model == "A" else found.mamba_radix_cache_strategy, not found.disable_overlap_schedule,
                    not found.disable_radix_cache)  # fmt: skip
        except BadInput:
            ours = None
        if model != "A" and release == "0.5.9" and theirs and strategy != "extra_buffer" and page > 1:
            continue                                # pages of states without extra_buffer end in an assertion later
        assert ours == theirs, (given, model, theirs, ours)
        tried += 1
    return tried


USES = ("attention_backend", "decode_attention_backend", "prefill_attention_backend",
        "speculative_draft_attention_backend")  # fmt: skip
PAGED = ("fa3", "flashmla", "trtllm_mla", "cutedsl_mla", "trtllm_mha", "hpc_ops")


def compare_pages(folder, release):
    """Compare the pages that attention backends take with those of the released function; return how many. In 0.5.9
    the function also asks for the GPU: its pages were read."""
    if release == "0.5.9":
        return 0
    file = folder / "sglang" / "srt" / "arg_groups" / "overrides.py"
    resolve = functions(file, ("_mla_backend_page_constraints",))._mla_backend_page_constraints
    tried = 0
    for use, backend, page in itertools.product(USES, PAGED, (None, 1, 16, 32, 64, 128, 256)):
        view = SimpleNamespace(**dict.fromkeys(USES), page_size=page)
        setattr(view, use, backend)
        theirs = resolve(view).get("page_size", page or 1)
        flag = f"--{use.replace('_', '-')}"
        stated = f" --page-size {page}" if page else ""
        options = read_pasted(f"sglang serve M {flag} {backend}{stated}", [f"sglang@{release}"]).command.options
        ours = options.get("page_size", 1)
        assert ours == theirs, (use, backend, page, theirs, ours)
        tried += 1
    return tried


def main():
    parser = source.parser(__doc__)
    parser.add_argument("--release", default="0.5.23")
    args = parser.parse_args()
    rules = PROFILES[f"sglang@{args.release}"]
    theirs = released_defaults(args.folder)
    print(f"SGLang {args.release}")
    for field in fields(Options):
        name = field.name if field.name in theirs else OLDER.get(field.name, "")
        if name in theirs:
            value, ours = theirs[name], rules.defaults.get(field.name, field.default)
            if value is None:
                print(f"  {name:28} {DERIVED[field.name]}")
                continue
            assert value == ours, f"{name}: {value!r}, ours {ours!r}"
            print(f"  {name:28} {value}")
    print(f"{compare_starts(args.folder, args.release, rules)} combinations of options start alike, 0 differences")
    if pages := compare_pages(args.folder, args.release):
        print(f"{pages} pages of attention backends, 0 differences")


if __name__ == "__main__":
    main()
