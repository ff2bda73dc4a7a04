#!/usr/bin/env python3
"""Makes packages of what the presets have built: .deb files, a tar file, the list of what is linked in, checksums.

    make_packages.py --output packages [--only NAME…]
    make_packages.py --version

./package builds what it needs and then runs it. The same commit gives the same bytes, in whatever folder.
"""
import argparse
import hashlib
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import deb  # noqa: E402
import licences  # noqa: E402
import linked_in  # noqa: E402
import project  # noqa: E402
import staging  # noqa: E402
import tarball  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--output', help='folder for the packages; what it had of them is replaced')
    parser.add_argument('--version', action='store_true', help='say which version they are of, and make none')
    parser.add_argument('--release', default='build', help="the preset release's folder")
    parser.add_argument('--device-amd64', default='build-gpu-bundle', help="the preset gpu-bundle's folder")
    parser.add_argument('--device-arm64', default='build-aarch64', help="the preset aarch64's folder")
    parser.add_argument('--only', action='append', help='a package, by its name, e.g. gantry-device; as often as needed')
    parser.add_argument('--level', type=int, choices=range(10), default=9, metavar='0-9',
                        help="xz's: how hard it tries to make packages small (9)")
    options = parser.parse_args()
    if not options.output and not options.version:
        parser.error('--output is missing: a folder for the packages')
    return options


def packages_of(builds):
    """(name, architecture, function that stages it, what is in it as (build folder, target)), in the order of making."""
    library, archive = f'lib/{project.runtime_library()}', 'lib/libgantry_runtime.a'
    boards = [(build, 'bin/gantry-device') for build in builds.device.values()]
    yield ('gantry', 'amd64', staging.gantry,
           [(builds.release, 'bin/gantry'), (builds.release, 'bin/gantry-device'), *boards])
    for architecture, build in builds.device.items():
        yield 'gantry-device', architecture, staging.device, [(build, 'bin/gantry-device')]
    for architecture, build in builds.runtime.items():
        yield 'libgantry-runtime0', architecture, staging.runtime, [(build, library)]
        yield 'libgantry-runtime-dev', architecture, staging.runtime_dev, [(build, archive)]


def make(builds, options, work):
    made, output, only = [], options.output, options.only
    for name, architecture, stage, contents in packages_of(builds):
        if only and name not in only:
            continue
        package = stage(builds, work, architecture)
        package.linked_in = linked_in.merged(part for build, target in contents for part in linked_in.parts_of(build, target))
        staging.documents(package)
        licences.add(package)
        made.append(package)
        report(deb.build(package, output, options.level))
    licences.write_spdx(made, os.path.join(output, 'linked-in.json'))
    if not only:
        report(tarball.write(builds, made, output, work, options.level))


def report(path):
    print(f'  {os.path.basename(path)}  {os.path.getsize(path) / 1e6:.1f} MB')


def write_checksums(folder):
    lines = []
    for name in sorted(os.listdir(folder)):
        if name != 'SHA256SUMS' and os.path.isfile(os.path.join(folder, name)):
            with open(os.path.join(folder, name), 'rb') as file:
                lines.append(f'{hashlib.sha256(file.read()).hexdigest()}  {name}\n')
    deb.write(os.path.join(folder, 'SHA256SUMS'), ''.join(lines))


def main():
    options = arguments()
    project.epoch()  # before any work, where there is none
    if options.version:
        print(project.version())
        return 0
    builds = staging.Builds(release=options.release, device={'amd64': options.device_amd64, 'arm64': options.device_arm64},
                            runtime={'amd64': options.release, 'arm64': options.device_arm64})
    known = {entry[0] for entry in packages_of(builds)} | {'wheel'}  # which ./package has made already
    for name in set(options.only or ()) - known:
        raise project.PackagingError(f"there is no package '{name}'; there are {', '.join(sorted(known))}")
    os.makedirs(options.output, exist_ok=True)
    for name in os.listdir(options.output):
        if name.endswith(('.deb', '.tar.xz')) or name in ('linked-in.json', 'SHA256SUMS'):
            os.remove(os.path.join(options.output, name))
    os.umask(0o022)
    work = tempfile.mkdtemp(prefix='gantry_packages_')
    try:
        make(builds, options, work)
        write_checksums(options.output)
    finally:
        shutil.rmtree(work)
    return 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except (project.PackagingError, OSError) as error:
        print(f'error: {error}', file=sys.stderr)
        sys.exit(1)
