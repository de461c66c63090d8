"""The size limit of a call, in tokens of the encoding ``o200k_base``.

The vocabulary is in the package, because tiktoken would download it. It is read for the first call
with more than 60,000 bytes of text: a token has at least one byte, so smaller calls need no count.
"""

from __future__ import annotations

import base64
import hashlib
import lzma
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

#: Of the texts of one call (docs/dialects.md).
MAX_TOKENS = 60_000
_VOCABULARY = "o200k_base.tiktoken.xz"
_VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
#: The pattern by which o200k_base splits text before merging; part of the encoding's definition.
_PIECES = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)

#: Characters of the longest run: merging takes quadratic time, so longer runs are cut.
_LONGEST_RUN = 1_000
_RUN = re.compile(r"\S+|\s+")
#: Approximate characters that are encoded at a time, so that counting can stop early.
_STRETCH = 65_536
#: Counting stops at the limit if at least this many characters are left.
_EXACT_UP_TO = 1_000_000


def count_tokens(texts: Sequence[str]) -> tuple[int, bool]:
    """The number of tokens of all ``texts``, and whether it is exact: far over MAX_TOKENS, counting
    stops early, and there are more.
    """
    encoding = load_encoding()
    unread = sum(map(len, texts))
    tokens = 0
    for text in texts:
        for stretch in _stretches(text):
            if tokens > MAX_TOKENS and unread > _EXACT_UP_TO:
                return tokens, False
            tokens += len(encoding.encode_ordinary(stretch))
            unread -= len(stretch)
    return tokens, True


@cache
def load_encoding() -> tiktoken.Encoding:
    """Load ``o200k_base``, once; takes half a second. Raises RuntimeError if it is damaged."""
    from importlib import resources  # it takes long to load

    import tiktoken

    packed = resources.files("stetd").joinpath("data", _VOCABULARY).read_bytes()
    lines = (line.split() for line in _unpacked(packed).splitlines() if line)
    return tiktoken.Encoding(
        "o200k_base",
        pat_str=_PIECES,
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        special_tokens={},  # what reads like one is plain text
    )


def _unpacked(packed: bytes) -> bytes:
    try:
        vocabulary = lzma.decompress(packed)
    except lzma.LZMAError as error:
        raise RuntimeError(f"{_VOCABULARY} can not be unpacked: {error}") from error
    found = hashlib.sha256(vocabulary).hexdigest()
    if found != _VOCABULARY_SHA256:
        raise RuntimeError(f"{_VOCABULARY} has SHA-256 {found}: reinstall the package")
    return vocabulary


def _stretches(text: str) -> Iterator[str]:
    """``text`` in pieces, cut where the encoding splits it, or inside very long runs."""
    start = 0
    for run in _RUN.finditer(text):
        if run.start() - start >= _STRETCH and run.group() == " ":
            yield text[start : run.start()]
            start = run.start()
        elif run.end() - start >= _STRETCH and (cut := _behind_line(run, text)):
            yield text[start:cut]
            start = cut
        for cut in range(run.start() + _LONGEST_RUN, run.end(), _LONGEST_RUN):
            yield text[start:cut]
            start = cut
    if start < len(text):
        yield text[start:]


def _behind_line(run: re.Match[str], text: str) -> int:
    """The offset after the last newline at which a run of white space can be cut; 0: none."""
    cut = 1 + max(text.rfind(end, *run.span()) for end in "\r\n")
    return 0 if text.startswith("/", cut) else cut
