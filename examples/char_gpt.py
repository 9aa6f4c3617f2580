"""Trains a character-level GPT on the source of Python's standard library, then lets it write."""

import sysconfig
from pathlib import Path

import report
import torch
from torch import nn
from torch.nn import functional

HEADS = 4


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, context: int, layers: int, width: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.empty(context, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight  # tied, and still tied after .to(device)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


class Text:
    """The top-level modules of the standard library, as one tensor of character numbers."""

    def __init__(self) -> None:
        files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
        source = b"".join(file.read_bytes() for file in files)
        ascii_source = source.decode(errors="ignore").encode("ascii", errors="ignore")
        characters = torch.frombuffer(bytearray(ascii_source), dtype=torch.uint8)
        self.alphabet, self.tokens = torch.unique(characters, return_inverse=True)

    def batches(self, size: int, context: int):
        """Random windows, and the same windows one character later."""
        window = torch.arange(context + 1)
        while True:
            starts = torch.randint(len(self.tokens) - context, (size, 1))
            characters = self.tokens[starts + window]
            yield characters[:, :-1], characters[:, 1:]

    def prompt(self, context: int) -> torch.Tensor:
        start = torch.randint(len(self.tokens) - context, ()).item()
        return self.tokens[None, start : start + context]

    def decode(self, tokens: torch.Tensor) -> str:
        return bytes(self.alphabet[tokens].tolist()).decode()


@torch.no_grad()
def write(model: GPT, tokens: torch.Tensor, length: int) -> torch.Tensor:
    """Continues ``tokens``, whose length is the window that slides along."""
    written = []
    for _ in range(length):
        probabilities = functional.softmax(model(tokens)[:, -1] / 0.8, dim=-1)
        written.append(torch.multinomial(probabilities, 1))
        tokens = torch.cat((tokens[:, 1:], written[-1]), dim=1)
    return torch.stack([token.cpu() for token in written]).flatten()


def parser():
    options = report.options(__doc__, steps=400)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--width", type=int, default=256)
    options.add_argument("--context", type=int, default=64)
    options.add_argument("--lr", type=float, default=1e-3)
    options.add_argument("--batch", type=int, default=8)
    options.add_argument("--characters", type=int, default=400, help="length of the sample")
    return options


def main() -> None:
    arguments = parser().parse_args()
    device = arguments.device
    torch.manual_seed(arguments.seed)
    text = Text()
    prompt = text.prompt(arguments.context)
    model = GPT(len(text.alphabet), arguments.context, arguments.layers, arguments.width)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=arguments.lr, total_steps=max(arguments.steps, 100), pct_start=0.1
    )

    def loss_of(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    forward = report.compiled(loss_of, arguments)
    run = report.Run("char_gpt", arguments)
    for inputs, targets in run.steps(text.batches(arguments.batch, arguments.context)):
        loss = forward(inputs.to(device), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        run.log(loss)
    sample = text.decode(write(model, prompt.to(device), arguments.characters))
    print(f"--- given\n{text.decode(prompt[0])}\n--- written\n{sample}\n---")
    run.close()


if __name__ == "__main__":
    main()
