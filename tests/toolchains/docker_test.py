#!/usr/bin/env python3
"""The Dockerfile beside the scripts of which it is made: packages, commands, files and options. Docker itself checks it
where one runs.

    docker_test.py --build BUILD --aarch64-build BUILD [unittest's arguments]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(SOURCE, 'toolchains', 'docker')
BUILD = AARCH64_BUILD = ''


def read(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def stages():
    """{stage: (image, [(instruction, arguments)])}"""
    text = re.sub(r'^#.*\n', '', read(FOLDER, 'Dockerfile'), flags=re.M).replace('\\\n', ' ')
    found, current = {}, None
    for line in text.splitlines():
        if not line.strip():
            continue
        instruction, arguments = line.split(None, 1)
        if instruction == 'FROM':
            image, name = re.match(r'(?:--platform=\S+ )?(\S+) AS (\S+)$', arguments).groups()
            found[name] = (image, current := [])
        else:
            current.append((instruction, arguments))
    return found


class Docker(unittest.TestCase):
    def setUp(self):
        self.stages = stages()

    def commands(self, stage):
        return [arguments for instruction, arguments in self.stages[stage][1] if instruction == 'RUN']

    def test_images_are_debian_12_and_nothing(self):
        self.assertEqual({name: image for name, (image, _) in self.stages.items()},
                         {'build': 'debian:12-slim', 'gantry': 'debian:12-slim', 'gantry-device': 'scratch'})
        self.assertIn('Debian 12', read(SOURCE, 'quickstart'))

    def test_it_builds_by_the_commands_of_quickstart(self):
        options = re.compile(r'^if .*?^fi$', re.DOTALL | re.MULTILINE)
        script = [line for line in options.sub('', read(SOURCE, 'quickstart')).splitlines()
                  if line and not re.match(r'#|set |cd |exec ', line)]
        self.assertEqual(self.commands('build')[:len(script)], script)

    def test_it_installs_what_it_has_built(self):
        install, needed = self.commands('build')[-2:]
        self.assertRegex(install, r'^cmake --install build --strip --prefix /installed/usr/local$')
        self.assertRegex(needed, r'^toolchains/docker/needed-packages /installed/usr/local/bin/\* > /installed/needed-packages$')

    def test_what_it_copies_exists(self):
        ignored = read(FOLDER, 'Dockerfile.dockerignore').splitlines()
        for stage, (_, instructions) in self.stages.items():
            for instruction, arguments in instructions:
                if instruction != 'COPY':
                    continue
                with self.subTest(f'{stage}: COPY {arguments}'):
                    *sources, _ = arguments.split()
                    if sources[0] == '--from=build':
                        self.assertRegex(' '.join(sources[1:]), r'^(/installed/|/gantry/build-aarch64/bin/gantry-device)$')
                        continue
                    for source in sources:
                        self.assertTrue(os.path.exists(os.path.join(SOURCE, source)))
                        self.assertNotIn(source.split('/')[0], ignored)

    def test_the_device_image_starts_a_static_program_with_options_that_exist(self):
        instructions = dict(self.stages['gantry-device'][1])
        self.assertEqual(json.loads(instructions['ENTRYPOINT']), ['/gantry-device'])
        command = json.loads(instructions['CMD'])
        help_text = subprocess.run([os.path.join(BUILD, 'bin', 'gantry-device'), command[0], '--help'], check=True,
                                   capture_output=True, text=True).stdout
        for option in command[1::2]:
            self.assertRegex(help_text, rf'(?m)(^|[\s,]){option}\b')
        self.assertIn(':' + instructions['EXPOSE'], command[command.index('--listen') + 1])
        program = os.path.join(AARCH64_BUILD, 'bin', 'gantry-device')
        if not os.path.exists(program):
            self.skipTest(f'{program} is missing: build the preset aarch64')
        headers = subprocess.run(['readelf', '--wide', '--program-headers', '--dynamic', program], check=True,
                                 capture_output=True, text=True).stdout
        self.assertNotIn('INTERP', headers)
        self.assertNotIn('(NEEDED)', headers)

    def test_needed_packages_are_those_of_the_libraries(self):
        if shutil.which('dpkg') is None:
            self.skipTest('dpkg is not installed')
        program = os.path.join(BUILD, 'bin', 'gantry')
        text = subprocess.run([os.path.join(FOLDER, 'needed-packages'), program], check=True, capture_output=True,
                              text=True).stdout
        packages = text.split()
        self.assertEqual(packages, sorted(set(packages)))
        self.assertIn('libc6', packages)
        architecture = subprocess.run(['dpkg', '--print-architecture'], check=True, capture_output=True, text=True).stdout
        owned = subprocess.run(['dpkg', '-L', *(f'{name}:{architecture.strip()}' for name in packages)], check=True,
                               capture_output=True, text=True).stdout
        names = {os.path.basename(line) for line in owned.splitlines()}
        needed = subprocess.run(['readelf', '--wide', '--dynamic', program], check=True, capture_output=True, text=True).stdout
        for library in re.findall(r'\(NEEDED\).*\[(.*?)\]', needed):
            self.assertIn(library, names)
        self.assertFalse([name for name in packages if name.endswith('-dev')], 'a package for building')

    def test_the_page_builds_its_images(self):
        wanted = re.findall(r'docker build -f (\S+) --target (\S+) ', read(SOURCE, 'docs', 'embed.md'))
        self.assertEqual(wanted, [('toolchains/docker/Dockerfile', name) for name in ('gantry', 'gantry-device')])

    def test_docker_has_nothing_to_say_against_it(self):
        if shutil.which('docker') is None:
            self.skipTest('docker is not installed')
        if subprocess.run(['docker', 'buildx', 'version'], capture_output=True, check=False).returncode != 0 or \
                subprocess.run(['docker', 'info'], capture_output=True, timeout=60, check=False).returncode != 0:
            self.skipTest('no docker daemon with buildx is running')
        done = subprocess.run(['docker', 'build', '--check', '-f', os.path.join(FOLDER, 'Dockerfile'), SOURCE],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == '__main__':
    BUILD, AARCH64_BUILD = (os.path.abspath(sys.argv[sys.argv.index(option) + 1]) for option in ('--build', '--aarch64-build'))
    del sys.argv[1:5]
    unittest.main()
