"""Resolving paths under a root: what is let in, what is refused, by both ways of doing it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stet.wire.failures import Refused
from stetd.storage.paths_on_disk import Resolver


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    (made / "d" / "e").mkdir(parents=True)
    (made / "f").write_bytes(b"")
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "outside").mkdir()
    return made


@pytest.fixture(params=[True, False], ids=["openat2", "walk"])
def resolver(root: Path, request: pytest.FixtureRequest) -> Iterator[Resolver]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    yield Resolver(str(root), fd, use_openat2=request.param)
    os.close(fd)


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
    ["..", "../x", "d/../../x", "/", "/etc/passwd", "{root}-evil/x", "{root}/../x", "/{root}x/f"],
)
def test_outside_is_refused(resolver: Resolver, root: Path, path: str) -> None:
    with pytest.raises(Refused) as refused:
        resolver.resolve(path.format(root=root))
    assert refused.value.kind == "path_outside_workspace"


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
    else:
        assert canonical("link/g") == expected


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
    else:
        assert canonical("d/link") == expected


def test_links_in_a_circle_end(resolver: Resolver, root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    with pytest.raises(Refused) as refused:
        resolver.resolve("one/x")
    assert refused.value.kind == "not_a_file"


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
        ".g\u200cit/x",
        "new/.git/x",
        ".git",
    ],
)
def test_git_directory_is_protected_in_every_disguise(resolver: Resolver, path: str) -> None:
    with pytest.raises(Refused) as refused:
        resolver.resolve(path)
    assert refused.value.kind == "path_protected"


def test_git_directory_is_protected_behind_a_link(resolver: Resolver, root: Path) -> None:
    (root / ".git").mkdir()
    (root / "link").symlink_to(".git")
    with pytest.raises(Refused) as refused:
        resolver.resolve("link/config")
    assert refused.value.kind == "path_protected"


@pytest.mark.parametrize("path", [".gitignore", ".github/x", "git", "x.git/config", ".gi/t"])
def test_names_that_only_look_alike_are_free(canonical: Callable[..., str], path: str) -> None:
    assert canonical(path) == path


def test_own_temporary_names_are_reserved(resolver: Resolver) -> None:
    with pytest.raises(Refused) as refused:
        resolver.resolve("d/.stet-0123456789abcdef.tmp")
    assert refused.value.kind == "path_protected"


@pytest.mark.parametrize("path", ["a\0b", "a\nb", "a\x1bb", "x" * 256, "d/" + "ü" * 128])
def test_names_that_no_file_should_have_are_invalid(resolver: Resolver, path: str) -> None:
    with pytest.raises(Refused) as refused:
        resolver.resolve(path)
    assert refused.value.kind == "invalid_params"


@pytest.mark.parametrize("path", ["f/x", "f/x/y"])
def test_file_where_a_directory_is_needed(resolver: Resolver, path: str) -> None:
    with pytest.raises(Refused) as refused:
        resolver.resolve(path)
    assert refused.value.kind == "not_a_file"


def test_dots_after_a_directory_that_does_not_exist(resolver: Resolver) -> None:
    with pytest.raises(Refused) as refused:
        resolver.resolve("no/such/../x")
    assert refused.value.kind == "invalid_params"


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
