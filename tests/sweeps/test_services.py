"""Entries of services date their prices and name a source; a reasoning effort that the model does not take is one sentence."""

from __future__ import annotations

from datetime import date

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
