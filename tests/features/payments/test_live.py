"""A live instance without a processor takes no payments, and has no simulator."""

from __future__ import annotations

from bursar.db.embedded import Urls
from tests.support.service import running_service
from tests.support.till import order


async def test_no_processor_is_configured(urls: Urls) -> None:
    async with running_service(urls, env="live") as service:
        merchant = await service.open_account()
        body = order(**{name: f"https://shop.example/{name}" for name in ("ipn_url", "success_url", "cancel_url")})
        reply = await service.send(merchant, "POST", "/hosted-payments", body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "provider_not_configured")
        dry = await service.send(merchant, "POST", "/sandbox/v2/hosted-payments", body)
        assert dry.status_code == 201
        for field in ("ipn_url", "success_url"):
            plain = await service.send(
                merchant, "POST", "/sandbox/v2/hosted-payments", body | {field: "http://shop.example/"}
            )
            assert list(plain.json()["error"]["details"]) == [field]
        inside = await service.send(
            merchant, "POST", "/sandbox/v2/hosted-payments", body | {"ipn_url": "https://127.0.0.1/ipn"}
        )
        assert list(inside.json()["error"]["details"]) == ["ipn_url"]
        for path in ("/simulator/checkouts/PAY-0031N1Y/pay", "/simulator/faults"):
            assert (await service.ops("POST", path, {})).json()["error"]["code"] == "endpoint_not_found"
        assert (await service.client.post("/processors/simulator/callbacks", content=b"{}")).status_code == 404
