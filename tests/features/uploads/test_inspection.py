"""Which files are kept, and as what."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from bursar.core.errors import FileTooLarge
from bursar.features.uploads.errors import UnsupportedFileType
from bursar.features.uploads.inspection import inspect, safe_name
from bursar.http.body import Upload
from tests.features.uploads.corpus import BAD, GOOD, image


class TestInspection:
    @pytest.mark.parametrize("upload", GOOD, ids=lambda upload: upload.name)
    async def test_good_files_are_kept(self, upload: Upload) -> None:
        kept = await inspect(upload)
        if kept.mime == "application/pdf":
            assert kept.content == upload.content
        else:
            assert Image.open(io.BytesIO(kept.content)).size == Image.open(io.BytesIO(upload.content)).size

    @pytest.mark.parametrize("upload", BAD, ids=lambda upload: upload.name)
    async def test_bad_files_are_refused_with_a_reason(self, upload: Upload) -> None:
        with pytest.raises(UnsupportedFileType) as refused:
            await inspect(upload, field="proof")
        assert refused.value.details
        assert upload.name.partition(".")[0] in refused.value.details["proof"][0]

    async def test_size_is_looked_at_first(self) -> None:
        with pytest.raises(FileTooLarge):
            await inspect(Upload("x.exe", b"x" * 11), largest=10)

    async def test_nothing_but_pixels_is_left_of_an_image(self) -> None:
        content = io.BytesIO()
        exif = Image.Exif()
        exif[0x010E] = "<?php system('id') ?>"
        exif[0x0112] = 6  # lies on its side
        Image.new("RGB", (30, 20)).save(content, "JPEG", exif=exif, comment=b"secret place")
        kept = await inspect(Upload("x.jpg", content.getvalue() + b"PK\x03\x04trailing", "image/jpeg"))
        for hidden in (b"php", b"secret", b"Exif", b"PK\x03\x04"):
            assert hidden not in kept.content
        assert Image.open(io.BytesIO(kept.content)).size == (20, 30), "upright"

    async def test_names_are_made_safe(self) -> None:
        assert safe_name('../../etc/pass"wd\r\n.pdf') == "_.._etc_pass_wd_.pdf"
        assert safe_name("...") == "file"
        assert len(safe_name("x" * 500)) == 100
        kept = await inspect(Upload('a"b\r\nSet-Cookie: x.png', image("PNG"), "image/png"))
        assert kept.name == "a_b_Set-Cookie_ x.png"
