"""The mean of several checkpoints: what one long step of decay would do, for checkpoints of a high learning rate.

    python mean.py run/a.pt run/b.pt --out run/checkpoint.pt
"""

import argparse
from pathlib import Path

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    states = [torch.load(path)["model"] for path in args.checkpoints]
    mean = {name: sum(state[name] for state in states) / len(states) for name in states[0]}
    torch.save({"model": mean, "step": 0}, args.out)


if __name__ == "__main__":
    main()
