#!/usr/bin/env python3
"""Runs what the documentation shows: the shell blocks of README.md, CONTRIBUTING.md and docs/*.md, and the examples of
every --help. Each command gets a folder of its own with the files, boards and keys that it names (scratch.py); what
cannot be run here is listed with its reason (classification.py), and its options are checked all the same.

    documentation_test.py --build BUILD [unittest's arguments]
"""
import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import classification  # noqa: E402
import extraction  # noqa: E402
from scratch import SIZE, Scratch  # noqa: E402

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(SOURCE, 'benchmarks'))
import code_comparison  # noqa: E402

BUILD = os.path.join(SOURCE, 'build')
TIMEOUT = 120  # seconds a command may take; they take about one
SLOW = 10  # seconds after which a command is named on stderr


def program(name):
    return os.path.join(BUILD, 'bin', name)


def pieces(text):
    """The programs' arguments in a command line of pipes and lists."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars='|&;')
    lexer.whitespace_split, lexer.commenters = True, ''
    found, current = [], []
    for word in lexer:
        if word in ('|', '&&', '||', ';', '&'):
            found.append(current)
            current = []
        else:
            current.append(word)
    return [piece for piece in found + [current] if piece]


def cpu_has(precision):
    """Whether this CPU has the instructions that a --precision asks for; others are refused there."""
    features = {'bf16': r'avx512_?bf16|amx_bf16|\bbf16\b', 'fp16': r'avx512_?fp16|\basimdhp\b'}
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        return re.search(features[precision], file.read()) is not None


def before_gantry(word):
    """Whether a word may stand before a program's name: one that runs it, or a variable for it."""
    return word in ('ssh', 'sudo', 'time', 'perf', 'gdb', 'nice', 'taskset') or extraction.is_assignment(word)


def is_run_here(words):
    """Whether a piece of a command line is gantry's, with variables before it, or of tools that are everywhere."""
    words = [word for at, word in enumerate(words)
             if not all(extraction.is_assignment(earlier) for earlier in words[:at + 1])]
    if words[:1] == ['source'] and words[1:2] == ['<(gantry']:
        return True
    return bool(words) and os.path.basename(words[0]) in extraction.PROGRAMS + ('jq',)


def gantry_calls(text):
    """Calls of gantry and gantry-device, also behind `ssh BOARD`."""
    calls = []
    for words in pieces(text):
        for at, word in enumerate(words):
            if os.path.basename(word) in extraction.PROGRAMS and (at == 0 or before_gantry(words[0])):
                calls.append([os.path.basename(word)] + words[at + 1:])
                break
    return calls


def is_in_order(command):
    return command.place.rsplit(':', 1)[0] in classification.IN_ORDER


def written_files(text):
    """Names that commands create: those must not be there before."""
    names = set()
    for words in pieces(text):
        for at, word in enumerate(words):
            following = words[at + 1] if at + 1 < len(words) else ''
            if word in ('-o', '--output', '--json', '--decisions-out', '--history', '>'):
                names.add(following.rsplit('=', 1)[-1])
            elif re.match(r'--(output|json)=', word):
                names.add(word.rsplit('=', 1)[-1])
            elif word == 'keygen' and not following.startswith('-'):
                names.add(following)
    return names


