"""Trains a small convolutional network on scikit-learn's handwritten digits."""

import report
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )


def data(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """The 1,797 images of 8 x 8 pixels, a fifth of them held out."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    train, test = train_test_split(
        range(len(labels)), test_size=0.2, stratify=labels, random_state=seed
    )
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def forever(loader: DataLoader):
    while True:
        yield from loader


@torch.no_grad()
def accuracy(model: nn.Module, dataset: TensorDataset, device: str) -> float:
    images, labels = (tensor.to(device) for tensor in dataset.tensors)
    return (model.eval()(images).argmax(1) == labels).float().mean().item()


def main() -> None:
    arguments = report.options(__doc__, steps=300).parse_args()
    device = arguments.device
    torch.manual_seed(arguments.seed)
    train, test = data(arguments.seed)
    loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def train_step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = report.compiled(train_step, arguments)
    run = report.Run("digits", arguments)
    for images, labels in run.steps(forever(loader)):
        run.log(step(images.to(device), labels.to(device)))
    run.close(**{"test accuracy": f"{accuracy(model, test, device):.1%}"})


if __name__ == "__main__":
    main()
