#!/usr/bin/env python3
"""Makes the wheels that need nothing but glibc and libstdc++, and uses them where there is nothing else: in an empty Debian 12
with python3-venv, and under emulation with the libraries of an AArch64 Python alone.

    wheel_install_test.py --build BUILD --packages FOLDER [unittest's arguments]

The wheels are of build-wheel and build-wheel-aarch64 beside BUILD, which ./package builds. Needs Debian's mirror and PyPI
and says so where it is skipped for want of them.
"""
import filecmp
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), 'python')]
import arguments  # noqa: E402
import packages  # noqa: E402
import roots  # noqa: E402

# Of the classifier in tests/python/models.py, whose weights NumPy draws from a seed: both see the same file and input.
USE = """
import sys
import numpy
import gantry
module = gantry.compile(sys.argv[1])
data = numpy.load(sys.argv[2])
error = abs(module(data["x"]) - data["scores"]).max()
print(module.targets, "libraries", sorted({line.split("/")[-1].strip() for line in open("/proc/self/maps") if "gantry.libs" in line}))
print("error below 1e-5:", error < 1e-5)
"""
# What a wheel for many systems may take from them.
SYSTEM = re.compile(r'(ld-linux-(x86-64|aarch64)|libc|libdl|libgcc_s|libm|libpthread|libstdc\+\+|libz)\.so\.\d+')


def said_by(*command, timeout=120, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False,
                          **options)
    return done.returncode, done.stdout


class Wheel(unittest.TestCase):
    """One made by --graft of a build folder."""
    preset = 'wheel'
    machine = 'x86_64'

    @classmethod
    def setUpClass(cls):
        build = os.path.join(os.path.dirname(arguments.build), f'build-{cls.preset}')
        if not glob.glob(os.path.join(build, 'python', 'gantry', '_native.*.so')):
            raise unittest.SkipTest(f'{build}, which ./package --only wheel builds, has no Python package')
        cls.work = tempfile.mkdtemp(prefix='gantry_wheel_test_')
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        made = []
        for folder, umask in (('once', 0o022), ('again', 0o077)):
            code, text = said_by(os.path.join(packages.SOURCE, 'toolchains', 'package', 'wheel'), '--build', build, '--graft',
                                 os.path.join(cls.work, folder), umask=umask, timeout=300)
            if code != 0 and 'auditwheel cannot be installed' in text:
                raise unittest.SkipTest('PyPI, which auditwheel comes from, cannot be reached')
            if code != 0 and packages.NO_COMMIT in text:
                raise unittest.SkipTest(text.strip())
            if code != 0:
                raise AssertionError(text)
            made += glob.glob(os.path.join(cls.work, folder, '*.whl'))
        cls.wheel, cls.again = made
        cls.tree = os.path.join(cls.work, 'tree')
        with zipfile.ZipFile(cls.wheel) as archive:
            archive.extractall(cls.tree)
        cls.write_model()

    @classmethod
    def write_model(cls):
        try:
            import numpy
            import models
        except ImportError as error:
            raise unittest.SkipTest(f'{sys.executable} has no NumPy, which the expected values come from') from error
        model, reference = models.classifier(rows=8)
        x = numpy.random.default_rng(1).standard_normal((8, 64)).astype('float32')
        numpy.savez(os.path.join(cls.work, 'data.npz'), x=x, scores=reference(x))
        for name, content in (('model.onnx', model), ('use.py', USE.encode())):
            with open(os.path.join(cls.work, name), 'wb') as file:
                file.write(content)

    def test_it_is_reproducible_and_deserves_its_tag(self):
        self.assertTrue(filecmp.cmp(self.wheel, self.again, shallow=False), 'made twice, its bytes differ')
        code, text = said_by(os.path.join(packages.SOURCE, 'toolchains', 'package', 'auditwheel'), 'show', self.wheel)
        self.assertEqual(code, 0, text)
        tag = re.search(r'manylinux_2_\d+_' + self.machine, os.path.basename(self.wheel)).group(0)
        self.assertIn(f'is consistent with the following platform tag: "{tag}"', ' '.join(text.split()))

    def test_it_is_as_large_as_is_stated(self):
        with zipfile.ZipFile(self.wheel) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        for size, stated in zip((os.path.getsize(self.wheel), unpacked), packages.stated_sizes(f'gantry-*_{self.machine}.whl')):
            self.assertAlmostEqual(size, stated, delta=0.1 * stated, msg='docs/packages.md says otherwise')

    def test_it_needs_only_what_its_tag_allows(self):
        brought, needed = set(), {}
        for folder, _, names in os.walk(self.tree):
            brought.update(names)
            for name in names:
                path = os.path.join(folder, name)
                with open(path, 'rb') as file:
                    content = file.read()
                self.assertNotIn(os.path.dirname(arguments.build).encode() + b'/', content, f'{name} names a folder of the build')
                if content.startswith(b'\x7fELF'):
                    needed[name] = re.findall(r'NEEDED.*\[(.*)\]', said_by('readelf', '-dW', path)[1])
        self.assertGreater(len(needed), 5)
        for name, libraries in needed.items():
            missing = [library for library in libraries if library not in brought and not SYSTEM.fullmatch(library)]
            self.assertEqual(missing, [], name)

    def test_it_has_the_licences_of_what_is_inside(self):
        info = glob.glob(os.path.join(self.tree, '*.dist-info'))[0]
        there = {name.removesuffix('.txt') for name in os.listdir(os.path.join(info, 'licenses'))}
        self.assertLessEqual({'llvm-19-dev', 'liblld-19-dev', 'libprotobuf32', 'libturbojpeg0', 'libzip4', 'libssl3', 'libonnx1'}, there)
        with open(os.path.join(info, 'sboms', 'linked-in.spdx.json'), encoding='utf-8') as file:
            listed = file.read()
        for name in os.listdir(os.path.join(self.tree, 'gantry.libs')):
            self.assertIn(re.sub(r'-[0-9a-f]{8}(?=\.)', '', name, count=1), listed)
        self.assertNotIn('"licenseDeclared": "NOASSERTION"', listed)


