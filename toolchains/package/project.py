"""What every package has in common: versions, times, architectures, and how tools are run."""
import datetime
import os
import re
import subprocess

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEMPLATES = os.path.join(SOURCE, 'toolchains', 'package', 'debian')
TRIPLETS = {'amd64': 'x86_64-linux-gnu', 'arm64': 'aarch64-linux-gnu'}
MACHINES = {'amd64': 'x86_64', 'arm64': 'aarch64'}
# Whom a package names as its maintainer, unless Debian's own two variables say somebody else.
MAINTAINER = ('gantry developers', 'gantry@packages.invalid')


class PackagingError(Exception):
    """What failed, on which file, and what to do."""


def run(command, **options):
    """A tool's standard output; PackagingError with what it said, where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise PackagingError(f"{' '.join(command)} failed with exit code {done.returncode}:\n{done.stderr or done.stdout}")
    return done.stdout


def native_architecture():
    return run(['dpkg', '--print-architecture']).strip()


def tool(architecture, name):
    """Of binutils, for an architecture's files."""
    return name if architecture == native_architecture() else f'{TRIPLETS[architecture]}-{name}'


def ask_git(*arguments):
    """What git says of the source, and why it says nothing: one of them is None."""
    try:
        done = subprocess.run(['git', '-C', SOURCE, '--no-optional-locks', *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None, 'git is not installed'
    if done.returncode != 0:
        return None, done.stderr.strip()
    return done.stdout.strip(), None


def git(*arguments):
    """What git says of the source; None where it fails, or is missing."""
    return ask_git(*arguments)[0]


def epoch():
    """Seconds: the time of all files in packages, and of their changelogs. Of the commit, unless SOURCE_DATE_EPOCH is set."""
    given, why = os.environ.get('SOURCE_DATE_EPOCH'), None
    if not given:
        given, why = ask_git('log', '-1', '--format=%ct')
    if not given:
        raise PackagingError(f'no commit to take a time from: set SOURCE_DATE_EPOCH to seconds since 1970, or mend this:\n{why}')
    return int(given)


def upstream_version():
    with open(os.path.join(SOURCE, 'CMakeLists.txt'), encoding='utf-8') as file:
        return re.search(r'project\(gantry VERSION ([0-9.]+)', file.read()).group(1)


def runtime_library():
    return f'libgantry_runtime.so.{upstream_version()}'


def version():
    """Debian's version: "0.1.0" at the tag v0.1.0, of either kind, "0.1.0~git20261125.0902.9d3031d" before it, with + after it.

    So that of two builds apt takes the later commit's for the newer one.
    """
    base = upstream_version()
    tag = f'v{base}'
    if git('describe', '--exact-match', '--tags', '--match', tag, 'HEAD') == tag and not git('status', '--porcelain', '-uno'):
        return base
    commit = git('rev-parse', '--short=7', 'HEAD') or 'unknown'
    sign = '+' if git('merge-base', '--is-ancestor', tag, 'HEAD') is not None else '~'
    changed = '.dirty' if git('status', '--porcelain', '-uno') else ''
    return f'{base}{sign}git{time():%Y%m%d.%H%M}.{commit}{changed}'


def time():
    """Of the commit."""
    return datetime.datetime.fromtimestamp(epoch(), datetime.timezone.utc)


def maintainer():
    return f"{os.environ.get('DEBFULLNAME', MAINTAINER[0])} <{os.environ.get('DEBEMAIL', MAINTAINER[1])}>"
