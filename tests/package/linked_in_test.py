#!/usr/bin/env python3
"""Whose code is found to be in a program, of a build made for it: see toolchains/package/linked_in.py."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, 'toolchains', 'package'))
import linked_in  # noqa: E402

NINJA = """
rule compile
  command = printf '%s: %s\\n' $out '$headers' > $out.d && touch $out
  depfile = $out.d
  deps = gcc
build of_ours.o: compile
  headers = ../ours.h ../root/usr/include/relative.h {root}/usr/include/absolute.h ../root/usr/include/../include/twice.h
build of_another.o: compile
  headers = ../root/usr/include/not_ours.h
"""


class Headers(unittest.TestCase):
    def test_are_those_of_the_system_however_the_compiler_writes_them(self):
        with tempfile.TemporaryDirectory(prefix='gantry_linked_in_') as folder:
            folder = os.path.realpath(folder)
            root, build = os.path.join(folder, 'root'), os.path.join(folder, 'build')
            include = os.path.join(root, 'usr', 'include')
            os.makedirs(include)
            os.mkdir(build)
            names = ['absolute.h', 'relative.h', 'twice.h']
            for path in [*(os.path.join(include, name) for name in [*names, 'not_ours.h']), os.path.join(folder, 'ours.h')]:
                with open(path, 'w', encoding='utf-8'):
                    pass
            with open(os.path.join(build, 'build.ninja'), 'w', encoding='utf-8') as file:
                file.write(NINJA.format(root=root))
            subprocess.run(['ninja', '-C', build], check=True, capture_output=True)
            self.addCleanup(setattr, linked_in, 'SYSROOT', linked_in.SYSROOT)
            linked_in.SYSROOT = root
            self.assertEqual(linked_in.headers(build, {'of_ours.o'}), {os.path.join(include, name) for name in names})


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], '-v', *sys.argv[1:]])
