"""Packs are judged by git itself: it must accept them strictly and read back every byte."""

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stetd.history.objects import NewObject, object_id
from stetd.storage.disk import Disk
from stetd.storage.packing import write_pack
from stetd.storage.shadow_repo import ShadowRepository, create_repository


def blob(content: bytes) -> NewObject:
    return NewObject("blob", object_id("blob", content), content)


def git(repository: str, *arguments: str) -> bytes:
    command = ["git", "--git-dir", repository, *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.fixture
def repository(tmp_path):
    path = os.fspath(tmp_path / "shadow")
    create_repository(path, Disk())
    return path


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(contents=st.lists(st.binary(max_size=400), min_size=1, max_size=40))
def test_git_verifies_a_pack_and_gives_back_every_blob(repository, contents):
    contents += [b"", b"x" * 15, b"x" * 16, b"y" * 2047, b"y" * 2048, os.urandom(70_000)]
    objects = [blob(content) for content in contents]
    pack, index = write_pack(repository, objects, Disk())
    assert pack.endswith(".pack")
    git(repository, "verify-pack", index)
    reader = ShadowRepository(repository)
    for item in objects:
        assert reader.blob(item.oid) == item.content
    reader.close()


def test_an_object_given_twice_is_packed_once(repository):
    _, index = write_pack(repository, [blob(b"same"), blob(b"same")], Disk())
    listed = git(repository, "verify-pack", "-v", index).decode().splitlines()
    assert [line for line in listed if " blob " in line] == listed[:1]


def test_a_reader_opened_before_sees_a_pack_written_after(repository):
    reader = ShadowRepository(repository)
    write_pack(repository, [blob(b"late")], Disk())
    assert reader.blob(blob(b"late").oid) == b"late"
    reader.close()
