#!/usr/bin/env python3
"""examples/embed against gantry as it is installed: with CMake and pkg-config, the runtime shared and static, for this
machine and, where AArch64's cross compiler, its emulator and gantry's build for it are there, for AArch64. What the
programs print is compared with what `gantry run` computes.

    embed_test.py --build BUILD --aarch64-build BUILD [unittest's arguments]
"""
import array
import math
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, 'tests', 'docs'))
import extraction  # noqa: E402

EXAMPLES = os.path.join(SOURCE, 'examples')
CROSS = 'aarch64-linux-gnu'
# With the cross compiler's own C library, also where that of a foreign package is installed.
EMULATOR = ('qemu-aarch64', '-L', f'/usr/{CROSS}', '-E', f'LD_LIBRARY_PATH=/usr/{CROSS}/lib')
SIZE = 64
BUILD = AARCH64_BUILD = ''


def run(*command, cwd=None, environment=None, expected=0):
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **(environment or {})}, capture_output=True, text=True,
                          timeout=120)
    if done.returncode != expected:
        raise AssertionError(f'{" ".join(command)}\nexit code {done.returncode}, not {expected}\n'
                             f'{done.stdout}{done.stderr}')
    return done.stdout + done.stderr


def install(build, folder):
    """What applications are built with, as somebody would have it who moved it since."""
    for part in ('runtime', 'dev'):
        run('cmake', '--install', build, '--strip', '--component', part, '--prefix', folder + '_first')
    os.rename(folder + '_first', folder)
    return folder


def write_npy(path, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, {SIZE}, {SIZE}), }}"
    header += ' ' * (-(len(header) + 11) % 64) + '\n'
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode() + values.tobytes())


def read_npy(path):
    with open(path, 'rb') as file:
        data = file.read()
    return array.array('f', data[10 + struct.unpack('<H', data[8:10])[0]:])


def top_of(scores):
    """[(class, percent)] of the five best, by a softmax of our own."""
    exponentials = [math.exp(score - max(scores)) for score in scores]
    order = sorted(range(len(scores)), key=lambda at: -scores[at])[:5]
    return [(at, 100 * exponentials[at] / sum(exponentials)) for at in order]


