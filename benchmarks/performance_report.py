"""The tables and the roofline picture of docs/performance.md, from what performance.py measured.

write() replaces what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`, and draws roofline.svg beside the
file. The prose around it is written by hand.
"""
import math
import os
import re
import statistics

import scaling

TITLES = {'native': 'native (AVX-512 and AMX where the machine has them)', 'x86-64-v4': 'x86-64-v4 (AVX-512, no AMX)',
          'x86-64-v3': 'x86-64-v3 (AVX2)', 'bf16': 'native, `--precision bf16`',
          'fp16': 'native, `--precision fp16`'}
ORDER = ['native', 'x86-64-v4', 'x86-64-v3', 'bf16', 'fp16']


def median(samples):
    known = [s for s in samples if s is not None]
    return statistics.median(known) if known else None


def ratio(peer, mine):
    """How many times faster gantry is: the median of the rounds' ratios."""
    ratios = [p / m for p, m in zip(peer, mine) if p is not None and m is not None]
    return statistics.median(ratios) if ratios else None


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def number(value, digits=3):
    if value is None:
        return '–'
    if value == 0:
        return '0'
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f'{value:.{min(decimals, 4)}f}'


def times(value):
    return '–' if value is None else f'{value:.2f}'


def summary(entry):
    """One line for whoever watches."""
    text = f"{entry['network']}, {entry['mode']}, {entry['threads']} threads: "
    if entry['error']:
        return text + entry['error']
    mine = entry['samples_ms']
    text += f'{number(median(mine))} ms'
    for name, peer in entry['peers'].items():
        text += f"; {name} " + (peer['error'] or f"{number(median(peer['samples_ms']))} ms, "
                                f"{times(ratio(peer['samples_ms'], mine))} times faster")
    return text


def table(head, rows):
    lines = ['| ' + ' | '.join(head) + ' |', '| --- ' * len(head) + '|']
    return '\n'.join(lines + ['| ' + ' | '.join(row) + ' |' for row in rows])


def flops_of(data, network):
    """Operations of a run, as the model states them, whatever algorithm does them with fewer."""
    for mode in ORDER:
        kernels = data['profiles'].get(f'{network}|{mode}')
        if kernels:
            return sum(kernel['flops'] for kernel in kernels)
    return None


def peak_of(data, mode, threads):
    """The multiply-add peak in GFLOP/s that a mode is compared with, and its name."""
    peaks = data['peaks'].get(str(threads), {})
    if mode == 'bf16' and 'amx_bf16_gflops' in peaks:
        return peaks['amx_bf16_gflops'], 'AMX bf16'
    if mode == 'bf16' and 'avx512_bf16_gflops' in peaks:
        return peaks['avx512_bf16_gflops'], 'AVX-512 bf16'
    if mode == 'fp16' and 'avx512_gflops' in peaks:
        return 2 * peaks['avx512_gflops'], 'AVX512-FP16'
    keys = ['avx2_gflops'] if mode == 'x86-64-v3' else ['avx512_gflops', 'avx2_gflops', 'neon_gflops']
    for key in keys:
        if key in peaks:
            return peaks[key], {'avx512_gflops': 'AVX-512', 'avx2_gflops': 'AVX2', 'neon_gflops': 'NEON'}[key]
    return None, ''


def networks_table(data, mode):
    runs = [r for r in data['runs'].values() if r['mode'] == mode]
    networks = sorted({r['network'] for r in runs})
    threads = sorted({r['threads'] for r in runs})
    held = '-avx2' if mode == 'x86-64-v3' else ''
    head = ['network']
    for t in threads:
        label = f'{t} thread' + ('s' if t > 1 else '')
        _, peak_name = peak_of(data, mode, t)
        head += [f'gantry, ms, {label}', 'ONNX Runtime', 'times faster', 'OpenVINO', 'times faster',
                 f'share of {peak_name} peak']
    head += ['2 threads / 1', 'error']
    rows, failed, gains = [], {}, {}  # failed: networks by what went wrong
    for network in networks:
        row, speeds, deviation = [network], {}, None
        for t in threads:
            run = data['runs'].get(f'{network}|{mode}|{t}')
            if run is None:
                row += ['–'] * 6
                continue
            if run['error']:
                failed.setdefault(f"gantry: {run['error']}", set()).add(network)
            mine, deviation = run['samples_ms'], run['deviation'] or deviation
            speeds[t] = median(mine)
            row.append(number(speeds[t]))
            for peer in ('onnxruntime' + held, 'openvino' + held):
                other = run['peers'].get(peer)
                if other is None or other['error']:
                    row += ['–', '–']
                    if other:
                        failed.setdefault(f"{peer}: {other['error']}", set()).add(network)
                    continue
                gain = ratio(other['samples_ms'], mine)
                if gain is not None:
                    gains.setdefault((t, peer), []).append(gain)
                row += [number(median(other['samples_ms'])), times(gain)]
            peak, _ = peak_of(data, mode, t)
            flops = flops_of(data, network)
            share = flops / (speeds[t] * 1e6) / peak if peak and flops and speeds[t] else None
            row.append('–' if share is None else f'{100 * share:.0f} %')
        both = speeds.get(1) and speeds.get(2)
        row.append(times(speeds[1] / speeds[2]) if both else '–')
        row.append('–' if deviation is None else f'{deviation:.1e}')
        rows.append(row)
    mean = ['geometric mean']
    for t in threads:
        mean += ['', '', times(geometric_mean(gains.get((t, 'onnxruntime' + held), []))), '',
                 times(geometric_mean(gains.get((t, 'openvino' + held), []))), '']
    rows.append(mean + ['', ''])
    text = table(head, rows)
    if failed:
        named = {what: 'every network' if names == set(networks) else ', '.join(sorted(names))
                 for what, names in failed.items()}
        text += '\n\nWhat failed: ' + '; '.join(f'{names}: {what}' for what, names in sorted(named.items())) + '.'
    return text


