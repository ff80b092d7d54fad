#!/usr/bin/env python3
"""The model of examples/text_classification.cpp in PyTorch: the same words, initial weights, batches,
optimizer and epochs; dropout draws other numbers. Prints its accuracy on the other texts and the
time of a step."""
import argparse
from collections import Counter

from peer_setup import StepClock, batches, read_csv, report, save_weights, start

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--foreach", action="store_true", help="AdamW over lists of tensors")
parser.add_argument("--save-initial", metavar="FILE", help="the weights before the first step")
options = start(parser)

import torch
import torch.nn as nn
import torch.nn.functional as F

WORDS, CLASSES, BATCH, TRAIN = 80, 4, 64, 6000
PADDING, UNKNOWN = 0, 1


def words_of(text):
    """Runs of letters, digits and apostrophes, in lower case; bytes beyond ASCII are letters."""
    words, word = [], bytearray()
    for byte in text.encode():
        if byte >= 128 or chr(byte).isalnum() or byte == ord("'"):
            word.append(byte + 32 if 65 <= byte <= 90 else byte)
        elif word:
            words.append(bytes(word))
            word = bytearray()
    return words + [bytes(word)] if word else words


def vocabulary(texts, most, least_count):
    counts = Counter(word for text in texts for word in words_of(text))
    kept = sorted((word for word, count in counts.items() if count >= least_count),
                  key=lambda word: (-counts[word], word))[:most]
    return {word: number for number, word in enumerate(kept, start=2)}


class BagOfWords(nn.Module):
    def __init__(self, word_count):
        super().__init__()
        self.vectors = nn.Embedding(word_count, 64)
        self.inner, self.outer = nn.Linear(64, 64), nn.Linear(64, CLASSES)
        with torch.no_grad():
            self.vectors.weight *= 0.1

    def forward(self, text):
        is_word = (text != PADDING).float()
        total = (self.vectors(text) * is_word.unsqueeze(-1)).sum(1)
        bag = total / is_word.sum(1, keepdim=True).clamp(min=1)
        hidden = F.relu(self.inner(F.dropout(bag, 0.5, self.training)))
        return self.outer(F.dropout(hidden, 0.5, self.training))


def main():
    rows = read_csv("ag_news/test.csv")
    first = rows[:TRAIN]
    numbers = vocabulary([row[name] for name in ("title", "description") for row in first],
                         20_000, 2)
    inputs = torch.zeros(len(rows), WORDS, dtype=torch.long)
    for i, row in enumerate(rows):
        words = words_of(row["title"] + " " + row["description"])[:WORDS]
        inputs[i, :len(words)] = torch.tensor([numbers.get(word, UNKNOWN) for word in words])
    labels = torch.tensor([int(row["label"]) - 1 for row in rows])

    torch.manual_seed(options.seed)
    model = BagOfWords(len(numbers) + 2)
    if options.save_initial:
        save_weights(options.save_initial, model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01,
                                  foreach=options.foreach or None)
    clock = StepClock()
    for epoch in range(options.epochs):
        for order in batches(TRAIN, BATCH, options.seed, epoch):
            with clock:
                chosen = torch.from_numpy(order)
                optimizer.zero_grad(set_to_none=True)
                loss = F.cross_entropy(model(inputs[chosen]), labels[chosen])
                loss.backward()
                optimizer.step()
                loss.item()
    model.eval()
    with torch.no_grad():
        right = (model(inputs[TRAIN:]).argmax(1) == labels[TRAIN:]).float().mean().item()
    report(program="text_classification", peer="pytorch", threads=options.threads,
           words=len(numbers) + 2, accuracy=round(100 * right, 2),
           step_us=round(clock.median_us()))


main()
