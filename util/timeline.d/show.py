# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Shows messages: a list, one message as text in two lanes, and the same as a figure by gnuplot."""
import subprocess
from collections import Counter

from messages import RECEIVER, SENDER

# Steps that a long message has many of: the most in a row that are shown one by one, and how many of a longer row are, at
# its begin and at its end.
MANY = ('FRAG', 'GRANT', 'PIECE', 'get', 'put', 'FIN')
RUN_MOST = 24
RUN_ENDS = 3
KINDS_MOST = 3
SIDES = ('sender', 'receiver')


class Failed(Exception):
    """Something that ends the program, with the line to print."""


def micro(nanoseconds):
    return f'{nanoseconds / 1000:.1f}'


def readable(nanoseconds):
    for unit, name in ((1e9, 's'), (1e6, 'ms')):
        if nanoseconds >= unit:
            return f'{nanoseconds / unit:.3f} {name}'
    return f'{nanoseconds / 1e3:.1f} us'


def process(message, side):
    return message.pid(side) or '?'


def seconds_into(message, trace):
    return (message.start - trace[0].time) / 1e9


# ---- what is shown ----

def list_messages(messages, trace):
    yield f'{"message":>7} {"at s":>10} {"from":>7} {"to":>7} {"tag":>18} {"bytes":>9}  {"how":<10} {"took":>10}'
    for m in messages:
        length = '?' if m.len is None else m.len
        yield (f'{m.number:>7} {seconds_into(m, trace):>10.6f} {process(m, SENDER):>7} {process(m, RECEIVER):>7} {m.tag:>#18x} '
               f'{length:>9}  {m.way:<10} {readable(m.last - m.start):>10}'
               + ('' if m.ends[RECEIVER] else '  not received') + ('' if m.ends[SENDER] else '  not ended at the sender'))


def choose(messages, number=None, tag=None, seq=None, sender=None):
    """Those that fit all that is named."""
    return [m for m in messages
            if (number is None or m.number == number) and (tag is None or m.tag == tag)
            and (seq is None or m.seq == seq) and (sender is None or m.pid(SENDER) == sender)]


class Row:
    """Steps of one side that are shown together, mostly one."""

    def __init__(self, steps):
        self.steps = steps
        self.time, self.side = steps[0].time, steps[0].side

    def label(self):
        if len(self.steps) == 1:
            return self.steps[0].label()
        counts = Counter(step.kind for step in self.steps).most_common()
        text = ', '.join(f'{n} {kind}' for kind, n in counts[:KINDS_MOST])
        others = sum(n for _, n in counts[KINDS_MOST:])
        return f'... {text}, {others} others ...' if others else f'... {text} ...'


def rows_of(message, everything):
    """In order of time. A long run of data steps of one side becomes one row, but for its begin and end."""
    rows = []
    for side in (SENDER, RECEIVER):
        run = []
        steps = [s for s in message.steps if s.side == side]
        for step in steps + [None]:
            if step and step.kind.split()[0] in MANY:
                run.append(step)
                continue
            middle = run[RUN_ENDS:-RUN_ENDS]
            if len(run) > RUN_MOST and not everything:
                rows += [Row([s]) for s in run[:RUN_ENDS]] + [Row(middle)] + [Row([s]) for s in run[-RUN_ENDS:]]
            else:
                rows += [Row([s]) for s in run]
            run = []
            if step:
                rows.append(Row([step]))
    # At the same time: first what leaves.
    return sorted(rows, key=lambda row: (row.time, row.steps[0].left is not None))


def title(message):
    length = 'unknown length' if message.len is None else f'{message.len} bytes'
    number = '' if message.seq is None else f', sequence {message.seq}'
    return (f'message {message.number}: tag {message.tag:#x}, {length}{number}, process {process(message, SENDER)}'
            f' to {process(message, RECEIVER)}, {message.way}')


def receive_line(message):
    if message.posted is None:
        return 'receive: posted before the trace began' if first(message, 'match') else 'receive: none in the trace'
    early = message.start - message.posted
    return f'receive: posted {readable(abs(early))} {"before" if early >= 0 else "after"} the message began'


def first(message, *kinds):
    return next((s for s in message.steps if s.kind in kinds), None)


def phases(message):
    """Name and duration of the parts that one step after the other bounds."""
    marks = [('until it left', first(message, 'RTS out', 'EAGER out')), ('on the way', first(message, 'RTS in', 'EAGER in')),
             ('until it was matched', first(message, 'match')), ('until the receive was complete', message.ends[RECEIVER])]
    before = message.start
    for name, step in marks:
        if step:
            yield name, max(step.time - before, 0)
            before = max(step.time, before)
    if message.ends[SENDER] and message.ends[RECEIVER]:
        late = message.ends[SENDER].time - message.ends[RECEIVER].time
        yield f'send complete {"after" if late >= 0 else "before"} the receive', abs(late)


