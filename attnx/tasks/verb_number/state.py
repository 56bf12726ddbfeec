"""A training run on disk: one file that is either the old state or the new one, whenever the process is killed.

Nothing but the weights, their running mean, the optimiser's two moments and the number of the step is needed to go
on: all randomness of a step is a function of the seed and its number.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from attnx.errors import FileFormatError


@dataclass
class TrainingState:
    """The parameters in training, by name; `average` and the moments follow the same names."""

    parameters: dict[str, nn.Parameter]
    average: dict[str, Tensor]
    optimizer: torch.optim.AdamW
    step: int = 0

    @classmethod
    def begin(cls, model: nn.Module, weight_decay: float) -> TrainingState:
        """Step 0 of a model. Biases, LayerNorms and other vectors do not decay."""
        parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        matrices = [parameter for parameter in parameters.values() if parameter.dim() > 1]
        vectors = [parameter for parameter in parameters.values() if parameter.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        average = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        return cls(parameters, average, torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98)))

    def save(self, path: Path) -> None:
        tensors = {f"average.{name}": tensor for name, tensor in self.average.items()}
        for name, parameter in self.parameters.items():
            tensors[f"weight.{name}"] = parameter.detach()
            moments = self.optimizer.state[parameter]
            tensors[f"first.{name}"], tensors[f"second.{name}"] = moments["exp_avg"], moments["exp_avg_sq"]
        write_atomically(tensors, path, {"step": str(self.step)})

    def load(self, path: Path) -> None:
        try:
            with safe_open(path, "pt") as file:
                self.step = int(file.metadata()["step"])
                for name, parameter in self.parameters.items():
                    parameter.data.copy_(file.get_tensor(f"weight.{name}"))
                    self.average[name].copy_(file.get_tensor(f"average.{name}"))
                    self.optimizer.state[parameter] = {
                        "step": torch.tensor(float(self.step)),
                        "exp_avg": file.get_tensor(f"first.{name}"),
                        "exp_avg_sq": file.get_tensor(f"second.{name}"),
                    }
        except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
            raise FileFormatError(
                f"{path} is not the state of this training: {error}; delete it to start anew"
            ) from error

    def use_average(self) -> None:
        """Replace the weights by their running mean: what is kept in the end."""
        for name, parameter in self.parameters.items():
            parameter.data.copy_(self.average[name])


def write_atomically(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Written beside, flushed to the disk, then renamed: a reader never sees half a file."""
    beside = path.with_name(f"{path.name}.part")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside, metadata=metadata)
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(path)
