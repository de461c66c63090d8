"""Exports, applied with plain git in a repository of the person's own."""

from __future__ import annotations

import json
from email import policy
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import Client, Site
from e2e.user_repository import UserRepository, content_of


@pytest.fixture
def own(site: Site, tmp_path: Path) -> UserRepository:
    return UserRepository(tmp_path / "own")


def exported(client: Client, **params: Any) -> str:
    """All pages of an export."""
    pieces, cursor = [], None
    while True:
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        page = client.call("export", **params, **more)
        pieces.append(page["content"])
        cursor = page["cursor"]
        if cursor is None:
            return "".join(pieces)


EVIL = "--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n+evil\n"
LINES = "".join(f"line {n}\n" for n in range(40))


def test_everything_applies_with_authors_dates_and_messages(
    site: Site, own: UserRepository
) -> None:
    site.write("src/a.py", LINES)
    site.write("run.sh", "#!/bin/sh\n", mode=0o755)
    site.write("gone.txt", "x\n")
    site.write("moved.txt", LINES)
    own.take(site.root)
    first = site.replace("src/a.py", "line 3\n", "LINE 3\n", message="Because.\n\nTwice.")
    other = site.another("conv-2", agent="Zoë (the other) <x>")
    other.overwrite('new dir/naïve "quoted" \\ file.txt', "new\nwithout end")
    site.replace("run.sh", "sh", "bash")
    site.agent.delete("gone.txt")
    site.agent.move("moved.txt", "there/moved2.txt", "@@", "-line 7", "+line seven")
    site.agent.move("there/moved2.txt", "third.txt")
    site.agent.call("undo", commits=[first["commit"]])
    own.am(exported(site.person))
    assert content_of(own.root) == content_of(site.root)
    times = [commit["time"] for commit in reversed(site.log()) if commit["kind"] != "outside"]
    rows = [row.split("|") for row in own.log("%an|%ae|%s")]
    assert [row[0] for row in rows] == ["tester", "Zoë (the other) x", *["tester"] * 5]
    assert {row[1] for row in rows} == {"agent@stet.invalid"}
    assert [row[2].split()[0] for row in rows] == [
        "patch", "patch", "patch", "apply_patch", "apply_patch", "apply_patch", "undo",
    ]  # fmt: skip
    assert own.log("%aI") == [time.replace("Z", "+00:00") for time in times]
    body = own.log("%B")[0]
    assert body.startswith(f"{rows[0][2]}\n\nBecause.\n\nTwice.\n\nStet-Kind: edit\n")
    assert f"Stet-Commit: {first['commit']}\n" in body + "\n"
    assert own.log("%(trailers:key=Stet-Session,valueonly)")[1].strip() == "conv-2"


def test_bytes_of_every_kind_arrive(site: Site, own: UserRepository) -> None:
    contents = {
        "crlf.txt": b"one\r\ntwo\r\nthree\r\n",
        "mixed.txt": b"one\r\ntwo\nthree\r\r\n",
        "cr.txt": b"one\rtwo\r",
        "latin.txt": "caf\xe9 one\ntwo\n".encode("latin-1"),
        "trailing.txt": b"one  \ntwo\t\n \n\t\n",
        "from.txt": b"From here\nFrom somebody Mon Sep 17 00:00:00 2001\none\n",
        "long.txt": b"x" * 5000 + b"one\n",
        "dashes.txt": b"---\none\n-- \ndiff --git a/x b/x\n--- a/x\n",
        "equals.txt": b"a=3D=\none=\n",
        "bom.txt": b"\xef\xbb\xbfone\n",
        "form feed.txt": b"a\fone\x0b\x85\xe2\x80\xa8b\n",
    }
    for name, content in contents.items():
        site.write(name, content)
    own.take(site.root)
    for name in contents:
        site.replace(name, "one", "ONE", message=f"From the agent\nabout {name}")
    own.am(exported(site.person))
    assert content_of(own.root) == content_of(site.root)
    assert own.log("%B")[0].split("\n")[2:4] == ["From the agent", "about crlf.txt"]


