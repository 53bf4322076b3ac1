"""Steps of a release: `python .ci/release.py STEP`. Their order: CONTRIBUTING, "A release".

url URL        write the project's address into pyproject.toml and every file that names it
pending        print the version of the section of the changelog that is not released
version X.Y.Z  write the version into the package and, with today's date, into the changelog
build          make dist/ from HEAD: the same bits from the same commit, with the same setuptools
rehearse       run the commands of CONTRIBUTING in a clone, with a temporary origin and package index on this machine

Standard library only; `build` needs the package build.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import tomllib
from datetime import date
from email.parser import BytesParser
from email.policy import HTTP
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[1]
PENDING = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - unreleased$", re.M)
VERSION = re.compile(r'(?<=^__version__ = ")[^"]+', re.M)
STEPS = re.compile(r"^## A release\n.*?```sh\n(.*?)```", re.M | re.S)


def set_version(root: Path, new: str, day: str) -> None:
    """Write a version into the package, and its day into the changelog: into the section that is not released, else
    above the changes of [Unreleased]."""
    package, changes = root / "cachesim" / "__init__.py", root / "CHANGELOG.md"
    code, text = package.read_text("utf-8"), changes.read_text("utf-8")
    waiting = PENDING.search(text)
    is_known = f"\n## [{new}]" in text and (waiting is None or waiting[1] != new)
    if not re.fullmatch(r"\d+\.\d+\.\d+", new) or is_known:
        sys.exit(f".ci/release.py: not a new version: '{new}' (X.Y.Z, without a released section in CHANGELOG.md)")
    heading = f"## [{new}] - {day}\n"
    if waiting is not None:
        text = text.replace(f"{waiting[0]}\n", heading, 1)
    elif re.search(r"^## \[Unreleased\]\n\n###", text, re.M):
        text = text.replace("## [Unreleased]\n", f"## [Unreleased]\n\n{heading}", 1)
    else:
        sys.exit("CHANGELOG.md: [Unreleased] lists no change (nothing to release)")
    package.write_text(VERSION.sub(new, code, count=1), "utf-8")
    changes.write_text(text, "utf-8")


def own_url(root: Path) -> str:
    """Return the project's address, which pyproject.toml states."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Repository"]


def set_url(root: Path, new: str) -> list[str]:
    """Write the project's address into every file under version control that names it, with or without the name of
    the host. Return the names of these files."""
    if not re.fullmatch(r"https://[\w.-]+/[\w.-]+/[\w.-]+", new):
        sys.exit(f".ci/release.py: not an address of a repository: '{new}' (https://HOST/OWNER/NAME)")
    old, changed = own_url(root), []
    for name in subprocess.check_output(["git", "ls-files"], cwd=root, text=True).splitlines():
        file = root / name
        if file.suffix not in (".md", ".toml", ".yml", ".yaml", ".cff") or not file.is_file():
            continue
        text = file.read_text("utf-8")
        renewed = text.replace(old, new).replace(f"uses: {_path(old)}/", f"uses: {_path(new)}/")
        if renewed != text:
            file.write_text(renewed, "utf-8")
            changed.append(name)
    return changed


def _path(url: str) -> str:
    """Return OWNER/NAME of an address."""
    return url.split("/", 3)[3]


def pending(root: Path) -> str:
    """Return the version of the section of the changelog that is not released."""
    found = PENDING.search((root / "CHANGELOG.md").read_text("utf-8"))
    if found is None:
        sys.exit('CHANGELOG.md: no section "## [X.Y.Z] - unreleased" (choose the next version: VERSION=X.Y.Z)')
    return found[1]


def released_as(root: Path) -> tuple[str, list[str]]:
    """Return the tag of HEAD and the names of the files in dist/. Exit if they do not agree with the version."""
    version = VERSION.search((root / "cachesim" / "__init__.py").read_text("utf-8"))[0]
    tags = subprocess.check_output(["git", "tag", "--points-at", "HEAD"], cwd=root, text=True).split()
    names = sorted(file.name for file in (root / "dist").iterdir())
    wanted = [f"llm_cachesim-{version}-py3-none-any.whl", f"llm_cachesim-{version}.tar.gz"]
    if tags != [f"v{version}"] or names != wanted:
        sys.exit(f".ci/release.py: expected the tag v{version} and {wanted}, found {tags} and {names}")
    return tags[0], names