def scaling_table(data):
    """A row a network: what two threads gain beside what the machine gives two processes."""
    rows = []
    for network, measured in sorted(data.get('scaling', {}).items()):
        threads, processes = scaling.gains(measured)
        rows.append([network, number(median([statistics.mean(r['alone']) for r in measured])),
                     number(median([r['threads'] for r in measured])), times(threads), times(processes),
                     f'{100 * threads / processes:.0f} %'])
    return table(['network', '1 thread, ms', '2 threads, ms', '2 threads / 1', '2 processes / 1', 'of that'], rows)


def kind_of(name):
    """The kind of a kernel by its ops: its algorithm if it has one, else its first heavy op."""
    bracketed = re.search(r'([\w.]+\[[^\]]*\])', name)
    if bracketed:
        return bracketed.group(1)
    parts = name.split('+')
    heavy = [p for p in parts if p.startswith(('nn.conv', 'nn.dense', 'matmul', 'nn.attention', 'nn.lstm', 'nn.gru',
                                               'nn.rnn'))]
    if heavy:
        return heavy[0]
    named = [p for p in parts if '.' in p or p in ('softmax', 'reduce', 'concat', 'transpose')]
    return named[0] if named else 'elementwise'


def roofline_seconds(kernel, peaks, peak):
    """The least time: of its operations at the multiply-add peak or of its traffic, whichever is longer."""
    bandwidth = peaks['l2_gb_per_s'] if kernel['bytes'] < 1 << 20 else peaks['memory_gb_per_s']
    return kernel['flops'] / (peak * 1e9), kernel['bytes'] / (bandwidth * 1e9)


def kernels_table(data, mode):
    peaks = data['peaks'].get('1')
    peak, peak_name = peak_of(data, mode, 1)
    if not peaks or not peak:
        return 'No figures.'
    kinds = {}
    for key, kernels in data['profiles'].items():
        if key.split('|')[1] != mode:
            continue
        for kernel in kernels:
            kind = kinds.setdefault(kind_of(kernel['name']), dict(ms=0, flops=0, bytes=0, count=0, least=0, compute=0))
            compute, traffic = roofline_seconds(kernel, peaks, peak)
            kind['ms'] += kernel['total_ms']
            kind['flops'] += kernel['flops']
            kind['bytes'] += kernel['bytes']
            kind['count'] += 1
            kind['least'] += 1e3 * max(compute, traffic)
            kind['compute'] += 1e3 * compute
    total = sum(k['ms'] for k in kinds.values())
    rows = []
    for name, k in sorted(kinds.items(), key=lambda item: -item[1]['ms']):
        if k['ms'] < 0.001 * total:
            continue
        bound = 'arithmetic' if k['compute'] > 0.5 * k['least'] else 'memory'
        rows.append([name, str(k['count']), number(k['ms']), f"{100 * k['ms'] / total:.1f} %",
                     number(k['flops'] / k['ms'] / 1e6), number(k['bytes'] / k['ms'] / 1e6),
                     f"{100 * k['flops'] / k['ms'] / 1e6 / peak:.0f} %", bound,
                     f"{100 * k['least'] / k['ms']:.0f} %"])
    return table(['kind of kernel', 'kernels', 'ms', 'share of time', 'GFLOP/s', 'GB/s', f'of {peak_name} peak', 'bound by',
                  'of its roof'], rows)


