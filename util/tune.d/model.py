# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""From measured curves to the values by which the provider estimates (fi_tagrv(7), PROTOCOLS).

Eager and get are lines that are fitted around the size at which they cross. Every other
protocol has one value of its own, by which its line meets that of the protocol that it
competes with where the measured curves cross:

    prep_overhead   prepared and eager
    frag_overhead   copy and get
    put_more        put and get, which are parallel: a put is faster at all sizes or at none
    pipe_from       pipeline and get, both of memory that is registered for this message

The measured gets find their memory in the cache of registrations, or pay for it; either is
part of their line. So reg_overhead is the time of a look into the cache, and reg_growth is 0
unless a get grows more than a packet does.
"""
import math
import statistics

from curves import RATE, SMALLEST
from tools import Failed

AROUND = 4                      # lines are fitted to sizes up to this many times smaller or larger than the crossing
GAIN = 0.03                     # a protocol that others are measured by must be beaten by so much
NEVER = 1e18                    # bytes
TINY = 1e-9                     # seconds
FIND = 5e-8                     # seconds to find a registration in the cache; not 0: a registration costs something

# Curves that a value is computed from.
BASIS = {
    'latency': ('eager', 'get', RATE), 'overhead': ('eager', 'get', RATE), 'bandwidth': ('eager', 'get'),
    'copy_bandwidth': ('eager', 'get'), 'get_overhead': ('eager', 'get'), 'reg_overhead': (), 'reg_growth': (),
    'prep_overhead': ('prepared', 'eager'), 'frag_overhead': ('copy', 'get'), 'put_more': ('put', 'get'),
    'pipe_from': ('pipeline', 'first get'),
}
# Of no use without each other.
MAIN = ('latency', 'bandwidth', 'copy_bandwidth', 'overhead', 'get_overhead', 'reg_overhead', 'reg_growth')


def fit(points):
    """Fits a line to (size, time), least squares of relative errors. Returns seconds: fixed, per byte."""
    sums = [0.0] * 5
    for x, y in points:
        weight = 1 / (y * y)
        for k, term in enumerate((1, x, x * x, y, x * y)):
            sums[k] += weight * term
    n, sx, sxx, sy, sxy = sums
    if not n or n * sxx <= sx * sx:
        return 0.0, 0.0
    slope = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    if slope <= 0:
        return sy / n, 0.0
    fixed = (sy - slope * sx) / n
    return (fixed, slope) if fixed > 0 else (0.0, sxy / sxx)


def crossing(device, first='eager', second='get'):
    """The size from which on the second is faster at all measured sizes; None: nowhere."""
    a, b = device.values(first), device.values(second)
    sizes = sorted(set(a) & set(b))
    lead = [math.log(b[s] / a[s]) for s in sizes]    # below 0: the second is faster
    at = len(sizes)
    while at and lead[at - 1] <= 0:
        at -= 1
    if at == len(sizes):
        return None
    if not at:
        return sizes[0]
    part = lead[at - 1] / (lead[at - 1] - lead[at])
    return round(sizes[at - 1] * (sizes[at] / sizes[at - 1]) ** part)


def deciding(device, name):
    """Points around the crossing: measured curves are not quite straight, and the choice is made there."""
    middle = crossing(device)
    return [(size, time) for size, time in device.values(name).items()
            if not middle or middle / AROUND <= size <= middle * AROUND]


def main_values(device):
    eager_fixed, eager_slope = fit(deciding(device, 'eager'))
    get_fixed, get_slope = fit(deciding(device, 'get'))
    if not eager_slope or not get_slope:
        raise Failed('times do not grow with sizes; is the machine busy?')
    overhead = min(1 / device.rate, eager_fixed)
    latency = eager_fixed - overhead
    found = min(FIND, get_fixed / 4)
    get_overhead = get_fixed - 2 * found - 4 * latency - 3 * overhead
    if get_overhead < 0:
        latency = min(max(get_fixed - 2 * found - 3 * eager_fixed, 0), eager_fixed)
        overhead, get_overhead = eager_fixed - latency, 0.0
    # Where a get grows more than eager it has paid for registrations: a packet is no slower for it.
    growth = max(get_slope - eager_slope, 0) / 2
    return {
        'latency': latency,
        'bandwidth': 1 / (get_slope - 2 * growth),
        'copy_bandwidth': 1 / eager_slope,
        'overhead': overhead,
        'get_overhead': get_overhead,
        'reg_overhead': found,
        'reg_growth': growth,
    }


def lines(v, max_packet):
    """(fixed, per byte) of each protocol, as select.c has it."""
    eager = v['latency'] + v['overhead'], max(1 / v['bandwidth'], 1 / v['copy_bandwidth'])
    get = (2 * v['reg_overhead'] + 4 * v['latency'] + 3 * v['overhead'] + v['get_overhead'],
           2 * v['reg_growth'] + 1 / v['bandwidth'])
    return {
        'eager': eager,
        'get': get,
        'put': (max(get[0] + v['latency'] + v.get('put_more', 0), 0), get[1]),
        'copy': (4 * v['latency'] + 4 * v['overhead'],
                 eager[1] + (v['overhead'] + v.get('frag_overhead', 0)) / max_packet),
        'prepared': (eager[0] + v.get('prep_overhead', 0), (eager[1] + 1 / v['bandwidth']) / 2),
    }


def prep_overhead(device, v):
    line = lines(v, device.max_packet)
    gain = line['eager'][1] - line['prepared'][1]
    cross = crossing(device, 'eager', 'prepared')
    if cross is None:
        return max((device.eager_limit + 1) * gain, TINY) * (1 + GAIN)
    if cross <= SMALLEST:
        return 0.0
    return max(cross * gain, TINY)


def frag_overhead(device, v):
    line = lines(v, device.max_packet)
    cross = crossing(device, 'copy', 'get') or max(device.values('copy'))
    get = line['get'][0] + cross * line['get'][1]
    slope = (get - line['copy'][0]) / cross
    return max((slope - line['eager'][1]) * device.max_packet - v['overhead'], 0.0)


def put_more(device, v):
    get, put = device.values('get'), device.values('put')
    more = statistics.median(put[s] - get[s] for s in set(get) & set(put)) - v['latency']
    # Never as fast as a get: its receiver has to allow writes, which its own profile says, and this one does not know.
    return max(more, -v['latency'] * (1 - GAIN))


def puts_are_faster(device):
    """Whether puts were measured, and beat gets clearly where rendezvous begins."""
    names = {curve.name for curve in device.curves}
    if not {'put', 'get'} <= names:
        return False
    get, put = device.values('get'), device.values('put')
    begin = crossing(device) or SMALLEST
    return all(put[s] < get[s] * (1 - GAIN) for s in set(get) & set(put) if begin <= s <= begin * AROUND)


def pipe_from(device, _):
    get, pipe = device.values('first get'), device.values('pipeline')
    clear = any(pipe[s] < get[s] * (1 - GAIN) for s in set(get) & set(pipe))
    return float((clear and crossing(device, 'first get', 'pipeline')) or NEVER)


FURTHER = {'prepared': prep_overhead, 'copy': frag_overhead, 'put': put_more, 'pipeline': pipe_from}


def attributes(device):
    """Values with which the model's lines are the measured ones."""
    values = main_values(device)
    curves = {curve.name for curve in device.curves}
    for curve, function in FURTHER.items():
        if curve in curves:
            values[function.__name__] = function(device, values)
    return values


def doubtful(device, values, limit):
    """Names of the values that are not to be trusted, because a curve that they depend on is not."""
    curves = device.untrusted(limit)
    names = {name for name in values if any(curve in curves for curve in BASIS[name])}
    if names & set(MAIN):
        names |= set(values)
    return names
