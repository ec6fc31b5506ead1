# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Trace points of the provider: their arguments, the numbers in these, and files of recorded events.

A trace is text: a first line that says so, then one line for each event,

    NANOSECONDS PROCESS THREAD POINT ARGUMENT...

with the time of CLOCK_MONOTONIC, one clock for all processes of a host, and arguments in hexadecimal. Lines that begin
with # are comments.
"""
MAGIC = '# tagrv trace 1'

# As core/trace.h has them; the four words are a packet's header, meta has the bytes in its upper half.
POINTS = {
    'packet_out': ('peer', 'word0', 'word1', 'word2', 'word3', 'len'),
    'packet_in': ('peer', 'word0', 'word1', 'word2', 'word3', 'len'),
    'tagged_out': ('peer', 'seq', 'meta', 'tag', 'data'),
    'tagged_in': ('peer', 'seq', 'meta', 'tag', 'data'),
    'item_out': ('peer', 'op', 'tag', 'len'),
    'item_in': ('peer', 'handle', 'tag', 'len'),
    'fin_queued': ('peer', 'opcode', 'handle', 'status'),
    'fin_out': ('peer', 'opcode', 'handle', 'status'),
    'fin_in': ('peer', 'handle', 'status'),
    'op_state': ('op', 'handle', 'old', 'now', 'peer', 'tag'),
    'peer_state': ('peer', 'id', 'old', 'now', 'own_port', 'peer_port'),
    'unexpected': ('msg', 'peer', 'handle', 'tag', 'len'),
    'posted': ('recv', 'context', 'tag'),
    'recv_op': ('recv', 'op', 'handle'),
    'match': ('recv', 'peer', 'msg', 'handle', 'tag', 'len'),
    'rndv_start': ('op', 'peer', 'handle', 'xfer', 'proto', 'want'),
    'segment_posted': ('op', 'peer', 'offset', 'len'),
    'segment_done': ('op', 'peer', 'status', 'inflight'),
    'piece': ('piece', 'op', 'peer', 'handle', 'offset', 'len'),
    'send_complete': ('op', 'peer', 'context', 'tag', 'len', 'status'),
    'recv_complete': ('op', 'peer', 'context', 'tag', 'len', 'status'),
}

# enum tagrv_opcode, tagrv_op_state, tagrv_peer_state, tagrv_proto
OPCODES = {1: 'RTS', 2: 'FIN', 3: 'EAGER', 4: 'CREDIT', 5: 'CTS', 6: 'GRANT', 7: 'FRAG', 8: 'DONE', 9: 'PIECE',
           10: 'PUT', 11: 'GET', 12: 'ANSWER', 13: 'KEYS', 14: 'ATOMIC', 15: 'PULL', 16: 'BATCH',
           17: 'VIEW', 18: 'RECALL', 19: 'STORE', 20: 'COUNT', 21: 'SHOW', 22: 'SIDE',
           23: 'PART'}
OP_STATES = ('FREE', 'QUEUED', 'WIRE', 'FIN_WAIT', 'ANNOUNCED', 'COPYING', 'WRITING', 'OFFERING', 'PIECE_READY', 'PIECE',
             'ASKED', 'FETCHING', 'LENT', 'POSTED', 'READING', 'CTS')
OF_RECEIVES = ('POSTED', 'READING', 'CTS')
PEER_STATES = ('IDLE', 'CONNECTING', 'BOUND', 'READY', 'LEAVING', 'PARTING')
PROTOCOLS = ('eager', 'get', 'put', 'copy', 'pipeline')

# A message may go as a packet or in a shorter form without a header.
OUT = ('packet_out', 'tagged_out')
IN = ('packet_in', 'tagged_in')


class BadTrace(Exception):
    """A file that is no trace, with the line to print."""


def name_of(names, number):
    return names[number] if number < len(names) else f'{number}?'


def swapped(value, size):
    return int.from_bytes(value.to_bytes(size, 'little'), 'big')


def signed(value):
    """A status, traced with 32 or 64 bits."""
    value &= 0xffffffff
    return value - (1 << 32) if value >> 31 else value


class Event:
    """One event; its arguments are attributes, those of a packet the fields of its header."""

    def __init__(self, time, pid, tid, point, values):
        self.time, self.pid, self.tid, self.point, self.values = time, pid, tid, point, values
        for name, value in zip(POINTS[point], values):
            setattr(self, name, value)
        if 'status' in POINTS[point]:
            self.status = signed(self.status)
        if 'word0' in POINTS[point]:
            self.content = values[1:]
            self.opcode = OPCODES.get(self.word0 & 0xff, f'{self.word0 & 0xff}?')
            self.handle = self.word0 >> 32
            self.tag = swapped(self.word1, 8)
            self.seq = self.word2 >> 32
            self.data = self.word3
        elif 'meta' in POINTS[point]:
            self.opcode, self.handle, self.len = 'EAGER', 0, self.meta >> 32
            self.content = 'tagged', self.seq, self.tag, self.len
        elif 'opcode' in POINTS[point]:
            self.opcode = OPCODES.get(self.opcode, f'{self.opcode}?')

    @property
    def conn(self):
        """The peer, which is another one in each process."""
        return self.pid, self.peer

    def line(self):
        return f'{self.time} {self.pid} {self.tid} {self.point} {" ".join(f"{v:x}" for v in self.values)}'


def parse(line):
    """An event, or None where the line is none."""
    words = line.split()
    if len(words) < 5 or words[3] not in POINTS or len(words) != 4 + len(POINTS[words[3]]):
        return None
    try:
        time, pid, tid = map(int, words[:3])
        return Event(time, pid, tid, words[3], tuple(int(word, 16) for word in words[4:]))
    except ValueError:
        return None


def sort(events):
    """By time; what one thread did stays in order."""
    return sorted(events, key=lambda event: event.time)


def read(path):
    """The events of a trace, sorted. BadTrace, OSError."""
    with open(path, encoding='ascii', errors='replace') as file:
        if file.readline().rstrip() != MAGIC:
            raise BadTrace(f'{path} is no trace of util/timeline')
        lines = [line for line in file if line.strip() and not line.startswith('#')]
    events = []
    for line in lines:
        event = parse(line)
        if not event:
            raise BadTrace(f'{path}: no event: {line.rstrip()}')
        events.append(event)
    return sort(events)


def write(path, events, comment):
    with open(path, 'w', encoding='ascii') as file:
        file.write(f'{MAGIC}\n# {comment}\n')
        file.writelines(event.line() + '\n' for event in events)
