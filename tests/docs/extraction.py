"""Commands as the documentation gives them: shell blocks of Markdown files and the examples of --help."""
import dataclasses
import os
import re
import subprocess

PROGRAMS = ('gantry', 'gantry-device')
# First words that make a block without a language a shell block.
COMMAND_WORDS = PROGRAMS + ('build/bin/gantry', 'build/bin/gantry-device', './gantry-device', './quickstart', './check', './package',
                            'cmake', 'ctest', 'scp', 'ssh', 'sudo', 'apt-get', 'python3', 'benchmarks/', 'examples/',
                            'toolchains/', 'cc', 'gcc', 'docker', 'systemctl', 'man', 'perf', 'gdb', 'source', 'export',
                            'bitbake', 'bitbake-layers')
SHELL_LANGUAGES = ('sh', 'shell', 'bash', 'console')


@dataclasses.dataclass(frozen=True)
class Command:
    place: str  # "README.md:32", "gantry run --help"
    text: str

    def __str__(self):
        return f'{self.place}: {self.text}'


@dataclasses.dataclass(frozen=True)
class Block:
    place: str
    language: str
    lines: tuple


def pages(source):
    folder = os.path.join(source, 'docs')
    return [os.path.join(source, name) for name in ('README.md', 'CONTRIBUTING.md')] + \
        sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith('.md'))


def blocks(path, source):
    found, start, language, lines = [], None, '', []
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            fence = re.match(r'\s*```(\{?\w*)', line)
            if fence and start is None:
                start, language, lines = number + 1, fence.group(1), []
            elif fence:
                found.append(Block(f'{os.path.relpath(path, source)}:{start}', language, tuple(lines)))
                start = None
            elif start is not None:
                lines.append(line.rstrip('\n'))
    return found


def is_assignment(word):
    return re.match(r'[A-Z_][A-Z0-9_]*=', word) is not None


def starts_command(line):
    words = line.split()
    while words and is_assignment(words[0]):
        words = words[1:]
    return bool(words) and any(words[0] == word or (word.endswith('/') and words[0].startswith(word))
                               for word in COMMAND_WORDS)


def is_shell(block):
    if block.language:
        return block.language in SHELL_LANGUAGES
    return any(starts_command(line.lstrip('$ ')) for line in block.lines)


def without_comment(line):
    """Cuts "   # comment" off, but not a # within quotes."""
    quote = None
    for at, letter in enumerate(line):
        if quote:
            quote = None if letter == quote else quote
        elif letter in '\'"':
            quote = letter
        elif letter == '#' and (at == 0 or line[at - 1].isspace()):
            return line[:at].rstrip()
    return line.rstrip()


def commands_of_block(block):
    name, first = block.place.rsplit(':', 1)
    found, text, start = [], '', 0
    for offset, line in enumerate(block.lines):
        line = without_comment(line.strip().removeprefix('$ '))
        if not text:
            start = int(first) + offset
        if line.endswith('\\'):
            text += line[:-1].rstrip() + ' '
            continue
        text += line
        if text.strip():
            found.append(Command(f'{name}:{start}', text.strip()))
        text = ''
    return found


def code_spans(path, source):
    """`code` in running text and tables, with its page."""
    with open(path, encoding='utf-8') as file:
        text = re.sub(r'```.*?```', lambda block: '\n' * block.group().count('\n'), file.read(), flags=re.S)
    return [(os.path.relpath(path, source) + ':' + str(text.count('\n', 0, span.start()) + 1),
             ' '.join(span.group(1).split())) for span in re.finditer(r'`([^`]+)`', text)]


class Help:
    """What the programs say of themselves: their commands, options and examples."""

    def __init__(self, programs, environment):
        self.environment = environment
        self.texts = {}  # ("gantry", "boards", "add"): text
        for name, path in programs.items():
            self.visit((name,), path)

    def visit(self, words, path):
        run = subprocess.run([path, *words[1:], '--help'], capture_output=True, text=True, timeout=60,
                             env=self.environment)
        if run.returncode != 0:
            raise RuntimeError(f"{' '.join(words)} --help: exit code {run.returncode}\n{run.stderr}")
        self.texts[words] = run.stdout
        section = re.search(r'^(?:Subcommands|Commands):\n((?:^ +.*\n?|^\n(?= ))*)', run.stdout, re.M)
        for line in (section.group(1).splitlines() if section else []):
            entry = re.match(r'  ([a-z][\w-]*)', line)
            if entry and words + (entry.group(1),) not in self.texts:
                self.visit(words + (entry.group(1),), path)

    def options(self, words):
        """Of a command and those that it belongs to, as "--name" and "-n"."""
        names = set()
        for length in range(1, len(words) + 1):
            text = self.texts.get(words[:length], '')
            for line in text.splitlines():
                entry = re.match(r'\s{1,8}(-\S.*?)(?:\s{2,}|$)', line)
                if entry:
                    names.update(re.findall(r'(?<![\w-])--?[a-zA-Z][\w-]*', entry.group(1)))
        return names

    def command_of(self, arguments):
        """The longest known command that the words name: ("gantry", "boards", "add")."""
        words = (os.path.basename(arguments[0]),)
        for argument in arguments[1:]:
            if words + (argument,) in self.texts:
                words += (argument,)
            elif not argument.startswith('-'):
                break
        return words

    def examples(self):
        found = []
        for words, text in self.texts.items():
            section = re.search(r'^Examples?:\n(.*)', text, re.M | re.S)
            directly = True
            for line in (section.group(1).splitlines() if section else []):
                if re.match(r'  \S', line):
                    example = re.split(r'\s{2,}', line.strip())[0]
                    if directly or starts_command(example):
                        found.append(Command(' '.join(words) + ' --help', example))
                elif line and not line.startswith(' '):
                    directly = False
        return found
