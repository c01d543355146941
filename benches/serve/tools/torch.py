"""What guidellm takes from torch: the iteration over a data set, in this process.

PyTorch and its libraries for GPUs take 5 GB, and a load generator computes nothing with them. On PYTHONPATH this file
is found in its place; guidellm itself, from the data to the clock, is as it was published.
"""

import sys

# Older than any that transformers accepts: it then works without.
__version__ = "0"


class IterableDataset:
    def __class_getitem__(cls, _item):
        return cls


class DataLoader:
    def __init__(self, dataset, collate_fn, **_options):
        self.dataset, self.collate_fn = dataset, collate_fn

    def __class_getitem__(cls, _item):
        return cls

    def __iter__(self):
        return (self.collate_fn([item]) for item in self.dataset)


class Generator:
    def manual_seed(self, _seed):
        return self


def get_worker_info():
    """No other process loads data."""


# `torch.utils.data.dataloader` and the like are all this module.
for _name in ("utils", "utils.data", "utils.data.dataloader", "utils.data.dataset"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[__name__]
utils = data = sys.modules[__name__]
