"""A judge's checkpoint without training whose marks can be foretold: it marks the first thing of the list that the answer says.

Its chat template finds that thing and makes the prompt one token, ``<7:3>`` for the third of seven; the network is a table
of which token follows which, and writes ``0,0,1,0,0,0,0``. Transformers and vLLM load it as any Llama.
"""

from pathlib import Path

MOST = 24
"""Things of a list, at most."""
WIDTH = 704
TEMPLATE = (
    "{% set parts = messages[-1]['content'] %}"
    "{% set text = parts if parts is string else parts[0]['text'] %}"
    "{% if 'The list:\\n' not in text %}<1:0>{% else %}"
    "{% set lines = text.split('The list:\\n')[1].split('\\n\\n')[0].split('\\n') %}"
    "{% set answer = text.split('\\n\\n')[-2] | lower %}"
    "{% set first = namespace(place=0) %}"
    "{% for line in lines %}"
    "{% if not first.place and (line.split('. ', 1)[1] | lower | trim('.')) in answer %}"
    "{% set first.place = loop.index %}{% endif %}{% endfor %}"
    "<{{ lines | length }}:{{ first.place }}>{% endif %}"
)


def marking_judge(folder: Path) -> Path:
    """Write the model and its tokenizer."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    follows = _follows()
    names = ["<pad>", "<s>", "</s>", *follows]
    tokenizer = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, "<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Sequence([decoders.Replace(Regex("<[^>]*>"), ""), decoders.Fuse()])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
    )
    config = LlamaConfig(
        vocab_size=len(names), hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=1, num_attention_heads=11,
        num_key_value_heads=11, max_position_embeddings=256, tie_word_embeddings=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(len(names), WIDTH))
        model.lm_head.weight.zero_()
        for name, after in follows.items():
            model.lm_head.weight[names.index(after), names.index(name)] = 1.0
    model.generation_config = GenerationConfig(do_sample=False, pad_token_id=0, eos_token_id=2)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def _follows() -> dict[str, str]:
    """Token -> the one after it: ``<n:k>`` is the prompt, ``0,<n:k>`` the mark of the first of the ``n`` things that are left."""
    transitions = {}
    for remaining in range(1, MOST + 1):
        for position in range(remaining + 1):
            transitions[f"<{remaining}:{position}>"] = _mark(remaining, position)
            transitions[_mark(remaining, position)] = (
                _mark(remaining - 1, max(0, position - 1)) if remaining > 1 else "</s>"
            )
    return transitions


def _mark(remaining: int, position: int) -> str:
    return f"{int(position == 1)}{',' if remaining > 1 else ''}<{remaining}:{position}>"
