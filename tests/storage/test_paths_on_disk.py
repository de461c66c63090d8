"""Resolving paths under a root: what is let in, what is refused, by every way of doing it.

The ways: ``openat2``; and the walk, on a kernel (or under a seccomp filter, as systemd makes them)
that answers ENOSYS.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stet.wire.failures import Refused
from stetd.storage import paths_on_disk
from stetd.storage.paths_on_disk import Resolver


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    (made / "d" / "e").mkdir(parents=True)
    (made / "f").write_bytes(b"")
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "outside").mkdir()
    return made


@pytest.fixture(params=["openat2", "ENOSYS"])
def resolver(
    root: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Resolver]:
    if request.param == "ENOSYS":
        monkeypatch.setattr(paths_on_disk, "_SYS_OPENAT2", 100_000)  # no such call
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    made = Resolver(str(root), fd)
    yield made
    os.close(fd)


def refusal(resolver: Resolver, path: str) -> Refused:
    with pytest.raises(Refused) as caught:
        resolver.resolve(path)
    return caught.value


@pytest.fixture
def canonical(resolver: Resolver, root: Path) -> Callable[..., str]:
    """Resolve, check that the handle is the directory that the path says, give the path."""

    def resolve(path: str, directory: str = "", *, follow_last: bool = True) -> str:
        target = resolver.resolve(path, directory, follow_last=follow_last)
        parent = os.path.realpath(f"/proc/self/fd/{target.dir_fd}")
        expected = os.path.join(str(root), *target.path.split("/")[: -1 - len(target.missing)])
        target.close()
        assert parent == expected
        assert target.dir_fd == -1
        return target.path

    return resolve


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("f", "f"),
        ("./f", "f"),
        ("d//e/../g", "d/g"),
        ("d/../d/e/g", "d/e/g"),
        ("new", "new"),
        ("new/deep/file", "new/deep/file"),
        ("d/e/new/file", "d/e/new/file"),
        ("{root}/f", "f"),
        ("{root}/d/../f", "f"),
        ("{root}//f", "f"),
    ],
)
def test_inside(canonical: Callable[..., str], root: Path, path: str, expected: str) -> None:
    assert canonical(path.format(root=root)) == expected


def test_path_is_relative_to_the_sessions_directory(canonical: Callable[..., str]) -> None:
    assert canonical("g", "d/e") == "d/e/g"
    assert canonical("../../f", "d/e") == "f"


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../x",
        "d/../../x",
        "/",
        "/etc/passwd",
        "/etc\0/x",
        "{root}-evil/x",
        "{root}/../x",
        "/{root}x/f",
    ],
)
def test_outside_is_refused(resolver: Resolver, root: Path, path: str) -> None:
    assert refusal(resolver, path.format(root=root)).kind == "path_outside_workspace"


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("d", "d/g"),
        ("d/e", "d/e/g"),
        ("d/../d", "d/g"),
        ("{root}/d", "d/g"),
        ("{root}/d/../d/e", "d/e/g"),
        ("../ws/d", None),
        ("../outside", None),
        ("{root}/../outside", None),
        ("{root}-evil", None),
        ("/etc", None),
    ],
)
def test_directory_behind_a_link(
    canonical: Callable[..., str], root: Path, link: str, expected: str | None
) -> None:
    (root / "link").symlink_to(link.format(root=root))
    if expected is None:
        with pytest.raises(Refused) as refused:
            canonical("link/g")
        assert refused.value.kind == "path_outside_workspace"
        assert refused.value.message.startswith("link/g: ")
    else:
        assert canonical("link/g") == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("link", "d/e"),
        ("link/.", "d/e"),
        ("link/..", "d"),
        ("link/../..", ""),
        ("d/e/..", "d"),
        ("f/..", ""),
        (".", ""),
    ],
)
def test_a_directory_by_a_path_that_goes_up_behind_a_link(
    resolver: Resolver, root: Path, path: str, expected: str
) -> None:
    (root / "link").symlink_to("d/e")
    assert resolver.canonical(path) == expected


@pytest.mark.parametrize(
    ("link", "expected"), [("f", "f"), ("{root}/f", "f"), ("d/new", "d/new"), ("/etc/passwd", None)]
)
def test_last_component_that_is_a_link(
    canonical: Callable[..., str], root: Path, link: str, expected: str | None
) -> None:
    (root / "d" / "link").symlink_to(link.format(root=root) if link[0] == "{" else f"../{link}")
    if link.startswith("/"):
        (root / "d" / "link").unlink()
        (root / "d" / "link").symlink_to(link)
    assert canonical("d/link", follow_last=False) == "d/link"
    if expected is None:
        with pytest.raises(Refused) as refused:
            canonical("d/link")
        assert refused.value.kind == "path_outside_workspace"
        assert refused.value.message.startswith("d/link: ")
    else:
        assert canonical("d/link") == expected


def test_links_in_a_circle_end(resolver: Resolver, root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    assert refusal(resolver, "one/x").kind == "not_a_file"


def test_magic_links_of_proc_lead_nowhere(resolver: Resolver, root: Path) -> None:
    (root / "link").symlink_to("/proc/self/cwd")
    with pytest.raises(Refused):
        resolver.resolve("link/x")


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".GIT/config",
        "d/.Git/hooks/pre-commit",
        ".git /x",
        ".git./x",
        "git~1/x",
        ".git::$INDEX_ALLOCATION/x",
        ".git. ./x",
        ".GIT:stream/x",
        ".g\u200cit/x",
        ".git\u200b/x",
        ".g\u00adit/x",
        ".gi\ufe0ft/x",
        "\uff0egit/x",
        ".git\\config",
        "d\\.Git\\config",
        "GIT~23/x",
        "d/.git",
        "new/.git/x",
        ".git",
    ],
)
def test_git_directory_is_protected_in_every_disguise(resolver: Resolver, path: str) -> None:
    assert refusal(resolver, path).kind == "path_protected"


def test_git_directory_is_protected_behind_a_link(resolver: Resolver, root: Path) -> None:
    (root / ".git").mkdir()
    (root / "link").symlink_to(".git")
    assert refusal(resolver, "link/config").kind == "path_protected"


@pytest.mark.parametrize(
    "path",
    [".gitignore", ".github/x", "git", "x.git/config", ".gi/t", "...", "git~x", "a\\b", "g:it"],
)
def test_names_that_only_look_alike_are_free(canonical: Callable[..., str], path: str) -> None:
    assert canonical(path) == path


def test_own_temporary_names_are_reserved(resolver: Resolver) -> None:
    assert refusal(resolver, "d/.stet-0123456789abcdef.tmp").kind == "path_protected"


# -- embedded repositories


def make_repository(place: Path, *, but: str = "") -> None:
    for name in {"HEAD", "objects", "refs"} - {but}:
        (place / name).mkdir(parents=True) if name != "HEAD" else place.mkdir(exist_ok=True)
        if name == "HEAD":
            (place / name).symlink_to("refs/heads/main")  # as old versions of Git made it


@pytest.mark.parametrize(
    "path",
    ["d/config", "d/HEAD", "d/hooks/pre-commit", "d/new/x", "d/objects/x", "d/e/../config", "to/x"],
)
def test_embedded_repository_is_protected(resolver: Resolver, root: Path, path: str) -> None:
    make_repository(root / "d")
    (root / "to").symlink_to("d/refs")
    assert refusal(resolver, path).kind == "path_protected"
    resolver.locate("d/config").close()


@pytest.mark.parametrize("missing", ["HEAD", "objects", "refs"])
def test_what_would_complete_a_repository_is_protected(
    resolver: Resolver, canonical: Callable[..., str], root: Path, missing: str
) -> None:
    make_repository(root / "d", but=missing)
    path = f"d/{missing}" if missing == "HEAD" else f"d/{missing}/x"
    for spelled in (path, path.upper().replace("D/", "d/"), path.lower()):
        assert refusal(resolver, spelled).kind == "path_protected"
    assert canonical("d/config") == "d/config"
    assert canonical("g") == "g"


def test_workspace_that_is_a_repository_itself_is_protected(resolver: Resolver, root: Path) -> None:
    make_repository(root)
    assert "the workspace holds HEAD, objects and refs" in refusal(resolver, "d/g").message


# -- directories that go elsewhere


@pytest.mark.parametrize("path", ["f", "d/g", "d/e/g", "d/new/deep/g"])
def test_directory_in_its_place(resolver: Resolver, path: str) -> None:
    target = resolver.resolve(path)
    assert resolver.in_place(target)
    target.close()


@pytest.mark.parametrize("without_proc", [False, True])
@pytest.mark.parametrize("how", ["out", "within", "removed", "replaced", "link", "above"])
def test_directory_that_went_elsewhere_is_noticed(
    resolver: Resolver, root: Path, monkeypatch: pytest.MonkeyPatch, how: str, without_proc: bool
) -> None:
    if without_proc:
        monkeypatch.setattr(os, "readlink", _no_proc(os.readlink))
    target = resolver.resolve("d/e/g")
    if how == "above":
        (root / "d").rename(root.parent / "outside" / "d")
    elif how == "removed":
        (root / "d" / "e").rmdir()
    else:
        (root / "d" / "e").rename(root.parent / "outside" / "e" if how != "within" else root / "e")
    if how == "replaced":
        (root / "d" / "e").mkdir()
    elif how == "link":
        (root / "d" / "e").symlink_to(root.parent / "outside" / "e")
    assert not resolver.in_place(target)
    target.close()


def _no_proc(readlink: Callable[..., str]) -> Callable[..., str]:
    def without(path: str, **more: int) -> str:
        if path.startswith("/proc/"):
            raise FileNotFoundError(path)
        return readlink(path, **more)

    return without


@pytest.mark.parametrize("without_proc", [False, True])
def test_root_may_be_moved_with_all_that_is_in_it(
    resolver: Resolver, root: Path, monkeypatch: pytest.MonkeyPatch, without_proc: bool
) -> None:
    if without_proc:
        monkeypatch.setattr(os, "readlink", _no_proc(os.readlink))
    target = resolver.resolve("d/e/g")
    root.rename(root.parent / "moved")
    assert resolver.in_place(target)
    target.close()


@pytest.mark.parametrize("path", ["a\0b", "a\nb", "a\x1bb", "x" * 256, "d/" + "ü" * 128])
def test_names_that_no_file_should_have_are_invalid(resolver: Resolver, path: str) -> None:
    assert refusal(resolver, path).kind == "invalid_params"


@pytest.mark.parametrize("path", ["f/x", "f/x/y"])
def test_file_where_a_directory_is_needed(resolver: Resolver, path: str) -> None:
    assert refusal(resolver, path).kind == "not_a_file"


def test_dots_after_a_directory_that_does_not_exist(resolver: Resolver) -> None:
    assert refusal(resolver, "no/such/../x").kind == "invalid_params"


def test_no_handle_is_left_open(resolver: Resolver, root: Path) -> None:
    (root / "link").symlink_to("/etc")
    (root / "circle").symlink_to("circle")
    before = len(os.listdir("/proc/self/fd"))
    for path in [
        "f",
        "d/e/g",
        "new/x",
        "link/x",
        "circle/x",
        ".git/x",
        "f/x",
        "..",
        "a\0",
        "no/../x",
    ]:
        try:
            resolver.resolve(path).close()
        except Refused:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_directory_swapped_for_a_link_never_leads_outside(resolver: Resolver, root: Path) -> None:
    outside = root.parent / "outside"
    done = threading.Event()

    def swap() -> None:
        os.symlink(outside, root / "evil")
        while not done.is_set():
            os.rename(root / "d", root / "kept")
            os.rename(root / "evil", root / "d")
            os.rename(root / "d", root / "evil")
            os.rename(root / "kept", root / "d")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for n in range(3000):
            try:
                target = resolver.resolve("d/x")
            except Refused:
                continue
            if not target.missing:
                os.close(os.open(f"x{n % 7}", os.O_CREAT | os.O_WRONLY, dir_fd=target.dir_fd))
            target.close()
    finally:
        done.set()
        swapper.join()
    assert os.listdir(outside) == []
