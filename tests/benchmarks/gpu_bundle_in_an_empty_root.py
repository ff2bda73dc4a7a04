#!/usr/bin/env python3
"""Packs the bundle for machines with a GPU, unpacks it and runs its programs in a root folder that has nothing else but
the C library's files and /proc.

    gpu_bundle_in_an_empty_root.py SOURCE [unittest's arguments]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

MOST_BYTES = 50 << 20
C_LIBRARY = re.compile(r'/(ld-linux-x86-64\.so\.2|lib(c|m|dl|rt|pthread)\.so\.\d)$')
SOURCE = sys.argv[1]
BUILD = os.path.join(SOURCE, 'build-gpu-bundle')


def is_program(path):
    """Whether it is a program in machine code, not a script."""
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    with open(path, 'rb') as file:
        return file.read(4) == b'\x7fELF'


def libraries(program):
    """The files of the libraries that it is linked with."""
    listed = subprocess.run(['ldd', program], capture_output=True, text=True, check=True).stdout
    return re.findall(r'(/\S+) \(0x', listed)


def isolated(root, command):
    """What runs the command with that root folder, in namespaces of its own."""
    enter = ('mkdir -p "$0/proc" && { mount -t proc proc "$0/proc" || mount --rbind /proc "$0/proc"; } 2>/dev/null && '
             'exec chroot "$0" "$@"')
    own_user = [] if os.geteuid() == 0 else ['--map-root-user']
    return ['unshare', *own_user, '--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', enter, root, *command]


class GpuBundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix='gpu-bundle-test.')
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.packed = os.path.join(cls.work, 'bundle.tar.xz')
        made = subprocess.run([os.path.join(SOURCE, 'benchmarks', 'gpu_bundle'), '--built',
                               os.path.join(cls.work, 'bundle')], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        cls.report = made.stdout
        shutil.rmtree(os.path.join(cls.work, 'bundle'))
        cls.root = os.path.join(cls.work, 'root')
        with tarfile.open(cls.packed) as archive:
            archive.extractall(cls.root)
        cls.bundle = os.path.join(cls.root, 'bundle')
        cls.programs = [path for folder in ('', 'bin') for name in sorted(os.listdir(os.path.join(cls.bundle, folder)))
                        if is_program(path := os.path.join(cls.bundle, folder, name))]

    def needs_root_folder(self):
        if subprocess.run(isolated('/', ['true']), capture_output=True).returncode != 0:
            self.skipTest('needs the rights for a root folder of its own')
        for program in self.programs:
            for library in libraries(program):
                self.assertRegex(library, C_LIBRARY, program)
                os.makedirs(self.root + os.path.dirname(library), exist_ok=True)
                shutil.copy(library, self.root + library)

    def run_in_root(self, *command, status=0):
        os.makedirs(os.path.join(self.root, 'tmp'), exist_ok=True)
        environment = {'PATH': '/bundle/bin:' + os.environ['PATH'], 'HOME': '/tmp', 'TMPDIR': '/tmp'}
        done = subprocess.run(isolated(self.root, ['/bundle/' + command[0], *command[1:]]), env=environment,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, status, f'{command}: {done.stdout}{done.stderr}')
        return done.stdout + done.stderr

    def test_is_at_most_50_MiB_packed_and_says_its_size(self):
        size = os.path.getsize(self.packed)
        self.assertLessEqual(size, MOST_BYTES)
        self.assertIn(f'{size / 2**20:.1f} MiB', self.report)
        print(self.report.strip())

    def test_has_the_licences_of_what_is_linked(self):
        for name in ('gantry', 'llvm-19-dev', 'libprotobuf-dev', 'libssl-dev', 'Apache-2.0'):
            self.assertGreater(os.path.getsize(os.path.join(self.bundle, 'LICENSES', name)), 1000, name)

    def test_every_program_starts_in_an_empty_root(self):
        self.needs_root_folder()
        self.assertGreaterEqual(len(self.programs), 2)
        for program in self.programs:
            with self.subTest(program):
                self.run_in_root(os.path.relpath(program, self.bundle), '--help')

    def test_compiles_and_runs_a_network_in_an_empty_root(self):
        self.needs_root_folder()
        gantry = 'bin/gantry'
        self.run_in_root(gantry, 'zoo', 'squeezenet1_1', '--size', '64', '-o', '/tmp/net.onnx')
        self.run_in_root(gantry, 'compile', '/tmp/net.onnx', '--target', 'x86-64-v2', '--target', 'cuda:sm_80',
                         '--target', 'cuda-emulated:sm_80', '-o', '/tmp/net.gmod')
        self.run_in_root(gantry, 'run', '/tmp/net.gmod', '--random=1', '--output', '/tmp/cpu.npy')
        self.run_in_root(gantry, 'run', '/tmp/net.gmod', '--random=1', '--device', 'cuda-emulated', '--expect',
                         '/tmp/cpu.npy', '--tolerance', '1e-4')

    def test_a_run_in_an_empty_root_says_that_there_is_no_gpu(self):
        self.needs_root_folder()
        self.run_in_root('run', '20', '--only', 'machine,cases', '--out', '/tmp/results')
        with open(os.path.join(self.root, 'tmp', 'results', 'results.json'), encoding='utf-8') as file:
            machine, cases = json.load(file)['sections'][:2]
        self.assertEqual(machine['rows'][0]['result'], 'no GPU')
        self.assertGreater(cases['steps'], 500)  # Debian's libonnx-testdata alone has so many
        emulated = [row['cuda-emulated']['result'] for row in cases['rows'] if 'cuda-emulated' in row]
        self.assertTrue(emulated)
        self.assertEqual(set(emulated), {'pass'})

    def test_names_what_it_was_built_without(self):
        self.needs_root_folder()
        self.run_in_root('bin/gantry', 'zoo', 'squeezenet1_1', '--size', '64', '-o', '/tmp/small.onnx')
        text = self.run_in_root('bin/gantry', 'compile', '/tmp/small.onnx', '--target', 'cortex-a76', status=1)
        self.assertIn('built without code generation for AArch64; it has x86-64 and CUDA', text)
        self.assertNotIn('cortex', self.run_in_root('bin/gantry', 'targets'))
        text = self.run_in_root('bin/gantry', 'run', '/tmp/small.onnx', '--random', '--output', '/tmp/all.npz',
                                status=1)
        self.assertIn('built without libzip', text)


if __name__ == '__main__':
    if not os.path.exists(os.path.join(BUILD, 'bin', 'gantry')):
        print(f'absent: {BUILD}; the preset gpu-bundle builds it')
    else:
        tests = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False).result
        if tests.wasSuccessful() and tests.skipped:
            print('no rights:', tests.skipped[0][1])
        sys.exit(not tests.wasSuccessful())
