"""What a new user meets: one command, a banner, and requests that work when they are pasted."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from collections.abc import Iterator

import pytest

from bursar.supervisor.secrets import public_half
from tests.lifecycle.serving import Serving, alive, bursar, children, directory, serving


@pytest.fixture(scope="module")
def up() -> Iterator[Serving]:
    """A first start with two API processes and the operator's routes on an address of their own."""
    with directory() as data_dir, serving(data_dir, "--api-processes", "2") as running:
        yield running


class TestFirstStart:
    def test_ready_within_ten_seconds(self, up: Serving) -> None:
        assert up.took_s < 10
        assert up.get("/health/ready").json()["status"] == "ok"

    def test_banner(self, up: Serving) -> None:
        key = (up.data_dir / "secrets" / "operator_key").read_text().strip()
        assert f"{key} (shown this once)" in up.banner
        for path in ("/v2", "/docs", "/health", "/metrics", "/ops/v1"):
            assert f"{up.url}{path}" in up.banner
        assert len(re.findall(r"sk_live_\w+$", up.banner, re.MULTILINE)) >= 4
        assert up.banner.count("\n") < 45

    def test_what_the_banner_offers_works_when_pasted(self, up: Serving) -> None:
        replies = []
        for snippet in up.snippets:
            ran = subprocess.run(["sh", "-c", snippet], capture_output=True, text=True, timeout=20, check=True)
            replies.append(json.loads(ran.stdout))
        assert [reply["success"] for reply in replies] == [True, True, True]
        own, connected, write = (reply["data"] for reply in replies)
        assert own["account"]["business_company_name"] == "Harbour Books"
        assert connected["account"]["business_company_name"] == "Bread Stall"
        assert write["checkout_url"].startswith(up.url)

    def test_demo(self, up: Serving) -> None:
        demo = json.loads((up.data_dir / "demo.json").read_bytes())
        platform = demo["platform"]["account_id"]
        accounts = json.loads(self._command(up, "accounts", "list", "--json"))
        assert {account["platform"] for account in accounts} == {None, platform}
        assert sorted(account["business_company_name"] for account in accounts) == [
            "Bread Stall", "Flower Stall", "Harbour Books", "Market Hall",
        ]  # fmt: skip
        reply = up.get("/v2/webhooks", Authorization=f"Bearer {demo['merchant']['secret_key']}")
        assert demo["webhook"]["url"] in [webhook["url"] for webhook in reply.json()["data"]]

    def test_commands_find_the_operator_key(self, up: Serving) -> None:
        assert "It is now" in self._command(up, "clock", "advance", "1h")

    def test_metrics_are_of_all_processes(self, up: Serving) -> None:
        for _ in range(20):
            up.get("/v2/account")
        counts = re.compile(r'bursar_request_seconds_count\{[^}]*route="show_account"[^}]*status="401"[^}]*\} (\S+)')
        counted = [counts.findall(up.get("/metrics").text) for _ in range(6)]
        assert counted == [["20.0"]] * 6

    @staticmethod
    def _command(up: Serving, *arguments: str) -> str:
        ran = bursar(*arguments, "--url", up.url, "--data-dir", str(up.data_dir))
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


class TestSecrets:
    def test_files_are_private(self, up: Serving) -> None:
        for path in [up.data_dir / "demo.json", *(up.data_dir / "secrets").iterdir()]:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path

    def test_what_each_process_is_told(self, up: Serving) -> None:
        kept = {path.name: path.read_text().strip() for path in (up.data_dir / "secrets").iterdir()}
        public = public_half(bytes.fromhex(kept["seal_private_key"])).hex()
        apis, workers = up.pids("api"), up.pids("worker")
        assert (len(apis), len(workers)) == (2, 1)
        for pid in apis + workers:
            told = up.environ(pid)
            everything = "\n".join(told.values())
            assert told["BURSAR_KEY_PEPPER"] == kept["key_pepper"]
            assert told["BURSAR_SEAL_PUBLIC_KEY"] == public
            assert "bursar_app" in told["BURSAR_DATABASE_URL"]
            assert "BURSAR_MIGRATION_URL" not in told
            for name in ("operator_key", "postgres-owner", "postgres-admin"):
                assert kept[name] not in everything
            assert (kept["seal_private_key"] in everything) == (pid in workers)
            assert ("BURSAR_OPERATOR_KEY_HASH" in told) == (pid in apis)


def test_second_serve_on_the_same_directory(up: Serving) -> None:
    ran = bursar("serve", "--port", "0", "--data-dir", str(up.data_dir), env="test")
    assert ran.returncode == 1
    assert ran.stderr == f"bursar: another bursar (pid {up.process.pid}) is using {up.data_dir}\n"
    assert up.answers()


def test_processes_are_small(up: Serving) -> None:
    for pid in children(up.process.pid):
        assert alive(pid)
        with open(f"/proc/{pid}/statm") as file:
            resident_mib = int(file.read().split()[1]) * 4096 / 2**20
        assert resident_mib < 150
