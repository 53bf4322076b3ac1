"""Our tables of the arguments of servers against the parsers of the releases: spellings, with or without value.

``vllm`` builds the parser of the installed package. The other parsers are read from their sources: ``sglang`` and
``mlx`` from an unpacked wheel, ``llama`` from common/arg.cpp, ``ik`` from common/common.cpp.
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

from cachesim.engines.registry import ENGINES

WEB = (
    "uvicorn", "fastapi", "starlette", "uvloop", "prometheus_client", "prometheus_fastapi_instrumentator", "openai",
    "openai_harmony", "anthropic", "mistral_common", "compressed_tensors", "xgrammar", "gguf", "partial_json_parser",
    "watchfiles", "mcp", "setproctitle", "aiohttp", "lark", "llguidance", "multipart", "diskcache",
    "opentelemetry", "lm_format_enforcer", "model_hosting_container_standards", "cv2", "soundfile", "sse_starlette",
    "ijson", "grpc", "cbor2", "blake3", "pybase64", "depyf", "outlines", "numba", "tiktoken", "ray", "websockets",
    "flashinfer", "humming", "kaldi_native_fbank",
)  # fmt: skip
"""Packages that vLLM's parser imports and does not need; they are replaced where they are missing."""


class StandIn(types.ModuleType):
    """A module that has every name."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = MagicMock(name=name)
        if name.endswith(("Error", "Exception")):
            made = type(name, (Exception,), {})
        elif name[:1].isupper():
            made = type(name, (), {"__getattr__": lambda self, key: MagicMock()})
        setattr(self, name, made)
        return made


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finder of stand-ins for the packages of ``WEB`` that are not installed."""

    def find_spec(self, name, path=None, target=None):
        parent = sys.modules.get(name.rpartition(".")[0])
        if name in WEB or isinstance(parent, StandIn):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


ARGUMENTS = tuple(f"{folder}/cli_args.py" for folder in ("common", "launchers", "openai"))
"""Places of the arguments of vLLM, newest first."""


def of_vllm():
    """Return the spellings of the installed vLLM: True if a value follows."""
    sys.meta_path.append(StandIns())
    platforms = importlib.import_module("vllm.platforms")
    platforms._current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    package = Path(importlib.import_module("vllm.entrypoints").__path__[0])
    file = next(package / place for place in ARGUMENTS if (package / place).exists())
    arguments = importlib.import_module(f"vllm.entrypoints.{file.parent.name}.{file.stem}")
    made = arguments.make_arg_parser(FlexibleArgumentParser())
    return {name: action.nargs != 0 for name, action in made._option_string_actions.items()}


def of_calls(source):
    """Return the spellings in the calls of ``add_argument`` of a Python source."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            action = next((ast.unparse(word.value) for word in node.keywords if word.arg == "action"), "")
            value = not re.search("store_true|store_false|StoreTrue|StoreConst|Boolean", action)
            for name in node.args:
                if isinstance(name, ast.Constant):
                    found[name.value] = value
    return found


def of_sglang(folder):
    """Return the spellings of a release of SGLang: calls, and the annotated fields of newer releases."""
    root = folder / "sglang" / "srt"
    found = of_calls((root / "server_args.py").read_text())
    for file in sorted((root / "arg_groups" / "fields").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Subscript):
                found |= of_field(node)
    return found


def of_field(node):
    """Return the spellings of an annotated field, ``name: A[type, Arg(...)]``."""
    if ast.unparse(node.annotation.value) not in ("A", "Annotated"):
        return {}
    kind, meta = node.annotation.slice.elts[:2]
    words = {word.arg: word.value for word in meta.keywords} if isinstance(meta, ast.Call) else {}
    if "no_cli" in words:
        return {}
    action = ast.unparse(words["action"]) if "action" in words else ""
    plain = ast.unparse(kind).replace(" ", "") in ("bool", "Optional[bool]", "bool|None")
    value = not ("Boolean" in action or "StoreTrue" in action or (plain and not action))
    name = ast.literal_eval(words["cli_name"]) if "cli_name" in words else "--" + node.target.id.replace("_", "-")
    names = [name, *(ast.literal_eval(words["aliases"]) if "aliases" in words else ())]
    names += [f"--no-{name[2:]}"] if "Boolean" in action else []
    return dict.fromkeys(names, value)


def of_llama(source):
    """Return the spellings of llama-server in common/arg.cpp."""
    found = {}
    for match in re.finditer(r"add_opt\(common_arg\(\s*((?:\{[^{}]*\}\s*,\s*)+)", source):
        body = source[match.end() : source.find("add_opt(", match.end())]
        examples = re.search(r"set_examples\(\{([^}]*)\}\)", body)
        if examples and not re.search("SERVER|COMMON", examples[1]):
            continue
        if "arg_removed(" in body:
            continue
        call = re.search(r"\[[^\]]*\]\(((?:const )?common_params[^)]*)\)", body)
        value = call is not None and "," in call[1] and "bool value" not in call[1]
        found |= dict.fromkeys(re.findall(r'"([^"]*)"', match[1]), value)
    return found


def of_ik(source):
    """Return the spellings of ik_llama.cpp in common/common.cpp."""
    start = source.index("bool gpt_params_find_arg")
    body = source[start : source.index("\n}\n", start)]
    found = {}
    for match in re.finditer(r'\n    if \(((?:arg == "[^"]+"(?: \|\| )?\s*)+)\) \{(.*?)\n    \}', body, re.DOTALL):
        value = "CHECK_ARG" in match[2] or "++i" in match[2]
        found |= dict.fromkeys(re.findall(r'"([^"]+)"', match[1]), value)
    return found


def differences(engine, release, theirs):
    """Yield a line for each difference between our table and the parser of a release."""
    ours = ENGINES[engine].command_table.of_release(f"{engine}@{release}")
    theirs = {name: value for name, value in theirs.items() if name.startswith("-") and name not in HELP}
    for name in sorted({*ours} | {*theirs}):
        if name not in ours or name not in theirs:
            yield f"{engine}@{release}: {name} is only in {'the parser' if name in theirs else 'our table'}"
        elif (ours[name].values != "0") != theirs[name]:
            yield f"{engine}@{release}: {name}: {ours[name].values} values in our table"


HELP = {"-h", "--help", "--usage", "--version"}
READERS = {
    "sglang": ("sglang", of_sglang), "mlx": ("mlx_lm", lambda file: of_calls(file.read_text())),
    "llama": ("llama_cpp", lambda file: of_llama(file.read_text())),
    "ik": ("ik_llama", lambda file: of_ik(file.read_text())),
}  # fmt: skip


def main():
    """Compare, print the differences and their number; exit code 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=("vllm", *READERS))
    parser.add_argument("release")
    parser.add_argument("source", type=Path, nargs="?")
    args = parser.parse_args()
    engine, read = READERS.get(args.server, ("vllm", None))
    theirs = of_vllm() if read is None else read(args.source)
    found = list(differences(engine, args.release, theirs))
    print(*found, sep="\n")
    print(f"{args.server} {args.release}: {len(theirs)} spellings, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
