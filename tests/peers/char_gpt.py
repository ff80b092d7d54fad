#!/usr/bin/env python3
"""The model of examples/char_gpt.cpp in PyTorch: the same sizes, initial weights, batches, optimizer
and steps. Prints its loss on held-out text and the time of a step."""
import argparse
import math

from peer_setup import StepClock, batches, data_file, report, save_weights, start

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--steps", type=int, default=0, help="end after so many steps; 0: all")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--attention", choices=["packed", "module"], default="packed")
parser.add_argument("--foreach", action="store_true", help="AdamW over lists of tensors")
parser.add_argument("--save-initial", metavar="FILE", help="the weights before the first step")
options = start(parser)

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 128, 4, 4, 64, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.linear1, self.linear2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x, mask):
        n, length, _ = x.shape
        heads = self.projection(x).view(n, length, 3 * HEADS, WIDTH // HEADS).transpose(1, 2)
        q, k, v = (part.reshape(n * HEADS, length, -1) for part in heads.chunk(3, dim=1))
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(WIDTH // HEADS))
        values = torch.bmm(F.softmax(scores, dim=-1), v)
        rows = values.view(n, HEADS, length, -1).transpose(1, 2).reshape(n, length, WIDTH)
        return self.out(rows)

    def forward(self, x, mask):
        x = x + self.attend(self.norm1(x), mask)
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, letter_count):
        super().__init__()
        self.letters = nn.Embedding(letter_count, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(self.block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, letter_count, bias=False)
        with torch.no_grad():
            self.letters.weight *= 0.1
            self.places.weight *= 0.1
            for name, bias in self.named_parameters():
                if name.endswith("in_proj_bias") or name.endswith("out_proj.bias"):
                    bias.uniform_(-1 / math.sqrt(WIDTH), 1 / math.sqrt(WIDTH))
                if name.endswith("in_proj_weight"):
                    nn.init.uniform_(bias, -1 / math.sqrt(WIDTH), 1 / math.sqrt(WIDTH))
        mask = torch.full((CONTEXT, CONTEXT), -math.inf).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    @staticmethod
    def block():
        if options.attention == "packed":
            return Block()
        return nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0, activation="gelu",
                                          batch_first=True, norm_first=True)

    def forward(self, text):
        x = self.letters(text) + self.places.weight[:text.shape[1]]
        mask = self.mask[:text.shape[1], :text.shape[1]]
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


def hearth_names(model):
    """The parameters under the paths that Hearth gives them."""
    names = {}
    for name, tensor in model.state_dict().items():
        name = name.replace("self_attn.in_proj_", "attention.projection.")
        name = name.replace("self_attn.out_proj.", "attention.out.")
        if name.startswith("layers.") and name.split(".")[2] in ("projection", "out"):
            name = name.replace(".projection.", ".attention.projection.", 1)
            name = name.replace(".out.", ".attention.out.", 1)
        names[name] = tensor
    return names


def text_loss(model, text, inputs):
    logits = model(inputs)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), text.reshape(-1))


def main():
    with open(data_file("shakespeare/input.txt"), "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    letters = torch.unique(text)
    text = torch.searchsorted(letters, text)
    cut = len(text) * 9 // 10
    piece = torch.arange(CONTEXT + 1)
    starts = torch.arange(0, cut - CONTEXT, CONTEXT // 2)
    rest_starts = torch.arange(cut, len(text) - CONTEXT, CONTEXT)

    torch.manual_seed(options.seed)
    model = Gpt(len(letters))
    if options.save_initial:
        save_weights(options.save_initial, hearth_names(model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01,
                                  foreach=options.foreach or None)
    per_epoch = -(-len(starts) // BATCH)
    total = options.epochs * per_epoch
    steps = min(options.steps or total, total)
    clock = StepClock()
    step = 0
    for epoch in range(options.epochs):
        for numbers in batches(len(starts), BATCH, options.seed, epoch):
            if step == steps:
                break
            with clock:
                windows = text[starts[torch.from_numpy(numbers)].unsqueeze(1) + piece]
                for group in optimizer.param_groups:
                    group["lr"] = 2e-3 * (1 - step / (total - 1))
                optimizer.zero_grad(set_to_none=True)
                loss = text_loss(model, windows[:, 1:], windows[:, :-1])
                loss.backward()
                optimizer.step()
                last_loss = loss.item()
            step += 1
    total_loss = 0.0
    with torch.no_grad():
        for first in range(0, len(rest_starts), 64):
            windows = text[rest_starts[first:first + 64].unsqueeze(1) + piece]
            total_loss += text_loss(model, windows[:, 1:], windows[:, :-1]).item() * len(windows)
    report(program="char_gpt", peer="pytorch", threads=options.threads, steps=step,
           attention=options.attention, last_loss=round(last_loss, 4),
           held_out_loss=round(total_loss / len(rest_starts), 4),
           step_us=round(clock.median_us()))


main()
