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


@pytest.mark.parametrize("field", ["deadline", "max_cost"])
def test_no_time_and_no_money_are_refused(field):
    with pytest.raises(ValidationError, match="greater than 0"):
        Endpoint(**{field: 0, "prompt_price": 1})
    with pytest.raises(
        ValidationError, match="max_cost needs prompt_price and reply_price; without them, every request costs nothing"
    ):
        Endpoint(max_cost=1)
    assert Endpoint(max_cost=1, reply_price=1).max_cost == 1
