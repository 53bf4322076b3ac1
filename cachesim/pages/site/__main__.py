"""``python -m cachesim.pages.site``: build the site, and read it again for broken links."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import os
import shutil
import sys
from argparse import ArgumentParser
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from cachesim.base import exits
from cachesim.base.console import complain, say
from cachesim.base.ending import ended_by_signals
from cachesim.base.errors import BadInput
from cachesim.base.extras import install_command
from cachesim.base.parser_process import end_with_parent
from cachesim.base.pool import cores

INVENTORY = "objects.inv"       # file that Sphinx writes into each site


def main(argv: list[str]) -> int:
    """Build the site and return an exit code: 1 for a broken link, or if Sphinx warns of a page."""
    parser = ArgumentParser(prog="python -m cachesim.pages.site", description="Build the site of cachesim.")
    parser.add_argument("--out", type=Path, default=Path("build/site"), help="folder to write, replaced (build/site)")
    parser.add_argument("-j", type=int, default=cores(), help="processes (default: one for each CPU)")
    args = parser.parse_args(argv)
    try:
        with ended_by_signals():
            return _build(args.out, args.j)
    except KeyboardInterrupt as interrupt:
        complain("interrupted")
        sys.stdout.flush()
        os._exit(exits.interrupted(interrupt))       # else the interpreter frees the objects of all pages one by one
    except BadInput as bad:
        complain(str(bad))
        return bad.code
    except OSError as error:
        complain(f"{args.out}: cannot be written: {(error.strerror or str(error)).lower()}")
        return exits.BAD_INPUT


def _build(out: Path, jobs: int) -> int:
    """Build the site beside ``out``, then replace the folder. Return an exit code. Raise BadInput."""
    _check_replaceable(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    if find_spec("sphinx") is None or find_spec("furo") is None or find_spec("myst_parser") is None:
        raise BadInput("the site needs Sphinx, MyST and Furo", hint=install_command("site"))
    from cachesim.pages.site.built_site import broken_links, replace_folder, size_of
    from cachesim.pages.site.site_sources import write_sources

    with TemporaryDirectory(prefix=".site-", dir=out.parent) as temporary:
        sources = Path(temporary) / "sources"
        sources.mkdir()
        site = Path(temporary) / "site"
        number = write_sources(sources, jobs)
        has_warnings = run_sphinx(sources, site, Path(temporary) / "doctrees", jobs)
        shutil.rmtree(site / "_sources", ignore_errors=True)
        replace_folder(site, out, Path(temporary) / "former")
    broken = [*broken_links(out)]
    for line in broken:
        complain(f"broken link in {line}")
    say(f"{out / 'index.html'}: {number} pages, {size_of(out) / 2**20:.0f} MiB, {len(broken)} broken links\n")
    return exits.HOLDS if not has_warnings and not broken else exits.BROKEN


def run_sphinx(sources: Path, site: Path, doctrees: Path, jobs: int) -> bool:
    """Write the pages; return True if Sphinx warned of one. Raise BadInput if it cannot go on. An interrupt ends its
    processes and passes: ``sphinx-build`` would turn it into an exit code of its own."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    builder = _Builder(os.getpid())
    multiprocessing.util.register_after_fork(builder, _Builder.end_child_with_it)
    try:
        with patch_docutils(str(sources)), docutils_namespace():
            app = Sphinx(sources, sources, site, doctrees, "html", status=None, warningiserror=True, parallel=jobs)
            app.build()
            return bool(app.statuscode)
    except OSError:
        raise
    except Exception as error:
        if interrupt := _interrupt_before(error):
            raise interrupt from None
        raise BadInput(f"Sphinx ended early, the former site stays: {type(error).__name__}: {error}") from error
    finally:
        children = multiprocessing.active_children()
        for child in children:
            child.kill()
        for child in children:                       # else it may write into a folder that is being removed
            child.join()


def _interrupt_before(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt in whose handling an error was raised, None = there was none. Sphinx fails with a KeyError
    if a signal arrives while it waits for the end of a process."""
    before = error.__context__
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before


class _Builder:
    """The process that builds. The processes that Sphinx forks meanwhile end with it, also after a second signal."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def end_child_with_it(self) -> None:
        """Called in a forked process: let it end with the builder (Linux)."""
        end_with_parent(self.pid)


def _check_replaceable(out: Path) -> None:
    """Raise BadInput for a folder with files that are not those of a site."""
    if not os.path.lexists(out) or (os.path.isdir(out) and not os.listdir(out)):
        return
    if not os.path.isfile(out / INVENTORY):
        raise BadInput("not a site, so it is not replaced", file=str(out), hint="name a new folder, or an older site")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
