"""benchmarks/gpu/torch_bench.py with a stand-in for PyTorch: which sides take turns, and what is told when one fails."""
import contextlib
import io
import json
import os
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'benchmarks', 'gpu'))
import torch_bench  # noqa: E402


class Event:
    clock = 0

    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = Event.clock

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at - self.at


class Network:
    """Takes two milliseconds by the events' clock."""

    def cuda(self):
        return self

    def __call__(self, given):
        Event.clock += 2


class Tensor(Network):
    def is_floating_point(self):
        return True


def fake_torch():
    torch = types.ModuleType('torch')
    torch.__version__ = '9.9'
    torch.backends = mock.MagicMock()
    torch.cuda = mock.MagicMock()
    torch.cuda.Event = Event
    torch.cuda.max_memory_reserved = lambda: 5
    torch.cuda.CUDAGraph.return_value.replay = lambda: setattr(Event, 'clock', Event.clock + 1)
    torch.inference_mode = contextlib.nullcontext
    torch.compile = mock.Mock(side_effect=RuntimeError('no compiler here'))
    return torch


def bench(gantry_ms):
    """The lines that `torch_bench.py bench` prints."""
    networks = types.ModuleType('torch_networks')
    networks.build = lambda name, batch: (Network(), Tensor())
    arguments = ['torch_bench.py', 'bench', 'resnet50', '1', 'fp32', '--gantry', 'gantry', '--module', 'm.gmod', '--rounds',
                 '2', '--repeat', '3']
    printed = io.StringIO()
    with mock.patch.dict(sys.modules, {'torch': fake_torch(), 'torch_networks': networks}), \
            mock.patch.object(sys, 'argv', arguments), mock.patch.object(torch_bench, 'gantry_ms', gantry_ms), \
            contextlib.redirect_stdout(printed):
        code = torch_bench.main()
    return code, [json.loads(line) for line in printed.getvalue().splitlines()]


class Bench(unittest.TestCase):
    def test_sides_take_turns_and_each_turn_is_told(self):
        code, lines = bench(lambda gantry, module: 1.5)
        self.assertEqual(code, 0)
        self.assertEqual(len(lines), 8)
        self.assertEqual(lines[0]['rounds'], {'eager': 1})
        last = lines[-1]
        self.assertEqual((last['eager_ms'], last['graph_ms'], last['gantry_ms']), (2, 1, 1.5))
        self.assertEqual(last['rounds'], {'eager': 2, 'graph': 2, 'gantry': 2})

    def test_a_side_that_fails_is_left_out_with_its_reason(self):
        def fail(gantry, module):
            raise RuntimeError('no such module')
        _, lines = bench(fail)
        last = lines[-1]
        self.assertEqual(last['problems'], {'compile': 'no compiler here', 'gantry': 'no such module'})
        self.assertNotIn('compile_ms', last)
        self.assertEqual(last['graph_ms'], 1)


if __name__ == '__main__':
    unittest.main()