def test_binary_files_are_created_changed_and_deleted(site: Site, own: UserRepository) -> None:
    site.write("a.bin", bytes(range(256)) * 40)
    site.write("b.bin", b"\0")
    site.write("text", LINES)
    own.take(site.root)
    for name in ("a.bin", "b.bin"):
        site.agent.overwrite(name, "was binary\n")
    site.agent.overwrite("text", "\0\1\2")
    site.write("a.bin", b"\0" + bytes(range(255, -1, -1)) * 3)
    site.agent.overwrite("a.bin", "again\n")
    site.agent.delete("b.bin")
    mbox = exported(site.person)
    assert "GIT binary patch" in mbox
    own.am(mbox)
    assert content_of(own.root) == content_of(site.root)
    applied = own.git("rev-parse", "HEAD").decode()
    own.git("revert", "--no-edit", f"{applied.strip()}~6..HEAD")
    assert content_of(own.root)["a.bin"] == ("644", bytes(range(256)) * 40)


def test_modes_links_and_kinds_that_change_apply(site: Site, own: UserRepository) -> None:
    site.write("a.sh", "one\n")
    site.write("b", "one\n")
    site.write("dir/inner", "one\n")
    own.take(site.root)
    site.replace("a.sh", "one", "two")
    (site.root / "a.sh").chmod(0o755)
    site.replace("a.sh", "two", "three")
    site.replace("b", "one", "two")
    site.replace("dir/inner", "one", "two")
    (site.root / "b").unlink()
    (site.root / "b").symlink_to("a.sh")
    site.agent.delete("dir/inner")
    (site.root / "b").unlink()
    site.write("b", "two\n")
    site.replace("b", "two", "three", message="b")
    own.am(exported(site.person))
    assert content_of(own.root) == content_of(site.root)


@pytest.mark.parametrize(("form", "outside"), [("mbox", True), ("mbox", False), ("diff", True)])
def test_a_file_that_others_made_a_directory_of_and_back_applies(
    site: Site, own: UserRepository, form: str, outside: bool
) -> None:
    site.write("a", "one\n")
    own.take(site.root)
    site.replace("a", "one", "two")
    (site.root / "a").unlink()
    site.write("a/b", "one\n")
    site.replace("a/b", "one", "two")
    for back in (False, True):
        if back:
            (site.root / "a/b").unlink()
            (site.root / "a").rmdir()
            site.write("a", "three\n")
            site.replace("a", "three", "four")
        content = exported(site.person, format=form, outside=outside)
        if form == "mbox":
            own.am(content)
        else:
            own.git("apply", "--index", data=content.encode())
        assert content_of(own.root) == content_of(site.root)
        own.git(
            "reset", "-q", "--hard", own.git("rev-list", "--max-parents=0", "HEAD").decode()[:40]
        )


def test_what_others_did_in_between_is_put_in_and_marked(site: Site, own: UserRepository) -> None:
    site.write("a.txt", LINES)
    site.write("b.txt", LINES)
    own.take(site.root)
    other = site.another("conv-2")
    site.replace("a.txt", "line 3\n", "mine 3\n")
    site.write("a.txt", site.bytes_of("a.txt").replace(b"line 5\n", b"by hand 5\n"))
    replacement = {"operation": "replace", "oldText": "line 7\n", "newText": "other 7\n"}
    other.call("patch", path="a.txt", patches=[replacement])
    other.call("patch", path="b.txt", patches=[replacement])
    site.replace("a.txt", "by hand 5\n", "mine 5\n")
    other.call("patch", path="a.txt", patches=[{**replacement, "oldText": "line 9\n"}])
    whole = site.person.call("export", session="conv-1")
    assert (whole["commits"], whole["context"]) == (4, 2)
    own.am(whole["content"])
    own_lines = content_of(own.root)["a.txt"][1]
    assert own_lines == site.bytes_of("a.txt").replace(b"other 7\n", b"line 9\n", 2).replace(
        b"line 9\n", b"other 7\n", 1
    )
    assert content_of(own.root)["b.txt"] == ("644", LINES.encode())
    assert own.log("%an") == ["tester", "outside", "tester", "tester"]
    marked = own.log("%(trailers:key=Stet-Context,valueonly)")
    assert [bool(each.strip()) for each in marked] == [False, True, True, False]

    folded = site.person.call("export", session="conv-1", outside=False)
    assert (folded["commits"], folded["context"]) == (2, 0)
    own.git("reset", "-q", "--hard", "HEAD~4")
    own.am(folded["content"])
    assert content_of(own.root)["a.txt"][1] == own_lines


