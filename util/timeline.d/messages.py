# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Puts the events of a trace together to messages: what happened to each at its sender and at its receiver.

An event names objects of its process by addresses and handles. What belongs together is found by these rules:

  - A connection has two ends, each a peer in one process. They are told by the ports in peer_state, or, where the trace
    began later, by the packets that left at one end and came at the other.
  - A packet that comes is the first one with this header that left at the other end and has not come so far.
  - A packet of an EAGER or RTS begins a message: of the first op of that peer that is QUEUED, or of none.
  - Later packets name the sender's handle (CTS, GRANT, FIN) or the receiver's (FRAG, PIECE, DONE): rndv_start tells it.
"""
from collections import defaultdict, deque

import events

SENDER, RECEIVER = 0, 1
BEGINS = ('EAGER', 'RTS')
TO_SENDER = ('CTS', 'GRANT')
TO_RECEIVER = ('FRAG', 'PIECE', 'DONE')


class Step:
    """Something that happened to a message. came, left: of a packet, its step at the other side."""

    def __init__(self, time, side, kind, text=''):
        self.time, self.side, self.kind, self.text = time, side, kind, text
        self.came = self.left = None
        self.states = []        # of the operation, that followed

    def label(self):
        words = [self.kind, self.text] + [f'> {state}' for state in self.states]
        return ' '.join(word for word in words if word)


class Message:
    """A message; conns: its two ends, None where the trace does not have one."""

    def __init__(self, number, conn, other, seq, tag):
        self.number, self.seq, self.tag = number, seq, tag
        self.conns = [conn, other]
        self.len = None
        self.way = ''
        self.posted = None
        self.steps = []
        self.ends = [None, None]

    def add(self, event, side, kind, text=''):
        step = Step(event.time, side, kind, text)
        self.steps.append(step)
        event.step = step
        return step

    def end(self, event, side, kind, status):
        self.ends[side] = self.add(event, side, kind, f'(error {-status})' if status else '')

    def pid(self, side):
        return self.conns[side][0] if self.conns[side] else None

    @property
    def start(self):
        return self.steps[0].time

    @property
    def last(self):
        return max(step.time for step in self.steps)


class Op:
    """One life of an operation. time: when it began, None where that was before the trace."""

    def __init__(self, time, handle, side):
        self.time, self.handle, self.side = time, handle, side
        self.message = None     # that it is of
        self.connects = []      # changes of the peer's state while it is QUEUED


# ---- ends of connections, and packets ----

def ends_by_ports(trace):
    """The other end of each peer that said its ports; not where several could be meant."""
    ports = {e.conn: (e.own_port, e.peer_port) for e in trace if e.point == 'peer_state'}
    found = defaultdict(list)
    for conn, (own, peer) in ports.items():
        found[own, peer].append(conn)
    return {conn: found[peer, own][0] for conn, (own, peer) in ports.items()
            if len(found[peer, own]) == 1 and len(found[own, peer]) == 1}


def ends_by_packets(trace, known):
    """The other end of the rest: where most of the packets left that came here."""
    left, votes = defaultdict(list), defaultdict(lambda: defaultdict(int))
    for event in trace:
        if event.point in events.OUT and event.conn not in known:
            left[event.content].append(event.conn)
        elif event.point in events.IN and event.conn not in known:
            for conn in left[event.content]:
                votes[event.conn][conn] += conn != event.conn
    ends = {}
    for conn, counts in votes.items():
        best = max(counts, key=counts.get)
        if counts[best] and best not in ends:
            ends[conn], ends[best] = best, conn
    return ends


def pair_packets(trace, ends):
    """Gives a packet that came the one that left, which it was, as 'left'. What came before it was traced as sent left at that time, and
    the messages of a BATCH left with it."""
    left, batches, items = defaultdict(deque), {}, []
    for event in trace:
        event.left = None
        if event.point in events.OUT:
            left[event.conn, event.content].append(event)
            batches[event.conn] = event
        elif event.point == 'item_out' and event.conn in batches:
            items.append((event, batches[event.conn]))
    for event in trace:
        if event.point in events.IN:
            queue = left.get((ends.get(event.conn), event.content))
            if queue:
                event.left = queue.popleft()
                event.left.time = min(event.left.time, event.time)
    for event, batch in items:
        event.time = batch.time
    # At the same time: first what leaves.
    return sorted(trace, key=lambda event: (event.time, event.point in events.IN))


# ---- messages ----

class Assembly:
    """Reads the events in their order; 'messages' has what came out."""

    def __init__(self, trace):
        ends = ends_by_ports(trace)
        ends.update(ends_by_packets(trace, ends))
        self.ends = ends
        self.messages = []
        self.ops = {}                           # by process and address
        self.queued = defaultdict(deque)        # ops of a peer that are QUEUED
        self.sends = {}                         # messages by connection and sender's handle: at the sender
        self.known = {}                         # the same at the receiver
        self.xfers = {}                         # by connection and receiver's handle: at the receiver
        self.arriving = {}                      # last message that came, by connection
        self.batches = {}                       # connection -> packet_out of a BATCH, packet_in
        self.kept = {}                          # by process and address of the kept message
        self.matched = {}                       # last match of a thread
        self.fins = defaultdict(deque)          # steps of FINs that left or came, without the other
        for event in pair_packets(trace, ends):
            getattr(self, 'on_' + event.point)(event)

    # -- packets that begin a message

    def begin(self, event, seq, tag, op, kind):
        message = Message(len(self.messages) + 1, event.conn, self.ends.get(event.conn), seq, tag)
        self.messages.append(message)
        if op:
            self.submit(message, op)
        message.add(event, SENDER, kind)
        return message

    def submit(self, message, op):
        op.message = message
        self.sends[message.conns[SENDER], op.handle] = message
        message.steps.append(Step(op.time, SENDER, 'submit'))
        message.steps += [Step(event.time, SENDER, 'connection', events.name_of(events.PEER_STATES, event.now))
                          for event in op.connects]

    def unknown(self, event, seq, kind):
        """A message that was sent before the trace began, or its packet_out was lost."""
        message = Message(len(self.messages) + 1, self.ends.get(event.conn), event.conn, seq, event.tag)
        self.messages.append(message)
        message.add(event, RECEIVER, kind)
        return message

    def next_queued(self, conn):
        return self.queued[conn].popleft() if self.queued[conn] else None

    def on_packet_out(self, event):
        event.messages = []
        if event.opcode in BEGINS:
            op = self.next_queued(event.conn)
            message = self.begin(event, event.seq, event.tag, op, f'{event.opcode} out')
            event.messages.append(message)
            if event.opcode == 'RTS':
                message.way = 'rendezvous'
                self.sends[event.conn, event.handle] = message
                return
            message.way, message.len = 'eager', event.len
            if not op:
                message.ends[SENDER] = message.steps[-1]
        elif event.opcode == 'BATCH':
            self.batches[event.conn] = event
        elif event.opcode in TO_SENDER:
            self.add(self.known.get((event.conn, event.handle)), event, RECEIVER, f'{event.opcode} out')
        elif event.opcode in TO_RECEIVER:
            self.add(self.xfers.get((self.ends.get(event.conn), event.handle)), event, SENDER, f'{event.opcode} out',
                     f'{event.len} bytes' if event.opcode == 'FRAG' else '')

    on_tagged_out = on_packet_out

    def on_item_out(self, event):
        batch = self.batches.get(event.conn)
        op = self.ops.get((event.pid, event.op))
        if not batch or not op or op not in self.queued[event.conn]:
            return
        self.queued[event.conn].remove(op)
        message = self.begin(event, batch.seq + len(batch.messages), event.tag, op, 'EAGER out')
        message.steps[-1].text = '(BATCH)'
        message.way, message.len = 'eager', event.len
        batch.messages.append(message)

    @staticmethod
    def add(message, event, side, kind, text=''):
        if not message:
            return
        step = message.add(event, side, kind, text)
        left = getattr(event, 'left', None)
        if left and hasattr(left, 'step'):
            step.left, left.step.came = left.step, step

    def arrive(self, event, message, seq, kind, text=''):
        if message:
            step = message.add(event, RECEIVER, kind, text)
            sent = next(s for s in message.steps if s.kind == kind.replace(' in', ' out'))
            step.left, sent.came = sent, step
        else:
            message = self.unknown(event, seq, kind)
        self.arriving[event.conn] = message
        if event.handle:
            self.known[event.conn, event.handle] = message

    def on_packet_in(self, event):
        if event.opcode in BEGINS:
            sent = event.left.messages if event.left else []
            self.arrive(event, sent[0] if sent else None, event.seq, f'{event.opcode} in')
        elif event.opcode == 'BATCH':
            self.batches[event.conn, 'in'] = [event, 0]
        elif event.opcode in TO_SENDER:
            self.add(self.sends.get((event.conn, event.handle)), event, SENDER, f'{event.opcode} in')
        elif event.opcode in TO_RECEIVER:
            self.add(self.xfers.get((event.conn, event.handle)), event, RECEIVER, f'{event.opcode} in',
                     f'{event.len} bytes' if event.opcode == 'FRAG' else '')

    on_tagged_in = on_packet_in

    def on_item_in(self, event):
        batch = self.batches.get((event.conn, 'in'))
        message = None
        if batch:
            packet, number = batch
            batch[1] += 1
            sent = packet.left.messages if packet.left else []
            message = sent[number] if number < len(sent) else None
        self.arrive(event, message, 0, 'EAGER in', '(BATCH)')

    # -- FIN and DONE

    def ended_by(self, event):
        """The message, and the side that says so."""
        if event.opcode == 'DONE':
            return self.xfers.get((self.ends.get(event.conn), event.handle)), SENDER
        return self.known.get((event.conn, event.handle)), RECEIVER

    def on_fin_queued(self, event):
        message, side = self.ended_by(event)
        self.add(message, event, side, f'{event.opcode} due')

    def on_fin_out(self, event):
        message, side = self.ended_by(event)
        # The packet of a DONE is a step already.
        if message and event.opcode == 'FIN':
            self.fin_packet(event.conn, event.handle, 'out', message.add(event, side, 'FIN out'))

    def on_fin_in(self, event):
        message = self.sends.get((event.conn, event.handle))
        if message:
            self.fin_packet(self.ends.get(event.conn), event.handle, 'in',
                            message.add(event, SENDER, 'FIN in', f'(error {event.status})' if event.status else ''))

    def fin_packet(self, conn, handle, way, step):
        """Joins FIN out and FIN in; a quick one comes before it is traced as sent. conn: of the receiver of the message."""
        other = self.fins[conn, handle, 'in' if way == 'out' else 'out']
        if not other:
            self.fins[conn, handle, way].append(step)
            return
        out, came = (step, other.popleft()) if way == 'out' else (other.popleft(), step)
        out.came, came.left = came, out
        out.time = min(out.time, came.time)

    # -- operations

    def on_op_state(self, event):
        key = event.pid, event.op
        old, now = (events.name_of(events.OP_STATES, state) for state in (event.old, event.now))
        side = RECEIVER if now in events.OF_RECEIVES else SENDER
        if now == 'FREE':
            return
        if old == 'FREE':
            self.ops[key] = Op(event.time, event.handle, side)
            if side == SENDER:
                self.queued[event.conn].append(self.ops[key])
            return
        if key not in self.ops:
            self.ops[key] = Op(None, event.handle, side)
            if side == SENDER:
                self.ops[key].message = self.sends.get((event.conn, event.handle))
        op = self.ops[key]
        if op.message:
            for step in [s for s in op.message.steps if s.side == op.side][-1:]:
                step.states.append(now)

    def on_peer_state(self, event):
        for op in self.queued[event.conn]:
            op.connects.append(event)

    def on_piece(self, event):
        whole = self.ops.get((event.pid, event.op))
        if not whole or not whole.message:
            return
        old = self.ops.get((event.pid, event.piece))
        if old in self.queued[event.conn]:
            self.queued[event.conn].remove(old)
        self.ops[event.pid, event.piece] = whole
        handles = self.sends if whole.side == SENDER else self.known
        handles[event.conn, event.handle] = whole.message

    # -- matching

    def on_unexpected(self, event):
        message = self.arriving.get(event.conn)
        if message:
            message.add(event, RECEIVER, 'unexpected')
            message.len = event.len
            self.kept[event.pid, event.msg] = message

    def on_posted(self, event):
        self.ops[event.pid, event.recv] = Op(event.time, 0, RECEIVER)

    def on_recv_op(self, event):
        """A receive that was posted without an op gets one; one with an op is posted."""
        recv, op = (event.pid, event.recv), (event.pid, event.op)
        known = self.ops.get(op)
        if not known or known.handle != event.handle:
            known = self.ops.get(recv) or Op(None, 0, RECEIVER)
            known.handle = event.handle
        self.ops[recv] = self.ops[op] = known

    def on_match(self, event):
        message = self.kept.pop((event.pid, event.msg), None) if event.msg else self.arriving.get(event.conn)
        if not message:
            return
        op = self.ops.setdefault((event.pid, event.recv), Op(None, 0, RECEIVER))
        op.message = message
        message.add(event, RECEIVER, 'match')
        message.len, message.posted = event.len, op.time
        self.matched[event.pid, event.tid] = message

    def on_rndv_start(self, event):
        message = self.known.get((event.conn, event.handle))
        if not message:
            return
        message.way = events.name_of(events.PROTOCOLS, event.proto)
        message.steps[-1].text = f'({message.way}) {message.steps[-1].text}'.rstrip()
        op = self.ops.get((event.pid, event.op))
        if op:
            op.message = message
        if event.xfer:
            self.xfers[event.conn, event.xfer] = message

    def on_segment_posted(self, event):
        self.add_segment(event, 'posted', f'{event.len} bytes')

    def on_segment_done(self, event):
        self.add_segment(event, 'done', f'(error {-event.status})' if event.status else '')

    def add_segment(self, event, what, text):
        op = self.ops.get((event.pid, event.op))
        if op and op.message:
            op.message.add(event, op.side, f'{"get" if op.side == RECEIVER else "put"} {what}', text)

    # -- completions

    def on_send_complete(self, event):
        op = self.ops.get((event.pid, event.op))
        if not op or not op.message and op.time is None:
            return
        if not op.message:
            if op in self.queued[event.conn]:
                self.queued[event.conn].remove(op)
            message = Message(len(self.messages) + 1, event.conn, self.ends.get(event.conn), None, event.tag)
            message.way = 'not sent'
            self.messages.append(message)
            self.submit(message, op)
        op.message.len = event.len
        op.message.end(event, SENDER, 'send complete', event.status)

    def on_recv_complete(self, event):
        op = self.ops.get((event.pid, event.op))
        message = op.message if op and op.message else self.matched.get((event.pid, event.tid))
        if message and not message.ends[RECEIVER]:
            message.end(event, RECEIVER, 'receive complete', event.status)


def assemble(trace):
    """The messages of a trace, each with its steps in order of time."""
    messages = Assembly(trace).messages
    for message in messages:
        message.steps.sort(key=lambda step: step.time)
    return messages