def where_table(data, mode):
    """A row a network: its time as arithmetic at the peak, what memory adds, and what is lost."""
    peaks = data['peaks'].get('1')
    peak, _ = peak_of(data, mode, 1)
    if not peaks or not peak:
        return 'No figures.'
    rows = []
    for key, kernels in sorted(data['profiles'].items()):
        network, of_mode = key.split('|')
        if of_mode != mode:
            continue
        arithmetic = memory = lost_arithmetic = lost_memory = total = 0
        losses = []
        for kernel in kernels:
            compute, traffic = (1e3 * s for s in roofline_seconds(kernel, peaks, peak))
            total += kernel['total_ms']
            arithmetic += compute
            memory += max(0, traffic - compute)
            lost = kernel['total_ms'] - max(compute, traffic)
            losses.append((lost, kernel['name'], kernel['total_ms']))
            if compute >= traffic:
                lost_arithmetic += lost
            else:
                lost_memory += lost
        lost, name, taken = max(losses)
        rows.append([network, number(total), f'{100 * arithmetic / total:.0f} %', f'{100 * memory / total:.0f} %',
                     f'{100 * lost_arithmetic / total:.0f} %', f'{100 * lost_memory / total:.0f} %',
                     f'{name[:48]}, {number(lost)} ms of {number(taken)}'])
    return table(['network', 'sum of kernels, ms', 'arithmetic at the peak', 'waiting for memory at its bandwidth',
                  'above the roof, arithmetic-bound', 'above the roof, memory-bound', 'loses most'], rows)


def compile_table(data):
    rows = [[name, f"{c['cold_s']:.2f}", f"{c['warm_s']:.2f}", f"{c['module_bytes'] / 2**20:.0f}"]
            for name, c in sorted(data['compile'].items())]
    return table(['network', 'cache empty, s', 'cache filled, s', 'module, MiB'], rows) if rows else 'No figures.'


def machine_text(data):
    machine = data['machine'].get('description', {})
    lines = [f"{machine.get('cpu', '?')}, {machine.get('cores', '?')} cores, {machine.get('system', '?')}."]
    versions = {}
    for run in data['runs'].values():
        for name, peer in run['peers'].items():
            if peer.get('version'):
                versions[name.split('-')[0]] = peer['version']
    if versions:
        lines.append('Peers: ' + ', '.join(f'{name} {version}' for name, version in sorted(versions.items())) + '.')
    dates = sorted({run['date'] for run in data['runs'].values()})
    if dates:
        lines.append(f"Measured {dates[0]}" + (f' to {dates[-1]}' if dates[-1] != dates[0] else '') + '.')
    keys = [('avx512_gflops', 'AVX-512 multiply-add, GFLOP/s'), ('avx2_gflops', 'AVX2 multiply-add, GFLOP/s'),
            ('neon_gflops', 'NEON multiply-add, GFLOP/s'), ('avx512_bf16_gflops', 'AVX-512 bf16, GFLOP/s'),
            ('amx_bf16_gflops', 'AMX bf16, GFLOP/s'),
            ('l2_gb_per_s', 'reading from the second-level cache, GB/s'),
            ('memory_gb_per_s', 'reading from memory, GB/s')]
    threads = sorted(data['peaks'], key=int)
    rows = [[label] + [number(data['peaks'][t].get(key)) for t in threads]
            for key, label in keys if any(key in data['peaks'][t] for t in threads)]
    peaks = table(['peak (`build/bin/peak`)'] + [f"{t} thread{'s' if t != '1' else ''}" for t in threads], rows)
    pools = '\n\n'.join(f'```\n{text.strip()}\n```' for _, text in sorted(data['fork_join'].items()))
    return ' '.join(lines) + '\n\n' + peaks + ('\n\n`build/bin/fork_join`:\n\n' + pools if pools else '')


COLOURS = ['#4363d8', '#e6194b', '#3cb44b', '#f58231', '#911eb4', '#008080', '#9a6324', '#808000', '#000075', '#a9a9a9']