class Documentation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='gantry_docs_')
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.scratch = Scratch(cls.folder, program('gantry'), program('gantry-device'), SOURCE)
        cls.help = extraction.Help({name: program(name) for name in extraction.PROGRAMS}, cls.scratch.environment)
        cls.pages = extraction.pages(SOURCE)
        cls.blocks = [block for page in cls.pages for block in extraction.blocks(page, SOURCE)]
        cls.commands = [command for block in cls.blocks if extraction.is_shell(block)
                        for command in extraction.commands_of_block(block)] + cls.help.examples()

    def check_options(self, place, words):
        """Every option of a call of gantry must be one of its command."""
        command = self.help.command_of(words)
        known = self.help.options(command)
        if len(command) == 1 and len(words) > 1 and re.match(r'[a-z]', words[1]):
            self.fail(f"{place}: `{' '.join(words)}`: {words[0]} has no command '{words[1]}'")
        for word in words[1:]:
            option = re.match(r'--?[a-zA-Z][\w-]*', word)
            if option and option.group() not in known:
                self.fail(f"{place}: `{' '.join(words)}`: {' '.join(command)} has no option {option.group()}")

    def test_every_block_is_commands_or_listed(self):
        for block in self.blocks:
            if extraction.is_shell(block) or block.language:
                continue
            page = block.place.rsplit(':', 1)[0]
            first = next((line.strip() for line in block.lines if line.strip()), '')
            listed = any(page == name and first.startswith(start) for name, start in classification.NO_COMMANDS)
            with self.subTest(block.place):
                self.assertTrue(listed, f'{block.place}: neither commands nor listed in classification.py: {first}')

    def test_every_command_is_one_of_gantrys_or_listed(self):
        self.assertGreater(len(self.commands), 50, 'the examples are not found')
        for command in self.commands:
            runs = is_in_order(command) or all(is_run_here(words) for words in pieces(command.text))
            with self.subTest(str(command)):
                self.assertTrue(runs or classification.reason_not_to_run(self.normalised(command.text)),
                                f'{command}: not a command that can be run; list it in classification.py')

    def test_every_help_has_examples(self):
        with_examples = {command.place for command in self.help.examples()}
        for words, _ in self.help.texts.items():
            if words[0] == 'gantry' and not any(other[:-1] == words for other in self.help.texts):
                with self.subTest(' '.join(words)):
                    self.assertIn(' '.join(words) + ' --help', with_examples)

    def test_options_in_commands_exist(self):
        for command in self.commands:
            for words in gantry_calls(command.text):
                with self.subTest(str(command)):
                    self.check_options(command.place, words)

    def test_options_in_running_text_exist(self):
        everywhere = set(classification.OPTIONS_OF_OTHERS)
        for words in self.help.texts:
            everywhere |= self.help.options(words)
        for folder in ('benchmarks', 'examples', 'tests/docs', 'toolchains/package'):
            for name in os.listdir(os.path.join(SOURCE, folder)):
                if os.path.isfile(os.path.join(SOURCE, folder, name)):
                    with open(os.path.join(SOURCE, folder, name), encoding='utf-8', errors='replace') as file:
                        everywhere.update(re.findall(r"'(--[a-z][\w-]*)'", file.read()))
        with open(os.path.join(SOURCE, 'package'), encoding='utf-8') as script:
            everywhere.update(re.findall(r'^ +(--[a-z-]+)\)', script.read(), re.M))
        for page in self.pages:
            for place, span in extraction.code_spans(page, SOURCE):
                with self.subTest(place):
                    if re.match(r'gantry(-device)? [a-z]', span) and '|' not in span:
                        self.check_options(place, span.split())
                    for option in re.findall(r'(?<![\w-])--[a-z][a-z-]*', span):
                        self.assertIn(option, everywhere, f'{place}: `{span}`: there is no option {option}')

    def test_paths_in_running_text_exist(self):
        """Words in capitals stand for others: host/passes/NAME.cpp."""
        tree = re.compile(r'(?:host|device_runtime|rpc|tests|benchmarks|examples|toolchains|docs)/[\w./-]+')
        count = 0
        for page in self.pages:
            for place, span in extraction.code_spans(page, SOURCE):
                if tree.fullmatch(span) and not re.search(r'(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z])', span):
                    count += 1
                    with self.subTest(place):
                        self.assertTrue(os.path.exists(os.path.join(SOURCE, span)), f'{place}: there is no `{span}`')
        self.assertGreater(count, 100, 'the paths are not found')

    def test_options_of_scripts_exist(self):
        for command in self.commands:
            script = re.match(r'(?:python3 )?(benchmarks/\w+\.py)', command.text)
            if not script:
                continue
            with open(os.path.join(SOURCE, script.group(1)), encoding='utf-8') as file:
                text = file.read()
            for option in re.findall(r'(?<![\w-])--[a-z][\w-]*', command.text):
                with self.subTest(str(command)):
                    self.assertIn(f"'{option}'", text, f'{command}: the script has no option {option}')

    @staticmethod
    def normalised(text):
        return re.sub(r'(?<!\S)(?:\./)?(?:build/bin/)?(gantry(?:-device)?)(?=\s|$)', r'\1', text)

    def shortened(self, text):
        """Measurements of a second instead of as long as their precision takes."""
        measures = re.match(r'gantry (bench|profile|compare|trace|tune)\b(?=.*\.(?:onnx|gir|gmod)\b)', text)
        if not measures:
            return text
        text = re.sub(r' --(duration|rounds|time)[ =]\S+', '', text)
        short = {'compare': '--rounds 3 --warmup 1', 'tune': '--time 5s'}.get(measures.group(1), '--duration 1s')
        return text.replace(measures.group(), f'{measures.group()} {short}', 1)

    def adapted(self, text):
        """The command with what this machine has in place of what it names."""
        text = self.shortened(self.normalised(text))
        if text.startswith('gantry zoo'):
            for large, small in classification.SMALLER.items():
                text = text.replace(large, small)
        keyed, open_ = (server.address for server in self.scratch.servers)
        text = re.sub(r'127\.0\.0\.1:7453|localhost:7453', keyed if '--key' in text else open_, text)
        text = text.replace('1x3x224x224', f'1x3x{SIZE}x{SIZE}')
        # Which kernels a network has is the machine's: all that compute the op will do.
        text = re.sub(r'--kernel ([a-z]+)_\w+', r'--kernel \1', text)
        for precision in ('bf16', 'fp16'):
            if '--target' not in text and not cpu_has(precision):
                text = text.replace(f'--precision {precision}', '--precision fp32')
        if shutil.which('jq') is None:
            text = re.sub(r'\s*\|\s*jq\b.*', '', text)
        return text

    def run_command(self, number, command):
        """What went wrong; "" if nothing."""
        start = time.monotonic()
        problem = self.run_in_folder(number, command)
        taken = time.monotonic() - start
        if taken > SLOW:
            print(f'{taken:.0f} s: {command}', file=sys.stderr, flush=True)
        return problem

    def run_in_folder(self, number, command):
        text = self.adapted(command.text)
        folder = self.scratch.folder_for(number, text, written_files(text))
        environment = self.scratch.environment_for(folder, text)
        for target in re.findall(r'>\s*(\S+)', text):
            target = target.replace('~', environment['HOME'], 1)
            os.makedirs(os.path.dirname(os.path.join(folder, target)), exist_ok=True)
        try:
            if re.match(r'gantry-device serve', text):
                return self.run_server(text, folder, environment)
            run = subprocess.run(['bash', '-euo', 'pipefail', '-c', text], cwd=folder, env=environment,
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace',
                                 timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return f'{command}\nran as: {text}\ndid not end within {TIMEOUT} s'
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        # Equal programs are called slower once in a while: 4 is then the answer that was asked for.
        if run.returncode == 0 or (run.returncode == 4 and '--fail-if-slower' in text):
            return ''
        return f'{command}\nran as: {text}\nexit code {run.returncode}\n{run.stderr}'

    def run_server(self, text, folder, environment):
        """Serves until it says where, then ends it as an administrator does."""
        text = re.sub(r':7453\b', ':0', text)
        if '--listen' not in text:
            text += ' --listen 127.0.0.1:0'
        process = subprocess.Popen(['bash', '-c', 'exec ' + text], cwd=folder, env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = process.stdout.readline()
        process.terminate()
        errors = process.communicate(timeout=TIMEOUT)[1]
        if re.search(r':\d+', line) and process.returncode == 0:
            return ''
        return f'{text}\nsaid {line!r}, exit code {process.returncode}\n{errors}'

    def toml_blocks(self, of_code_guard):
        """Those of the script that compares generated code, or the others."""
        return [block for block in self.blocks
                if block.language == 'toml' and (block.lines[0] == '[[expected]]') == of_code_guard]

    def test_expectations_of_changed_code_are_read(self):
        for block in self.toml_blocks(of_code_guard=True):
            path = os.path.join(self.folder, 'expected.toml')
            with open(path, 'w', encoding='utf-8') as file:
                file.write('\n'.join(block.lines) + '\n')
            with self.subTest(block.place):
                self.assertTrue(code_comparison.read_expectations(path))

    def preprocessings(self):
        """The other TOML blocks but descriptions of custom ops, each in a command that uses it."""
        found = []
        for number, block in enumerate(self.toml_blocks(of_code_guard=False)):
            if block.lines[0].startswith(('[[op]]', '[op')):
                continue
            name = f'documented_{number}.toml'
            with open(self.scratch.path(name), 'w', encoding='utf-8') as file:
                file.write('\n'.join(block.lines) + '\n')
            found.append(extraction.Command(
                block.place, f'gantry run resnet18.onnx --input cat.jpg --preprocess {self.scratch.path(name)}'))
        return found

    def test_commands_run(self):
        self.scratch.make()
        try:
            runnable, seen = [], set()
            for command in self.commands + self.preprocessings():
                text = self.normalised(command.text)
                if is_in_order(command) or classification.reason_not_to_run(text) or text in seen:
                    continue
                seen.add(text)
                runnable.append(command)
            with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
                problems = list(pool.map(self.run_command, range(len(runnable)), runnable))
            for command, problem in zip(runnable, problems):
                with self.subTest(str(command)):
                    self.assertEqual(problem, '', problem)
        finally:
            codes = self.scratch.stop()
        self.assertEqual(codes, [0, 0], 'a board program did not end well')


class InstalledRuntime(unittest.TestCase):
    """README's lines about installing and building an application."""

    def test_the_documented_line_builds_an_application_that_starts(self):
        with open(os.path.join(SOURCE, 'README.md'), encoding='utf-8') as file:
            text = file.read()
        install = re.search(r'`(cmake --install build[^`]*)`', text)
        compile_ = re.search(r'`?(cc classify\.c[^`]*?)(?:`|\s+#|\n)', text)
        self.assertTrue(install and compile_, 'README.md does not say how to install and link the runtime')
        with tempfile.TemporaryDirectory(prefix='gantry_install_') as folder:
            prefix = os.path.join(folder, 'prefix')
            self.bash(install.group(1).replace('--install build', f'--install {shlex.quote(BUILD)}'), prefix, SOURCE)
            for name in ('classify.c', 'image.c', 'image.h'):
                shutil.copy(os.path.join(SOURCE, 'examples', 'embed', name), folder)
            self.bash(compile_.group(1), prefix, folder)
            made = [name for name in os.listdir(folder) if os.access(os.path.join(folder, name), os.X_OK)
                    and os.path.isfile(os.path.join(folder, name))]
            self.assertEqual(len(made), 1, made)
            gantry = os.path.join(prefix, 'bin', 'gantry')
            subprocess.run([gantry, 'zoo', 'squeezenet1_1', '-o', 'net.onnx', '--size', '64'], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
            subprocess.run([gantry, 'compile', 'net.onnx'], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            image = os.path.join(SOURCE, 'tests', 'cli', 'testdata', 'picture.ppm')
            run = subprocess.run([os.path.join(folder, made[0]), 'net.gmod', image], cwd=folder, capture_output=True,
                                 text=True, timeout=TIMEOUT)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn('1. class', run.stdout)

    def bash(self, command, prefix, folder):
        command = re.sub(r'DIR(?=/|\s|$)', shlex.quote(prefix), ' '.join(command.split()))
        run = subprocess.run(['bash', '-ec', command], cwd=folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, 0, f'{command}\n{run.stderr}')


class EnvironmentVariables(unittest.TestCase):
    """The variables that the code reads and those that the documentation speaks of are the same."""
    # Read, but as every program does, or by tests and benchmarks' helpers alone.
    UNSAID = {'TERM'}
    # Read by libraries on the code's behalf: TMPDIR by std::filesystem::temp_directory_path().
    BY_LIBRARIES = {'TMPDIR'}
    NO_VARIABLES = re.compile(r'GANTRY_(BUILD|IMAGE_DECODERS|LLVM_BACKENDS|STATIC|OLD_GLIBC|SANITIZE|TEST_GPU)')  # of CMake, of tests

    @staticmethod
    def read_by_code():
        names = set()
        for folder in ('host', 'rpc', 'device_runtime'):
            for path, _, files in os.walk(os.path.join(SOURCE, folder)):
                for name in files:
                    if not name.endswith(('.cpp', '.h', '.c')):
                        continue
                    with open(os.path.join(path, name), encoding='utf-8') as file:
                        text = file.read()
                    if 'temp_directory_path' in text:
                        names.add('TMPDIR')
                    if 'getenv' not in text and 'environment(' not in text:
                        continue
                    # Directly, or through a function of the file that is given the name.
                    names.update(re.findall(r'(?:getenv|variable|environment)\("([A-Z][A-Z0-9_]*)"', text))
                    for names_ in re.findall(r'for \(const char\* \w+ : \{([^}]*)\}', text):
                        names.update(re.findall(r'"([A-Z][A-Z0-9_]*)"', names_))
        return names

    def test_agree(self):
        read = self.read_by_code()
        self.assertIn('GANTRY_CACHE_DIR', read)
        said = {}
        for page in extraction.pages(SOURCE):
            with open(page, encoding='utf-8') as file:
                text = file.read()
            for name in re.findall(r'\$([A-Z][A-Z0-9_]+)\b', text) + re.findall(r'`(GANTRY_[A-Z_]+|TMPDIR|HOME|PATH)', text):
                said.setdefault(name, os.path.relpath(page, SOURCE))
        for name in sorted(read - self.UNSAID):
            with self.subTest(name):
                self.assertIn(name, said, f'{name} is read by the code, but no page speaks of it')
        for name, page in sorted(said.items()):
            with self.subTest(name):
                self.assertTrue(name in read | self.BY_LIBRARIES or self.NO_VARIABLES.match(name),
                                f'{page} speaks of {name}, which no code reads')


if __name__ == '__main__':
    if '--build' in sys.argv:
        at = sys.argv.index('--build')
        BUILD = os.path.abspath(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    unittest.main(verbosity=1)
