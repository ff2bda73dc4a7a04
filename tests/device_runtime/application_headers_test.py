#!/usr/bin/env python3
"""Each header that applications include compiles by itself, without a warning, as every kind of program that may
include it: C11, C++17 and C++20, with and without exceptions, with g++ and with clang++ where that is installed.

    application_headers_test.py INCLUDE_FOLDER [unittest's arguments]
"""
import os
import shutil
import subprocess
import sys
import unittest

FOLDER = ''
WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Werror', '-fsyntax-only']
# Uses what is a template only when it is used.
USE = '''
#include <vector>
gantry::Result<float> first_score(gantry::Session& session, const std::vector<float>& pixels) {
  if (auto set = session.try_set_input("image", pixels, {1, 3, 8, 8}); !set) return set.error();
  if (auto set = session.try_borrow_input(0, pixels); !set) return set.error();
  if (auto ran = session.try_run(); !ran) return ran.error();
  auto scores = session.try_output<float>("scores");
  if (!scores) return scores.error();
  auto taken = session.try_take_output(0);
  if (!taken) return taken.error();
  return (*scores)[0] + (*taken->try_view<float>())[0];
}
'''


def headers(kind):
    return sorted(name for name in os.listdir(os.path.join(FOLDER, 'gantry')) if name.endswith(kind))


class ApplicationHeaders(unittest.TestCase):
    def compile(self, compiler, options, source):
        language = 'c' if compiler in ('gcc', 'clang') else 'c++'
        run = subprocess.run([compiler, '-x', language, *options, *WARNINGS, '-I', FOLDER, '-'], input=source,
                             capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, f'{compiler} {" ".join(options)}:\n{source}\n{run.stderr}')

    def compilers(self, *names):
        found = [name for name in names if shutil.which(name)]
        if not found:
            self.skipTest(f'none of {", ".join(names)} is installed')
        return found

    def test_c_headers_are_self_contained(self):
        for compiler in self.compilers('gcc', 'clang'):
            for name in headers('.h'):
                with self.subTest(compiler=compiler, header=name):
                    self.compile(compiler, ['-std=c11'], f'#include "gantry/{name}"\n')

    def test_cpp_headers_are_self_contained(self):
        for compiler in self.compilers('g++', 'clang++'):
            for name in headers('.hpp'):
                with self.subTest(compiler=compiler, header=name):
                    self.compile(compiler, ['-std=c++17'], f'#include "gantry/{name}"\n#include "gantry/{name}"\n')

    def test_programs_of_each_standard_compile_with_and_without_exceptions(self):
        for compiler in self.compilers('g++', 'clang++'):
            for standard in ('-std=c++17', '-std=c++20'):
                for exceptions in (['-fexceptions'], ['-fno-exceptions', '-fno-rtti']):
                    with self.subTest(compiler=compiler, standard=standard, exceptions=exceptions):
                        self.compile(compiler, [standard, *exceptions], '#include "gantry/runtime.hpp"\n' + USE)

    def test_every_header_is_found(self):
        self.assertIn('runtime.hpp', headers('.hpp'))
        self.assertIn('runtime.h', headers('.h'))


if __name__ == '__main__':
    FOLDER = os.path.abspath(sys.argv.pop(1))
    unittest.main()
