#!/usr/bin/env python3
"""The model of examples/housing.cpp in PyTorch: the same rows, columns, batches, optimizer and
epochs. Prints R² on the held-out rows and the time of a step."""
import argparse
import math

from peer_setup import StepClock, batches, read_csv, report, split_rows, start

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--seed", type=int, default=1, help="of the initial weights")
options = start(parser)

import torch
import torch.nn as nn
import torch.nn.functional as F

TARGET, CATEGORY, BATCH = "median_house_value", "ocean_proximity", 64


def column(rows, name):
    return torch.tensor([float(row[name]) if row[name] else math.nan for row in rows])


def main():
    rows = read_csv("california_housing/housing.csv")
    train, test = ([rows[i] for i in part] for part in split_rows(len(rows), 0.8))
    numbers = [name for name in rows[0] if name not in (TARGET, CATEGORY)]
    places = sorted({row[CATEGORY] for row in train})
    moments = {}
    for name in numbers + [TARGET]:
        values = column(train, name).double()
        there = values[~values.isnan()]
        moments[name] = there.mean(), there.std(unbiased=False)

    def standardised(part, name):
        mean, deviation = moments[name]
        values = column(part, name).double()
        return ((torch.where(values.isnan(), mean, values) - mean) / deviation).float()

    def encoded(part):
        columns = [standardised(part, name) for name in numbers]
        columns += [torch.tensor([float(row[CATEGORY] == place) for row in part])
                    for place in places]
        return torch.stack(columns, 1), standardised(part, TARGET).unsqueeze(1)

    inputs, targets = encoded(train)
    rest_inputs, rest_targets = encoded(test)
    torch.manual_seed(options.seed)
    model = nn.Sequential(nn.Linear(inputs.shape[1], 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
                          nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    total = options.epochs * -(-len(inputs) // BATCH)
    clock = StepClock()
    step = 0
    for epoch in range(options.epochs):
        for order in batches(len(inputs), BATCH, 0, epoch):
            with clock:
                chosen = torch.from_numpy(order)
                for group in optimizer.param_groups:
                    group["lr"] = 3e-3 * (1 + math.cos(math.pi * step / (total - 1))) / 2
                optimizer.zero_grad(set_to_none=True)
                loss = F.mse_loss(model(inputs[chosen]), targets[chosen])
                loss.backward()
                optimizer.step()
                loss.item()
            step += 1
    with torch.no_grad():
        errors = (model(rest_inputs) - rest_targets).double().square().sum()
    spread = (rest_targets - rest_targets.mean()).double().square().sum()
    report(program="housing", peer="pytorch", threads=options.threads,
           r_squared=round((1 - errors / spread).item(), 4), step_us=round(clock.median_us()))


main()
