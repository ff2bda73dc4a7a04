#!/usr/bin/env python3
"""The Yocto recipe beside the repository that it builds: checksum, version, options, files, users, and in which package
each installed file ends up. bitbake itself reads it where it is set up.

    yocto_test.py --build BUILD [unittest's arguments]
"""
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAYER = os.path.join(SOURCE, 'toolchains', 'yocto', 'meta-gantry')
BUILD = ''
# Yocto's folders, and what it puts into packages where a recipe does not say otherwise (meta/conf/bitbake.conf).
FOLDERS = {'bindir': '/usr/bin', 'libdir': '/usr/lib', 'includedir': '/usr/include', 'sysconfdir': '/etc',
           'nonarch_libdir': '/usr/lib', 'systemd_system_unitdir': '/usr/lib/systemd/system', 'datadir': '/usr/share'}
USUAL = [('gantry-staticdev', ['/usr/lib/*.a']),
         ('gantry-doc', ['/usr/share/doc/*', '/usr/share/man/*']),
         ('gantry-dev', ['/usr/include/*', '/usr/lib/lib*.so', '/usr/lib/cmake/*', '/usr/lib/pkgconfig/*'])]


def read(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


class Recipe:
    """The assignments and shell functions of a recipe, as far as this one uses BitBake's language."""

    def __init__(self, path):
        self.path = path
        text = re.sub(r'^#.*\n', '', read(path), flags=re.M).replace('\\\n', ' ')
        self.variables = dict(re.findall(r'^([\w:${}-]+) *\??\+?= *"(.*)"$', text, re.M))
        self.packages = re.search(r'^PACKAGES =\+ "(.*)"$', text, re.M).group(1).split()
        self.install = re.search(r'^do_install:append\(\) \{\n(.*?)^\}', text, re.M | re.S).group(1)

    def value(self, name):
        return self.expand(self.variables[name])

    def expand(self, text):
        known = {**FOLDERS, 'S': SOURCE, 'D': '', 'PN': 'gantry'}
        while True:
            expanded = re.sub(r'\$\{(\w+)\}', lambda found: known.get(found.group(1)) if found.group(1) in known
                              else self.variables.get(found.group(1), found.group()), text)
            if expanded == text:
                return text
            text = expanded


class Yocto(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = os.path.join(LAYER, 'recipes-gantry', 'gantry')
        names = os.listdir(folder)
        assert len(names) == 1, names
        cls.recipe = Recipe(os.path.join(folder, names[0]))

    def installed_by_recipe(self):
        """{path on the board: file of the repository, None for a folder} that do_install adds."""
        found = {}
        for words in (line.split() for line in self.recipe.expand(self.recipe.install).splitlines() if line.strip()):
            self.assertEqual(words[0], 'install')
            if '-d' in words:
                found[words[-1]] = None
            else:
                found[words[-1]] = words[-2]
        return found

    def needs_service(self):
        folder = self.recipe.value('SERVICE_FILES')
        if not os.path.isdir(folder):
            self.skipTest(f'{folder} is not in this checkout: the service comes with ./package')

    def test_the_licence_is_the_repositorys(self):
        name, checksum = re.match(r'file://(\w+);md5=(\w+)$', self.recipe.value('LIC_FILES_CHKSUM')).groups()
        with open(os.path.join(SOURCE, name), 'rb') as file:
            self.assertEqual(hashlib.md5(file.read()).hexdigest(), checksum)
        self.assertIn('Licence: ' + self.recipe.value('LICENSE'), read(SOURCE, 'README.md'))

    def test_the_version_is_the_projects(self):
        version = re.search(r'project\(gantry VERSION ([\d.]+)', read(SOURCE, 'CMakeLists.txt')).group(1)
        self.assertEqual(os.path.basename(self.recipe.path), f'gantry_{version}.bb')

    def test_the_sources_are_the_checkout_around_the_layer(self):
        up = re.findall(r"'(\.\.)'", self.recipe.variables['EXTERNALSRC'])
        self.assertEqual(os.path.abspath(os.path.join(os.path.dirname(self.recipe.path), *up)), SOURCE)

    def test_cmake_knows_every_option(self):
        texts = read(SOURCE, 'CMakeLists.txt') + read(SOURCE, 'toolchains', 'GantryInstall.cmake')
        options = re.findall(r'-D(\w+)=', self.recipe.value('EXTRA_OECMAKE'))
        self.assertIn('GANTRY_BUILD_HOST', options)
        for option in options:
            with self.subTest(option):
                self.assertRegex(texts, rf'option\({option} |set\({option} [^)]*CACHE')

    def test_what_boards_build_with_is_in_depends(self):
        """A library that the board's side comes to need must be named in the recipe."""
        recipes = {'OpenSSL': 'openssl', 'Threads': None}
        texts = ''.join(read(SOURCE, folder, 'CMakeLists.txt') for folder in ('rpc', 'device_runtime'))
        for package in re.findall(r'find_package\((\w+)', texts):
            with self.subTest(package):
                if package != 'Python3':
                    self.assertIn(package, recipes, f'{package} is new: which recipe has it?')
                    self.assertTrue(recipes[package] is None or recipes[package] in self.recipe.value('DEPENDS').split())
        self.assertIn('flatbuffers-native', self.recipe.value('DEPENDS'))

    def test_every_file_that_it_installs_exists(self):
        self.needs_service()
        for target, source in self.installed_by_recipe().items():
            with self.subTest(target):
                self.assertNotIn('${', target)
                self.assertTrue(source is None or os.path.isfile(source), f'{source} is not in the repository')

    def test_every_installed_file_has_its_package(self):
        files = [path for path in self.installed_by_recipe()]
        with tempfile.TemporaryDirectory(prefix='gantry_yocto_') as folder:
            for part in ('runtime', 'dev', 'device'):
                subprocess.run(['cmake', '--install', BUILD, '--component', part, '--prefix', folder], check=True,
                               stdout=subprocess.DEVNULL)
            for parent, _, names in os.walk(folder):
                files += ['/usr/' + os.path.relpath(os.path.join(parent, name), folder) for name in names]
        rules = [(name, self.recipe.value(f'FILES:{name}').split()) for name in self.recipe.packages] + USUAL
        packages = {path: next((name for name, patterns in rules
                                if any(fnmatch.fnmatch(path, pattern) or path.startswith(pattern + '/')
                                       for pattern in patterns)), None) for path in files}
        self.assertNotIn(None, packages.values(), packages)
        self.assertEqual(packages['/usr/bin/gantry-device'], 'gantry-device')
        self.assertEqual(packages['/usr/lib/libgantry_runtime.so.0'], 'libgantry-runtime')
        self.assertEqual(packages['/usr/lib/libgantry_runtime.so'], 'gantry-dev')
        self.assertEqual(packages['/usr/lib/libgantry_runtime.a'], 'gantry-staticdev')
        self.assertEqual(packages['/usr/lib/systemd/system/gantry-device.service'], 'gantry-device')

    def test_the_services_user_and_folders_are_made(self):
        self.needs_service()
        files = self.installed_by_recipe()
        unit = read(files['/usr/lib/systemd/system/gantry-device.service'])
        command = re.search(r'^ExecStart=(.*)$', unit, re.M).group(1).split()
        self.assertEqual(command[0], '/usr/bin/gantry-device')
        user, home = (command[command.index(option) + 1] for option in ('--user', '--cache'))
        useradd = self.recipe.value('USERADD_PARAM:gantry-device').split()
        self.assertEqual(useradd[-1], user)
        self.assertEqual(useradd[useradd.index('--home-dir') + 1], home)
        self.assertIn(command[command.index('--key') + 1], files)
        self.assertIn(re.search(r'^EnvironmentFile=-?(.*)$', unit, re.M).group(1), files)
        self.assertIn(f'd {home} ', read(files['/usr/lib/tmpfiles.d/gantry-device.conf']))
        self.assertEqual(self.recipe.value('SYSTEMD_SERVICE:gantry-device'), 'gantry-device.service')

    def test_the_page_names_its_packages(self):
        page = read(SOURCE, 'docs', 'embed.md')
        for package in self.recipe.packages:
            self.assertIn(f'`{package}`', page)

    def test_bitbake_parses_it(self):
        if shutil.which('bitbake') is None:
            self.skipTest('bitbake is not installed')
        build = os.environ.get('BUILDDIR', '')
        layers = os.path.join(build, 'conf', 'bblayers.conf')
        if not os.path.exists(layers) or LAYER not in read(layers):
            self.skipTest(f"$BUILDDIR is no build folder of Yocto's that has the layer {LAYER}")
        done = subprocess.run(['bitbake', '-p'], cwd=build, capture_output=True, text=True, timeout=540, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == '__main__':
    BUILD = os.path.abspath(sys.argv[sys.argv.index('--build') + 1])
    del sys.argv[1:3]
    unittest.main()
