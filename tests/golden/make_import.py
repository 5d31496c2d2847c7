#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the files that the import of pretrained models is tested with, by other people's programs.

usage: make_import.py TEXT     writes into tests/golden/data:

  import_types.gguf, import_types.json   a tensor per storage type and its values (package gguf)
  import_llama.gguf, import_llama.json   a LLaMA with a tokenizer; logits (transformers) and ids
  import_bpe.json                        tokenizer.json files with texts and ids (tokenizers)

TEXT: UTF-8, some 100 kB, for the merges. Needs numpy, torch, gguf, tokenizers, transformers.
"""
import json
import os
import sys

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
TYPES = gguf.GGMLQuantizationType
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im|>"]
TEXTS = [
    "", " ", "a", "Hello, World!", "It was 1815 and 12345 people, 3.14159 or so.",
    "don't DON'T we'll they're I'm it's 's 'S", "  leading and trailing  ", "\n\n\nlines\n\n \n\tend\n",
    "tabs\t\tand\t spaces   in    runs", "na\u00efve caf\u00e9 \u2014 \u201cquotes\u201d\u2026 \u00bd \u00b2",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f \uc548\ub155\ud558\uc138\uc694",
    "emoji \U0001F600\U0001F468\u200D\U0001F469\u200D\U0001F467 \U0001F1E9\U0001F1EA!", "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "nbsp\u00a0here, em\u2003space, ideographic\u3000space, line\u2028sep, next\u0085line, \u180e vowel",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|><|im|><|im_start |><|im_end|", "x<|im_end|>y",
    "if (a[i] != 0x1F) { return \"\\n\"; } // ---- ==== ****", "\r\nwindows\r\nlines\r\r\n",
    "\u0661\u0662\u0663 \u2160\u2161 \u00bc\u00be \u0967\u0968 10,000.50 007", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbb",
    "e\u0301 combining \u0301 alone \ufeff bom \u200b zero", "\U00020000 \U0010FFFF \x7f \x01\x04\x1f",
    "the " * 40, "_under_score_ CamelCaseWord snake_case kebab-case a.b.c user@host.org",
]


def train(text, steps, marks, size, ignore_merges):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre_tokenizers.Sequence(steps)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(text.split("\n"), trainers.BpeTrainer(
        vocab_size=size, special_tokens=[AddedToken(m, special=True, normalized=False) for m in marks],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return t


def digits():
    return [pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]


def make_bpe(text):
    texts = TEXTS + [text[:3000]]
    kinds = {
        "gpt-2": ([pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)], False),
        "smollm": (digits(), False),
        "llama-bpe": ([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)], True),
    }
    out = {"texts": texts, "tokenizers": {}}
    for name, (steps, ignore_merges) in kinds.items():
        t = train(text, steps, MARKS, 500, ignore_merges)
        t.add_tokens([AddedToken("--user--", special=False, normalized=True)])
        out["tokenizers"][name] = {"json": t.to_str(), "ids": [t.encode(x).ids for x in texts]}
    save("import_bpe.json", out)


def make_types():
    rng = np.random.default_rng(1)
    values = {}
    path = os.path.join(DATA, "import_types.gguf")
    w = gguf.GGUFWriter(path, "llama")
    w.add_uint8("u8", 200), w.add_int8("i8", -100), w.add_uint16("u16", 60000), w.add_int16("i16", -30000)
    w.add_uint32("u32", 4000000000), w.add_int32("i32", -2000000000), w.add_float32("f32", 0.1)
    w.add_uint64("u64", 2**63 + 5), w.add_int64("i64", -2**62), w.add_float64("f64", 0.1), w.add_bool("b", True)
    w.add_string("text", "gr\u00fc\u00df"), w.add_array("texts", ["a", "", "\u4f60"])
    w.add_array("i32s", [1, -2, 3]), w.add_array("f32s", [0.5, 1.5]), w.add_array("bools", [True, False])
    for name in ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]:
        kind = TYPES[name]
        x = rng.standard_normal((2, 256)).astype(np.float32)
        if name.endswith("_K"):  # the package does not quantise these: random codes, small FP16 scales
            size = gguf.GGML_QUANT_SIZES[kind][1]
            q = rng.integers(0, 256, (2, size), dtype=np.uint8)
            scales = rng.uniform(1e-3, 1e-1, (2, 2)).astype(np.float16).view(np.uint8)
            at = size - 2 if name == "Q6_K" else 0
            q[:, at:at + (2 if name == "Q6_K" else 4)] = scales[:, :2 if name == "Q6_K" else 4]
        else:
            q = x if name == "F32" else x.astype(np.float16) if name == "F16" else quantize(x, kind)
        values[name] = dequantize(q, kind).astype(np.float32).view(np.uint32).flatten().tolist()
        w.add_tensor(name, q, raw_dtype=kind)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    save("import_types.json", {k: "".join(f"{v:08x}" for v in vs) for k, vs in values.items()})


def permute(w, heads):  # as llama.cpp's convert_hf_to_gguf.py
    return w.reshape(heads, 2, w.shape[0] // heads // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def make_llama(text):
    torch.manual_seed(2)
    t = train(text, digits(), MARKS[:3], 288, False)
    c = LlamaConfig(vocab_size=288, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, max_position_embeddings=64, rope_theta=50000.0, rms_norm_eps=1e-5,
                    tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, attn_implementation="eager",
                    initializer_range=0.3)
    model = LlamaForCausalLM(c).eval()
    state = model.state_dict()
    w = gguf.GGUFWriter(os.path.join(DATA, "import_llama.gguf"), "llama")
    w.add_name("tiny"), w.add_context_length(64), w.add_embedding_length(32), w.add_feed_forward_length(64)
    w.add_block_count(2), w.add_head_count(4), w.add_head_count_kv(2), w.add_rope_freq_base(50000.0)
    w.add_layer_norm_rms_eps(1e-5), w.add_vocab_size(288), w.add_rope_dimension_count(8)
    j = json.loads(t.to_str())
    tokens = [k for k, _ in sorted(j["model"]["vocab"].items(), key=lambda item: item[1])]
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("smollm"), w.add_token_list(tokens)
    w.add_token_types([3 if k in MARKS else 1 for k in tokens])
    w.add_token_merges([" ".join(m) for m in j["model"]["merges"]])
    w.add_bos_token_id(1), w.add_eos_token_id(2), w.add_add_bos_token(False)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    for name, p in state.items():
        if name == "lm_head.weight":
            continue
        x = p.float().numpy()
        turned = permute(x, 4) if "q_proj" in name else permute(x, 2) if "k_proj" in name else x
        kind = TYPES.F32 if x.ndim == 1 else TYPES.Q8_0 if "embed" in name else TYPES.Q4_1
        q = turned if kind == TYPES.F32 else quantize(np.ascontiguousarray(turned), kind)
        w.add_tensor(names.get_name(name, try_suffixes=(".weight",)), q, raw_dtype=kind)
        back = dequantize(q, kind)
        if "q_proj" in name or "k_proj" in name:  # the rows as Hugging Face has them
            heads = 4 if "q_proj" in name else 2
            back = back.reshape(heads, x.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)
        p.copy_(torch.from_numpy(np.ascontiguousarray(back)))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    prompt = "It is a truth universally acknowledged, in 1813"
    ids = t.encode(prompt).ids[:24]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    save("import_llama.json", {"text": prompt, "ids": t.encode(prompt).ids, "input_ids": ids,
                               "logits": [[round(v, 6) for v in row] for row in logits.tolist()]})


def save(name, value):
    with open(os.path.join(DATA, name), "w", encoding="ascii") as f:
        json.dump(value, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as f:
        sample = f.read(200000)
    make_bpe(sample)
    make_types()
    make_llama(sample)
