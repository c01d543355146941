"""Trains the demo model on one CPU core: Muon for the matrices, Adam for the rest, checkpoints as it goes."""

import argparse
import math
import random
import time
from pathlib import Path

import torch
from torch.nn import functional as F

from facts import read_facts
from generate import conversation
from model import Config, Matrix, Model, config_of
from vocabulary import Vocabulary, train_vocabulary


# On processors with bfloat16 products these take two thirds of the time of float32; on others, ten times as much.
PRODUCTS = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
# Tokens that matter less than this are not predicted at all: the head costs time.
LEAST = 0.05
# How much of the running mean of the weights a step keeps: the mean of about the last hundred steps. It stands in for the
# low rates at the end where other programs take the core just then, since the schedule follows the clock.
KEPT = 0.99


class Rows:
    """Packs conversations into rows; a conversation that does not fit is cut, which teaches nothing wrong."""

    def __init__(self, vocabulary, seed, whole):
        self.vocabulary, self.rng, self.facts, self.whole = vocabulary, random.Random(seed), read_facts(), whole

    def row(self, length):
        ids, weight, document = [], [], []
        while len(ids) <= length:
            system, turns = conversation(self.rng, self.facts)
            # Short examples: twice as many of them in a step.
            form = self.vocabulary.document if self.rng.random() < self.whole else self.vocabulary.opening
            more, weights = form(turns, system)
            document += [document[-1] + 1 if document else 0] * len(more)
            ids, weight = ids + more, weight + weights
        # The first token of a document does not follow from the document before it.
        weight = [w * (a == b) for w, a, b in zip(weight[1 : length + 1], document, document[1:])]
        return ids[: length + 1], weight, document[:length]

    def batch(self, rows, length):
        ids, weight, document = zip(*(self.row(length) for _ in range(rows)))
        ids = torch.tensor(ids)
        return ids[:, :-1], ids[:, 1:], torch.tensor(weight), torch.tensor(document)


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made orthogonal (Jordan et al., 2024): far fewer steps than Adam for small matrices."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.05):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p].setdefault("momentum", torch.zeros_like(p))
                state.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(state, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def orthogonal(g, steps=4):
    """Newton-Schulz iteration towards the nearest orthogonal matrix; the constants are those of the paper."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.T if g.shape[0] > g.shape[1] else g
    x = (x / (x.norm() + 1e-7)).to(PRODUCTS)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if g.shape[0] > g.shape[1] else x).float()


def rate(done):
    """Learning rate over the run, as a share: short warm-up, flat, then down to nearly zero."""
    return min(1.0, done / 0.01 + 0.02) * min(1.0, (1 - done) / 0.8 + 0.01)


def loss_of(model, batch):
    inputs, targets, weight, document = batch
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=PRODUCTS is torch.bfloat16):
        hidden = model(inputs, document)
        counts = weight > LEAST
        logits = model.logits(hidden[counts])
    losses = F.cross_entropy(logits.float(), targets[counts], reduction="none")
    return (losses * weight[counts]).sum() / weight[counts].sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for vocabulary and checkpoints")
    parser.add_argument("--minutes", type=float, default=55, help="length of the run; the schedule follows the clock")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens per step")
    parser.add_argument("--length", type=int, default=1024, help="tokens per row: whole conversations have to fit")
    parser.add_argument("--lr", type=float, default=0.02, help="of Muon")
    parser.add_argument("--adam-lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--coarse-from", type=float, default=0.7, help="share of the run after which weights are rounded")
    parser.add_argument("--whole", type=float, default=1.0, help="share of conversations whose last answer is not cut short")
    parser.add_argument("--resume", action="store_true", help="start from the checkpoint in --out, with a new schedule")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    if not (args.out / "vocabulary.model").exists():
        train_vocabulary(args.out / "vocabulary.model")
    state = torch.load(args.out / "checkpoint.pt")["model"] if args.resume else None
    model = Model(config_of(state) if state else Config())
    if state:
        model.load_state_dict(state)
    rows = Rows(Vocabulary(args.out / "vocabulary.model"), args.seed, args.whole)
    matrices = [m.weight for m in model.modules() if isinstance(m, Matrix)]
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    optimizers = [Muon(matrices, args.lr), torch.optim.AdamW(others, args.adam_lr, (0.9, 0.95), weight_decay=0.02)]
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)

    start, saved, step, mean = time.time(), 0.0, 0, None
    running = {name: value.clone() for name, value in model.state_dict().items()}
    while (done := (time.time() - start) / (60 * args.minutes)) < 1:
        Matrix.coarse = done >= args.coarse_from
        loss = loss_of(model, rows.batch(args.tokens // args.length, args.length))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = optimizer.defaults["lr"] * rate(done)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        for name, value in model.state_dict().items():
            running[name].lerp_(value, 1 - KEPT)
        step += 1
        assert math.isfinite(loss.item()), f"loss is {loss.item()} in step {step}"
        mean = loss.item() if mean is None else 0.97 * mean + 0.03 * loss.item()
        if step % 20 == 0:
            print(f"{time.time() - start:6.0f} s  step {step}  loss {mean:.4f}", flush=True)
        if time.time() - saved > 120:
            save(model.state_dict(), args.out / "checkpoint.pt", step)
            save(running, args.out / "mean.pt", step)
            saved = time.time()
    save(model.state_dict(), args.out / "checkpoint.pt", step)
    save(running, args.out / "mean.pt", step)
    print(f"finished: {step} steps, {step * args.tokens} tokens, loss {mean:.4f}", flush=True)


def save(state, path, step):
    torch.save({"model": state, "step": step}, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


if __name__ == "__main__":
    main()
