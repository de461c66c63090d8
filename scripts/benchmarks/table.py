"""What was measured, as an aligned table for people or as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measuring import Rate, Row, quantile
from benchmarks.serving import Served
from benchmarks.syncs import Syncs


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that was measured. ``syncs`` is empty where strace can't be used."""

    rows: Sequence[Row]
    rates: Sequence[Rate]
    syncs: Sequence[Syncs]
    service: Served


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


def rate_values(rates: Sequence[Rate]) -> list[dict[str, object]]:
    """Rates with their ratio to one caller alone."""
    return [
        {
            "name": rate.name,
            "per_second": round(rate.per_second),
            "ratio": round(rate.per_second / rate.alone, 2),
        }
        for rate in rates
    ]


def sync_values(syncs: Sequence[Syncs]) -> list[dict[str, object]]:
    """Counts of syncs, and how many calls shared one."""
    return [
        {
            "name": each.name,
            "calls": each.calls,
            "journal_syncs": each.syncs,
            "calls_per_sync": round(each.calls / max(1, each.syncs), 2),
        }
        for each in syncs
    ]


def service_values(served: Served) -> dict[str, object]:
    """What a service takes when it has nothing to do, or why that is not known."""
    memory = None if served.memory_mib is None else round(served.memory_mib, 1)
    return {"idle_memory_mib": memory, "not_measured": served.why_not}


def service_line(served: Served) -> str:
    """The same in words."""
    if served.memory_mib is None:
        return f"as a service of systemd: not measured, because {served.why_not}"
    return f"as a service of systemd, idle: {served.memory_mib:.0f} MiB of memory"


def as_json(about: dict[str, str | int], results: Results) -> str:
    """Everything, for programs."""
    everything = {
        "environment": about,
        "rows": as_values(results.rows),
        "rates": rate_values(results.rates),
        "syncs": sync_values(results.syncs),
        "service": service_values(results.service),
    }
    return json.dumps(everything, indent=2)


def as_text(about: dict[str, str | int], results: Results) -> str:
    """Everything, for people."""
    values = as_values(results.rows)
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
    together = [("", "calls/s", "of one")]
    together += [
        (str(value["name"]), str(value["per_second"]), f"{value['ratio']:.1f}x")
        for value in rate_values(results.rates)
    ]
    counted = [("by strace", "calls", "fdatasyncs of the journal", "calls a sync")]
    counted += [
        (
            str(value["name"]),
            str(value["calls"]),
            str(value["journal_syncs"]),
            str(value["calls_per_sync"]),
        )
        for value in sync_values(results.syncs)
    ]
    facts = ", ".join(f"{name.replace('_', ' ')} {fact}" for name, fact in about.items())
    lines = [facts, "", *aligned(table), "", *aligned(together)]
    if results.syncs:
        lines += ["", *aligned(counted)]
    lines += ["", service_line(results.service)]
    return "\n".join(lines)


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
