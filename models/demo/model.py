"""The Gemma 3 decoder in PyTorch, as small and as plain as training allows.

The shapes and the arithmetic are those of `gemma3` GGUF files: RMSNorm before and after each half of a layer, RMSNorm
on queries and keys, rotary embedding over pairs (i, i + head_dim / 2), five sliding layers for each global one.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Config:
    """Every matrix row is a multiple of 256 long, so that all of them can be stored in K-quants."""

    vocab: int = 2048
    width: int = 256
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    hidden: int = 768
    context: int = 2048
    window: int = 128
    rope_base: float = 1e6
    rope_base_local: float = 1e4
    eps: float = 1e-6

    def is_local(self, layer):
        return layer % 6 < 5


def config_of(state):
    """The sizes of a checkpoint; only the number of layers may differ from the defaults."""
    return Config(layers=1 + max(int(name.split(".")[1]) for name in state if name.startswith("blk.")))


class Norm(nn.Module):
    """RMSNorm; the weight is kept as its distance from 1, which weight decay and Adam like better."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(size)), eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, (1 + self.weight).to(x.dtype), self.eps)


class Matrix(nn.Module):
    """A matrix without bias. `coarse` adds the rounding of a 4-bit block format, so that the weights get used to it."""

    coarse = False

    def __init__(self, rows, columns, scale=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, columns) * scale * columns**-0.5)

    def effective(self):
        return rounded(self.weight, 15) if Matrix.coarse and self.training else self.weight

    def forward(self, x):
        return F.linear(x, self.effective())


def rounded(weight, steps):
    """`weight` rounded to steps + 1 levels per 32 values; the gradient passes as if nothing had happened."""
    with torch.no_grad():
        blocks = weight.view(-1, 32)
        low = blocks.amin(1, keepdim=True).clamp(max=0)
        size = (blocks.amax(1, keepdim=True) - low).clamp(min=1e-8) / steps
        error = (((blocks - low) / size).round() * size + low - blocks).view_as(weight)
    return weight + error


def windowed(q, k, v, mask):
    """Attention of rows {batch, heads, length, head_dim} cut into windows, each of which sees itself and the one before."""
    width = mask.shape[-2]
    q, k, v = (part.unflatten(2, (-1, width)).transpose(1, 2) for part in (q, k, v))
    k, v = (torch.cat((F.pad(part[:, :-1], (0, 0) * 3 + (1, 0)), part), dim=3) for part in (k, v))
    mixed = F.scaled_dot_product_attention(*(part.flatten(0, 1) for part in (q, k, v)), mask)
    return mixed.unflatten(0, (-1, q.shape[1])).transpose(1, 2).flatten(2, 3)


def rotation(length, base, head_dim):
    """cos and sin, each {length, head_dim}."""
    angle = torch.arange(length)[:, None] * base ** (-torch.arange(0, head_dim, 2) / head_dim)
    angle = torch.cat((angle, angle), dim=1)
    return angle.cos(), angle.sin()


