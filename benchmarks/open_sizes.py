#!/usr/bin/env python3
"""Times models whose sizes are open, one module for all of their sizes, beside ONNX Runtime: the table "How fast open sizes
are" of docs/onnx-support.md.

  python3 -m venv VENV && VENV/bin/pip install numpy onnxruntime
  VENV/bin/pip download --no-deps --only-binary :all: -d WHEELS silero-vad rapidocr-onnxruntime basic-pitch
  benchmarks/export_decoder.py MODELS       # and bert_base_dynamic, resnet50_dynamic, ssdlite_mobilenet_v3 of PyTorch's exporter
  VENV/bin/python benchmarks/open_sizes.py --gantry build/bin/gantry MODELS WHEELS

Both run in turns; what counts is the median over the rounds. A model that is not in the folders is left out by name. The
machine must do nothing else. Inputs are made up as package_models.py makes them. The error is shown beside the largest element
of that output, and nothing is judged by it: detections of random weights tie and come in another order, and a text detector
answers noise with next to nothing."""
import argparse
import json
import os
import sys
import tempfile

import onnxruntime

import package_models

# Of each model (by the end of its path): batch, sizes and values of each row.
ROWS = {
    'silero_vad.onnx': [(1, {}, {'sr': 16000})],
    'silero_vad_16k_op15.onnx': [(1, {}, {'sr': 16000})],
    'ch_PP-OCRv4_det_infer.onnx': [(1, {'x.2': 640, 'x.3': 640}, {})],
    'ch_ppocr_mobile_v2.0_cls_infer.onnx': [(1, {'x.2': 48, 'x.3': 192}, {})],
    'ch_PP-OCRv4_rec_infer.onnx': [(1, {'x.2': 48, 'x.3': 320}, {})],
    'nmp.onnx': [(1, {}, {})],
    'ssdlite_mobilenet_v3.onnx': [(1, {}, {})],
    'decoder.onnx': [(1, {'past': past}, {}) for past in (0, 15, 127, 511)],
    'bert_base_dynamic.onnx': [(1, {'sequence': length}, {}) for length in (1, 17, 128, 384)],
    'resnet50_dynamic.onnx': [(batch, {'height': side, 'width': side}, {})
                              for batch, side in ((1, 64), (1, 224), (1, 512), (3, 160), (8, 64), (8, 224), (8, 512))],
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', default='build/bin/gantry')
    parser.add_argument('--only', action='append', help='models whose paths contain this')
    parser.add_argument('--seconds', type=float, default=2.0, help='of one measurement')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--threads', type=int, nargs='+', default=[1])
    parser.add_argument('--json', help='the file that results are written to')
    parser.add_argument('folders', nargs='+')
    return parser.parse_args()


def compare(options, path, module, row, threads, folder):
    """Medians of both in ms, their ratio, and the worst error as a share of the largest element."""
    batch, sizes, values = row
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = threads
    session_options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, session_options, providers=['CPUExecutionProvider'])
    feeds, inputs = package_models.made_up(session, batch, sizes, values, folder)
    result = package_models.errors(options.gantry, module, session, feeds, inputs, folder)
    times = package_models.times(options.gantry, module, inputs, session, feeds, threads, options.seconds, options.rounds)
    return {'model': os.path.basename(path), 'batch': batch, 'sizes': sizes, 'threads': threads, **result, **times,
            'ratio': times['gantry_ms'] / times['onnxruntime_ms']}


def main():
    options = arguments()
    results, found = [], set()
    with tempfile.TemporaryDirectory() as work:
        for path, name in package_models.models(options.folders, os.path.join(work, 'unpacked')):
            model = os.path.basename(path)
            if model not in ROWS or model in found or (options.only and not any(part in name for part in options.only)):
                continue
            found.add(model)
            module = os.path.join(work, 'module.gtm')
            package_models.run_gantry([options.gantry, 'compile', path, '-o', module, '--force'])
            for threads in options.threads:
                for row in ROWS[model]:
                    results.append(compare(options, path, module, row, threads, work))
                    print('{model} batch {batch} {sizes} threads {threads}: {gantry_ms:.4f} / {onnxruntime_ms:.4f} ms = '
                          '{ratio:.3f}, error {error:.1e} of {largest:.1e}'.format(**results[-1]), flush=True)
    for model in sorted(ROWS.keys() - found):
        if not options.only or any(part in model for part in options.only):
            print(f'{model}: not in the folders', file=sys.stderr)
    if options.json:
        with open(options.json, 'w', encoding='utf-8') as file:
            json.dump(results, file, indent=1)


if __name__ == '__main__':
    main()
