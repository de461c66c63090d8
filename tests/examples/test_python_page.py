"""docs/python.md: its code runs and prints what it says."""

from __future__ import annotations

from pathlib import Path

from client.live import installation
from examples.fenced import Block, blocks, run

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_its_code_prints_what_it_says() -> None:
    found = blocks(PAGE.read_text(encoding="utf-8"))
    with installation() as place:
        assert place.stet("init").returncode == 0
        printed = run(PAGE, found, place.workspace, place.environ)
    expected = [(block.line, block.output) for block in found]
    assert expected == [(b.line, each) for b, each in zip(found, printed, strict=True)]


def test_blocks_are_found_with_their_lines_and_what_they_print() -> None:
    document = "text\n\n```python\na = 1\n```\n\n```python\nprint(a)\n```\n\n```output\n1\n```\n"
    assert [Block(4, "a = 1\n", ""), Block(8, "print(a)\n", "1\n")] == blocks(document)


def test_a_block_that_fails_names_the_line_of_the_document(tmp_path: Path) -> None:
    found = blocks("\n\n```python\nx = 1\nprint(y)\n```\n")
    [printed] = run(Path("page.md"), found, str(tmp_path), {})
    assert 'File "page.md", line 5, in <module>' in printed
    assert printed.endswith("NameError: name 'y' is not defined\n")