def roofline_svg(data, mode='native'):
    """Kernels as points over arithmetic intensity, the machine's peaks as roofs, one thread, both axes logarithmic."""
    peaks = data['peaks'].get('1')
    points = [(kind_of(k['name']), k) for key, kernels in data['profiles'].items() if key.endswith('|' + mode)
              for k in kernels if k['flops'] > 0 and k['bytes'] > 0 and k['total_ms'] > 0.01]
    if not peaks or not points:
        return None
    width, height, left, top = 900, 560, 70, 20
    low_x, high_x, low_y, high_y = -1, 3, -1, 4  # powers of ten: FLOP/byte, GFLOP/s

    def place(intensity, rate):
        x = (math.log10(intensity) - low_x) / (high_x - low_x)
        y = (math.log10(rate) - low_y) / (high_y - low_y)
        return left + min(max(x, 0), 1) * (width - left - 230), height - 50 - min(max(y, 0), 1) * (height - 50 - top)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             'font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for power in range(low_x, high_x + 1):
        x, y = place(10 ** power, 10 ** low_y)
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{top}" stroke="#ddd"/>'
                     f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{10 ** power:g}</text>')
    for power in range(low_y, high_y + 1):
        x, y = place(10 ** low_x, 10 ** power)
        end, _ = place(10 ** high_x, 1)
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                     f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{10 ** power:g}</text>')
    x, y = place(10, 10 ** low_y)
    parts.append(f'<text x="{x:.1f}" y="{y + 38:.1f}">operations a byte of compulsory traffic</text>'
                 f'<text x="14" y="{height / 2:.0f}" transform="rotate(-90 14 {height / 2:.0f})" '
                 'text-anchor="middle">GFLOP/s, one thread</text>')
    roofs = [(peaks[k], label) for k, label in (('avx512_gflops', 'AVX-512'), ('avx2_gflops', 'AVX2'),
                                                ('neon_gflops', 'NEON'), ('avx512_bf16_gflops', 'AVX-512 bf16'),
                                                ('amx_bf16_gflops', 'AMX bf16')) if k in peaks]
    for peak, label in roofs:
        knee = peak / peaks['memory_gb_per_s']
        (x1, y1), (x2, y2) = place(min(max(knee, 10 ** low_x), 10 ** high_x), peak), place(10 ** high_x, peak)
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="black"/>'
                     f'<text x="{x2 - 4:.1f}" y="{y2 - 4:.1f}" text-anchor="end">{label} {peak:.0f}</text>')
    top_rate = max(peak for peak, _ in roofs)
    for key, label in (('memory_gb_per_s', 'memory'), ('l2_gb_per_s', 'second-level cache')):
        start = max(10 ** low_x, 10 ** low_y / peaks[key])
        (x1, y1), (x2, y2) = place(start, start * peaks[key]), place(min(top_rate / peaks[key], 10 ** high_x), top_rate)
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="black" '
                     f'stroke-dasharray="{"none" if key[0] == "m" else "4 3"}"/>'
                     f'<text x="{x1 + 8:.1f}" y="{y1 - 8:.1f}">{label} {peaks[key]:.0f} GB/s</text>')
    spent = {}
    for kind, k in points:
        spent[kind] = spent.get(kind, 0) + k['total_ms']
    ranked = sorted(spent, key=lambda kind: -spent[kind])
    colour = {kind: COLOURS[min(i, len(COLOURS) - 1)] for i, kind in enumerate(ranked)}
    for kind, k in points:
        x, y = place(k['flops'] / k['bytes'], k['flops'] / k['total_ms'] / 1e6)
        radius = min(2 + 1.5 * math.sqrt(k['total_ms']), 14)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour[kind]}" fill-opacity="0.55"/>')
    for i, kind in enumerate(ranked[:len(COLOURS)]):
        y = top + 14 + 20 * i
        label = kind if i < len(COLOURS) - 1 else 'others'
        parts.append(f'<circle cx="{width - 210}" cy="{y}" r="6" fill="{colour[kind]}"/>'
                     f'<text x="{width - 198}" y="{y + 4}">{label}</text>')
    return '\n'.join(parts) + '\n</svg>\n'


def sections(data):
    result = {'machine': machine_text(data), 'compile': compile_table(data)}
    if data.get('scaling'):
        result['scaling'] = scaling_table(data)
    for mode in ORDER:
        if any(run['mode'] == mode for run in data['runs'].values()):
            result[f'networks {mode}'] = f'**Target {TITLES[mode]}**\n\n' + networks_table(data, mode)
        if any(key.endswith('|' + mode) for key in data['profiles']):
            result[f'where {mode}'] = where_table(data, mode)
            result[f'kernels {mode}'] = kernels_table(data, mode)
    return result


def write(data, path):
    with open(path) as file:
        text = file.read()
    for name, content in sections(data).items():
        pattern = re.compile(rf'(<!-- begin {re.escape(name)} -->\n).*?(<!-- end {re.escape(name)} -->)', re.S)
        if not pattern.search(text):
            print(f'{path}: no place for "{name}"')
            continue
        text = pattern.sub(lambda found: found.group(1) + '\n' + content + '\n\n' + found.group(2), text)
    picture = roofline_svg(data)
    if picture:
        with open(os.path.join(os.path.dirname(os.path.abspath(path)), 'roofline.svg'), 'w') as file:
            file.write(picture)
    with open(path + '.partial', 'w') as file:
        file.write(text)
    os.replace(path + '.partial', path)
