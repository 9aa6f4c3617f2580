"""A small decoder with a static key-value cache, built as transformers builds Llama."""

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, HEADS, KEY_HEADS, HEAD = 64, 32, 4, 2, 8


class StaticCache:
    """Keys and values of one layer at their full length; where the next go is a tensor."""

    def __init__(self, batch, length, device):
        shape = (batch, KEY_HEADS, length, HEAD)
        self.keys, self.values = (torch.zeros(shape, device=device) for _ in range(2))
        self.seen = torch.zeros((), dtype=torch.int64, device=device)
        for each in (self.keys, self.values, self.seen):
            torch._dynamo.mark_static_address(each)

    def update(self, keys, values):
        places = torch.arange(keys.shape[2], device=keys.device) + self.seen
        self.seen.add_(keys.shape[2])
        self.keys.index_copy_(2, places, keys)
        self.values.index_copy_(2, places, values)
        return self.keys, self.values


def _rotated(x, places):
    frequencies = 10000 ** (-torch.arange(0, HEAD, 2, device=x.device) / HEAD)
    angles = places[..., None].float() * frequencies
    cos, sin = (
        torch.cat([each, each], -1)[:, None].to(x.dtype) for each in (angles.cos(), angles.sin())
    )
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.query = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.key_value = nn.Linear(WIDTH, 2 * KEY_HEADS * HEAD, bias=False)
        self.output = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x, places, mask, cache):
        batch, length, _ = x.shape
        normed = self.norms[0](x)
        query = self.query(normed).view(batch, length, HEADS, HEAD).transpose(1, 2)
        keys, values = (
            each.view(batch, length, KEY_HEADS, HEAD).transpose(1, 2)
            for each in self.key_value(normed).chunk(2, -1)
        )
        keys, values = cache.update(_rotated(keys, places), values)
        keys, values = (each.repeat_interleave(HEADS // KEY_HEADS, 1) for each in (keys, values))
        attended = F.scaled_dot_product_attention(
            _rotated(query, places), keys, values, attn_mask=mask
        )
        x = x + self.output(attended.transpose(1, 2).reshape(batch, length, -1))
        normed = self.norms[1](x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Decoder(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, tokens, attended, caches):
        """The logits after the last token; ``attended`` says which places are no padding."""
        cache = caches[0]
        rows = torch.arange(tokens.shape[1], device=tokens.device) + cache.seen
        columns = torch.arange(cache.keys.shape[2], device=tokens.device)
        mask = (columns <= rows[:, None])[None, None] & attended[:, None, None, :]
        places = (attended.long().cumsum(-1) - 1).clamp(min=0)[:, rows]
        x = self.embedding(tokens)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, places, mask, cache)
        return self.norm(x[:, -1]) @ self.embedding.weight.T


def make(device="cpu"):
    torch.manual_seed(0)
    return Decoder().eval().to(device)


def prompts(*lengths):
    """Tokens padded on the left, and which of them are no padding."""
    tokens = torch.arange(len(lengths) * max(lengths)).view(len(lengths), -1) * 7 % VOCABULARY
    start = max(lengths) - torch.tensor(lengths)
    return tokens, torch.arange(max(lengths)) >= start[:, None]


@torch.inference_mode()
def decode(model, step, tokens, real, length, choose=lambda logits: logits.argmax(-1)):
    """The tokens that follow the prompts, up to a cache of a length."""
    device, (batch, given) = tokens.device, tokens.shape
    caches = [StaticCache(batch, length, device) for _ in model.layers]
    attended = torch.cat(
        [real, torch.ones(batch, length - given, dtype=torch.bool, device=device)], 1
    )
    chosen = []
    for _ in range(length - given):
        tokens = choose(step(tokens, attended, caches))[:, None]
        chosen.append(tokens)
    return torch.cat(chosen, 1)
