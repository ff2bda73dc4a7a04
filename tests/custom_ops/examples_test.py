#!/usr/bin/env python3
"""The examples of custom ops as their users have them: built by their Makefiles, compiled into modules, run here, on a
board and, where AArch64's compiler, its emulator and gantry's build for it are there, on an AArch64 board. What they
compute is compared with a computation of this file's own.

    examples_test.py --build BUILD --aarch64-build BUILD [unittest's arguments]
"""
import array
import json
import math
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / 'tests' / 'cli'))
import program_under_test  # noqa: E402

BUILD = AARCH64_BUILD = None
NATIVE = 'aarch64' if platform.machine() == 'aarch64' else 'x86-64'
# Of the example's model.
COEFFICIENTS = (0.0200834, 0.0401667, 0.0200834, -1.5610181, 0.6413515)
GAIN = 0.5


def write_npy(path, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += ' ' * (-(len(header) + 11) % 64) + '\n'
    path.write_bytes(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode()
                     + array.array('f', values).tobytes())


def read_npy(path):
    data = path.read_bytes()
    return array.array('f', data[10 + struct.unpack('<H', data[8:10])[0]:])


def levels(audio, samples):
    """|gain (b0 x[t] + b1 x[t-1] + b2 x[t-2]) - a1 y[t-1] - a2 y[t-2]| of each row."""
    b0, b1, b2, a1, a2 = COEFFICIENTS
    result = []
    for row in range(len(audio) // samples):
        x = [0.0, 0.0, *audio[row * samples:(row + 1) * samples]]
        y = [0.0, 0.0]
        for t in range(2, samples + 2):
            y.append(GAIN * (b0 * x[t] + b1 * x[t - 1] + b2 * x[t - 2]) - a1 * y[t - 1] - a2 * y[t - 2])
        result += [abs(value) for value in y[2:]]
    return result


def rms_scaled(tokens):
    scale, bias = (1, 2, 0.5, -1), (0, 1, 0, 0.25)
    result = []
    for at in range(0, len(tokens), 4):
        v = tokens[at:at + 4]
        for epsilon, added in ((1e-3, bias), (1e-5, (0, 0, 0, 0))):
            factor = 1 / math.sqrt(sum(x * x for x in v) / 4 + epsilon)
            v = [x * factor * s + b for x, s, b in zip(v, scale, added)]
        result += v
    return result


def signal(count):
    return [((i * 37) % 101) / 50 - 1 for i in range(count)]


class Examples(program_under_test.ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.GANTRY = str(BUILD / 'bin' / 'gantry')
        super().setUpClass()
        missing = [tool for tool in ('make', 'gcc', 'protoc') if shutil.which(tool) is None]
        if missing or not pathlib.Path('/usr/include/onnx/onnx.proto').exists():
            raise unittest.SkipTest(f'the examples are built with make, gcc and protoc from onnx.proto; missing: {missing}')
        for name in ('custom_op_kernel', 'custom_op_composition'):
            shutil.copytree(SOURCE / 'examples' / name, cls.folder / name,
                            ignore=shutil.ignore_patterns('*.o', '*.so', '*.onnx'))
        cls.make('custom_op_kernel', f'biquad-{NATIVE}.o', 'biquad.onnx',
                 *(['CC_ARM=gcc'] if NATIVE == 'aarch64' else []))
        cls.make('custom_op_composition')
        cls.crosses = NATIVE == 'x86-64' and shutil.which('aarch64-linux-gnu-gcc') is not None
        if cls.crosses:
            cls.make('custom_op_kernel', 'biquad-aarch64.o', 'libbiquad.so')
        cls.model = str(cls.folder / 'custom_op_kernel' / 'biquad.onnx')
        cls.ops = str(cls.folder / 'custom_op_kernel')
        write_npy(cls.folder / 'audio.npy', (3, 500), signal(1500))

    @classmethod
    def make(cls, folder, *goals):
        include = SOURCE / 'device_runtime' / 'include'
        done = subprocess.run(['make', '-C', str(cls.folder / folder), f'INCLUDE={include}', *goals], capture_output=True,
                              text=True, check=False, timeout=120)
        if done.returncode != 0 or 'warning' in done.stderr:
            raise AssertionError(done.stdout + done.stderr)

    def expect_near(self, actual, expected, tolerance=1e-5):
        self.assertEqual(len(actual), len(expected))
        self.assertLess(max(abs(a - e) for a, e in zip(actual, expected)), tolerance)

    def run_audio(self, *arguments, audio='audio.npy'):
        self.gantry('run', *arguments, '--input', f'audio={audio}', '--output', 'level=level.npy')
        return read_npy(self.folder / 'level.npy')

    def test_a_kernel_runs_for_sizes_that_only_the_run_knows(self):
        self.expect_near(self.run_audio(self.model, '--custom-ops', self.ops), levels(signal(1500), 500))
        self.gantry('compile', self.model, '--custom-ops', self.ops, '-o', 'biquad.gmod', '--verify')
        for channels, samples in ((3, 500), (1, 7), (5, 1)):
            write_npy(self.folder / 'other.npy', (channels, samples), signal(channels * samples))
            self.expect_near(self.run_audio('biquad.gmod', audio='other.npy'), levels(signal(channels * samples), samples))

    def test_the_library_is_the_folder(self):
        if not self.crosses:
            self.skipTest('the library holds objects for both architectures, and aarch64-linux-gnu-gcc is missing')
        library = str(self.folder / 'custom_op_kernel' / 'libbiquad.so')
        self.expect_near(self.run_audio(self.model, '--custom-ops', library), levels(signal(1500), 500))

    def test_graph_text_calls_the_kernel_too(self):
        self.gantry('ir', self.model, '--custom-ops', self.ops, '--after', 'import', '-o', 'biquad.gir')
        self.assertIn('op="example.audio::Biquad"', (self.folder / 'biquad.gir').read_text(encoding='utf-8'))
        self.expect_near(self.run_audio('biquad.gir', '--custom-ops', self.ops), levels(signal(1500), 500))
        refused = self.gantry('run', 'biquad.gir', '--random', status=1)
        self.assertIn('node filter calls the custom op example.audio::Biquad: give the folder or library', refused.stderr)

    def test_reports_name_the_op(self):
        nodes = self.gantry('ir', self.model, '--custom-ops', self.ops, '--list').stdout
        self.assertIn('custom_Biquad_1', nodes)
        loops = self.gantry('ir', self.model, '--custom-ops', self.ops, '--kernel', 'custom_Biquad_1').stdout
        self.assertIn('custom example.audio::Biquad', loops)
        self.gantry('bench', self.model, '--custom-ops', self.ops, '--profile', '--repeat', '2', '--number', '1', '--processes',
                    '1', '--dim', 'channels=2', '--dim', 'samples=64', '--json', 'bench.json')
        report = json.loads((self.folder / 'bench.json').read_text(encoding='utf-8'))
        self.assertIn('custom[example.audio::Biquad]', {kernel['name'] for kernel in report['kernels']})
        inspected = self.gantry('inspect', self.model, '--custom-ops', self.ops).stdout
        self.assertIn('gantry can compile it', inspected)

    def test_without_the_option_the_op_is_not_supported(self):
        self.assertIn('example.audio::Biquad (opset 1), node filter', self.gantry('run', self.model, '--random', status=1).stderr)
        self.gantry('inspect', self.model, status=1)

    def test_a_target_without_code_is_named(self):
        folder = self.folder / 'one_target'
        shutil.copytree(self.ops, folder)
        text = (folder / 'ops.toml').read_text(encoding='utf-8')
        other = 'aarch64' if NATIVE == 'x86-64' else 'x86-64'
        (folder / 'ops.toml').write_text(text.replace(f', {other} = "biquad-{other}.o"', ''), encoding='utf-8')
        refused = self.gantry('compile', self.model, '--custom-ops', str(folder), '-t', other, '-o', 'x.gmod', status=1)
        self.assertIn(f'its kernel is not there for {other}, only for {NATIVE}', refused.stderr)
        self.assertFalse((self.folder / 'x.gmod').exists())

    def broken_ops(self, name, code):
        """The example with another kernel."""
        folder = self.folder / name
        shutil.copytree(self.ops, folder)
        (folder / 'biquad.c').write_text(code, encoding='utf-8')
        self.make(name, f'biquad-{NATIVE}.o', *(['CC_ARM=gcc'] if NATIVE == 'aarch64' else []))
        return str(folder)

    def test_a_kernel_that_crashes_or_fails_is_named(self):
        signature = '#include <gantry/custom_op.h>\nint32_t biquad(const GantryCustomCall* call) '
        crash = self.broken_ops('crash', signature + '{ *(volatile int*)(call->inputs[2]) = 1; return 0; }')
        ended = self.gantry('run', self.model, '--custom-ops', crash, '--random', status=2)
        self.assertIn('custom_Biquad_1', ended.stderr)
        self.assertIn('filter', ended.stderr)
        fails = self.broken_ops('fails', signature + '{ return call->input_count == 3 ? 77 : 0; }')
        ended = self.gantry('run', self.model, '--custom-ops', fails, '--random', status=2)
        self.assertIn('custom_Biquad_1', ended.stderr)
        self.assertIn('77', ended.stderr)

    def test_what_a_module_would_have_to_import_is_named(self):
        imports = self.broken_ops('imports', 'int printf(const char*, ...); int other(int);\n'
                                  'int biquad(const void* call) { return printf("%p", call) + other(1); }')
        refused = self.gantry('compile', self.model, '--custom-ops', imports, '-o', 'x.gmod', status=1)
        self.assertIn('calls or reads what nobody defines: other, printf', refused.stderr)

    def test_on_a_gpu_target_the_kernel_runs_on_the_cpu(self):
        self.expect_near(self.run_audio(self.model, '--custom-ops', self.ops, '--device', 'cuda-emulated'),
                         levels(signal(1500), 500))

    def test_a_composition_is_computed_by_gantrys_own_kernels(self):
        ops = str(self.folder / 'custom_op_composition')
        tokens = [math.sin(i) * 3 for i in range(2 * 3 * 4)]
        write_npy(self.folder / 'tokens.npy', (2, 3, 4), tokens)
        for more in ((), ('--device', 'cuda-emulated')):
            self.gantry('run', f'{ops}/rms_scale.onnx', '--custom-ops', ops, '--input', 'tokens=tokens.npy', '--output',
                        'result=result.npy', *more)
            self.expect_near(read_npy(self.folder / 'result.npy'), rms_scaled(tokens))

    def run_on_board(self, command):
        with program_under_test.board(command, self.folder) as address:
            return self.run_audio('biquad-board.gmod', '--on', address)

    def test_the_module_brings_the_kernel_to_a_board(self):
        self.gantry('compile', self.model, '--custom-ops', self.ops, '-o', 'biquad-board.gmod')
        self.expect_near(self.run_on_board([str(BUILD / 'bin' / 'gantry-device')]), levels(signal(1500), 500))

    def test_the_module_brings_the_kernel_to_an_aarch64_board(self):
        device = AARCH64_BUILD / 'bin' / 'gantry-device'
        if not self.crosses or not device.exists() or shutil.which('qemu-aarch64') is None:
            self.skipTest('needs aarch64-linux-gnu-gcc, qemu-aarch64 and the build of the preset aarch64')
        self.gantry('compile', self.model, '--custom-ops', self.ops, '-t', 'aarch64', '-o', 'biquad-board.gmod')
        self.expect_near(self.run_on_board(['qemu-aarch64', str(device)]), levels(signal(1500), 500))


if __name__ == '__main__':
    arguments = sys.argv[1:]
    BUILD, AARCH64_BUILD = (pathlib.Path(arguments[arguments.index(option) + 1]).resolve()
                            for option in ('--build', '--aarch64-build'))
    for option in ('--build', '--aarch64-build'):
        at = arguments.index(option)
        del arguments[at:at + 2]
    unittest.main(argv=[sys.argv[0], *arguments])
