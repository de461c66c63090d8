"""Exporting edits for use elsewhere; who may read the history may export it."""

from __future__ import annotations

from stet.wire.failures import Kind, refuse
from stet.wire.results import ExportResult
from stetd.methods.caller import Caller, Method, Params
from stetd.transaction.parameters import Export, convert


async def _export(caller: Caller, params: Params) -> ExportResult:
    wanted = convert(Export, "export", params)
    if wanted.format == "diff" and (wanted.cursor or wanted.limit):
        raise refuse(
            Kind.INVALID_PARAMS, "export: one diff has no pages; leave out cursor and limit."
        )
    return await caller.ask("export", wanted, ExportResult)


METHODS = {"export": Method(_export)}