def normalize(sdist: Path, epoch: int) -> None:
    """Rewrite an archive without what differs between two builds: times, owners, and the order of its files."""
    plain = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode, member.pax_headers = 0o755 if member.isdir() or member.mode & 0o100 else 0o644, {}
            new.addfile(member, old.extractfile(member) if member.isreg() else None)
    sdist.write_bytes(gzip.compress(plain.getvalue(), mtime=epoch))


def build(root: Path) -> None:
    """Build HEAD of a checkout into dist/, and print the digests."""
    epoch = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=root, text=True).strip()
    shutil.rmtree(root / "dist", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        head = subprocess.check_output(["git", "archive", "HEAD"], cwd=root)
        with tarfile.open(fileobj=io.BytesIO(head)) as archive:
            archive.extractall(folder, filter="data")
        subprocess.run([sys.executable, "-m", "build", "--quiet", "--outdir", root / "dist", folder], check=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": epoch})  # fmt: skip
    [sdist] = (root / "dist").glob("*.tar.gz")
    normalize(sdist, int(epoch))
    print(*digests(root), sep="\n")


def digests(root: Path) -> list[str]:
    """Return a line for each file in dist/, as sha256sum prints it."""
    files = sorted((root / "dist").iterdir())
    return [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]


class _Index(SimpleHTTPRequestHandler):
    """A package index that accepts any upload: POST stores a file, GET lists and returns it."""

    def do_POST(self) -> None:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        form = BytesParser(policy=HTTP).parsebytes(head + self.rfile.read(int(self.headers["Content-Length"])))
        fields = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        folder = Path(self.directory, "llm-cachesim")
        folder.mkdir(exist_ok=True)
        content = fields["content"]
        (folder / Path(content.get_filename()).name).write_bytes(content.get_payload(decode=True))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def index(folder: Path) -> Iterator[str]:
    """Yield the URL of a package index on this machine that stores its files in a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: _Index(*args, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def clone(source: Path, place: Path) -> Path:
    """Clone HEAD of a checkout through a bare repository, which is the origin of the clone."""
    for words in (["--bare", source, f"{place}.git"], [f"{place}.git", place]):
        subprocess.run(["git", "clone", "--quiet", *words], check=True)
    return place


def steps(root: Path) -> str:
    """Return the commands of a release in CONTRIBUTING."""
    [block] = STEPS.findall((root / "CONTRIBUTING.md").read_text("utf-8"))
    return block


def rehearse(root: Path) -> None:
    """Run the commands of a release in a clone of HEAD, then build the tag again and compare."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "index").mkdir()
        checkout = clone(root, folder / "checkout")
        with index(folder / "index") as url:
            environment = {
                **os.environ, "TWINE_REPOSITORY_URL": url, "TWINE_USERNAME": "rehearsal", "TWINE_PASSWORD": "rehearsal",
                "PIP_EXTRA_INDEX_URL": f"{os.environ.get('PIP_EXTRA_INDEX_URL', '')} {url}".strip(),
            }  # fmt: skip
            subprocess.run(["bash", "-exc", steps(checkout)], cwd=checkout, env=environment, check=True)
        again = folder / "again"
        subprocess.run(["git", "clone", "--quiet", f"{checkout}.git", again], check=True)
        subprocess.run(["make", "--no-print-directory", "dist"], cwd=again, check=True)
        if digests(again) != digests(checkout):
            sys.exit(".ci/release.py: two builds of one commit differ")
        tag, names = released_as(again)
    print(f"rehearsed: tag {tag}, {' and '.join(names)}; two builds are equal; nothing was published")


def main(argv: list[str]) -> None:
    if argv[:1] == ["version"] and len(argv) == 2:
        set_version(ROOT, argv[1], date.today().isoformat())
    elif argv[:1] == ["url"] and len(argv) == 2:
        print(*set_url(ROOT, argv[1]), sep="\n")
    elif argv == ["pending"]:
        print(pending(ROOT))
    elif argv in (["build"], ["rehearse"]):
        globals()[argv[0]](ROOT)
    else:
        sys.exit("usage: python .ci/release.py url URL|pending|version X.Y.Z|build|rehearse")


if __name__ == "__main__":
    main(sys.argv[1:])
