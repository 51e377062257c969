"""Train a classifier of digits with DistributedDataParallel of PyTorch."""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
training = TensorDataset(x[:1500], y[:1500])
sampler = DistributedSampler(training, seed=1)
batches = DataLoader(training, batch_size=60 // size, sampler=sampler)

model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(4):
    sampler.set_epoch(epoch)
    for x_batch, y_batch in batches:
        optimizer.zero_grad()
        loss_fn(model(x_batch), y_batch).backward()
        optimizer.step()
    if rank == 0:
        torch.save(model.module.state_dict(), "logs/digits.pt")

if rank == 0:
    with torch.no_grad():
        logits = model.module(x[1500:])
    loss = loss_fn(logits, y[1500:]).item()
    accuracy = (logits.argmax(1) == y[1500:]).float().mean().item()
    print(f"validation loss {loss:.4f}, accuracy {accuracy:.4f}")
dist.destroy_process_group()
