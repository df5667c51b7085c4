"""Install the real servers of the tests: `python -m tests.parts.install`. Done once; each step leaves a stamp.

What is put where: `.venv-parts` (tritonserver, llama.cpp, Node.js), `.parts/oidc` (the OpenID provider),
`.parts/tritonserver` (its Python backend), `.parts/tiny.gguf` (the model).
What cannot be installed ends this with an error.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.parts.process import PARTS, PARTS_PYTHON, ROOT, node_folder

HERE = Path(__file__).resolve().parent
LOCK = ROOT / "tests" / "requirements-parts.lock"
#: numpy below 2 has wheels up to 3.12, and the Python backend of Triton a stub for these.
PYTHONS = ((3, 11), (3, 12))
#: By Debian package.
PROGRAMS = {
    "curl": "curl",
    "slapd": "slapd",
    "ldap-utils": "ldapadd",
    "samba-ad-dc": "samba",
    "samba-common-bin": "samba-tool",
    "winbind": "winbindd",
    "chromium": "chromium",
    "chromium-driver": "chromedriver",
    "logrotate": "logrotate",
}
#: By Debian package, a file of it, below /: what has no program of its own.
FILES = {
    "samba-ad-provision": "usr/share/samba/setup/provision.ldif",
    "samba-dsdb-modules": "usr/lib/*/samba/ldb/samba_dsdb.so",
    "samba-vfs-modules": "usr/lib/*/samba/vfs/acl_xattr.so",
}
SBIN = "/usr/sbin"  # where servers lie, which not everybody has in the path
LIBRARIES = {"libgomp1": "libgomp.so.1"}
STUB = "triton_python_backend_stub"


def run(command: Sequence[str | Path], folder: Path = ROOT) -> None:
    """Run it, quiet unless it fails; raises `SystemExit` with its output when it does."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nparts: '{' '.join(words)}' failed with {done.returncode}")


def ask(code: str) -> str:
    """What the Python of `.venv-parts` prints when it runs `code`."""
    return subprocess.run([PARTS_PYTHON, "-c", code], check=True, text=True, capture_output=True).stdout.strip()


def once(name: str, inputs: Sequence[Path], step: Callable[[], None]) -> None:
    """Run `step` unless it ran for exactly these files before."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()
    stamp = PARTS / f"{name}.stamp"
    if stamp.exists() and stamp.read_text() == digest:
        return
    print(f"parts: installing {name}", flush=True)
    step()
    stamp.write_text(digest)


def debian(*packages: str) -> None:
    """Install Debian packages; only root can."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise SystemExit(f"parts: install {' '.join(packages)} and try again")
    run(["apt-get", "update", "-qq"])
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages])


def programs() -> None:
    """What the tests run and the wheels are linked against, from Debian where it is missing."""
    missing = [
        package
        for package, program in PROGRAMS.items()
        if not shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SBIN}")
    ]
    missing += [package for package, file in FILES.items() if not any(Path("/").glob(file))]
    missing += [package for package, library in LIBRARIES.items() if not _loads(library)]
    if missing:
        debian(*missing)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def python_parts() -> None:
    """`.venv-parts` from the lock, on a Python that the wheels exist for."""
    if sys.version_info[:2] not in PYTHONS:
        raise SystemExit("parts: run this with Python 3.11 or 3.12 (numpy below 2 has no wheel for later ones)")
    run([sys.executable, "-m", "venv", "--clear", PARTS_PYTHON.parent.parent])
    run([PARTS_PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", LOCK])


def python_library() -> None:
    """Triton's stub is linked against the shared library of the same Python; Debian packs it apart."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = Path(sysconfig.get_config_var("LIBDIR"))
    if not list(folder.rglob(f"libpython{version}.so.1.0")):
        debian(f"libpython{version}")


def openid_provider() -> None:
    """`.parts/oidc` with the locked npm packages."""
    folder = PARTS / "oidc"
    folder.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "oidc" / name, folder / name)
    npm = [node_folder() / "bin" / "node", node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    run([*npm, "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], folder)


def triton_backend() -> None:
    """The Python backend and its stub in one folder, which is how a bare tritonserver wants them."""
    server = Path(ask("import pytriton, os; print(os.path.dirname(pytriton.__file__))")) / "tritonserver"
    version = ask("import sys; print('%d.%d' % sys.version_info[:2])")
    target = PARTS / "tritonserver" / "backends" / "python"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(server / "backends" / "python", target)
    shutil.copy(server / "python_backend_stubs" / version / STUB, target / STUB)


def tiny_model() -> None:
    """A llama of half a megabyte with random weights."""
    run([PARTS_PYTHON, HERE / "tiny_gguf.py", PARTS / "tiny.gguf"])


def main() -> None:
    PARTS.mkdir(exist_ok=True)
    programs()
    python_library()
    once("python", [LOCK], python_parts)
    once("oidc", [HERE / "oidc" / "package-lock.json"], openid_provider)
    once("triton", [LOCK], triton_backend)
    once("gguf", [LOCK, HERE / "tiny_gguf.py"], tiny_model)


if __name__ == "__main__":
    main()
