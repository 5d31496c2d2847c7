#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a GGUF file with a SentencePiece tokenizer, and what the library makes of texts with it.

usage: make_import_spm.py TEXT     writes into tests/golden/data:

  import_spm.gguf    a LLaMA of one block of random numbers, its pieces as llama.cpp stores them (gguf)
  import_spm.json    texts with their ids and the texts that these give back (sentencepiece)

TEXT: UTF-8, some 100 kB, for the merges. Needs numpy, gguf, sentencepiece.
"""
import io
import json
import os
import sys

import gguf
import numpy as np
import sentencepiece

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
HIDDEN, INTER, VOCAB = 16, 32, 420
TEXTS = [
    "", " ", "  ", "a", " a", "Hello, World!", "It was 1815 and 12345 people, 3.14159 or so.",
    "  leading and trailing  ", "\n", "\n\nlines\n \n\tend\n", "tabs\t\tand   runs of    blanks",
    "na\u00efve caf\u00e9 \u2014 \u201cquotes\u201d \u00bd", "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \uc548\ub155",
    "emoji \U0001F600\U0001F468\u200D\U0001F469!", "nbsp\u00a0here, ideographic\u3000space",
    "<|im_start|>user\nHi<|im_end|> and <s>text</s><unk>", "x<|im_end|>y", "e\u0301 \ufeff \U0010FFFF \x01\x7f",
]


def train(text):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.split("\n")), model_writer=model, model_type="bpe", vocab_size=VOCAB,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=True, user_defined_symbols=["<|im_start|>", "<|im_end|>"], minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def piece_type(t, i):
    if t.IsUnknown(i):
        return 2
    if t.IsControl(i):
        return 3
    if t.IsByte(i):
        return 6
    if t.IsUnused(i):
        return 5
    return 4 if t.IdToPiece(i) in ("<|im_start|>", "<|im_end|>") else 1


def write_model(t):
    w = gguf.GGUFWriter(os.path.join(DATA, "import_spm.gguf"), "llama")
    w.add_name("pieces"), w.add_context_length(64), w.add_embedding_length(HIDDEN), w.add_feed_forward_length(INTER)
    w.add_block_count(1), w.add_head_count(2), w.add_head_count_kv(2), w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(VOCAB), w.add_rope_dimension_count(HIDDEN // 2)
    w.add_tokenizer_model("llama"), w.add_tokenizer_pre("default")
    w.add_token_list([t.IdToPiece(i) for i in range(VOCAB)])
    w.add_token_scores([t.GetScore(i) for i in range(VOCAB)])
    w.add_token_types([piece_type(t, i) for i in range(VOCAB)])
    w.add_bos_token_id(1), w.add_eos_token_id(2), w.add_unk_token_id(0), w.add_add_bos_token(True)
    rng = np.random.default_rng(1)
    shapes = {"token_embd": (VOCAB, HIDDEN), "output_norm": (HIDDEN,), "blk.0.attn_norm": (HIDDEN,),
              "blk.0.ffn_norm": (HIDDEN,), "blk.0.ffn_gate": (INTER, HIDDEN), "blk.0.ffn_up": (INTER, HIDDEN),
              "blk.0.ffn_down": (HIDDEN, INTER)}
    shapes.update({f"blk.0.attn_{p}": (HIDDEN, HIDDEN) for p in ("q", "k", "v", "output")})
    for name, shape in shapes.items():
        kind = np.float32 if len(shape) == 1 else np.float16
        w.add_tensor(name + ".weight", rng.standard_normal(shape).astype(kind))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as f:
        sample = f.read(200000)
    tokenizer = train(sample)
    write_model(tokenizer)
    texts = TEXTS + [sample[:2000]]
    out = {"texts": texts, "ids": [tokenizer.encode(x) for x in texts],
           "decoded": [tokenizer.decode(tokenizer.encode(x)) for x in texts]}
    with open(os.path.join(DATA, "import_spm.json"), "w", encoding="ascii") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")
