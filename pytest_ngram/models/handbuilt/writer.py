"""Writes a hand-built model as GGUF."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from pytest_ngram.models.handbuilt.experts import EXPERT_HIDDEN, N_EXPERT, N_EXPERT_USED
from pytest_ngram.models.handbuilt.forward import NORM_EPSILON, ROPE_BASE, ROPE_DIMS
from pytest_ngram.models.handbuilt.layout import N_EMBD
from pytest_ngram.models.handbuilt.recurrent import CONV, N_KEY_HEADS, N_VALUE_HEADS, STATE, VALUE
from pytest_ngram.models.handbuilt.spec import HandBuiltSpec
from pytest_ngram.models.handbuilt.vocabulary import CONTROL, Vocabulary
from pytest_ngram.models.handbuilt.weights import HEAD_DIM, N_HEAD, N_HEAD_KV, Tensors

ARCH = "qwen35moe"
# ChatML. Tool schemas are lines of JSON in the system turn, and calls of tools are written as JSON too.
CHAT_TEMPLATE = """\
{%- set has_system = messages and messages[0].role == 'system' -%}
{%- if tools -%}
{{ '<|im_start|>system\\n' }}
{%- if has_system and messages[0].content is string %}{{ messages[0].content + '\\n\\n' }}{% endif -%}
{{ 'tools:\\n' }}
{%- for tool in tools %}{{ (tool | tojson) + '\\n' }}{% endfor -%}
{{ '<|im_end|>\\n' }}
{%- endif -%}
{%- for message in messages -%}
{%- if not (tools and has_system and loop.first) -%}
{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}{{ message.content }}
{%- elif message.content %}
{%- for part in message.content %}{{ part.text }}{% endfor %}
{%- endif -%}
{%- for call in message.tool_calls or [] %}{{ '\\n' + (call | tojson) }}{% endfor -%}
{{ '<|im_end|>\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}
"""


def write_gguf(path: Path, spec: HandBuiltSpec, tensors: Tensors, vocab: Vocabulary) -> None:
    """Write the model to `path`, over what may be there. Raises `OSError` as the file system does."""
    writer = gguf.GGUFWriter(path, ARCH)
    try:
        _add_architecture(writer, spec)
        _add_tokenizer(writer, vocab)
        for name, array in tensors.items():
            writer.add_tensor(name, np.ascontiguousarray(array))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _add_architecture(writer: gguf.GGUFWriter, spec: HandBuiltSpec) -> None:
    writer.add_type("model")
    writer.add_name("hand-built-qwen35moe-mtp")
    writer.add_size_label(f"{spec.layers}x{spec.width}")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(spec.n_ctx_train)
    writer.add_embedding_length(N_EMBD)
    writer.add_block_count(spec.layers + 1)
    writer.add_nextn_predict_layers(1)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_head_count(N_HEAD)
    writer.add_head_count_kv(N_HEAD_KV)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_rope_dimension_count(ROPE_DIMS)
    writer.add_rope_dimension_sections([3, 3, 2, 0])
    writer.add_expert_count(N_EXPERT)
    writer.add_expert_used_count(N_EXPERT_USED)
    writer.add_expert_feed_forward_length(EXPERT_HIDDEN)
    writer.add_expert_shared_feed_forward_length(spec.width)
    writer.add_ssm_conv_kernel(CONV)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_group_count(N_KEY_HEADS)
    writer.add_ssm_time_step_rank(N_VALUE_HEADS)
    writer.add_ssm_inner_size(VALUE)
    writer.add_uint32(f"{ARCH}.full_attention_interval", 4)


def _add_tokenizer(writer: gguf.GGUFWriter, vocab: Vocabulary) -> None:
    user_defined = range(vocab.n_plain + len(CONTROL), len(vocab))
    types = [gguf.TokenType.NORMAL] * vocab.n_plain
    types += [gguf.TokenType.CONTROL] * len(CONTROL) + [gguf.TokenType.USER_DEFINED] * len(user_defined)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen35")
    writer.add_token_list(list(vocab.tokens))
    writer.add_token_types(types)
    writer.add_token_merges(list(vocab.merges))
    writer.add_eos_token_id(vocab.tokens.index("<|im_end|>"))
    writer.add_pad_token_id(vocab.tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