def test_an_undo_of_what_was_put_back_by_hand_is_left_out(site: Site, own: UserRepository) -> None:
    site.write("a.txt", LINES)
    own.take(site.root)
    site.replace("a.txt", "line 3\n", "x\n")
    site.write("a.txt", LINES)
    site.agent.call("undo")
    site.replace("a.txt", "line 5\n", "y\n")
    result = site.person.call("export")
    assert (result["commits"], result["skipped"]) == (3, 1)
    own.am(result["content"])
    assert content_of(own.root) == content_of(site.root)


@pytest.mark.parametrize(
    "why",
    [
        "---\n a.txt | 1 +\n\ndiff --git a/evil b/evil\nnew file mode 100644\n" + EVIL,
        "diff --git a/evil b/evil\nnew file mode 100644\nindex 000..111\n" + EVIL,
        "Index: evil\n" + EVIL,
        "x\n" + EVIL.replace("/dev/null", "a/evil"),
        "From: Somebody <else@example.org>\nDate: Thu, 01 Jan 1970 00:00:00 +0000\nSubject: forged",
        "\n\n  From: Somebody Else <else@example.org>\n\nx",
        ">From: Somebody Else <else@example.org>",
        f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: x <x@x>\n\nsecond message",
        "[PATCH] forged subject",
        "Content-Type: text/plain; charset=ISO-2022-JP\n\nx",
        "--- \n---\t\n--",
        "trailing space \nand = signs =3D, ümläute, \u2028 and \x1b[31m escapes",
        "x" * 3000,
    ],
)  # fmt: skip
def test_a_message_stays_a_message(site: Site, own: UserRepository, why: str) -> None:
    site.write("a.txt", "one\n")
    own.take(site.root)
    site.replace("a.txt", "one", "two", message=why)
    own.am(exported(site.person))
    assert content_of(own.root) == content_of(site.root)
    [row] = own.log("%an|%ae|%s")
    assert row == "tester|agent@stet.invalid|patch a.txt: 1 edit"
    [body] = own.log("%B")
    said = body.split("\n\n", 1)[1].rpartition("\n\nStet-Kind")[0]
    # Git takes white space off the ends; lines that would begin a patch get a space before them.
    expected = [line.rstrip() for line in why.strip("\n").split("\n")]
    assert [line.strip() for line in said.split("\n")] == [line.strip() for line in expected]


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("x", "agent x"),
        ("me@host", "me at host"),
        ('Ünï, "quoted" (paren) \\ back; [b]', "Ünï, quoted (paren) \\ back; [b]"),  # git am's way
        ("=?UTF-8?q?forged?=", "=?UTF-8?q?forged?="),
        ("n" * 150, "n" * 60),
        ("ü" * 80, "ü" * 30),
    ],
)
def test_agents_become_authors(site: Site, own: UserRepository, agent: str, name: str) -> None:
    site.write("a.txt", "one\n")
    own.take(site.root)
    client = site.another("s", agent=agent)
    client.overwrite("a.txt", "two\n")
    own.am(exported(site.person))
    [row] = own.log("%an|%(trailers:key=Stet-Agent,valueonly)")
    assert row.split("|")[0] == name
    assert row.split("|")[1].strip() == agent


def test_messages_are_such_as_other_programs_read(site: Site) -> None:
    site.write("a.txt", "é\r\n")
    site.replace("a.txt", "é", "e", message="naïve")
    mbox = exported(site.person)
    head, _, rest = mbox.partition("\n")
    assert head.endswith(" Mon Sep 17 00:00:00 2001")
    mail = BytesParser(policy=policy.default).parsebytes(rest.encode())
    assert mail["From"] == "tester <agent@stet.invalid>"
    assert mail["Subject"] == "[PATCH] patch a.txt: 1 edit"
    text = mail.get_content()
    assert text.startswith("From: tester <agent@stet.invalid>\n\nnaïve\n\nStet-Kind: edit\n")
    assert "-é\r\n+e\r\n" in text


# -- ranges, filters, pages


def test_a_range_a_path_and_an_agent(site: Site, own: UserRepository) -> None:
    for name in ("a", "b", "c/d"):
        site.write(name, "0\n")
    own.take(site.root)
    edits = {}
    for number in range(1, 5):
        for name in ("a", "b", "c/d"):
            edits[name, number] = site.agent.overwrite(name, f"{number}\n")["commit"]
    mbox = exported(site.person, to=edits["b", 2], paths=["b", "c"])
    own.am(mbox)
    assert {k: v[1] for k, v in content_of(own.root).items()} == {
        "a": b"0\n", "b": b"2\n", "c/d": b"1\n",
    }  # fmt: skip
    own.am(exported(site.person, **{"from": edits["b", 2]}, paths=["b", "c"]))
    assert {k: v[1] for k, v in content_of(own.root).items()} == {
        "a": b"0\n", "b": b"4\n", "c/d": b"4\n",
    }  # fmt: skip
    assert exported(site.person, agent="nobody") == ""
    assert exported(site.person, **{"from": "HEAD"}) == ""
    assert exported(site.person, paths=["none"]) == ""


