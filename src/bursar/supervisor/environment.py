"""What each process is told. Nothing is passed on by accident: secrets are left out first and added by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bursar.settings import PREFIX, Settings
from bursar.supervisor.secrets import InstanceSecrets

# These reach a process only where the functions below say so.
WITHHELD = frozenset(
    PREFIX + name
    for name in (
        "DATABASE_URL",
        "MIGRATION_URL",
        "OPERATOR_KEY",
        "OPERATOR_KEY_HASH",
        "KEY_PEPPER",
        "SEAL_PUBLIC_KEY",
        "SEAL_PRIVATE_KEY",
        "PROCESSOR_SECRET",
    )
)
# The simulator plays somebody else, and is told as little.
NOT_THE_SIMULATORS = frozenset(PREFIX + name for name in ("PAGE_KEY", "PAGE_KEY_PREVIOUS", "SMTP_URL"))


def common(environment: Mapping[str, str], settings: Settings, metrics_dir: Path) -> dict[str, str]:
    """The environment without secrets, with what the supervisor decided."""
    passed = {name: value for name, value in environment.items() if name not in WITHHELD}
    decided = {
        "HOST": settings.host,
        "PORT": str(settings.port),
        "SIMULATOR_PORT": str(settings.simulator_port),
        "DATA_DIR": str(settings.data_dir.resolve()),
        "OPS_LISTEN": settings.ops_listen,
        "PUBLIC_TEST": str(settings.public_test).lower(),
        "LOG_FORMAT": settings.log_format,
    }
    passed |= {PREFIX + name: value for name, value in decided.items()}
    return passed | {"PROMETHEUS_MULTIPROC_DIR": str(metrics_dir)}


def of_api(base: Mapping[str, str], secrets: InstanceSecrets, service_url: str) -> dict[str, str]:
    """It can find keys and lock secrets away, and knows the operator's key when it sees it."""
    return {
        **base,
        f"{PREFIX}DATABASE_URL": service_url,
        f"{PREFIX}KEY_PEPPER": secrets.key_pepper.hex(),
        f"{PREFIX}SEAL_PUBLIC_KEY": secrets.seal_public_key.hex(),
        f"{PREFIX}OPERATOR_KEY_HASH": secrets.operator_key_hash,
        f"{PREFIX}PROCESSOR_SECRET": secrets.processor_secret.hex(),
    }


def of_worker(base: Mapping[str, str], secrets: InstanceSecrets, service_url: str) -> dict[str, str]:
    """It alone can open what was locked away."""
    return {
        **base,
        f"{PREFIX}DATABASE_URL": service_url,
        f"{PREFIX}KEY_PEPPER": secrets.key_pepper.hex(),
        f"{PREFIX}SEAL_PUBLIC_KEY": secrets.seal_public_key.hex(),
        f"{PREFIX}SEAL_PRIVATE_KEY": secrets.seal_private_key.hex(),
        f"{PREFIX}PROCESSOR_SECRET": secrets.processor_secret.hex(),
    }


def of_simulator(base: Mapping[str, str], secrets: InstanceSecrets, service_url: str) -> dict[str, str]:
    """It keeps its own books and shares one secret with the service."""
    return {
        **{name: value for name, value in base.items() if name not in NOT_THE_SIMULATORS},
        f"{PREFIX}DATABASE_URL": service_url,
        f"{PREFIX}PROCESSOR_SECRET": secrets.processor_secret.hex(),
    }
