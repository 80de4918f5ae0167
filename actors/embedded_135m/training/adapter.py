"""The adapter that is trained: low-rank products on the attention of the language half's later layers."""

import torch
from torch import Tensor, nn

from actors.embedded_135m.assemble import ADAPTED, ALPHA, FIRST_LAYER, RANK


class Adapted(nn.Module):
    """A frozen linear layer plus a low-rank product."""

    def __init__(self, linear: nn.Linear, down: nn.Parameter, up: nn.Parameter) -> None:
        super().__init__()
        self.linear, self.down, self.up = linear, down, up

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output with the product's added."""
        return self.linear(x) + (x @ self.down.T) @ self.up.T * (ALPHA / RANK)


def add_adapter(model: nn.Module, seed: int) -> nn.ParameterDict:
    """Freeze the model, put adapted layers into it, and return their parameters by the name of the layer they belong to."""
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    parameters = nn.ParameterDict()
    for number, layer in enumerate(model.model.layers):
        for name in ADAPTED if number >= FIRST_LAYER else ():
            linear: nn.Linear = getattr(layer.self_attn, name)
            bound = linear.in_features**-0.5
            down = nn.Parameter((torch.rand(RANK, linear.in_features, generator=generator) * 2 - 1) * bound)
            up = nn.Parameter(torch.zeros(linear.out_features, RANK))
            setattr(layer.self_attn, name, Adapted(linear, down, up))
            path = f"model/layers/{number}/self_attn/{name}"
            parameters[f"{path}/A"], parameters[f"{path}/B"] = down, up
    return parameters
