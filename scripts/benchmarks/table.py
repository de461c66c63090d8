"""What was measured, as an aligned table for people or as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence

from benchmarks.measuring import Row, quantile


def environment(directory: str) -> dict[str, str | int]:
    """What the numbers depend on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processors": os.cpu_count() or 0,
        "file_system": file_system(directory),
    }


def file_system(directory: str) -> str:
    """The type of the file system that a directory lies on, as in /proc/self/mounts."""
    path = os.path.realpath(directory)
    best, kind = "", "unknown"
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        for mount in mounts:
            _, point, found, *_ = mount.split(" ")
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, found
    return kind


def as_values(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Rows with milliseconds and ratios, for JSON and for the table."""
    by_name = {row.name: row for row in rows}
    values: list[dict[str, object]] = []
    for row in rows:
        value: dict[str, object] = {
            "name": row.name,
            "calls": len(row.seconds),
            "p50_ms": round(quantile(row.seconds, 0.5) * 1000, 3),
            "p99_ms": round(quantile(row.seconds, 0.99) * 1000, 3),
        }
        if row.floor is not None:
            floor = by_name[row.floor].seconds
            value["floor"] = row.floor
            value["p50_ratio"] = round(quantile(row.seconds, 0.5) / quantile(floor, 0.5), 2)
            value["p99_ratio"] = round(quantile(row.seconds, 0.99) / quantile(floor, 0.99), 2)
        values.append(value)
    return values


def as_json(about: dict[str, str | int], rows: Sequence[Row]) -> str:
    """Everything, for programs."""
    return json.dumps({"environment": about, "rows": as_values(rows)}, indent=2)


def facts(about: dict[str, str | int]) -> str:
    """The environment in a line."""
    return ", ".join(f"{name.replace('_', ' ')} {fact}" for name, fact in about.items())


def as_text(rows: Sequence[Row]) -> str:
    """The rows for people."""
    values = as_values(rows)
    floors = {str(value["floor"]): "" for value in values if "floor" in value}
    letters = {name: chr(ord("a") + number) for number, name in enumerate(floors)}
    table = [("", "calls", "p50 ms", "p99 ms", "of", "p50", "p99")]
    for value in values:
        name = str(value["name"])
        letter = letters.get(str(value.get("floor", "")), "")
        own = f"({letters[name]}) " if name in letters else ""
        table.append(
            (
                own + name,
                str(value["calls"]),
                f"{value['p50_ms']:.2f}",
                f"{value['p99_ms']:.2f}",
                f"({letter})" if letter else "",
                f"{value['p50_ratio']:.1f}x" if letter else "",
                f"{value['p99_ratio']:.1f}x" if letter else "",
            )
        )
    return "\n".join(aligned(table))


def aligned(table: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as they must be: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
