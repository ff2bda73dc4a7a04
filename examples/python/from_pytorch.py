"""A network of PyTorch's, compiled from its ONNX file and called with a NumPy array and with a tensor."""
import inspect

import numpy
import torch

import gantry

network = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10), torch.nn.Softmax(-1)).eval()
batch = torch.randn(8, 64)
# The exporter that needs no further package; since 2.5 PyTorch has two.
exporter = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
torch.onnx.export(network, (batch,), "network.onnx", **exporter)
module = gantry.compile("network.onnx")
expected = network(batch).detach().numpy()
numpy.testing.assert_allclose(module(batch.numpy()), expected, atol=1e-5)
numpy.testing.assert_allclose(module(batch).numpy(), expected, atol=1e-5)
print(f"{module}: an array and a tensor give what PyTorch gives")