def rotate(x, table):
    cos, sin = table
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        c, self.c, self.local = config, config, config.is_local(index)
        small = (2 * c.layers) ** -0.5
        self.attn_norm, self.post_attention_norm = Norm(c.width, c.eps), Norm(c.width, c.eps)
        self.ffn_norm, self.post_ffw_norm = Norm(c.width, c.eps), Norm(c.width, c.eps)
        self.attn_q_norm, self.attn_k_norm = Norm(c.head_dim, c.eps), Norm(c.head_dim, c.eps)
        self.attn_q = Matrix(c.heads * c.head_dim, c.width)
        self.attn_k = Matrix(c.kv_heads * c.head_dim, c.width)
        self.attn_v = Matrix(c.kv_heads * c.head_dim, c.width)
        self.attn_output = Matrix(c.width, c.heads * c.head_dim, small)
        self.ffn_gate, self.ffn_up = Matrix(c.hidden, c.width), Matrix(c.hidden, c.width)
        self.ffn_down = Matrix(c.width, c.hidden, small)

    def heads(self, x, count):
        return x.view(*x.shape[:2], count, self.c.head_dim).transpose(1, 2)

    def attention(self, x, tables, masks, cache):
        c, table = self.c, tables[self.local]
        q = rotate(self.attn_q_norm(self.heads(self.attn_q(x), c.heads)), table)
        k = rotate(self.attn_k_norm(self.heads(self.attn_k(x), c.kv_heads)), table)
        v = self.heads(self.attn_v(x), c.kv_heads)
        if cache is not None:
            k, v = (torch.cat(pair, dim=2) for pair in zip(cache.get(self, (k[:, :, :0], v[:, :, :0])), (k, v)))
            cache[self] = k, v
        k, v = (part.repeat_interleave(c.heads // c.kv_heads, dim=1) for part in (k, v))
        mix = windowed if self.local and masks[True].ndim == 4 else F.scaled_dot_product_attention
        mixed = mix(q, k, v, masks[self.local])
        return self.attn_output(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))

    def forward(self, x, tables, masks, cache):
        x = x + self.post_attention_norm(self.attention(self.attn_norm(x), tables, masks, cache))
        h = self.ffn_norm(x)
        h = self.ffn_down(F.gelu(self.ffn_gate(h), approximate="tanh") * self.ffn_up(h))
        return x + self.post_ffw_norm(h)


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c = config
        self.token_embd = nn.Parameter(torch.randn(config.vocab, config.width) * config.width**-0.5)
        self.blk = nn.ModuleList(Layer(config, index) for index in range(config.layers))
        self.output_norm = Norm(config.width, config.eps)
        self.tables = {
            local: rotation(config.context, base, config.head_dim)
            for local, base in ((True, config.rope_base_local), (False, config.rope_base))
        }

    def embedding(self):
        # The embedding is also the head, which Q4_K_M stores in Q6_K: 63 steps.
        return rounded(self.token_embd, 63) if Matrix.coarse and self.training else self.token_embd

    def masks(self, start, total):
        """Who sees whom, {queries, keys}: only backwards, locally only the window."""
        distance = torch.arange(start, total)[:, None] - torch.arange(total)[None, :]
        return {False: distance >= 0, True: (distance >= 0) & (distance < self.c.window)}

    def masks_of_rows(self, document):
        """The same for training, where only tokens of one document see each other; the local mask is by windows."""
        width, total = self.c.window, document.shape[1]
        index = torch.arange(total)
        seen = (index[:, None] >= index)[None, None] & (document[:, None, :, None] == document[:, None, None, :])
        query = document.unflatten(1, (-1, width))
        keys = torch.cat((F.pad(query[:, :-1], (0, 0, 1, 0), value=-1), query), dim=2)
        distance = width + torch.arange(width)[:, None] - torch.arange(2 * width)[None, :]
        near = (distance >= 0) & (distance < width) & (query[..., :, None] == keys[..., None, :])
        return {False: seen, True: near.flatten(0, 1)[:, None]}

    def forward(self, ids, document=None, cache=None, start=0):
        """Hidden states before the head, {batch, length, width}; with `document`, the length is a multiple of the window."""
        masks = self.masks(start, start + ids.shape[1]) if document is None else self.masks_of_rows(document)
        tables = {k: tuple(t[start : start + ids.shape[1]] for t in pair) for k, pair in self.tables.items()}
        x = F.embedding(ids, self.embedding()) * self.c.width**0.5
        for layer in self.blk:
            x = layer(x, tables, masks, cache)
        return self.output_norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.embedding())

    @torch.no_grad()
    def answer(self, ids, stop, limit=160):
        """Greedy continuation of `ids`, up to and without a token of `stop`."""
        cache, said, feed, start = {}, [], torch.tensor([ids]), 0
        while len(said) < limit:
            hidden = self(feed, cache=cache, start=start)
            start += feed.shape[1]
            token = int(self.logits(hidden[0, -1]).argmax())
            if token in stop:
                break
            said.append(token)
            feed = torch.tensor([[token]])
        return said
