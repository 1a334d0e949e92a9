"""The parts of this half of the suite, by name. Last is what other tests try as well, should time run out."""

from __future__ import annotations

from tests.faults.hostile import bombs, canaries, overload, pure, raw, schemas, strangers, uploads
from tests.faults.running import Part

PARTS: dict[str, Part] = {
    "raw": raw.run,
    "bombs": bombs.run,
    "uploads": uploads.run,
    "strangers": strangers.run,
    "canaries": canaries.run,
    "overload": overload.run,
    "schemas": schemas.run,
    "pure": pure.run,
}
