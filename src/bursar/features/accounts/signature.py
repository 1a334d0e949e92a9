"""A typed signature: the legal name, drawn, for those who send no image of theirs."""

from __future__ import annotations

import io
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from bursar.core.clock import iso

WIDTH, HEIGHT, MARGIN = 720, 200, 36
LARGEST, SMALLEST, CAPTION = 72, 18, 14
INK, LINE, PAPER = (22, 28, 60), (150, 155, 170), (255, 255, 255)

_FONT = Path(__file__).with_name("fonts") / "DejaVuSerif-Italic.ttf"


class CannotDraw(ValueError):
    """The font has no sign for part of the name."""


def draw(legal_name: str, signed_at: datetime) -> bytes:
    """The signature as a PNG image."""
    if any(_is_missing(char) for char in set(legal_name) if not char.isspace()):
        raise CannotDraw
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    canvas = ImageDraw.Draw(image)
    baseline = HEIGHT - 64
    canvas.text((MARGIN, baseline - 8), legal_name, font=_fitting(legal_name), fill=INK, anchor="ls")
    canvas.line((MARGIN, baseline + 10, WIDTH - MARGIN, baseline + 10), fill=LINE, width=2)
    canvas.text((MARGIN, baseline + 22), f"Signed by typing, {iso(signed_at)}", font=_font(CAPTION), fill=LINE)
    kept = io.BytesIO()
    image.save(kept, "PNG")
    return kept.getvalue()


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(_FONT, size)


def _fitting(name: str) -> ImageFont.FreeTypeFont:
    """As large as the width allows."""
    for size in range(LARGEST, SMALLEST, -2):
        if _font(size).getlength(name) <= WIDTH - 2 * MARGIN:
            return _font(size)
    return _font(SMALLEST)


@lru_cache(maxsize=4096)
def _is_missing(char: str) -> bool:
    return bytes(_font(SMALLEST).getmask(char)) == _missing_glyph()


@lru_cache(maxsize=1)
def _missing_glyph() -> bytes:
    return bytes(_font(SMALLEST).getmask("\uffff"))
