"""Folders in which documented commands find what they name: small models, data, keys, results, boards."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import zipfile

SIZE = 32  # of images: the networks keep their nodes and weights, but run in a millisecond
NODE_DATA = '/usr/share/libonnx-testdata/data/node/test_conv_with_strides_padding'


def npy(kind, shape, values):
    """A NumPy file; kind "f" or "q" as struct names them."""
    descr = {'f': '<f4', 'q': '<i8'}[kind]
    dims = ''.join(f'{dim}, ' for dim in shape)
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}"
    header += ' ' * (63 - (10 + len(header)) % 64) + '\n'
    return (b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode() +
            struct.pack(f'<{len(values)}{kind}', *values))


def write(path, data):
    with open(path, 'wb') as file:
        file.write(data)


def records(count):
    """Records of tuning as `gantry records export` writes them, of no node of the networks here."""
    lines = [{'schema': 'gantry-records', 'version': 1}]
    for number in range(count):
        lines.append({
            'work': f'{number:064x}', 'target': 'x86-64-v3', 'machine': 'A CPU', 'features': 'avx2', 'threads': 2,
            'precision': 'fp32', 'optimize': 'speed', 'generator': '0.1.0', 'op': 'nn.conv', 'decision': '{form=direct, block=8}',
            'baseline': '{form=plain}', 'outcome': 'measured', 'reason': '', 'confirmation': 1, 'seconds': 0.01,
            'baseline_seconds': 0.02, 'ratio': 0.5, 'ratio_low': 0.4, 'ratio_high': 0.6, 'process_seconds': '0.01',
            'baseline_process_seconds': '0.02', 'timed': 'kernel', 'model': 'resnet18.onnx', 'nodes': 'conv', 'board': '',
            'beside': '', 'date': '2026-11-27T08:05:00Z', 'source': 'the documentation'})
    return ''.join(json.dumps(line) + '\n' for line in lines).encode()


class Server:
    """A gantry-device on loopback, on any free port."""

    def __init__(self, program, environment, *arguments):
        self.process = subprocess.Popen([program, 'serve', '--listen', '127.0.0.1:0', *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        line = self.process.stdout.readline()
        port = re.search(r':(\d+)', line)
        if not port:
            raise RuntimeError(f'gantry-device serve does not say where it listens: {line!r}')
        self.address = f'127.0.0.1:{port.group(1)}'

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code


class Scratch:
    """Makes what examples need once, and a folder for each of them."""

    def __init__(self, folder, gantry, device, source):
        self.folder, self.gantry, self.device, self.source = folder, gantry, device, source
        self.fixtures = os.path.join(folder, 'fixtures')
        os.makedirs(self.fixtures)
        self.environment = {**{name: value for name, value in os.environ.items()
                               if not name.startswith(('GANTRY_', 'XDG_'))},
                            'HOME': os.path.join(folder, 'home'), 'GANTRY_CACHE_DIR': os.path.join(folder, 'cache'),
                            'COLUMNS': '250', 'TERM': 'dumb', 'NO_COLOR': '1'}
        os.makedirs(self.environment['HOME'])
        self.servers = []

    def run(self, *arguments, output=subprocess.DEVNULL):
        subprocess.run([self.gantry, *arguments], cwd=self.fixtures, env=self.environment, check=True, timeout=300,
                       stdout=output)

    def path(self, name):
        return os.path.join(self.fixtures, name)

    def make(self):
        """The files and boards that all examples share."""
        self.run('zoo', 'resnet18', '-o', 'network.onnx', '--size', str(SIZE))
        self.run('zoo', 'bert_tiny', '-o', 'bert.onnx', '--dynamic')
        self.run('ir', 'network.onnx', '-o', 'network.gir')
        with open(self.path('network.decisions'), 'wb') as file:
            self.run('ir', 'network.onnx', '--forms', output=file)
        self.run('keygen', 'board.key')
        self.make_data()
        self.run('compile', 'network.onnx', '-o', 'network.gmod', '--target', 'native')
        self.run('run', 'network.onnx', '--input', 'image.npy', '--output', 'reference.npy')
        self.run('bench', 'network.onnx', '--processes', '2', '--repeat', '12', '--warmup', '1', '--profile', '--quiet',
                 '--json', 'result.json')
        self.servers = [Server(self.device, self.environment, '--key', self.path('board.key'), '--cache',
                               os.path.join(self.folder, 'board_cache')),
                        Server(self.device, self.environment, '--cache', os.path.join(self.folder, 'local_cache'))]

    def make_data(self):
        count = 3 * SIZE * SIZE
        pixels = [((i * 37) % 101) / 50 - 1 for i in range(count)]
        write(self.path('image.npy'), npy('f', (1, 3, SIZE, SIZE), pixels))
        tokens = npy('q', (1, 8), [1, 0, 1, 1, 0, 0, 1, 0])
        with zipfile.ZipFile(self.path('arrays.npz'), 'w', zipfile.ZIP_DEFLATED) as archive:
            archive.writestr('input_ids.npy', tokens)
            archive.writestr('arr_0.npy', tokens)
        for kind in ('png', 'jpg', 'ppm'):
            shutil.copy(os.path.join(self.source, 'tests', 'cli', 'testdata', 'picture.' + kind),
                        self.path('picture.' + kind))
        write(self.path('preprocess.toml'), b'preset = "imagenet"\nsize = 224\n')
        write(self.path('records.jsonl'), records(20))
        self.run('records', 'import', 'records.db', 'records.jsonl')

    def stop(self):
        return [server.stop() for server in self.servers]

    def folder_for(self, number, text, outputs):
        """A fresh folder with every file that the command names and does not write, and boards of its own."""
        folder = os.path.join(self.folder, f'example_{number}')
        os.makedirs(os.path.join(folder, 'config', 'gantry'))
        os.makedirs(os.path.join(folder, 'build', 'bin'))
        for name, program in (('gantry', self.gantry), ('gantry-device', self.device)):
            os.symlink(program, os.path.join(folder, 'build', 'bin', name))
        with open(os.path.join(folder, 'config', 'gantry', 'boards.toml'), 'w', encoding='utf-8') as file:
            for board in ('pi', 'jetson', 'board', 'orin', 'phone'):
                file.write(f'[{board}]\naddress = "{self.servers[0].address}"\nkey = "{self.path("board.key")}"\n')
        for name in re.findall(r'[\w./-]+\.(?:onnx|gir|decisions|gmod|npy|npz|json|key|jpe?g|png|ppm|toml|pb|db|jsonl)\b', text):
            if name not in outputs:
                self.provide(folder, name)
        if re.search(r'--key keys(?=\s|$)', text):
            os.makedirs(os.path.join(folder, 'keys'))
            os.link(self.path('board.key'), os.path.join(folder, 'keys', 'board.key'))
        if 'test_data_set_0' in text and 'test_data_set_0' not in outputs:
            self.provide_data_set(folder, text)
        return folder

    def provide(self, folder, name):
        path = os.path.join(folder, name)
        if os.path.isabs(name) or '..' in name or os.path.exists(path):
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        base, kind = os.path.basename(name), name.rsplit('.', 1)[1]
        fixture = {'onnx': 'bert.onnx' if 'bert' in base else 'network.onnx', 'gmod': 'network.gmod', 'gir': 'network.gir',
                   'decisions': 'network.decisions',
                   'npy': 'image.npy', 'npz': 'arrays.npz', 'json': 'result.json', 'key': 'board.key',
                   'jpg': 'picture.jpg', 'jpeg': 'picture.jpg', 'png': 'picture.png', 'ppm': 'picture.ppm',
                   'toml': 'preprocess.toml'}.get(kind)
        if re.match(r'(scores|expect|reference|logits|output)', base) and kind == 'npy':
            fixture = 'reference.npy'
        if kind in ('db', 'jsonl'):
            shutil.copy(self.path(f'records.{kind}'), path)  # commands change them
        if fixture:
            os.link(self.path(fixture), path)
        weights = os.path.join(os.path.dirname(path), 'network.gir.weights')  # as the text calls them
        if kind == 'gir' and not os.path.exists(weights):
            os.link(self.path('network.gir.weights'), weights)

    def provide_data_set(self, folder, text):
        """An ONNX model with its data, of Debian's libonnx-testdata, in place of the model that the command names."""
        for name in re.findall(r'[\w./-]+\.onnx\b', text):
            os.remove(os.path.join(folder, name))
            shutil.copy(os.path.join(NODE_DATA, 'model.onnx'), os.path.join(folder, name))
        for name in re.findall(r'[\w./-]*test_data_set_0', text):
            if not os.path.exists(os.path.join(folder, name)):
                shutil.copytree(os.path.join(NODE_DATA, 'test_data_set_0'), os.path.join(folder, name))

    def environment_for(self, folder, text):
        # Who looks at or clears the cache gets one of its own, the others share what is compiled already.
        cache = {'GANTRY_CACHE_DIR': os.path.join(folder, 'cache')} if text.startswith('gantry cache') else {}
        return {**self.environment, **cache, 'XDG_CONFIG_HOME': os.path.join(folder, 'config'),
                'PATH': os.path.join(folder, 'build', 'bin') + os.pathsep + self.environment['PATH']}