class WheelInAnEmptyRoot(Wheel):
    def root_with(self, debian_packages, *files, timeout=300):
        """An empty Debian with these packages, and with the wheel and these files in /root."""
        root = roots.empty_root(os.path.join(arguments.build, 'package-roots'))
        self.addCleanup(shutil.rmtree, root.path, ignore_errors=True)
        os.makedirs(root.file('root'), exist_ok=True)
        for path in (self.wheel, *files):
            shutil.copy(path, root.file('root'))
        code, text = root.run(f'apt-get update -qq && apt-get install -y --no-install-recommends {debian_packages}', timeout)
        self.assertEqual(code, 0, text)
        return root

    def test_pip_installs_it_and_it_computes_what_numpy_does(self):
        root = self.root_with('python3-venv', *(os.path.join(self.work, name) for name in ('data.npz', 'model.onnx', 'use.py')))
        self.assertNotEqual(root.run('ls /usr/lib/*/libprotobuf.so.* /usr/lib/*/libzip.so.*')[0], 0, 'the root is not empty')
        self.share_pip_settings(root)
        code, text = root.run('python3 -m venv venv && venv/bin/pip install ./gantry-*.whl numpy', timeout=300)
        if code != 0 and 'No matching distribution found for numpy' in text:
            self.skipTest('PyPI, which NumPy comes from, cannot be reached')
        self.assertEqual(code, 0, text)
        code, text = root.run('venv/bin/python3 use.py model.onnx data.npz')
        self.assertEqual(code, 0, text)
        self.assertIn('error below 1e-5: True', text)
        self.assertRegex(text, r'libprotobuf-[0-9a-f]{8}\.so')
        code, text = root.run('venv/bin/gantry bench model.onnx --processes 1 --repeat 10 --warmup 1 && venv/bin/gantry-device --version')
        self.assertEqual(code, 0, text)
        self.assertIn('median', text)

    def test_beside_debians_pytorch_the_example_gives_what_pytorch_gives(self):
        """PyTorch is large: only where somebody asks for it, by GANTRY_TEST_TORCH=1."""
        if not os.environ.get('GANTRY_TEST_TORCH'):
            self.skipTest("GANTRY_TEST_TORCH=1 is not set, which installs Debian's PyTorch in an empty root")
        root = self.root_with('python3-venv python3-torch', os.path.join(packages.SOURCE, 'examples', 'python', 'from_pytorch.py'),
                              timeout=900)
        code, text = root.run('python3 -m venv --system-site-packages venv && venv/bin/pip install --no-deps --no-index ./gantry-*.whl && '
                              'venv/bin/python3 from_pytorch.py', timeout=300)
        self.assertEqual(code, 0, text)
        self.assertIn('an array and a tensor give what PyTorch gives', text)

    @staticmethod
    def share_pip_settings(root):
        """Where this machine takes PyPI's packages from."""
        lines = subprocess.run([sys.executable, '-m', 'pip', 'config', 'list'], capture_output=True, text=True, check=False).stdout
        settings = dict(re.findall(r"^(?:global|:env:)\.([a-z-]+)='(.*)'$", lines, re.M))
        with open(root.file('etc/pip.conf'), 'w', encoding='utf-8') as file:
            file.write('[global]\n')
            for name, value in settings.items():
                if name in ('cert', 'extra-index-url', 'index-url', 'proxy', 'trusted-host'):
                    if name == 'cert' and os.path.exists(value):
                        shutil.copy(value, root.file('etc/pip-cert.pem'))
                        value = '/etc/pip-cert.pem'
                    file.write(f'{name} = {value}\n')


