# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What is measured of a device: curves, which are times by size, and how far they can be trusted.

A cell is one size of one curve. It is measured once in each round of a batch; between its
measurements all other curves have their turn, so that a busy moment of the machine strikes
all of them and not one. The cell's value is the median of the batch, and its spread is the
distance of the quartiles, relative to the median. When a cell is measured again because of
its spread, the new batch stands for itself, and that with the smaller spread counts.
"""
import statistics
from collections import namedtuple

from tools import EAGER_MOST

# Shorter messages can be injected: they are always eager, and tagrv_perf injects them.
SMALLEST = 1536
BEYOND = 4                      # rendezvous is measured up to this many times the longest eager message
FIRST_USE = (65536, 4 << 20)    # sizes of messages whose memory is registered for them alone
NOISY_PART = 0.25               # a curve with more noisy cells than this is not to be trusted

# name: what is measured; protocol: of FI_TAGRV_PROTO; env: further variables, whose names follow FI_TAGRV_
Curve = namedtuple('Curve', 'name protocol env')
LONG = {'EAGER_MAX': str(EAGER_MOST)}   # so that eager can be measured beyond where it is used
CURVES = (
    Curve('eager', 'eager', LONG),
    Curve('prepared', 'prepared', LONG),
    Curve('get', 'get', LONG),
    Curve('put', 'put', LONG),
    # Its fragments are as long as the user's packets.
    Curve('copy', 'copy', {}),
    # A pipeline is for memory that is not registered yet, so it is compared with gets of such memory.
    Curve('pipeline', 'pipeline', {'REGCACHE': 'no'}),
    Curve('first get', 'get', {'REGCACHE': 'no'}),
)
PROTOCOLS = tuple(dict.fromkeys(curve.protocol for curve in CURVES))
NEEDED = {'eager', 'get', 'copy'}       # without these there is nothing to choose by
RATE = 'rate'                           # messages per second; in Device.cells it has the size 0


def spread(values):
    """Distance of the quartiles, relative to the median."""
    if len(values) < 4:
        return (max(values) - min(values)) / statistics.median(values)
    low, middle, high = statistics.quantiles(values, method='inclusive')
    return (high - low) / middle


class Cell:
    """One size of one curve."""

    def __init__(self):
        self.batches = []

    def begin(self):
        self.batches.append([])

    def add(self, value):
        if not self.batches:
            self.begin()
        self.batches[-1].append(value)

    def best(self):
        return min((batch for batch in self.batches if batch), key=spread)

    @property
    def value(self):
        return statistics.median(self.best())

    @property
    def spread(self):
        return spread(self.best())


class Device:
    """A device, the device of its peer, and the measurements of both."""

    def __init__(self, table, peer, model, able):
        self.transport, self.name = table['transport'], table['device']
        self.peer = peer                # device of the second process
        self.model = model              # of the peer's device, if these are the values of a pair; else None
        self.eager_limit = table['eager_limit']
        self.max_packet = table['max_packet']   # in use, not when EAGER_MAX is that of LONG
        self.curves = [curve for curve in CURVES if curve.protocol in able]
        self.cells = {}
        lacks = NEEDED - {curve.name for curve in self.curves}
        self.why_not = f'{", ".join(sorted(lacks))} cannot be measured' if lacks else None

    @property
    def key(self):
        """Words of the head of its section."""
        return ('pair', self.transport, self.name, self.model) if self.model else ('device', self.transport, self.name)

    @property
    def title(self):
        return f'{self.transport} {self.name}' + (f' to {self.peer}' if self.peer != self.name else '')

    def sizes(self, name, coarse=False):
        """Sizes at which a curve is measured: two for each doubling, or one."""
        if name in ('pipeline', 'first get'):
            low, most = FIRST_USE
        else:
            low, most = SMALLEST, self.eager_limit * (1 if name in ('eager', 'prepared') else BEYOND)
        sizes = [size for k in range(64) for size in ((1 << k), (3 << k) >> 1) if low <= size <= most]
        return sorted(size for size in sizes if size in (low, most) or not coarse or not size & (size - 1))

    def cell(self, name, size):
        return self.cells.setdefault((name, size), Cell())

    def values(self, name):
        """Size -> seconds."""
        return {size: cell.value for (curve, size), cell in sorted(self.cells.items()) if curve == name}

    @property
    def rate(self):
        return self.cells[RATE, 0].value

    def noisy(self, limit):
        """Curve -> sizes whose spread is above the limit."""
        found = {}
        for (name, size), cell in sorted(self.cells.items()):
            if cell.spread > limit:
                found.setdefault(name, []).append(size)
        return found

    def untrusted(self, limit):
        """Curve -> sizes: of those curves that have too many noisy cells."""
        return {name: sizes for name, sizes in self.noisy(limit).items()
                if len(sizes) > NOISY_PART * len(self.values(name))}

    def worst(self, name):
        """The greatest spread on a curve, and its size."""
        return max((cell.spread, size) for (curve, size), cell in self.cells.items() if curve == name)
