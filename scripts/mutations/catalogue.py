"""Every mistake and trap by the name that the tables give it."""

from __future__ import annotations

from collections.abc import Mapping

from mutations import mistakes as m
from mutations import traps as t
from mutations.mistakes import Mistake, both

#: What is wrong about the text that is sent, or different about the file.
MISTAKES: Mapping[str, Mistake] = {
    "nothing": m.none,
    "deeper": m.deeper,
    "not indented": m.shallower,
    "one level less": m.one_level_less,
    "first line not indented": m.first_line_not_indented,
    "cut within lines": m.cut_at_both_ends,
    "cut within lines, CRLF in the file": both(m.cut_at_both_ends, m.crlf_in_the_file),
    "cut within lines, CRLF in the text": both(m.cut_at_both_ends, m.crlf_in_the_text),
    "cut within lines, typographic": both(m.cut_at_both_ends, m.typographic_text),
    "one line indented otherwise": m.unevenly_indented,
    "tabs in the text": m.tabs_in_the_text,
    "tabs in the file": m.tabs_in_the_file,
    "tabs in the file, text not indented": m.tabs_in_the_file_not_indented,
    "two spaces a level for four": m.other_unit,
    "four spaces a level for two": m.four_for_two,
    "trailing space in the text": m.trailing_space_in_the_text,
    "trailing space in the file": m.trailing_space_in_the_file,
    "white space in blank lines": m.white_space_in_blank_lines,
    "two spaces within a line": m.double_space_within,
    "a tab within a line": m.tab_within,
    "CRLF in the file": m.crlf_in_the_file,
    "CRLF in the text": m.crlf_in_the_text,
    "CRLF in both": m.crlf_in_both,
    "CR in the file": m.cr_in_the_file,
    "mixed terminators in the file": m.mixed_terminators,
    "no final newline": m.no_final_newline,
    "typographic quotes in the text": m.typographic_text,
    "typographic quotes in the file": m.typographic_file,
    "typographic dashes in the text": m.dashes_in_the_text,
    "no-break spaces in the text": m.no_break_spaces_in_the_text,
    "NFD in the text": m.decomposed_text,
    "NFD in the file": m.decomposed_file,
    "byte order mark": m.byte_order_mark,
    "Latin-1 elsewhere in the file": m.latin_bytes_elsewhere,
    "Latin-1 where the edit is": m.latin_bytes_in_the_text,
    "a wrong word": m.wrong_word,
    "another letter case": m.other_case,
    "look-alike letters": m.look_alike_letters,
    "a wrong first line": m.wrong_first_line,
    "a wrong word in the first line": m.wrong_word_in_the_first_line,
    "a wrong middle line": m.wrong_middle_line,
    "a wrong last line": m.wrong_last_line,
    "a wrong word in the last line": m.wrong_word_in_the_last_line,
    "a line too many before it": m.extra_first_line,
    "blank lines around it": m.blank_lines_around,
    "a line left out": m.line_left_out,
    "a blank line left out": m.blank_line_left_out,
    "a blank line too many": m.blank_line_too_many,
    "two lines swapped": m.lines_swapped,
    "an ellipsis for lines": m.ellipsis_for_lines,
    "the text twice over": m.sent_twice_over,
    "deeper, trailing space": both(m.deeper, m.trailing_space_in_the_text),
    "not indented, typographic": both(m.shallower, m.typographic_text),
    "not indented, CRLF in the file": both(m.shallower, m.crlf_in_the_file),
    "tabs in the file, CRLF": both(m.tabs_in_the_file, m.crlf_in_the_file),
    "tabs in the text, trailing space": both(m.tabs_in_the_text, m.trailing_space_in_the_text),
    "typographic file, trailing space": both(m.typographic_file, m.trailing_space_in_the_text),
    "blank lines around it, not indented": both(m.shallower, m.blank_lines_around),
    "a wrong first line, not indented": both(m.shallower, m.wrong_first_line),
    "a wrong last line, CRLF in the file": both(m.wrong_last_line, m.crlf_in_the_file),
    "first line not indented, CRLF in the file": both(
        m.first_line_not_indented, m.crlf_in_the_file
    ),
    "first line not indented, trailing space": both(
        m.first_line_not_indented, m.trailing_space_in_the_text
    ),
    "first line not indented, typographic": both(m.first_line_not_indented, m.typographic_text),
    "no final newline, not indented": both(m.no_final_newline, m.shallower),
}

#: What else stands in the file, or no longer does.
TRAPS: Mapping[str, Mistake] = {
    "copied": t.copied,
    "copied; deeper": t.copied_and(m.deeper),
    "copied; trailing space": t.copied_and(m.trailing_space_in_the_text),
    "copied; typographic": t.copied_and(m.typographic_text),
    "copied; CRLF in the text": t.copied_and(m.crlf_in_the_text),
    "copied; blank lines around it": t.copied_and(m.blank_lines_around),
    "copied; a wrong first line": t.copied_and(m.wrong_first_line),
    "copied; a wrong last line": t.copied_and(m.wrong_last_line),
    "copied deeper": t.copied_deeper,
    "copied deeper; less indented than both": t.copied_deeper_and_not_indented,
    "copied with trailing space": t.copied_with_trailing_space,
    "copied with typographic quotes": t.copied_in_typography,
    "a near copy": t.near_copy,
    "a near copy; deeper": t.near_copy_and(m.deeper),
    "a near copy; not indented": t.near_copy_and(m.shallower),
    "a near copy; trailing space": t.near_copy_and(m.trailing_space_in_the_text),
    "a near copy; typographic": t.near_copy_and(m.typographic_text),
    "a near copy; tabs in the text": t.near_copy_and(m.tabs_in_the_text),
    "a near copy; blank lines around it": t.near_copy_and(m.blank_lines_around),
    "a near copy; a wrong first line": t.near_copy_and(m.wrong_first_line),
    "a near copy; a wrong last line": t.near_copy_and(m.wrong_last_line),
    "a near copy; an ellipsis for lines": t.near_copy_and(m.ellipsis_for_lines),
    "a near copy; an edge line of neither": t.near_copy_and_neither,
    "gone; a sibling with another first line": t.sibling_left(0),
    "gone; a sibling with another last line": t.sibling_left(-1),
    "already applied": t.already_applied,
    "changed since": t.changed_since,
}

#: What the ladder can't tell from a mistake that it forgives by design (docs/dialects.md,
#: trim_edges): counted, but apart.
ON_TRUST: Mapping[str, Mistake] = {
    "gone; the rest below another first line": t.remainder_left(0),
    "gone; the rest above another last line": t.remainder_left(-1),
}

ALL: Mapping[str, Mistake] = {**MISTAKES, **TRAPS, **ON_TRUST}
