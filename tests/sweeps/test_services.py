"""Entries of services date their prices and name a source; a reasoning effort that the model does not take is one sentence."""

from __future__ import annotations

from datetime import date

import pytest
from pydantic import ValidationError

from sweeps.endpoint import Endpoint
from sweeps.registry import registry


def test_every_service_that_ships_has_prices_with_their_day_and_source():
    services = [model for model in registry().values() if model.backend == "openai"]

    assert {model.name for model in services if not model.paper} == {"gemini-3.8-flash", "claude-sonnet-5.5"}
    for model in services:
        assert (model.endpoint.base_url == "") == (model.endpoint.key_env == "OPENAI_API_KEY")
        assert model.endpoint.base_url.startswith("https://") or model.paper
        day, currency = model.endpoint.priced.split()
        assert date.fromisoformat(day) <= date(2026, 12, 31) and currency == "USD"
        assert 0 < model.endpoint.prompt_price < model.endpoint.reply_price
        assert model.endpoint.price_source.startswith("https://")
        assert not {"prompt_price", "reply_price", "priced", "price_source"} & model.endpoint.identity.keys()


def test_an_endpoint_left_out_is_openais_own():
    endpoint = Endpoint()

    assert endpoint.model_dump() == {
        "base_url": "", "key_env": "OPENAI_API_KEY", "server": "openai", "decoding": True, "effort": "", "reserve": 0,
        "picture_limit": None, "pictures": "png", "deadline": 120.0, "patience": 600.0, "prompt_price": 0.0,
        "reply_price": 0.0, "priced": "", "price_source": "",
        "max_cost": None,
    }  # fmt: skip
    assert endpoint.identity == {} and not endpoint.cost_known and endpoint.largest_picture == 20_000_000
    changed = {
        "server": "vllm",
        "decoding": False,
        "effort": "low",
        "reserve": 5,
        "pictures": "jpeg",
        "picture_limit": 4096,
    }
    other = Endpoint(**changed, base_url="http://h/v1", key_env="", deadline=1, patience=0, priced="2026-01-01 USD")
    assert other.identity == changed and other.largest_picture == 4096 and other.cost_known
    assert Endpoint(server="llama.cpp").largest_picture is None


@pytest.mark.parametrize("field", ["deadline", "max_cost"])
def test_no_time_and_no_money_are_refused(field):
    with pytest.raises(ValidationError, match="greater than 0"):
        Endpoint(**{field: 0, "prompt_price": 1})
    with pytest.raises(
        ValidationError, match="max_cost needs prompt_price and reply_price; without them, every request costs nothing"
    ):
        Endpoint(max_cost=1)
    assert Endpoint(max_cost=1, reply_price=1).max_cost == 1
