"""Small models of the kinds that people train, each with one batch for it."""

import torch
from torch import nn
from torch.nn import functional as F
from twins import DEVICE, assert_same, gradients, state, to, twins


class Residual(nn.Module):
    """Two convolutions with batch norm around a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(3))
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        inner = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(inner)) + self.norms[2](self.shortcut(x))).relu()


class ResNet(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1), Residual(8, 8, 1), Residual(8, 16, 2), nn.AvgPool2d(2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
        )  # fmt: skip


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.deep = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.SiLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.refine = nn.Conv2d(16 + 16, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        high = self.down(x)
        low = self.deep(high)
        smooth = F.interpolate(low, scale_factor=2, mode="bilinear", align_corners=False)
        coarse = F.interpolate(self.up(low), scale_factor=0.5, mode="nearest")
        merged = torch.cat([high, self.up(low), smooth], 1)
        return self.out(self.refine(merged) + F.interpolate(coarse, size=high.shape[-2:]))


class CausalBlock(nn.Module):
    """Pre-norm attention and MLP, as GPT-2 has them."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    """Token and position embeddings; the output layer shares the token embedding's weight."""

    def __init__(self, vocabulary=20, length=8, width=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(CausalBlock(width, 2), CausalBlock(width, 2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


def rotate(x, cosine, sine):
    """Rotary position embedding by halves."""
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat([-right, left], -1) * sine


class Llama(nn.Module):
    """RMS norm, rotary positions, grouped queries, SwiGLU, an additive mask."""

    def __init__(self, vocabulary=20, width=16, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, groups * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("frequency", 1 / 10000 ** (torch.arange(0, size, 2) / size))

    def forward(self, tokens):
        length = tokens.shape[1]
        angles = torch.outer(torch.arange(length, device=tokens.device), self.frequency)
        angles = torch.cat([angles, angles], -1)
        mask = torch.full((length, length), float("-inf"), device=tokens.device).triu(1)
        x = self.tokens(tokens)
        inner = self.norms[0](x)
        split = {self.q: self.heads, self.k: self.groups, self.v: self.groups}
        q, k, v = (
            linear(inner).unflatten(-1, (heads, -1)).transpose(1, 2)
            for linear, heads in split.items()
        )
        q, k = (rotate(each, angles.cos(), angles.sin()) for each in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        inner = self.norms[1](x)
        x = x + self.down(F.silu(self.gate(inner)) * self.up(inner))
        return self.head(self.norms[2](x))


class ViT(nn.Module):
    """Patches by a strided convolution, a class token, torch's own encoder."""

    def __init__(self, width=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.summary = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 5, width) * 0.1)
        layer = nn.TransformerEncoderLayer(
            width, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 5)

    def forward(self, images):
        patches = self.patches(images).flatten(2).transpose(1, 2)
        summary = self.summary.expand(len(images), -1, -1)
        return self.head(self.encoder(torch.cat([summary, patches], 1) + self.places)[:, 0])


class Recurrent(nn.Module):
    """Two bidirectional layers over an embedded text, read at the last step."""

    def __init__(self, kind):
        super().__init__()
        self.tokens = nn.Embedding(20, 6, padding_idx=0)
        self.body = kind(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(10, 5)

    def forward(self, tokens):
        return self.head(self.body(self.tokens(tokens))[0][:, -1])


class VAE(nn.Module):
    """The noise is an input, so that two devices may share it."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.ELU(), nn.Linear(16, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 12))

    def forward(self, x, noise):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        latent = mean + noise * (0.5 * log_variance).exp()
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1)
        picture = F.binary_cross_entropy_with_logits(
            self.decoder(latent), torch.sigmoid(x), reduction="none"
        )
        return picture.sum(-1) + divergence


class DLRM(nn.Module):
    """Bags of categories beside dense features, and their pairwise products."""

    def __init__(self):
        super().__init__()
        modes = ("sum", "mean", "max")
        self.bags = nn.ModuleList(nn.EmbeddingBag(10, 4, mode=mode) for mode in modes)
        self.dense = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(4 + 6, 8), nn.ReLU(), nn.Linear(8, 5))

    def forward(self, dense, categories, offsets):
        features = [self.dense(dense), *(bag(categories, offsets) for bag in self.bags)]
        stacked = torch.stack(features, 1)
        products = stacked @ stacked.mT
        rows, columns = torch.tril_indices(4, 4, -1, device=dense.device)
        return self.top(torch.cat([features[0], products[:, rows, columns]], 1))


def mlp():
    return nn.Sequential(
        nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5)
    )


def _images(generator):
    return (torch.randn(4, 3, 8, 8, generator=generator),)


def _tokens(generator):
    return (torch.randint(1, 20, (3, 8), generator=generator),)


def _rows(generator):
    return (torch.randn(4, 12, generator=generator),)


def _noisy_rows(generator):
    return _rows(generator) + (torch.randn(4, 4, generator=generator),)


def _clicks(generator):
    categories = torch.randint(0, 10, (11,), generator=generator)
    return torch.randn(4, 6, generator=generator), categories, torch.tensor([0, 3, 4, 8])


# Name -> how to build the model, and its batch.
ARCHITECTURES = {
    "mlp": (mlp, _rows),
    "resnet": (ResNet, _images),
    "unet": (UNet, _images),
    "gpt": (GPT, _tokens),
    "llama": (Llama, _tokens),
    "vit": (ViT, _images),
    "lstm": (lambda: Recurrent(nn.LSTM), _tokens),
    "gru": (lambda: Recurrent(nn.GRU), _tokens),
    "vae": (VAE, _noisy_rows),
    "dlrm": (DLRM, _clicks),
}


def loss_of(output):
    """Cross entropy against a fixed pattern of classes; a per-sample loss as it is."""
    if output.dim() == 1:
        return output.mean()
    if output.dim() == 4:
        return F.mse_loss(output, torch.ones_like(output))
    flat = output.flatten(0, -2)
    return F.cross_entropy(flat, torch.arange(len(flat), device=flat.device) % flat.shape[-1])


def assert_trains_as_on_the_cpu(name, steps=3, run=lambda model: model):
    """Outputs and gradients of every step, parameters and buffers after the last agree."""
    build, make_batch = ARCHITECTURES[name]
    models = twins(build)
    batch = make_batch(torch.Generator().manual_seed(1))
    batches = batch, to(DEVICE, list(batch))
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9) for model in models]
    calls = models[0], run(models[1])
    for _ in range(steps):
        outputs = []
        for call, inputs, optimizer in zip(calls, batches, optimizers, strict=True):
            optimizer.zero_grad()
            output = call(*inputs)
            loss_of(output).backward()
            outputs.append(output.detach())
        assert_same(outputs[1], outputs[0])
        assert_same(gradients(models[1]), gradients(models[0]))
        for optimizer in optimizers:
            optimizer.step()
    assert_same(state(models[1]), state(models[0]))
