"""A small convnet on pictures like handwritten digits, and its training loop."""

import torch
from torch import nn


class DigitsNet(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2),
            nn.Linear(256, 10),
        )  # fmt: skip


def train(model, device, batch=16, pictures=256):
    """Trains for ever on noisy copies of ten patterns; yields each step's loss."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.arange(pictures) % 10
    patterns = torch.randn(10, 1, 8, 8, generator=generator)
    noise = torch.randn(pictures, 1, 8, 8, generator=generator)
    images, classes = (patterns[classes] + noise / 2).to(device), classes.to(device)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        for start in range(0, pictures, batch):
            optimizer.zero_grad()
            outputs = model(images[start : start + batch])
            loss = nn.functional.cross_entropy(outputs, classes[start : start + batch])
            loss.backward()
            optimizer.step()
            yield loss.detach()
