#!/usr/bin/env python3
"""Packs what is built, twice, under different circumstances, and looks at the packages without installing them.

    package_files_test.py --build BUILD --packages FOLDER [unittest's arguments]

FOLDER keeps them, for the tests that install them.
"""
import filecmp
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arguments  # noqa: E402
import packages  # noqa: E402

EXPECTED = {('gantry', 'amd64')} | {(name, architecture) for architecture in ('amd64', 'arm64') for name in
                                    ('gantry-device', 'libgantry-runtime0', 'libgantry-runtime-dev')}


def names(folder, ending):
    return sorted(name for name in os.listdir(folder) if name.endswith(ending))


class PackageFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = arguments.packages
        cls.work = tempfile.mkdtemp(prefix='gantry_package_files_')
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.again = os.path.join(cls.work, 'again')
        elsewhere = os.path.join(cls.work, 'temporary files')
        os.mkdir(elsewhere)
        packages.make(cls.folder, arguments.build, {})
        packages.make(cls.again, arguments.build, {'TMPDIR': elsewhere, 'TZ': 'Asia/Tokyo', 'LC_ALL': 'C.UTF-8', 'UMASK': '077',
                                                   'HOME': '/nonexistent', 'SOURCE_DATE_EPOCH': ''})
        with open(os.path.join(cls.folder, 'linked-in.json'), encoding='utf-8') as file:
            cls.linked_in = json.load(file)

    def test_packing_again_elsewhere_gives_the_same_bytes(self):
        made = names(self.folder, '')
        self.assertEqual(made, names(self.again, ''))
        for name in made:
            with self.subTest(name):
                self.assertTrue(filecmp.cmp(os.path.join(self.folder, name), os.path.join(self.again, name), shallow=False),
                                f'{name}: two builds differ')

    def test_all_packages_are_there(self):
        made = {tuple(name.removesuffix('.deb').split('_')[::2]) for name in names(self.folder, '.deb')}
        self.assertEqual(made, EXPECTED)
        self.assertEqual(len(names(self.folder, '.tar.xz')), 1)

    def test_they_are_as_large_as_is_stated(self):
        """Installed, within a tenth or 0.1 MB: they are packed in haste here."""
        for name, architecture in sorted(EXPECTED):
            with self.subTest(f'{name} for {architecture}'):
                size = 1024 * int(packages.field(packages.find(self.folder, name, architecture), 'Installed-Size'))
                stated = packages.stated_sizes(f'{name}_*_{architecture}.deb')[1]
                self.assertAlmostEqual(size, stated, delta=max(0.1 * stated, 1e5), msg='docs/packages.md says otherwise')

    def test_the_checksums_are_those_of_all_files(self):
        with open(os.path.join(self.folder, 'SHA256SUMS'), encoding='utf-8') as file:
            listed = dict(reversed(line.split()) for line in file)
        self.assertEqual(sorted(listed), [name for name in names(self.folder, '') if name != 'SHA256SUMS'])
        for name, digest in listed.items():
            with open(os.path.join(self.folder, name), 'rb') as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), digest, name)

    def test_lintian_has_no_complaint(self):
        if not shutil.which('lintian'):
            self.skipTest('lintian is not installed')
        said = subprocess.run(['lintian', '--allow-root', '--fail-on', 'error,warning',
                               *(os.path.join(self.folder, name) for name in names(self.folder, '.deb'))],
                              capture_output=True, text=True, check=False)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_no_file_names_a_folder_of_this_machine(self):
        home = os.path.dirname(arguments.build).encode()
        for name in names(self.folder, '.deb'):
            tree = packages.extract(os.path.join(self.folder, name), tempfile.mkdtemp(dir=self.work))
            for folder, _, files in os.walk(tree):
                for file in (file for file in files if not os.path.islink(os.path.join(folder, file))):
                    with open(os.path.join(folder, file), 'rb') as opened:
                        self.assertNotIn(home + b'/', opened.read(), f'{name}: {file}')

    def linked_statically(self, part, package):
        """Whether the list says that a package has code of the archives of Debian's package `part`."""
        named = {entry['SPDXID']: entry['name'] for entry in self.linked_in['packages']}
        return any(relation['relationshipType'] == 'STATIC_LINK' and named[relation['relatedSpdxElement']] == part
                   for relation in self.linked_in['relationships'] if relation['spdxElementId'] == f'SPDXRef-{package}')

    def test_the_list_of_what_is_linked_in_agrees_with_the_programs(self):
        """These libraries leave texts in programs that they are linked into."""
        traces = {'libssl-dev': b'CRYPTOGAMS by <appro@openssl.org>', 'liblld-19': b'too many errors emitted, stopping now'}
        for package, architecture, program in (('gantry-device', 'amd64', 'usr/bin/gantry-device'),
                                               ('gantry-device', 'arm64', 'usr/bin/gantry-device'),
                                               ('gantry', 'amd64', 'usr/lib/gantry/bin/gantry'),
                                               ('libgantry-runtime0', 'amd64', 'usr/lib/x86_64-linux-gnu/libgantry_runtime.so.0')):
            tree = packages.extract(packages.find(self.folder, package, architecture), tempfile.mkdtemp(dir=self.work))
            with open(os.path.join(tree, program), 'rb') as file:
                content = file.read()
            for part, trace in traces.items():
                with self.subTest(f'{part} in {program} of {package} for {architecture}'):
                    boards = package == 'gantry' and part == 'libssl-dev'  # it has the boards' programs too
                    self.assertEqual(self.linked_statically(part, f'{package}-{architecture}'), trace in content or boards)

    def test_the_versions_in_the_list_are_those_that_are_installed(self):
        for entry in self.linked_in['packages']:
            if entry['supplier'] != 'Organization: Debian':
                continue
            installed = subprocess.run(['dpkg-query', '-W', '-f', '${Version}\n', entry['name']], capture_output=True, text=True,
                                       check=True).stdout.split()
            self.assertIn(entry['versionInfo'], installed, entry['name'])

    def test_every_entry_of_the_list_has_a_licence(self):
        ids = {entry['SPDXID'] for entry in self.linked_in['packages']} | {'SPDXRef-DOCUMENT'}
        for relation in self.linked_in['relationships']:
            self.assertLessEqual({relation['spdxElementId'], relation['relatedSpdxElement']}, ids)
        for entry in self.linked_in['packages']:
            with self.subTest(entry['name']):
                self.assertNotEqual(entry['licenseDeclared'], 'NOASSERTION')

    def test_licences_of_what_is_linked_in_are_in_the_package(self):
        for name in names(self.folder, '.deb'):
            path = os.path.join(self.folder, name)
            tree = packages.extract(path, tempfile.mkdtemp(dir=self.work))
            documents = os.path.join(tree, 'usr', 'share', 'doc', packages.field(path, 'Package'))
            own = f"linked-in-{packages.field(path, 'Architecture')}" if packages.field(path, 'Multi-Arch') == 'same' else 'linked-in'
            with open(os.path.join(documents, own if own != 'linked-in' else '', 'copyright'), encoding='utf-8') as file:
                sources = re.findall(rf'^Files: {own}/(.*)/\*$', file.read(), re.M)
            with self.subTest(name):
                self.assertTrue(sources)
                self.assertEqual(names(os.path.join(documents, own), '.gz'), sorted(f'{source}.copyright.gz' for source in sources))

    def test_libraries_of_both_architectures_can_be_installed_together(self):
        for name in ('libgantry-runtime0', 'libgantry-runtime-dev'):
            trees = [packages.extract(packages.find(self.folder, name, architecture), tempfile.mkdtemp(dir=self.work))
                     for architecture in ('amd64', 'arm64')]
            files = [{os.path.relpath(os.path.join(folder, file), tree) for folder, _, found in os.walk(tree) for file in found}
                     for tree in trees]
            common = files[0] & files[1]
            self.assertIn(f'usr/share/doc/{name}/copyright', common)
            for file in common:
                self.assertTrue(filecmp.cmp(*(os.path.join(tree, file) for tree in trees), shallow=False),
                                f'{name}: {file} differs between architectures')

    def test_a_later_commit_makes_a_later_version(self):
        sys.path.insert(0, os.path.join(packages.SOURCE, 'toolchains', 'package'))
        import project  # pylint: disable=import-outside-toplevel
        version = packages.field(packages.find(self.folder, 'gantry'), 'Version')
        self.assertEqual(version, project.version())
        for earlier, later in (('0.1.0~git20261125.0902.9d3031d', '0.1.0~git20261125.0903.0000000'),
                               ('0.1.0~git20261125.0902.9d3031d', '0.1.0'), ('0.1.0', '0.1.0+git20270101.0000.0000000')):
            self.assertEqual(subprocess.run(['dpkg', '--compare-versions', earlier, 'lt', later], check=False).returncode, 0)


if __name__ == '__main__':
    arguments.main()
