# SPDX-License-Identifier: Apache-2.0
"""fusec in PyTorch: torch.compile(model, backend="fusec"), and export of exported programs to packages."""
from ._backend import backend
from ._export import export

__all__ = ["backend", "export"]
