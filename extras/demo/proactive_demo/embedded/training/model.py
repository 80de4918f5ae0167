"""The architecture: an Idefics3, 128 wide, for pictures of 64 pixels, which transformers and vLLM load unchanged."""

import torch
from torch import Tensor, nn
from transformers import Idefics3Config, Idefics3ForConditionalGeneration

from envs import SCENARIOS
from proactive_demo.drawing.quality import CORRUPTIONS
from proactive_demo.embedded.training.pictures import NAMES, SIDE

WIDTH, LAYERS, HEADS, PATCH, POSITIONS = 128, 4, 4, 8, 4096
COUNTS = 10
"""Classes of the count, 0 to 9."""


def build(vocabulary: int, image_token: int, pad: int, end: int) -> Idefics3ForConditionalGeneration:
    """Return a fresh model; seed torch before."""
    layers = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    text = {
        **layers, "model_type": "llama", "vocab_size": vocabulary, "intermediate_size": 352, "num_key_value_heads": HEADS,
        "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
        "pad_token_id": pad, "eos_token_id": end, "bos_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }  # fmt: skip
    vision = {**layers, "intermediate_size": 384, "image_size": SIDE, "patch_size": PATCH}
    config = Idefics3Config(
        text_config=text, vision_config=vision, scale_factor=2, image_token_id=image_token, pad_token_id=pad,
        eos_token_id=end, tie_word_embeddings=True,
    )  # fmt: skip
    model = Idefics3ForConditionalGeneration(config)
    _initialize_vision(model)
    return model


@torch.no_grad()
def _initialize_vision(model: Idefics3ForConditionalGeneration) -> None:
    """Initialize the vision side by fan-in, its positions as waves: it learns much sooner than with a deviation of 0.02."""
    for part in (model.model.vision_model, model.model.connector):
        for parameter in part.parameters():
            if parameter.ndim >= 2:
                nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    side = SIDE // PATCH
    model.model.vision_model.embeddings.position_embedding.weight.copy_(0.5 * waves(side, WIDTH))


def waves(side: int, width: int) -> Tensor:
    """Return sines and cosines of column and row, [side * side, width]."""
    pitch = 100.0 ** -(torch.arange(width // 4) / (width // 4))
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    across, down = columns.flatten()[:, None] * pitch, rows.flatten()[:, None] * pitch
    return torch.cat([across.sin(), across.cos(), down.sin(), down.cos()], 1)


class Heads(nn.Module):
    """Temporary heads for what the vision tower must recognize; they are not saved with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Linear(WIDTH, HEADS)
        self.classifier = nn.Linear(WIDTH * HEADS, len(NAMES) + len(SCENARIOS) + len(CORRUPTIONS) + COUNTS + 1)

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        """Map [n, tokens, WIDTH] to logits [n, classes]: category, scenario, corruption, count; visible share ([n, 1])."""
        weight = self.attention(features).softmax(1)
        pooled = torch.einsum("nth,ntd->nhd", weight, features).flatten(1)
        sizes = [len(NAMES), len(SCENARIOS), len(CORRUPTIONS), COUNTS, 1]
        return self.classifier(pooled).float().split(sizes, 1)


def encode_pictures(model: Idefics3ForConditionalGeneration, pixels: Tensor) -> Tensor:
    """Map uint8 pictures [n, SIDE, SIDE, 3] to picture tokens [n, 16, WIDTH]."""
    values = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1.0
    return model.model.connector(model.model.vision_model(values).last_hidden_state)


def hidden_states(model: Idefics3ForConditionalGeneration, ids: Tensor, features: Tensor, image_token: int) -> Tensor:
    """Map token ids [n, length], padded on the right, and features [pictures, 16, WIDTH] in their order to [n, length, WIDTH]."""
    embedded = model.get_input_embeddings()(ids)
    mask = (ids == image_token).unsqueeze(-1)
    embedded = embedded.masked_scatter(mask, features.reshape(-1, WIDTH).to(embedded.dtype))
    return model.model.text_model(inputs_embeds=embedded, use_cache=False).last_hidden_state


def head_losses(heads: Heads, features: Tensor, labels: dict[str, Tensor]) -> Tensor:
    """Return the mean loss of pictures: cross entropies (scenario weighs 0.2) plus twice the squared error of the visible share.

    ``labels`` are [n] each: classes, -1 if not applicable, and the share, from 0 to 1.
    """
    category, scenario, corruption, count, share = heads(features)
    total = 2 * nn.functional.mse_loss(share.squeeze(1).sigmoid(), labels["share"], reduction="sum")
    logits = {"category": category, "scenario": scenario, "corruption": corruption, "count": count}
    for name, values in logits.items():
        loss = nn.functional.cross_entropy(values, labels[name], ignore_index=-1, reduction="sum")
        total = total + (0.2 if name == "scenario" else 1.0) * loss
    return total / len(features)