class Embed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='gantry_embed_')
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.tree = install(BUILD, cls.path('tree'))
        gantry = os.path.join(BUILD, 'bin', 'gantry')
        run(gantry, 'zoo', 'squeezenet1_1', '-o', cls.path('net.onnx'), '--size', str(SIZE))
        run(gantry, 'compile', cls.path('net.onnx'), '-o', cls.path('net.gmod'), '--target', 'native', '--target',
            'aarch64' if platform.machine() == 'x86_64' else 'x86-64')
        write_npy(cls.path('image.npy'), array.array('f', (((i * 37) % 101) / 50 - 1 for i in range(3 * SIZE * SIZE))))
        run(gantry, 'run', cls.path('net.gmod'), '--input', cls.path('image.npy'), '--output', cls.path('scores.npy'))
        cls.expected = top_of(read_npy(cls.path('scores.npy')))
        # torchvision's way with a picture is gantry's preset.
        run(gantry, 'run', cls.path('net.gmod'), '--input', os.path.join(EXAMPLES, 'picture.jpg'), '--preprocess',
            'imagenet', '--output', cls.path('picture_scores.npy'))
        cls.expected_of_picture = top_of(read_npy(cls.path('picture_scores.npy')))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def aarch64_tree(cls):
        """Installed from the build for AArch64; skips where something for it is missing."""
        for program in (f'{CROSS}-gcc', f'{CROSS}-g++', 'qemu-aarch64'):
            if shutil.which(program) is None:
                raise unittest.SkipTest(f'{program} is not installed')
        library = os.path.join(AARCH64_BUILD, 'lib', 'libgantry_runtime.a')
        if not os.path.exists(library):
            raise unittest.SkipTest(f'{library} is missing: build the preset aarch64')
        tree = cls.path('tree_aarch64')
        return tree if os.path.exists(tree) else install(AARCH64_BUILD, tree)

    def check(self, program, emulator=()):
        """A program's classes are gantry's, of an array and of a picture, and its complaints say what is wrong."""
        for data, expected, tolerance in ((self.path('image.npy'), self.expected, 0.02),
                                          (os.path.join(EXAMPLES, 'picture.jpg'), self.expected_of_picture, 0.1)):
            text = run(*emulator, program, self.path('net.gmod'), data)
            found = [(int(number), float(percent))
                     for number, percent in re.findall(r'^\d\. class +(\d+) +([\d.]+) %$', text, re.M)]
            self.assertEqual([number for number, _ in found], [number for number, _ in expected], text)
            for (_, percent), (_, wanted) in zip(found, expected):
                self.assertAlmostEqual(percent, wanted, delta=tolerance, msg=text)
        text = run(*emulator, program, self.path('absent.gmod'), self.path('image.npy'), expected=1)
        self.assertIn('absent.gmod', text)
        text = run(*emulator, program, self.path('image.npy'), self.path('image.npy'), expected=1)
        self.assertIn('image.npy', text)

    def needed(self, program):
        """The shared libraries that a program asks for."""
        return re.findall(r'\(NEEDED\).*\[(.*?)\]', run('readelf', '--wide', '--dynamic', program))

    def build_with_cmake(self, name, tree, *options):
        folder = self.path(name)
        run('cmake', '-S', os.path.join(EXAMPLES, 'embed'), '-B', folder, f'-DCMAKE_PREFIX_PATH={tree}', *options)
        run('cmake', '--build', folder)
        return [os.path.join(folder, program) for program in ('classify_c', 'classify_cpp')]

    def build_with_pkg_config(self, name, tree, package, prefix=''):
        if shutil.which('pkg-config') is None:
            self.skipTest('pkg-config is not installed')
        folder = self.path(name)
        os.mkdir(folder)
        flags = run('pkg-config', '--cflags', '--libs', package,
                    environment={'PKG_CONFIG_LIBDIR': os.path.join(tree, 'lib', 'pkgconfig')}).split()
        flags += [f'-Wl,-rpath,{tree}/lib', '-lm']
        classify, image, embed = (os.path.join(EXAMPLES, 'embed', name) for name in ('classify.c', 'image.c', 'classify.cpp'))
        run(f'{prefix}gcc', classify, image, *flags, '-o', 'classify_c', cwd=folder)
        run(f'{prefix}gcc', '-c', image, cwd=folder)
        run(f'{prefix}g++', '-std=c++17', embed, 'image.o', *flags, '-o', 'classify_cpp', cwd=folder)
        return [os.path.join(folder, program) for program in ('classify_c', 'classify_cpp')]

    def check_all(self, programs, is_shared, emulator=()):
        for program in programs:
            with self.subTest(os.path.basename(program)):
                self.check(program, emulator)
                self.assertEqual('libgantry_runtime.so.0' in self.needed(program), is_shared)

    def test_cmake_builds_with_the_shared_runtime(self):
        self.check_all(self.build_with_cmake('shared', self.tree), True)

    def test_cmake_builds_with_the_static_runtime(self):
        self.check_all(self.build_with_cmake('static', self.tree, '-DEMBED_STATIC=ON'), False)

    def test_pkg_config_builds_with_the_shared_runtime(self):
        self.check_all(self.build_with_pkg_config('pc_shared', self.tree, 'gantry-runtime'), True)

    def test_pkg_config_builds_with_the_static_runtime(self):
        self.check_all(self.build_with_pkg_config('pc_static', self.tree, 'gantry-runtime-static'), False)

    def cross(self, name, *options):
        tree = self.aarch64_tree()
        toolchain = os.path.join(tree, 'lib', 'cmake', 'gantry', f'{CROSS}.cmake')
        return self.build_with_cmake(name, tree, f'-DCMAKE_TOOLCHAIN_FILE={toolchain}', *options)

    def test_cmake_cross_builds_with_the_shared_runtime(self):
        self.check_all(self.cross('cross_shared'), True, EMULATOR)

    def test_cmake_cross_builds_a_fully_static_program(self):
        programs = self.cross('cross_static', '-DEMBED_STATIC=ON', '-DCMAKE_EXE_LINKER_FLAGS=-static')
        self.check_all(programs, False, ('qemu-aarch64',))

    def test_pkg_config_cross_builds(self):
        tree = self.aarch64_tree()
        for package, is_shared in (('gantry-runtime', True), ('gantry-runtime-static', False)):
            with self.subTest(package):
                programs = self.build_with_pkg_config(f'cross_{package}', tree, package, f'{CROSS}-')
                self.check_all(programs, is_shared, EMULATOR)

    def test_the_commands_of_the_page_do_what_it_says(self):
        """Of docs/embed.md: those that build and run the examples, with trees in place of DIR."""
        page = os.path.join(SOURCE, 'docs', 'embed.md')
        ran = 0
        for number, block in enumerate(extraction.blocks(page, SOURCE)):
            text = '\n'.join(command.text for command in extraction.commands_of_block(block))
            if not extraction.is_shell(block) or not re.search(r'^(cmake -B|cc )', text, re.M):
                continue
            with self.subTest(block.place):
                folder = self.path(f'page_{number}')
                shutil.copytree(os.path.join(EXAMPLES, 'embed'), folder)
                os.symlink(self.path('net.gmod'), os.path.join(folder, 'net.gmod'))
                os.symlink(os.path.join(EXAMPLES, 'picture.jpg'), os.path.join(folder, 'photo.jpg'))
                if 'DIR-aarch64' in text:
                    text = text.replace('DIR-aarch64', self.aarch64_tree())
                answer = run('bash', '-euc', re.sub(r'\bDIR\b', self.tree, text), cwd=folder)
                self.assertIn(f'1. class {self.expected_of_picture[0][0]:4d} ', answer)
                ran += 1
        self.assertGreaterEqual(ran, 2, 'docs/embed.md has lost its commands')

    def project(self, name, text):
        """A project of this CMakeLists.txt, and a C program."""
        folder = self.path(name)
        os.mkdir(folder)
        with open(os.path.join(folder, 'CMakeLists.txt'), 'w', encoding='utf-8') as file:
            file.write('cmake_minimum_required(VERSION 3.16)\n' + text)
        with open(os.path.join(folder, 'main.c'), 'w', encoding='utf-8') as file:
            file.write('#include "gantry/runtime.h"\nint main(void) { return gantry_version()[0] == 0; }\n')
        return folder

    def test_a_project_of_c_alone_links_the_static_runtime(self):
        folder = self.project('c_alone', 'project(c_alone LANGUAGES C)\n'
                              'find_package(gantry REQUIRED COMPONENTS runtime_static)\n'
                              'add_executable(main main.c)\ntarget_link_libraries(main gantry::runtime_static)\n')
        run('cmake', '-S', folder, '-B', folder, f'-DCMAKE_PREFIX_PATH={self.tree}')
        run('cmake', '--build', folder)
        run(os.path.join(folder, 'main'))

    def test_what_does_not_fit_is_not_found(self):
        for name, request in (('component', 'gantry COMPONENTS runtime telepathy'), ('version', 'gantry 9.0')):
            folder = self.project(name, f'project(p LANGUAGES C)\nfind_package({request} REQUIRED)\n')
            with self.subTest(request):
                text = run('cmake', '-S', folder, '-B', folder, f'-DCMAKE_PREFIX_PATH={self.tree}', expected=1)
                self.assertRegex(text, 'telepathy' if name == 'component' else r'0\.\d+\.\d+')

    def test_without_fmt_all_but_the_compiler_is_found(self):
        tree = self.path('tree_with_compiler')
        shutil.copytree(self.tree, tree, symlinks=True)
        # Where it is installed too; whatever it does.
        with open(os.path.join(tree, 'lib', 'cmake', 'gantry', 'gantry-compiler-targets.cmake'), 'w', encoding='utf-8') as file:
            file.write('add_library(gantry::compiler INTERFACE IMPORTED)\n'
                       'set_target_properties(gantry::compiler PROPERTIES INTERFACE_LINK_LIBRARIES fmt::fmt)\n')
        without = ('-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON',)
        runtime, both = 'runtime: TRUE, compiler: \n', 'runtime: TRUE, compiler: TRUE\n'
        for name, request, options, expected in (
                ('runtime', 'COMPONENTS runtime', without, runtime), ('all', '', without, runtime),
                ('optional', 'COMPONENTS runtime OPTIONAL_COMPONENTS compiler', without, runtime),
                ('compiler', 'COMPONENTS compiler', without, r'\bfmt\b'),
                ('all_with_fmt', '', (), both), ('compiler_with_fmt', 'COMPONENTS compiler', (), both)):
            folder = self.project(f'fmt_{name}', f'project(p LANGUAGES C)\nfind_package(gantry REQUIRED {request})\n'
                                  'message("runtime: ${gantry_runtime_FOUND}, compiler: ${gantry_compiler_FOUND}")\n')
            with self.subTest(name):
                text = run('cmake', '-S', folder, '-B', folder, f'-DCMAKE_PREFIX_PATH={tree}', *options,
                           expected=1 if name == 'compiler' else 0)
                self.assertRegex(text, expected)

    def test_of_two_trees_that_of_the_processor_is_taken(self):
        folder = self.project('two', 'project(two LANGUAGES C)\nfind_package(gantry REQUIRED)\n'
                              'get_target_property(file gantry::runtime_static LOCATION)\nmessage("took ${file}")\n')
        text = run('cmake', '-S', folder, '-B', folder, f'-DCMAKE_PREFIX_PATH={self.aarch64_tree()};{self.tree}')
        self.assertIn(f'took {self.tree}/lib/libgantry_runtime.a', text)

    def test_libraries_define_the_c_interface_and_nothing_else(self):
        with open(os.path.join(self.tree, 'include', 'gantry', 'runtime.h'), encoding='utf-8') as file:
            declared = set(re.findall(r'^GANTRY_API [^;]*?\b(gantry_\w+)\(', file.read(), re.M))
        for name, options in (('libgantry_runtime.a', ['--extern-only']), ('libgantry_runtime.so', ['--dynamic'])):
            text = run('nm', '--defined-only', *options, os.path.join(self.tree, 'lib', name))
            defined = {name for kind, name in re.findall(r'^[0-9a-f]+ ([A-Zuvw]) (\w+)', text, re.M) if kind != 'A'}
            with self.subTest(name):
                self.assertEqual({name for name in defined if not name.startswith('_Z')}, declared)
                self.assertFalse({name for name in defined if name.startswith('_ZN6gantry')})


if __name__ == '__main__':
    arguments = sys.argv[1:]
    BUILD = os.path.abspath(arguments[arguments.index('--build') + 1])
    AARCH64_BUILD = os.path.abspath(arguments[arguments.index('--aarch64-build') + 1])
    del sys.argv[1:5]
    unittest.main()
