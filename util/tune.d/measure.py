# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Measures the curves of devices in turns, again where the machine was too noisy, and shows how far it is."""
import sys
import time

from curves import RATE

REPEATS = 2                     # further batches of what is noisy, at most


class Progress:
    """A bar with the time left, if standard error is a terminal; else nothing."""

    WIDTH = 24

    def __init__(self, out=None, clock=time.monotonic):
        self.out, self.clock = out or sys.stderr, clock
        self.on = self.out.isatty()
        self.done = self.total = 0
        self.start = clock()

    def more(self, steps):
        self.total += steps

    def step(self, text):
        """Before a step begins."""
        if self.on:
            full = self.done * self.WIDTH // max(self.total, 1)
            left = (self.clock() - self.start) / self.done * (self.total - self.done) if self.done else 0
            tail = f', {left:.0f} s left' if self.done else ''
            self.out.write(f'\r[{"#" * full:.<{self.WIDTH}}] {self.done}/{self.total} {text}{tail}\033[K')
            self.out.flush()
        self.done += 1

    def clear(self):
        """Before anything else is printed."""
        if self.on:
            self.out.write('\r\033[K')
            self.out.flush()


class Plan:
    """How much is measured, and what noise is tolerated."""

    def __init__(self, quick, limit):
        self.rounds = 4 if quick else 9
        self.seconds = 0.01 if quick else 0.05  # for each size in a round
        self.coarse = quick
        self.limit = limit              # of the spread of a cell


def measure_curve(tools, device, curve, sizes, seconds):
    env = {f'FI_TAGRV_{name}': value for name, value in curve.env.items()}
    for row in tools.perf(device, 'lat', sizes, seconds, FI_TAGRV_PROTO=f'{curve.protocol}:0-', **env):
        device.cell(curve.name, row['bytes']).add(row['p50_us'] * 1e-6)


def measure_rate(tools, device, seconds):
    row = tools.perf(device, 'rate', None, seconds)[0]
    device.cell(RATE, 0).add(row['per_second'])


def batch(tools, device, wanted, plan, progress):
    """Measures the wanted sizes (curve -> sizes), each once in every round, curves in turns."""
    curves = {curve.name: curve for curve in device.curves}
    for name, sizes in wanted.items():
        for size in sizes:
            device.cell(name, size).begin()
    for i in range(plan.rounds):
        names = list(wanted)
        for name in names if i % 2 == 0 else reversed(names):
            progress.step(f'{device.title}: {name}')
            if name == RATE:
                measure_rate(tools, device, plan.seconds)
            else:
                measure_curve(tools, device, curves[name], wanted[name], plan.seconds)


def size_list(sizes, most=6):
    shown = ', '.join(map(str, sizes[:most]))
    return f'{shown} and {len(sizes) - most} more' if len(sizes) > most else shown


def tell_noise(device, noisy, number, progress):
    progress.clear()
    for name, sizes in noisy.items():
        worst, _ = device.worst(name)
        at = '' if name == RATE else f' at {size_list(sizes)} bytes'
        print(f'{device.title}: {name} varies by up to {worst * 100:.0f} %{at}: measured again '
              f'({number} of {REPEATS})', file=sys.stderr)


def measure(tools, device, plan, progress):
    wanted = {curve.name: device.sizes(curve.name, plan.coarse) for curve in device.curves}
    wanted[RATE] = [0]
    batch(tools, device, wanted, plan, progress)
    for number in range(1, REPEATS + 1):
        noisy = device.noisy(plan.limit)
        if not noisy:
            break
        tell_noise(device, noisy, number, progress)
        progress.more(plan.rounds * len(noisy))
        batch(tools, device, noisy, plan, progress)
    progress.clear()


def steps(device, plan):
    """Steps of the first batch."""
    return plan.rounds * (len(device.curves) + 1)
