"""Which documented commands are not run by the test, and why; what else the documentation shows."""
import re

# (pattern of the command, reason). Options of gantry and gantry-device in them are checked all the same.
NOT_RUN = [(re.compile(pattern), reason) for pattern, reason in [
    (r'^\./(quickstart|check|package)\b', 'installs packages and builds everything'),
    (r'^toolchains/', 'installs packages and builds everything'),
    (r'^(cmake --preset|cmake --build|ctest)\b', 'builds or tests everything; continuous integration does'),
    (r'^cmake --install\b', 'run by InstalledRuntime'),
    (r'^cc classify\.c .*-lgantry_runtime', 'run by InstalledRuntime'),
    (r'^(cc classify\.c .*pkg-config|\./classify_static|export PKG_CONFIG_PATH)\b', 'run by embed_test.py'),
    (r'^(cmake -B|build/classify_cpp|qemu-aarch64 .* build-arm/classify_cpp)\b', 'run by embed_test.py'),
    (r'^build/tests/random_graphs\b', 'takes minutes; random_graphs_test runs some graphs'),
    (r'^qemu-aarch64 -plugin |^gantry tune .*--metric instructions\b',
     'needs an emulated board, which counts; run by tune_instructions_test.py'),
    (r'^bitbake\b', "builds Yocto's distribution"),
    (r'^scp\b', 'copies to a board'),
    (r'^ssh\b', 'runs on a board'),
    (r'^gantry boards (setup|update|uninstall)\b', 'sets up a board over ssh; boards_setup_test.py does'),
    (r'^(sudo|apt-get|dpkg)\b', 'changes the system'),
    (r'^python3 -m venv\b', "installs the peers' Python packages"),
    (r'^venv/bin/python3 examples/python/from_pytorch\.py\b', 'needs PyTorch, and the onnx package for its export'),
    (r'^python3 examples/python/(dense_expression|own_loop_nest)\.py\b', 'run by python_test.te'),
    (r'^(venv/bin/)?python3 -m pip\b', 'installs the package that another command has made'),
    (r'^python3 tests/conformance/operator_cases/', "takes minutes, and pip's onnx package"),
    (r'^(python3 )?benchmarks/', "measures for minutes to hours, beside the peers' Python packages"),
    (r'^make -C examples/custom_op|^(aarch64-linux-gnu-)?gcc .*-c scale\.c|--custom-ops\b|^gantry run biquad\.gmod',
     'needs compilers; run by custom_op_examples_test'),
    (r'^gantry conformance\b', 'runs hundreds of tests, some of which are refused; conformance_test.cpp runs a few'),
    (r'^gantry .*postgresql://', 'needs a PostgreSQL server; run by records/postgres_test.py'),
    (r'^gantry records verify .*--op network', 'needs what tuning has decided of a network; cli/records_verify_test.py has it'),
    (r'^gantry records train-prior\b', 'needs what tuning has measured; prior_test.cpp makes some'),
    (r'^gantry boards discover\b', 'needs Avahi, and a network with boards; run by discover_test.py'),
    (r'^gantry farm\b|^gantry .*--farm slurm\b', 'needs Slurm; run by slurm_test.py, with one of its own'),
    (r'^gantry .*--device cuda(?!-emulated)', 'needs an NVIDIA GPU'),
    (r'^([A-Z_]+=\S+ )*(perf|gdb)\b', 'needs a tool that not every machine has, and the rights to use it'),
    (r'^(man|systemctl|docker)\b', "needs another program than gantry's"),
]]

# Pages whose commands build on each other: guide_test.py runs them, in their order.
IN_ORDER = {'docs/pytorch-to-board.md'}

# Blocks without a language that are no commands: the page and the block's first line.
NO_COMMANDS = [
    ('docs/module-format.md', 'offset 0     header'),
    ('docs/performance.md', '2 threads'),
    ('docs/security.md', '2026-11-24T20:14:51.205Z info'),
]

# Options in the text that belong to other programs: cmake, dpkg, pip, compilers, shells, Slurm, the GPU bundle's `run`.
OPTIONS_OF_OTHERS = {'--only', '--preset', '--build', '--install', '--prefix', '--strip', '--target-dir', '--component',
                     '--libs', '--static', '--nice', '--exclusive', '--conf', '--add-architecture', '--settings', '--peers',
                     '--skip-passed'}

# Networks that take long to write, by smaller ones of the same kind.
SMALLER = {'bert_base': 'bert_tiny', 'vgg16': 'squeezenet1_1', 'resnet101': 'resnet18', 'resnet50': 'resnet18'}


def reason_not_to_run(text):
    for pattern, reason in NOT_RUN:
        if pattern.search(text):
            return reason
    return None
