"""The parts of this half of the suite, by name."""

from __future__ import annotations

from tests.faults.hostile import bombs, canaries, overload, pure, raw, schemas, strangers, uploads
from tests.faults.running import Part

PARTS: dict[str, Part] = {
    "schemas": schemas.run,
    "raw": raw.run,
    "bombs": bombs.run,
    "uploads": uploads.run,
    "strangers": strangers.run,
    "canaries": canaries.run,
    "overload": overload.run,
    "pure": pure.run,
}
