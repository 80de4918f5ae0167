"""Commands that installed packages offer (``envs.installed``)."""

from collections.abc import Callable

import typer

from envs.installed import Offer, PackageError, load_function, offers


def add_offered_commands(app: typer.Typer) -> None:
    """Add the commands of installed packages: ``train``, or ``data.demo`` for a subcommand of the group ``data``."""
    groups = {group.name: group.typer_instance for group in app.registered_groups}
    for name, offer in offers("command").items():
        group, _, subcommand = name.rpartition(".")
        (groups.get(group) or app).command(subcommand, rich_help_panel="Extras")(_load_command(offer))


def _load_command(offer: Offer) -> Callable[..., None]:
    """Return a package's command; one that cannot be imported fails with one sentence when it is typed."""
    try:
        return load_function("command", offer.name)  # type: ignore[no-any-return]
    except PackageError as problem:
        message = str(problem)

    def refuse() -> None:
        """Not available: its package cannot be imported."""
        raise PackageError(message)

    return refuse
