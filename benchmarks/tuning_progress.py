#!/usr/bin/env python3
"""After how many trials runs of `gantry tune` had most of what a long run gained.

usage: benchmarks/tuning_progress.py [--share 0.95] [--after SECONDS] LONG.json RUN.json...

The files are results of tuning.py, or of `gantry tune --json`, of one network and setting. Of each run, the long one too, the
first entry of its history is printed whose gain is at least that share of the long run's last: the trials and seconds until
then, and what the run had in the end; with --after what it had after so many seconds, too. A gain is the sum over kernels
of their share of the network's time by what was accepted for each, so that runs which err by a percent of a kernel err here
by less than that.
"""
import argparse
import json
import pathlib


def history_of(file):
    result = json.loads(pathlib.Path(file).read_text(encoding='utf-8'))
    return result.get('tune', result)['history']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--share', type=float, default=0.95)
    parser.add_argument('--after', type=float, help='seconds after which the gain is told, too')
    parser.add_argument('long')
    parser.add_argument('runs', nargs='*')
    args = parser.parse_args()
    long = history_of(args.long)
    if not long:
        parser.error(f'{args.long}: gained nothing')
    asked = args.share * long[-1]['gain']
    for file in (args.long, *args.runs):
        history = history_of(file)
        reached = next((one for one in history if one['gain'] >= asked), None)
        words = f"{reached['trials']} trials, {reached['seconds']:.0f} s" if reached else 'never'
        last = history[-1]['gain'] if history else 0
        early = ''
        if args.after:
            then = [one['gain'] for one in history if one['seconds'] <= args.after]
            early = f"; after {args.after:.0f} s {then[-1] if then else 0:.2%}"
        print(f"{file}: {args.share:.0%} of {long[-1]['gain']:.2%}: {words}{early}; in the end {last:.2%}")


if __name__ == '__main__':
    main()