def as_text(message, everything=False):
    rows = rows_of(message, everything)
    width = max([len(r.label()) for r in rows if r.side == SENDER] + [20]) + 2
    yield title(message)
    yield receive_line(message)
    yield ''
    yield f'{"us":>10} {"gap":>9}   {SIDES[SENDER]:<{width}}{SIDES[RECEIVER]}'
    before = message.start
    for row in rows:
        way = ''
        if len(row.steps) == 1 and row.steps[0].left:
            way = f'  (on the way: {micro(row.time - row.steps[0].left.time)})'
        text = ' ' * width if row.side == RECEIVER else ''
        yield f'{micro(row.time - message.start):>10} {micro(row.time - before):>9}   {text}{row.label()}{way}'
        before = row.time
    yield ''
    for name, duration in phases(message):
        yield f'{micro(duration):>10} us  {name}'


# ---- figure ----

WIDTH, TOP, BOTTOM = 1200, 110, 50      # pixels
LINE = 19                               # from one label to the next
LANES = (0.40, 0.60)                    # of the width
COLOURS = ('#1f5fa8', '#a8461f')


def spread(wanted, low, high):
    """Places near the wanted ones, at least LINE from each other: blocks of labels that touch are centred on theirs."""
    blocks = []
    for i, y in enumerate(wanted):
        blocks.append([y, [i]])
        while len(blocks) > 1 and blocks[-2][0] + (len(blocks[-2][1]) + len(blocks[-1][1])) / 2 * LINE > blocks[-1][0]:
            _, last = blocks.pop()
            members = blocks.pop()[1] + last
            centre = sum(wanted[j] for j in members) / len(members)
            half = len(members) / 2 * LINE
            blocks.append([min(max(centre, low + half), high - half), members])
    places = [0.0] * len(wanted)
    for centre, members in blocks:
        for n, i in enumerate(members):
            places[i] = centre + (n - (len(members) - 1) / 2) * LINE
    return places


def quoted(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"'


def gnuplot_script(message, png, everything):
    rows = rows_of(message, everything)
    most = max(sum(r.side == side for r in rows) for side in (SENDER, RECEIVER))
    length = max(520, (most + 2) * LINE)
    height = TOP + length + BOTTOM
    span = max(message.last - message.start, 1)

    def y_of(time):
        return TOP + (time - message.start) / span * length

    def point(x, y):
        return f'screen {x:.4f}, screen {1 - y / height:.5f}'

    lines = [f'set terminal pngcairo size {WIDTH},{height:.0f} font "sans,10" noenhanced', f'set output {quoted(png)}',
             'unset border', 'unset tics', 'unset key', 'set margins 0,0,0,0',
             f'set label {quoted(title(message))} at {point(0.02, 22)} font ",12"',
             f'set label {quoted(receive_line(message) + "; microseconds since it began")} at {point(0.02, 44)}']
    for side, name in enumerate(SIDES):
        lines.append(f'set label {quoted(f"{name}, process {process(message, side)}")} at {point(LANES[side], TOP - 34)} '
                     f'center font ",12" tc rgb "{COLOURS[side]}"')
        lines.append(f'set arrow from {point(LANES[side], TOP - 12)} to {point(LANES[side], TOP + length + 12)} nohead lw 2 '
                     f'lc rgb "{COLOURS[side]}"')
        own = [r for r in rows if r.side == side]
        places = spread([y_of(r.time) for r in own], TOP - 10, TOP + length + 10)
        outward = -1 if side == SENDER else 1
        for row, place in zip(own, places):
            y = y_of(row.time)
            text = f'{micro(row.time - message.start)}   {row.label()}' if side else \
                   f'{row.label()}   {micro(row.time - message.start)}'
            lines.append(f'set label {quoted(text)} at {point(LANES[side] + outward * 0.035, place)} '
                         f'{"left" if side else "right"}')
            lines.append(f'set arrow from {point(LANES[side], y)} to {point(LANES[side] + outward * 0.03, place)} nohead '
                         f'lw 0.7 lc rgb "#999999"')
            lines.append(f'set label "" at {point(LANES[side], y)} point pt 7 ps 0.6 lc rgb "{COLOURS[side]}"')
    for step in message.steps:
        if step.came:
            lines.append(f'set arrow from {point(LANES[step.side], y_of(step.time))} to '
                         f'{point(LANES[step.came.side], y_of(step.came.time))} head size screen 0.008,18 filled '
                         f'lw 1.2 lc rgb "{COLOURS[step.side]}"')
    return '\n'.join(lines + ['set xrange [0:1]', 'set yrange [0:1]', 'plot -1 notitle', ''])


def draw(message, png, everything=False):
    try:
        subprocess.run(['gnuplot'], input=gnuplot_script(message, png, everything), text=True, check=True)
    except FileNotFoundError as err:
        raise Failed('gnuplot is missing (apt-get install gnuplot-nox)') from err
    except subprocess.CalledProcessError as err:
        raise Failed(f'gnuplot cannot draw {png}') from err
