#!/usr/bin/env python3
# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
"""One training step of a small LLaMA in plain PyTorch, timed: what subbyte is compared with.

    torch_step.py MODEL --precision fp32|autocast|bf16 [--batch B] [--seq L] [--threads N] [--steps N]

Prints one JSON object: median seconds of a step, tokens per second, peak resident memory, and the
loss after the last step (all steps see the same batch of random tokens).
"""

import argparse
import json
import resource
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

# hidden size, MLP, blocks, heads, vocabulary
MODELS = {
    "llama-9m": (256, 688, 8, 8, 8192),
    "llama-60m": (512, 1376, 8, 8, 32000),
    "llama-130m": (768, 2048, 12, 12, 32000),
}


class RmsNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), 1e-5)


def rotate(x, cos, sin):
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


class Block(nn.Module):
    def __init__(self, size, mlp, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RmsNorm(size), RmsNorm(size)
        self.q, self.k, self.v, self.o = (nn.Linear(size, size, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(size, mlp, bias=False) for _ in range(2))
        self.down = nn.Linear(mlp, size, bias=False)

    def forward(self, x, cos, sin):
        batch, tokens, size = x.shape

        def heads(y):
            return y.view(batch, tokens, self.heads, -1).transpose(1, 2)

        y = self.norm1(x)
        q, k, v = heads(self.q(y)), heads(self.k(y)), heads(self.v(y))
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, size))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, name, tokens):
        super().__init__()
        size, mlp, blocks, heads, vocabulary = MODELS[name]
        self.embedding = nn.Embedding(vocabulary, size)
        self.blocks = nn.ModuleList(Block(size, mlp, heads) for _ in range(blocks))
        self.norm = RmsNorm(size)
        self.head = nn.Linear(size, vocabulary, bias=False)
        half = torch.arange(0, size // heads, 2) / (size // heads)
        angle = torch.arange(tokens)[:, None] * 10000.0**-half
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--precision", choices=["fp32", "autocast", "bf16"], default="fp32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--steps", type=int, default=6)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)

    torch.manual_seed(0)
    model = Llama(arguments.model, arguments.seq)
    if arguments.precision == "bf16":
        model.to(torch.bfloat16)
    vocabulary = MODELS[arguments.model][-1]
    ids = torch.randint(vocabulary, (arguments.batch, arguments.seq))
    targets = torch.randint(vocabulary, (arguments.batch, arguments.seq))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )

    seconds = []
    for _ in range(arguments.steps + 1):
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "autocast"):
            logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds[1:])
    print(
        json.dumps(
            {
                "name": f"PyTorch {arguments.precision}",
                "seconds": median,
                "tokens_per_second": arguments.batch * arguments.seq / median,
                "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "loss": loss.item(),
            }
        )
    )


if __name__ == "__main__":
    main()