class WheelForAArch64(Wheel):
    preset, machine = 'wheel-aarch64', 'aarch64'

    def test_under_emulation_it_computes_what_numpy_does(self):
        """A root with Python and what Python needs, unpacked: none of it is executed but by qemu."""
        if not shutil.which('qemu-aarch64') or not shutil.which('mmdebstrap'):
            self.skipTest('qemu-aarch64 or mmdebstrap is not installed')
        root, site = os.path.join(self.work, 'root'), os.path.join(self.work, 'site')
        code, text = said_by('mmdebstrap', '--variant=extract', '--architectures=arm64', '--include=python3,libstdc++6',
                             '--dpkgopt=force-unsafe-io', *(f'--aptopt={line.replace("=", " ", 1)}' for line in roots.proxy_options()),
                             roots.RELEASE, root, roots.mirror(), timeout=roots.BASE_TIMEOUT)
        if code != 0:
            self.skipTest(f'mmdebstrap cannot make an AArch64 root: {text[-500:]}')
        code, text = said_by(sys.executable, '-m', 'pip', 'install', '--quiet', '--target', site, '--only-binary', ':all:',
                             '--no-compile', '--platform', 'manylinux_2_28_aarch64', '--platform', 'manylinux_2_17_aarch64',
                             '--python-version', '3.11', 'numpy')
        if code != 0:
            self.skipTest(f'PyPI has no NumPy for AArch64 for us: {text[-500:]}')
        code, text = said_by('qemu-aarch64', '-L', root, '-E', f'PYTHONPATH={self.tree}:{site}', '-E', f'PYTHONHOME={root}/usr',
                             os.path.join(root, 'usr', 'bin', 'python3.11'), 'use.py', 'model.onnx', 'data.npz', cwd=self.work)
        self.assertEqual(code, 0, text)
        self.assertIn('error below 1e-5: True', text)


if __name__ == '__main__':
    arguments.main()
