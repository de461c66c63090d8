"""Wheels of this checkout made by hand, also of versions that do not exist yet.

pip installs them without building anything and without an index. What a built wheel has in it
is tested elsewhere; here one is needed to upgrade from.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_PARTS = ((CHECKOUT / "client", "stet"), (CHECKOUT / "daemon", "stetd"))
_SKIPPED = {"__pycache__"}


def make_wheel(directory: Path, version: str, journal_format: int) -> Path:
    """A wheel that calls itself ``version`` and writes and reads journals of that format."""
    wheel = directory / f"stetd-{version}-py3-none-any.whl"
    info = f"stetd-{version}.dist-info"
    files = dict(_sources()) | {
        "stet/version.py": f'__version__ = "{version}"\n'.encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: stetd\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: stet\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
        f"{info}/entry_points.txt": b"[console_scripts]\nstet = stet.cli:main\n"
        b"stetd = stetd.cli:main\n",
    }
    path = "stetd/storage/journal_format.py"
    before, after = b"FORMAT_VERSION = 1\n", f"FORMAT_VERSION = {journal_format}\n".encode()
    assert files[path].count(before) == 1
    files[path] = files[path].replace(before, after)
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in (files | {f"{info}/RECORD": record.encode()}).items():
            archive.writestr(name, data)
    return wheel


def _sources() -> list[tuple[str, bytes]]:
    found = [
        (file.relative_to(root).as_posix(), file.read_bytes())
        for root, package in _PARTS
        for file in sorted((root / package).rglob("*"))
        if file.is_file() and not _SKIPPED & set(file.parts)
    ]
    units = (CHECKOUT / "systemd").iterdir()
    return found + [(f"stet/units/{unit.name}", unit.read_bytes()) for unit in sorted(units)]


def make_environment(directory: Path, wheel: Path) -> Path:
    """A virtual environment with the wheel; its ``bin``. It shares this one's libraries."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    # Where this interpreter has its libraries; lines of such a file don't bring in others like it.
    own = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "libraries.pth").write_text("\n".join(own) + "\n")
    python = str(directory / "bin/python")
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, "--force-reinstall", str(wheel)], check=True)
    return directory / "bin"
