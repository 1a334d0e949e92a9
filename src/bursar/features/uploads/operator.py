"""Staff download what merchants sent."""

from __future__ import annotations

from bursar.features.uploads import queries, service
from bursar.features.uploads.errors import UploadNotFound
from bursar.http.context import Audit, Ctx
from bursar.http.envelope import Download
from bursar.http.families import OPERATOR
from bursar.http.routes import Read, Route


async def download(ctx: Ctx, _: None) -> Download:
    row = await queries.find_anywhere(ctx.db, ctx.path_id(missing=UploadNotFound))
    if row is None:
        raise UploadNotFound
    ctx.audit = Audit(row["account_id"], after={"upload": row["id"], "subject": row["subject"]})
    return Download(await service.content(ctx.db, ctx.settings, row), row["name"], row["mime"])


ROUTES = (
    Route(
        method="GET",
        path="/uploads/{id}",
        name="operator_download_upload",
        summary="A file that a merchant sent, as a download.",
        tag="Operator: cases",
        family=OPERATOR,
        reply=bytes,
        errors=(UploadNotFound,),
        handler=Read(download),
    ),
)
