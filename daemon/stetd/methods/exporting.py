"""Exporting edits for use elsewhere; who may read the history may export it."""

from __future__ import annotations

from stet.wire.failures import Kind, refuse
from stet.wire.results import ExportResult
from stetd.caller import Caller, Method, Params
from stetd.exporting import Order, export, parse_cursor
from stetd.history.commit_rows import Wanted
from stetd.history_reading import seconds
from stetd.params import Export, convert
from stetd.past import Past
from stetd.reading import Place, canonical, looking_back
from stetd.refusing import damaged_history
from stetd.slices import in_slices
from stetd.storage.shadow_repo import MissingObject


async def _export(caller: Caller, params: Params) -> ExportResult:
    wanted = convert(Export, "export", params)
    if wanted.format == "diff" and (wanted.cursor or wanted.limit):
        raise refuse(
            Kind.INVALID_PARAMS, "export: one diff has no pages; leave out cursor and limit."
        )
    place, order = await caller.reading(lambda place: (place, _order(place, wanted)))
    if order is None:
        return ExportResult(format=wanted.format, content="", commits=0)
    assert place.head is not None, "BUG: an order in an empty history"
    work = export(place.shadow, place.head, order)
    try:
        return await in_slices(work, caller.shared.readers, caller.shared.writer.quiet_s)
    except MissingObject as error:
        raise damaged_history(str(error)) from error


def _order(place: Place, wanted: Export) -> Order | None:
    """What is asked for, with full ids and paths; None where there is no history at all."""
    if place.head is None and wanted.from_ is None and wanted.to is None:
        return None
    to, cursor = parse_cursor(wanted.cursor) if wanted.cursor is not None else (wanted.to, None)
    filters = Wanted(
        session=wanted.session,
        agent=wanted.agent,
        method=wanted.method,
        kind=wanted.kind,
        since=seconds(wanted.since, "since"),
        until=seconds(wanted.until, "until"),
    )
    paths = tuple(canonical(place, path) for path in wanted.paths or ())

    def resolve(past: Past) -> Order:
        more = {} if wanted.limit is None else {"limit": wanted.limit}
        return Order(
            format=wanted.format,
            after=None if wanted.from_ is None else past.resolve(wanted.from_),
            to=past.resolve(to or "HEAD"),
            wanted=filters,
            paths=paths,
            context=wanted.outside,
            cursor=cursor,
            **more,
        )

    return looking_back(place, resolve)


METHODS = {"export": Method(_export)}
