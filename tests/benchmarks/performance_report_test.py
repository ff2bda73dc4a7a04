"""The tables of docs/performance.md from made-up measurements."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'benchmarks'))
import performance_report as report  # noqa: E402

TEXT = 'before\n<!-- begin networks native -->\nold\n<!-- end networks native -->\nafter\n'


def run(network, threads, mine, peer, error=None):
    return {'network': network, 'mode': 'native', 'threads': threads, 'samples_ms': mine, 'error': error,
            'deviation': 2e-7, 'date': '2026-01-01',
            'peers': {'onnxruntime': {'samples_ms': peer, 'error': None, 'version': '1.0'},
                      'openvino': {'samples_ms': [None] * 3, 'error': 'does not know the op', 'version': None}}}


def results():
    runs = [run('a', 1, [10, 20, 10], [20, 40, 30]), run('a', 2, [5, 5, 5], [10, 10, 10]),
            run('b', 1, [None] * 3, [4, 4, 4], 'node Foo is not supported')]
    return {'machine': {'description': {'cpu': 'A CPU', 'cores': 2, 'system': 'Linux'}},
            'peaks': {'1': {'avx512_gflops': 200.0, 'l2_gb_per_s': 50.0, 'memory_gb_per_s': 10.0}},
            'profiles': {'a|native': [
                {'name': 'nn.conv[winograd4]+nn.relu', 'calls': 1, 'total_ms': 5.0, 'flops': 1e9, 'bytes': 1e6},
                {'name': 'add', 'calls': 1, 'total_ms': 5.0, 'flops': 1e6, 'bytes': 2e7}]},
            'compile': {'a': {'cold_s': 3.25, 'warm_s': 0.5, 'module_bytes': 1 << 20}}, 'fork_join': {},
            'runs': {f"{r['network']}|native|{r['threads']}": r for r in runs}}


class Report(unittest.TestCase):
    def test_ratios_are_medians_of_rounds(self):
        self.assertEqual(report.ratio([20, 40, 30], [10, 20, 10]), 2)
        self.assertEqual(report.ratio([20, None, 30], [10, 20, None]), 2)
        self.assertIsNone(report.ratio([None], [1]))

    def test_networks_that_fail_are_named(self):
        text = report.networks_table(results(), 'native')
        self.assertIn('b: gantry: node Foo is not supported', text)
        self.assertIn('every network: openvino: does not know the op', text)
        row = next(line for line in text.splitlines() if line.startswith('| a '))
        self.assertIn('2.00', row)  # both the ratio and the gain of a second thread
        self.assertIn('50 %', row)  # 1.001e9 operations in 10 ms of 200 GFLOP/s

    def test_kernels_are_grouped_by_algorithm_and_judged_by_their_roof(self):
        text = report.kernels_table(results(), 'native')
        winograd = next(line for line in text.splitlines() if 'winograd4' in line)
        self.assertIn('| nn.conv[winograd4] | 1 |', winograd)
        self.assertIn('arithmetic', winograd)
        self.assertIn('100 %', winograd)
        self.assertIn('memory', next(line for line in text.splitlines() if line.startswith('| elementwise')))

    def test_a_second_thread_is_judged_by_the_same_rounds(self):
        measured = [{'alone': [10, 12], 'threads': 5.5, 'together': [10, 15]},
                    {'alone': [20, 22], 'threads': 14, 'together': [25, 22]},
                    {'alone': [10, 12], 'threads': 11, 'together': [20, 24]}]
        data = {'scaling': {'a|native': measured, 'b|native': measured, 'b|bf16': measured[:1]}}
        rows = report.scaling_table(data).splitlines()[-2:]
        self.assertEqual(rows, ['| a | 11.0 | 11.0 | 1.50 | 1.80 | – | – | – | – |',
                                '| b | 11.0 | 11.0 | 1.50 | 1.80 | 11.0 | 5.50 | 2.00 | 1.80 |'])
        self.assertEqual(report.sections({**results(), **data})['scaling'], report.scaling_table(data))

    def test_the_summary_names_the_network_that_gains_least(self):
        data = results()
        data['runs']['c|native|1'] = run('c', 1, [10, 10, 10], [80, 80, 80])
        row = report.summary_table(data).splitlines()[-1]
        self.assertEqual(row, '| native | 4.00, least 2.00 (a) | – | 2.00, least 2.00 (a) | – | 2.0e-07 |')

    def test_precisions_stand_side_by_side(self):
        data = results()
        exact = run('a', 1, [30, 20, 20], [20, 40, 30])
        data['runs']['a|fp32|1'] = {**exact, 'mode': 'fp32', 'deviation': 1e-7}
        lines = report.precisions_table(data).splitlines()
        self.assertEqual(lines[0], '| network | auto, ms | error | fp32, ms | error |')
        self.assertEqual(lines[2:], ['| a | 10.0 | 2.0e-07 | 20.0 | 1.0e-07 |', '| b | – | – | – | – |'])

    def test_what_is_lost_names_its_node(self):
        data = results()
        data['profiles']['a|native'][1]['nodes'] = ['/layer/Add', '/layer/Relu']
        # 1e9 operations at 200 GFLOP/s are 5 ms; 20 MB at 10 GB/s 2 of 5.
        self.assertEqual(report.where_table(data, 'native').splitlines()[-1],
                         '| a | 10.0 | 50 % | 20 % | 30 % | 0 % | add of /layer/Add: 3.00 ms of 5.00 |')

    def test_traffic_is_measured_by_the_cache_that_holds_it(self):
        peaks = {'l2_gb_per_s': 100.0, 'l3_gb_per_s': 20.0, 'memory_gb_per_s': 10.0, 'l2_bytes': 2000, 'l3_bytes': 40000}
        seconds = [report.roofline_seconds({'flops': 0, 'bytes': size}, peaks, 1)[1] for size in (900, 9000, 90000)]
        for found, wanted in zip(seconds, (9e-9, 4.5e-7, 9e-6)):
            self.assertAlmostEqual(found / wanted, 1)

    def test_only_the_marked_places_of_the_file_change(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'performance.md')
            with open(path, 'w') as file:
                file.write(TEXT)
            report.write(results(), path)
            with open(path) as file:
                written = file.read()
            self.assertTrue(written.startswith('before\n<!-- begin networks native -->\n'))
            self.assertTrue(written.endswith('<!-- end networks native -->\nafter\n'))
            self.assertNotIn('old', written)
            report.write(results(), path)
            with open(path) as file:
                self.assertEqual(file.read(), written)
            with open(os.path.join(folder, 'roofline.svg')) as file:
                self.assertIn('nn.conv[winograd4]', file.read())


if __name__ == '__main__':
    unittest.main()
