"""The measured models in plain PyTorch, as a user would write them, and their inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass(frozen=True)
class GptSize:
    layers: int = 4
    width: int = 256
    heads: int = 4
    length: int = 128
    vocabulary: int = 1024
    batch: int = 8


GPT_SIZE = GptSize()
RESNET_WIDTHS = (32, 64, 128, 256)
RESNET_BATCH, RESNET_PIXELS, RESNET_CLASSES = 16, 32, 10
MLP_WIDTH, MLP_LAYERS, MLP_BATCH = 512, 4, 64

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        batch, length, width = x.shape
        heads = (batch, length, self.heads, width // self.heads)
        projected = self.qkv(self.before_attention(x)).split(width, dim=-1)
        q, k, v = (each.view(heads).transpose(1, 2) for each in projected)
        x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class Gpt(nn.Module):
    def __init__(self, size: GptSize = GPT_SIZE) -> None:
        super().__init__()
        self.token = nn.Embedding(size.vocabulary, size.width)
        self.position = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(places)
        for block in self.blocks:
            x = block(x, causal)
        return self.head(self.norm(x))

    def next_token(
        self, token: torch.Tensor, place: torch.Tensor, caches: list[torch.Tensor]
    ) -> torch.Tensor:
        """Greedy decoding by one token; ``caches`` has keys and values of each block."""
        x = self.token(token) + self.position(place)
        seen = torch.arange(caches[0].shape[2], device=token.device)[None] <= place
        for block, cache in zip(self.blocks, caches, strict=True):

            def attend(
                q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cache: torch.Tensor = cache
            ) -> torch.Tensor:
                cache.index_copy_(2, place, torch.cat([k, v]))
                keys, values = cache[0:1], cache[1:2]
                return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)

            x = block(x, attend)
        return self.head(self.norm(x)).argmax(-1)


class Residual(nn.Module):
    def __init__(self, ins: int, outs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(ins, outs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outs)
        self.second = nn.Conv2d(outs, outs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outs)
        self.short: nn.Module = nn.Identity()
        if stride != 1 or ins != outs:
            convolution = nn.Conv2d(ins, outs, 1, stride, bias=False)
            self.short = nn.Sequential(convolution, nn.BatchNorm2d(outs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(inner)) + self.short(x))


def resnet() -> nn.Module:
    """ResNet-18's shape on small images: four stages of two residual blocks."""
    ins = RESNET_WIDTHS[0]
    layers: list[nn.Module] = [nn.Conv2d(3, ins, 3, 1, 1, bias=False), nn.BatchNorm2d(ins)]
    layers.append(nn.ReLU())
    for stage, outs in enumerate(RESNET_WIDTHS):
        layers += [Residual(ins, outs, 2 if stage else 1), Residual(outs, outs, 1)]
        ins = outs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ins, RESNET_CLASSES)]
    return nn.Sequential(*layers)


def mlp() -> nn.Module:
    layers = [(nn.Linear(MLP_WIDTH, MLP_WIDTH), nn.GELU()) for _ in range(MLP_LAYERS)]
    return nn.Sequential(*(layer for pair in layers for layer in pair))


def cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def gpt_batch() -> tuple[torch.Tensor, torch.Tensor]:
    size = GPT_SIZE
    tokens = torch.randint(0, size.vocabulary, (size.batch, size.length + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def resnet_batch() -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.randn(RESNET_BATCH, 3, RESNET_PIXELS, RESNET_PIXELS)
    return images, torch.randint(0, RESNET_CLASSES, (RESNET_BATCH,))


def mlp_batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(MLP_BATCH, MLP_WIDTH), torch.randn(MLP_BATCH, MLP_WIDTH)


@dataclasses.dataclass(frozen=True)
class Training:
    """A model, its batches and its loss."""

    model: Callable[[], nn.Module]
    batch: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


TRAININGS = {
    "gpt": Training(Gpt, gpt_batch, cross_entropy),
    "resnet": Training(resnet, resnet_batch, cross_entropy),
    "mlp": Training(mlp, mlp_batch, F.mse_loss),
}


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """What wraps the functions of an eager workload."""
    return function


def train_step(
    name: str,
    device: str,
    fused: bool | None = None,
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]] = as_it_is,
) -> tuple[Callable[[], torch.Tensor], nn.Module]:
    """A step with AdamW that goes through four batches in turn and gives the loss.

    ``wrap`` gets the loss as a function of a batch, and the optimizer's step.
    """
    training = TRAININGS[name]
    torch.manual_seed(0)
    model = training.model()
    batches = [tuple(each.to(device) for each in training.batch()) for _ in range(4)]
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
    loss_of = wrap(lambda inputs, target: training.loss(model(inputs), target))
    update = wrap(optimizer.step)
    count = 0

    def step() -> torch.Tensor:
        nonlocal count
        count += 1
        loss = loss_of(*batches[count % len(batches)])
        optimizer.zero_grad()
        loss.backward()
        update()
        return loss.detach()

    return step, model


def chain(x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """40 pointwise operations and reductions along rows."""
    for _ in range(5):
        x = F.layer_norm(x, x.shape[-1:])
        x = F.gelu(x * scale + y)
        x = torch.tanh(x - y) * 1.5
        x = torch.softmax(x, -1)
    return x
