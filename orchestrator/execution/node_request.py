"""The request to the cluster's autoscaler for nodes that pending work would use, withdrawn when the work is done.

Ray keeps one request per cluster: each one replaces the last, so a request is repeated in case another job sent its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ray.autoscaler.sdk import request_resources

REPEAT_S = 30.0
"""Seconds after which an unchanged request is sent again."""


@dataclass
class NodeRequest:
    """What the autoscaler was asked for last."""

    is_joined: bool
    """False on this machine alone, which no autoscaler enlarges."""
    bundles: Sequence[Mapping[str, float]] = ()
    _sent_at: float = field(default=float("-inf"))

    def send(self, bundles: Sequence[Mapping[str, float]], now: float) -> None:
        """Ask for nodes that hold all these bundles at once, those in use included; without bundles, ask for nothing."""
        changed = list(bundles) != list(self.bundles)
        if self.is_joined and (changed or (bundles and now - self._sent_at >= REPEAT_S)):
            request_resources(bundles=[dict(bundle) for bundle in bundles])
            self.bundles, self._sent_at = bundles, now

    def withdraw(self) -> None:
        """Let the autoscaler end the nodes when they are idle."""
        self.send((), 0.0)
