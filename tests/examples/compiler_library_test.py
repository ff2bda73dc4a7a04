#!/usr/bin/env python3
"""examples/compiler against the compiler as it is installed: configured, built and run as a project of its own.

    compiler_library_test.py --build BUILD [unittest's arguments]
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = ''


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise AssertionError(f'{" ".join(command)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout


class CompilerLibrary(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(os.path.join(BUILD, 'lib', 'libgantry_compiler.so')):
            self.skipTest('the compiler library is not built: cmake --build build --target gantry_compiler_library')
        self.folder = tempfile.mkdtemp(prefix='gantry_compiler_library_')
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def test_a_program_of_its_own_is_built_and_runs(self):
        tree = os.path.join(self.folder, 'tree')
        for part in ('runtime', 'dev', 'compiler'):
            run('cmake', '--install', BUILD, '--component', part, '--prefix', tree + '_first')
        os.rename(tree + '_first', tree)
        build = os.path.join(self.folder, 'build')
        run('cmake', '-G', 'Ninja', '-S', os.path.join(SOURCE, 'examples', 'compiler'), '-B', build,
            '-DCMAKE_BUILD_TYPE=Release', f'-DCMAKE_PREFIX_PATH={tree}')
        # The others are the same sources, which the build has tested already.
        run('cmake', '--build', build, '--target', 'example_selu_composed')
        self.assertIn('recognised: 10000 elements', run(os.path.join(build, 'example_selu_composed')))


if __name__ == '__main__':
    BUILD = os.path.abspath(sys.argv.pop(sys.argv.index('--build') + 1))
    sys.argv.remove('--build')
    unittest.main()