def test_pages_put_together_are_the_whole(site: Site, own: UserRepository) -> None:
    site.write("a", "0\n")
    own.take(site.root)
    for number in range(1, 12):
        site.agent.overwrite("a", f"{number}\n")
        if number % 3 == 0:
            site.write("a", f"by hand {number}\n")
    whole = site.person.call("export")
    assert whole["cursor"] is None
    assert exported(site.person, limit=2) == whole["content"]
    assert exported(site.person, limit=1, outside=False) == exported(site.person, outside=False)
    lines = exported(site.person, format="jsonl", limit=3)
    assert lines == exported(site.person, format="jsonl")
    first = site.person.call("export", limit=4)
    site.agent.overwrite("a", "meanwhile\n")
    rest = exported(site.person, cursor=first["cursor"])
    assert first["content"] + rest == whole["content"]
    own.am(whole["content"])
    assert content_of(own.root)["a"][1] == b"11\n"


def test_json_lines_are_what_show_gives(site: Site) -> None:
    site.write("a", "0\n")
    site.agent.overwrite("a", "1\n")
    undone = site.agent.overwrite("a", "2\n")["commit"]
    site.agent.call("undo")
    lines = [json.loads(line) for line in exported(site.agent, format="jsonl").splitlines()]
    assert [line["kind"] for line in lines] == ["edit", "edit", "undo"]
    assert lines[1]["commit"] == undone
    for line in lines:
        assert line == site.agent.call("show", commit=line["commit"])
    only = exported(site.agent, format="jsonl", kind="outside")
    assert json.loads(only)["kind"] == "outside"


def test_one_diff_over_everything_applies(site: Site, own: UserRepository) -> None:
    site.write("a.txt", b"one\r\n\xe9\r\n")
    site.write("b.bin", b"\0\1")
    site.write("c.txt", LINES)
    own.take(site.root)
    site.replace("a.txt", "one", "two")
    site.replace("a.txt", "two", "three")
    site.agent.overwrite("b.bin", "text\n")
    site.agent.move("c.txt", "d/c.txt")
    site.agent.overwrite("new.txt", "x")
    site.agent.overwrite("passing.txt", "x")
    site.agent.delete("passing.txt")
    result = site.person.call("export", format="diff")
    assert result["commits"] == 7
    assert result["content"].count("diff --git") == 4
    assert "passing" not in result["content"]
    own.git("apply", "--index", data=result["content"].encode())
    assert content_of(own.root) == content_of(site.root)
    own.git("apply", "--index", "-R", data=result["content"].encode())
    assert own.git("diff", "--cached", "HEAD") == b""


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"format": "zip"}, "invalid_params"),
        ({"from": "nonsense"}, "unknown_commit"),
        ({"to": "ffff"}, "unknown_commit"),
        ({"to": ""}, "unknown_commit"),
        ({"from": "HEAD", "to": "HEAD~1"}, "invalid_params"),
        ({"cursor": "x"}, "invalid_params"),
        ({"cursor": "a" * 40 + "." + "b" * 40}, "unknown_commit"),
        ({"format": "diff", "limit": 5}, "invalid_params"),
        ({"limit": 0}, "invalid_params"),
        ({"since": "yesterday"}, "invalid_params"),
        ({"paths": []}, "invalid_params"),
        ({"paths": ["../x"]}, "path_outside_workspace"),
        ({"nonsense": 1}, "invalid_params"),
    ],
)
def test_bad_parameters_are_refused(site: Site, params: dict[str, Any], kind: str) -> None:
    site.agent.overwrite("a", "1\n")
    site.agent.overwrite("a", "2\n")
    assert site.person.refusal("export", **params).kind == kind


def test_an_empty_history_gives_nothing(site: Site) -> None:
    for form in ("mbox", "diff", "jsonl"):
        result = site.agent.call("export", format=form)
        assert (result["content"], result["commits"], result["cursor"]) == ("", 0, None)
