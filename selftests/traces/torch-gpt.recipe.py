#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Record torch-gpt.csv: the training loop of a small GPT in PyTorch, on the CPU.

usage: torch-gpt.recipe.py DEVPOOL-RECORD OUT.csv

Needs Debian 12's python3-torch, hence the interpreter named above. Weights and
tokens are random and seeded; one thread, so the order repeats. PyTorch takes
each tensor by posix_memalign, so the trace shows every tensor from 16 KiB
up: weights, gradients, AdamW's two moments, the activations that the forward
pass keeps and the backward pass gives back, and the evaluation in between, which
keeps none. Every third batch is shorter, as a data set's are.
"""
import os
import subprocess
import sys

LAYERS, WIDTH, HEADS, VOCAB, BATCH, CONTEXT = 4, 256, 8, 8192, 4, 128
STEPS, MIN = 16, 16384


def train():
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x, mask):
            b, t, _ = x.shape
            q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2)
                       for y in self.qkv(self.ln1(x)).split(WIDTH, dim=2))
            scores = q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
            scores = scores.masked_fill(mask[:t, :t], float("-inf"))
            y = F.dropout(scores.softmax(-1), 0.1, self.training) @ v
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, WIDTH))
            return x + self.down(F.gelu(self.up(self.ln2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
            self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT).triu(1).bool())

        def forward(self, tokens):
            x = self.token(tokens) + self.place.weight[:tokens.shape[1]]
            for block in self.blocks:
                x = block(x, self.mask)
            return self.head(self.ln(x))

    def loss(tokens):
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Gpt()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        length = CONTEXT // 2 if step % 3 == 2 else CONTEXT
        tokens = torch.randint(VOCAB, (BATCH, length + 1))
        optimiser.zero_grad(set_to_none=True)
        loss(tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 4 == 3:
            model.eval()
            with torch.no_grad():
                loss(tokens)
            model.train()


def version(package):
    return subprocess.run(["dpkg-query", "-W", "-f=${Package} ${Version}", package],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    recorder, out = sys.argv[1:]
    here, name = os.path.split(os.path.abspath(__file__))
    subprocess.run([os.path.abspath(recorder), "-o", os.path.abspath(out), "--min", str(MIN), "--",
                    sys.executable, name, "--train"], check=True, cwd=here,
                   env=dict(os.environ, OMP_NUM_THREADS="1"))
    with open(out) as f:
        text = f.read()
    with open(out, "w") as f:
        f.write("# SPDX-License-Identifier: GPL-2.0-only\n"
                "# what: training loop of a small GPT (%d layers, width %d, %d heads, vocabulary %d, batch\n"
                "#   %d, context %d, AdamW, %d steps, an evaluation every 4th) in eager PyTorch on the CPU,\n"
                "#   with random weights and tokens; recorded by %s\n"
                "# packages: %s, %s\n" % (LAYERS, WIDTH, HEADS, VOCAB, BATCH, CONTEXT, STEPS, name,
                                          version("python3-torch"), version("python3.11-minimal")))
        f.write(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--train"]:
        train()
    elif len(sys.argv) == 3:
        main()
    else:
        sys.exit(__doc__)
