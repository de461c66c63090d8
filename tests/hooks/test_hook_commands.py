"""What the text of a command says of directories and files."""

from __future__ import annotations

import pytest

from stet.agents.hook_payloads import HookEvent, read_command


def read(text: str, *, background: bool = False) -> HookEvent:
    event = HookEvent("before", "s", "/ws")
    event.background = background
    read_command(event, text, "/ws")
    return event


@pytest.mark.parametrize(
    ("text", "entered"),
    [
        ("cd /other && make", ["/other"]),
        ("cd -P -- '/a b'; pushd \"/c\"\ncd /d", ["/a b", "/c", "/d"]),
        ("cd ~/src; cd ~", ["/home/me/src", "/home/me"]),
        ("(cd /other)", ["/other"]),
        ("cd sub && cd ..", []),
        ('cd "$HOME" && cd `pwd` && cd /x*; cd', []),
        ("cd - && cd ~other", []),
        ("cd /a && echo 'a quote that does not end", ["/a"]),
    ],
)
def test_directories_that_it_enters(
    text: str, entered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert read(text).places == entered


@pytest.mark.parametrize(
    ("text", "written", "named"),
    [
        ("make > out.log 2>&1", ["/ws/out.log"], []),
        ("(sleep 3; echo x >>/ws/late) &", ["/ws/late"], []),
        ("cd sub && make &>log; cat <in.txt", ["/ws/sub/log"], ["/ws/sub/in.txt"]),
        ("touch a.txt 'b c.txt' done -o.x", [], ["/ws/a.txt", "/ws/b c.txt"]),
        ('echo > "$OUT" *.txt {a,b}.txt', [], []),
        ("cat <<'EOF' > f.txt\nit's\nEOF", ["/ws/f.txt"], []),
    ],
)
def test_files_that_it_names(text: str, written: list[str], named: list[str]) -> None:
    command = read(text, background=True)
    assert (command.late, command.new) == (written, named)
    assert read(text).late == read(text).new == []


def test_the_files_of_a_patch_that_it_hands_on() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n*** Move to: /b.py\n@@\n-cd /no\n*** End Patch"
    told = read(f"cd sub && apply_patch <<'EOF'\n{patch}\nEOF\n")
    assert told.late == ["/ws/sub/a.py", "/b.py"]
    assert read(f"cat > p.txt <<'EOF'\n{patch}\nEOF").late == []


def test_a_huge_command_is_not_read_to_its_end() -> None:
    text = "cd /a && cat > f.txt <<'E'\n" + "x.y " * 1_000_000 + "\nE\ncd /b"
    command = read(text, background=True)
    assert (command.places, len(command.new)) == (["/a"], 1000)
