#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Record torch-kv.csv: a small transformer in PyTorch answers requests, on the CPU.

usage: torch-kv.recipe.py DEVPOOL-RECORD OUT.csv

Needs Debian 12's python3-torch, hence the interpreter named above. A request is
a prompt and how many answers to it are wanted. The prompt goes through the
model once and leaves keys and values in each layer, the cache, which is then
repeated for the answers. Each further token of them lengthens the cache by
torch.cat: a new tensor, a little larger, before the old one is given back. An
answer that is complete leaves its batch, and the cache shrinks by a row. Four
requests are served in turn, a token each; the next one comes when one ends.

Weights, prompts, lengths and the tokens drawn are seeded; lengths do not depend
on tokens, so sizes do not depend on the rounding of a machine. One thread, so the
order repeats. The trace shows blocks from 32 KiB up, nearly all of them tensors:
weights that stay, the caches, scores and logits.
"""
import os
import random
import subprocess
import sys

LAYERS, WIDTH, HEADS, VOCAB, CONTEXT = 4, 256, 8, 8192, 640
REQUESTS, AT_ONCE, MIN = 9, 4, 32768


def serve():
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x, past, mask):
            b, t, _ = x.shape
            q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2)
                       for y in self.qkv(self.ln1(x)).split(WIDTH, dim=2))
            if past:
                k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            else:
                k, v = k.contiguous(), v.contiguous()
            scores = q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
            if t > 1:
                scores = scores.masked_fill(mask[:t, :t], float("-inf"))
            y = scores.softmax(-1) @ v
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, WIDTH))
            return x + self.down(F.gelu(self.up(self.ln2(x)))), (k, v)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
            self.head.weight = self.token.weight
            self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT).triu(1).bool())

        def forward(self, tokens, cache):
            start = cache[0][0].shape[2] if cache[0] else 0
            x = self.token(tokens) + self.place.weight[start:start + tokens.shape[1]]
            for i, block in enumerate(self.blocks):
                x, cache[i] = block(x, cache[i], self.mask)
            return self.head(self.ln(x[:, -1]))

    def draw(logits):
        top, token = logits.topk(50)
        return token.gather(1, torch.multinomial(top.softmax(-1), 1))

    def answer(prompt, lengths):
        """Yields after each token that the answers got; lengths says how many each gets."""
        cache = [None] * LAYERS
        logits = model(torch.randint(VOCAB, (1, prompt)), cache)
        n = len(lengths)
        cache = [tuple(y.repeat(n, 1, 1, 1) for y in layer) for layer in cache]
        tokens = draw(logits.repeat(n, 1))
        for done in range(1, max(lengths)):
            yield
            keep = [i for i, length in enumerate(lengths) if length > done]
            if len(keep) < len(lengths):
                lengths = [lengths[i] for i in keep]
                cache = [tuple(y[keep] for y in layer) for layer in cache]
                tokens = tokens[keep]
            tokens = draw(model(tokens, cache))

    torch.set_num_threads(1)
    torch.manual_seed(1)
    rng = random.Random(1)
    model = Decoder().eval()
    waiting = [(rng.randint(64, 512), [rng.randint(8, 80) for _ in range(rng.randint(1, 8))])
               for _ in range(REQUESTS)]
    served = []
    with torch.no_grad():
        while waiting or served:
            while waiting and len(served) < AT_ONCE:
                served.append(answer(*waiting.pop(0)))
            for request in list(served):
                if next(request, True):
                    served.remove(request)


def version(package):
    return subprocess.run(["dpkg-query", "-W", "-f=${Package} ${Version}", package],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    recorder, out = sys.argv[1:]
    here, name = os.path.split(os.path.abspath(__file__))
    subprocess.run([os.path.abspath(recorder), "-o", os.path.abspath(out), "--min", str(MIN), "--",
                    sys.executable, name, "--serve"], check=True, cwd=here,
                   env=dict(os.environ, OMP_NUM_THREADS="1"))
    with open(out) as f:
        text = f.read()
    with open(out, "w") as f:
        f.write("# SPDX-License-Identifier: GPL-2.0-only\n"
                "# what: a small transformer (%d layers, width %d, %d heads, vocabulary %d) in eager PyTorch\n"
                "#   on the CPU answers %d requests, %d at once, token by token with a cache of keys and\n"
                "#   values that grows; random weights and prompts; recorded by %s\n"
                "# packages: %s, %s\n" % (LAYERS, WIDTH, HEADS, VOCAB, REQUESTS, AT_ONCE, name,
                                          version("python3-torch"), version("python3.11-minimal")))
        f.write(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    elif len(sys.argv) == 3:
        main()
    else:
        sys.exit(__doc__)
