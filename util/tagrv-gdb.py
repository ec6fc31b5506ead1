# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""gdb: what the endpoints of a process wait for, also from a core.

    gdb -p PID -x tagrv-gdb.py -batch -ex tagrv-dump
    gdb PROGRAM CORE -x tagrv-gdb.py -batch -ex tagrv-dump

tagrv-dump [N] prints all endpoints, or the one at place N, counted from 0. The text is that of a dump by the provider
itself (prov/tagrv/src/engine/dump.c and dump_op.c: change them together; fabtests/scripts/gdb_dump compares). Lines
that begin with 'tagrv:' are of this script.

The script only reads memory: nothing is called in the process. It needs the plug-in's debugging information. A process
may be stopped in the middle of a change; then a line can be wrong, or say that memory cannot be read.
"""
import itertools
import os
import socket
import struct
import time

import gdb

OPS_MAX = PEERS_MAX = 64        # as in dump.c
CREDIT_UNIT = 64                # TAGRV_CREDIT_UNIT
FI_FENCE, FI_MATCH_COMPLETE = 1 << 21, 1 << 31      # rdma/fabric.h
FI_ADDR_NOTAVAIL = (1 << 64) - 1
POOL_TOP = 1 << 21              # TAGRV_POOL_TOP + 1
UINT32_MAX = (1 << 32) - 1      # TAGRV_MATCH_ANY, TAGRV_OFFLOAD_NONE
NO_CLASS = 255                  # TAGRV_NO_CLASS
TABLE_MAX = 1 << 24             # peers; a larger table is a broken one
OP_SIZE_MAX = 1 << 16           # bytes; a larger operation is a broken pool

# A core may be cut off, and its memory may be overwritten: then any value may be wrong.
BROKEN = (gdb.error, OverflowError, struct.error, ValueError)


class Failure(Exception):
    """Why there is no dump, for the user."""


# ---- types and memory ----

def lookup_type(name):
    try:
        return gdb.lookup_type(name)
    except gdb.error:
        raise Failure(f'{name} is not known: the plug-in was built without -g, or stripped, or is not loaded') from None


def state_names(kind):
    """Names of the values of an enum, without their common beginning."""
    begin = f'TAGRV_{kind}_'
    fields = lookup_type(f'enum tagrv_{kind.lower()}_state').fields()
    return {field.enumval: field.name[len(begin):] for field in fields}


def enum_value(kind, name):
    return next(field.enumval for field in lookup_type(f'enum tagrv_{kind}').fields() if field.name == name)


def offset_of(kind, name):
    for field in kind.fields():
        if field.name == name:
            return field.bitpos // 8
    raise Failure(f'{kind} has no {name}: the script is of another version than the plug-in')


def walk(head):
    """Nodes of a struct tagrv_list. A broken list ends with an error: each node is met once."""
    end, seen = int(head.address), set()
    node = head['next']
    while int(node) != end:
        if int(node) in seen:
            raise gdb.MemoryError(f'the list at {end:#x} leads back to {int(node):#x}')
        seen.add(int(node))
        following = node['next']
        following.fetch_lazy()          # an unreadable node is not on the list
        yield node
        node = following


def objects(head, type_name, member):
    """Objects of a type that are on a list by one of their members."""
    kind = lookup_type(type_name)
    offset = offset_of(kind, member)
    for node in walk(head):
        yield (node.cast(lookup_type('char').pointer()) - offset).cast(kind.pointer()).dereference()


def length(head):
    """Nodes of a list, as text."""
    cnt = 0
    try:
        for _ in walk(head):
            cnt += 1
    except gdb.MemoryError:
        return f'{cnt} or more (a broken list)'
    return str(cnt)


def is_empty(head):
    return head['next'] == head.address


def text(value):
    return value.string(errors='replace')


def address(addr):
    """As tagrv_addr_str()."""
    raw = bytes(gdb.selected_inferior().read_memory(int(addr.address), addr.type.sizeof))
    family, port = struct.unpack_from('=H', raw)[0], struct.unpack_from('>H', raw, 2)[0]
    if family == socket.AF_INET:
        return f'{socket.inet_ntop(socket.AF_INET, raw[4:8])}:{port}'
    if family != socket.AF_INET6:
        return '(no address)'
    scope = struct.unpack_from('=I', raw, 24)[0]
    return f"[{socket.inet_ntop(socket.AF_INET6, raw[8:24])}{f'%{scope}' if scope else ''}]:{port}"


# ---- time ----

def is_local():
    """Whether the process runs on this host, so that its clock is ours: not a core, and not behind a gdbserver."""
    connection = getattr(gdb.selected_inferior(), 'connection', None)
    if connection is not None:
        return connection.type == 'native'
    return 'Native process:' in gdb.execute('info files', to_string=True)


class Clock:
    """Ages, by the ticks of a domain: see struct tagrv_dom_clock."""

    def __init__(self, clock):
        self.tick = int(clock['tick'])
        low, high = clock['begin'].type.range()
        self.size = high - low + 1
        self.begin = clock['begin']
        self.local = is_local()
        self.now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 10**6 if self.local else self.begin_of(self.tick)

    def begin_of(self, tick):
        return int(self.begin[tick % self.size])

    def age(self, born):
        """Milliseconds, at least: tagrv_dom_age()."""
        ticks = min((self.tick - born) % (1 << 32), self.size)
        return self.now - self.begin_of(self.tick - ticks + 1) if ticks else 0

    def describe(self):
        if not self.tick:
            return 'no progress pass has looked at the clock so far'
        if not self.local:
            return 'ages end with the last progress pass that looked at the clock'
        return f'the clock was last looked at by a progress pass {(self.now - self.begin_of(self.tick)) // 1000} s ago'


# ---- operations ----

class Ops:
    """Operations of some pools, and posted receives without one, as raw memory: there may be very many."""

    def __init__(self):
        self.kind = lookup_type('struct tagrv_op')
        self.offsets = {name: offset_of(self.kind, name) for name in ('state', 'born', 'engine')}
        self.record = lookup_type('struct tagrv_posted')
        self.room = offset_of(self.record, 'pub')
        self.recv = lookup_type('struct tagrv_recv')
        self.recv_offsets = {name: self.room + offset_of(self.recv, name) for name in ('op', 'born')}
        self.states = state_names('OP')
        self.end = enum_value('op_state', 'TAGRV_OP_STATES')
        self.posted = enum_value('op_state', 'TAGRV_OP_POSTED')
        self.found = []         # (born, handle, whether it is a receive without an operation, address)
        self.counts = {}
        self.errors = []

    def collect(self, pool, wanted=None):
        self.collect_from(pool, self.kind, lambda raw, where: self.look_at(raw, where, wanted))

    def collect_posted(self, pool):
        self.collect_from(pool, self.record, self.look_at_posted)

    def collect_from(self, pool, kind, look_at):
        try:
            self.collect_chunks(pool, kind, look_at)
        except BROKEN as e:
            self.errors.append(f'the pool of operations at {int(pool.address):#x}: {e}')

    def collect_chunks(self, pool, kind, look_at):
        size, per_chunk, cnt = (int(pool[name]) for name in ('obj_size', 'chunk_objs', 'chunk_cnt'))
        if not cnt:
            return
        if not kind.sizeof <= size <= OP_SIZE_MAX or cnt * per_chunk > 2 * POOL_TOP:
            raise gdb.MemoryError(f'{cnt} times {per_chunk} operations of {size} bytes cannot be')
        left = min(cnt * per_chunk, int(pool['max']))
        for i in range(cnt):
            try:
                self.look_at_chunk(int(pool['chunks'][i]), size, min(per_chunk, left), look_at)
            except gdb.MemoryError as e:
                self.errors.append(f'up to {min(per_chunk, left)} operations: {e}')
            left -= per_chunk

    @staticmethod
    def look_at_chunk(begin, size, cnt, look_at):
        raw = bytes(gdb.selected_inferior().read_memory(begin, size * cnt))
        for i in range(cnt):
            look_at(raw[i * size:(i + 1) * size], begin + i * size)

    def look_at(self, raw, where, wanted):
        handle, used = struct.unpack_from('=II', raw)
        state = raw[self.offsets['state']]
        engine = struct.unpack_from('=Q', raw, self.offsets['engine'])[0]
        if not used or state >= self.end or (wanted is not None and state != self.posted and engine != wanted):
            return
        self.add(state, struct.unpack_from('=I', raw, self.offsets['born'])[0], handle, False, where)

    def look_at_posted(self, raw, where):
        handle, used = struct.unpack_from('=II', raw)
        if used and not struct.unpack_from('=Q', raw, self.recv_offsets['op'])[0]:
            born = struct.unpack_from('=I', raw, self.recv_offsets['born'])[0]
            self.add(self.posted, born, handle, True, where + self.room)

    def add(self, state, born, handle, bare, where):
        self.counts[state] = self.counts.get(state, 0) + 1
        self.found.append((born, handle, bare, where))

    def bare_line(self, where, engine, handle, clock):
        recv, posted = (gdb.Value(at).cast(kind.pointer()).dereference()
                        for at, kind in ((where, self.recv), (where - self.room, self.record)))
        return recv_line(recv, posted, engine, handle, clock)

    def dump(self, what, engine, clock):
        counts = ', '.join(f'{cnt} {self.states[state]}' for state, cnt in sorted(self.counts.items()))
        yield f'  {what}: {len(self.found)}' + (f' ({counts})' if counts else '')
        for _, handle, bare, where in sorted(self.found)[:OPS_MAX]:
            op = gdb.Value(where).cast(self.kind.pointer()).dereference()
            try:
                yield self.bare_line(where, engine, handle, clock) if bare else Op(op, self).line(clock)
            except BROKEN as e:
                yield f'tagrv: the operation at {where:#x} cannot be read: {e}'
        if len(self.found) > OPS_MAX:
            yield f'    and {len(self.found) - OPS_MAX} more'
        for error in self.errors:
            yield f'tagrv: cannot be read: {error}'


def tag_of(what):
    is_tagged = int(what['space']) == enum_value('match_space', 'TAGRV_SPACE_TAGGED')
    return f"tag {hexadecimal(what['tag'])}, " if is_tagged else ''


def age_of(what, clock):
    context = int(what['context'])
    return (f", context {hex(context) if context else '(nil)'}, for {clock.age(int(what['born'])) // 1000} s or more, "
            'waits for ')


def peer_of_id(engine, match_id):
    table = engine['table']
    if not engine['rx']['shared']:
        return table['peers'][match_id] if match_id < int(table['cnt']) else None
    peers = (table['peers'][i] for i in range(min(int(table['cnt']), TABLE_MAX)))
    return next((peer for peer in peers if int(peer['match_id']) == match_id), None)


def source_of(posted):
    """The match_id that a struct tagrv_posted names as its source: tagrv_posted_source()."""
    if int(posted['class']) != NO_CLASS:
        return int(posted['peer'])
    mask_peer = int(posted['block']['mask_peer'][int(posted['slot'])])
    return mask_peer & UINT32_MAX if mask_peer else UINT32_MAX


def reason(lost):
    return os.strerror(-int(lost))


def source_text(posted, engine):
    peer = peer_of_id(engine, source_of(posted))
    if peer is None:
        return ''
    return f", from {address(peer['addr'])}" + (f", which is lost: {reason(peer['lost'])}" if peer['lost'] else '')


def recv_line(recv, posted, engine, handle, clock):
    """A posted receive without an operation: tagrv_recv_dump()."""
    return (f"    receive {handle:08x} POSTED: {tag_of(recv)}{int(recv['len'])} bytes{age_of(recv, clock)}"
            f'a message that matches{source_text(posted, engine)}')


class Op:
    """One operation: dump_op.c."""

    def __init__(self, op, ops):
        self.op = op
        self.state = ops.states[int(op['state'])]
        self.posted = int(op['state']) == ops.posted
        self.is_receive = int(op['state']) >= ops.posted

    def line(self, clock):
        op = self.op
        line = f"    {'receive' if self.is_receive else 'send'} {int(op['node']['handle']):08x} {self.state}: "
        if not self.posted:
            line += f"{text(op['ops']['name'])} {'from' if self.is_receive else 'to'} {address(op['peer']['addr'])}, "
        line += tag_of(op)
        line += f"{int(op['rx']['room'] if self.posted else op['len'])} bytes{self.moved()}"
        wait = getattr(self, 'wait_' + self.state.lower(), lambda: 'nothing: its state is not known')
        return f"{line}{age_of(op, clock)}{wait()}"

    def part(self, name):
        """Of the rendezvous part, as a number."""
        return int(self.op['rndv'][name])

    def moved(self):
        if self.state not in ('COPYING', 'WRITING', 'OFFERING', 'FETCHING', 'READING', 'CTS'):
            return ''
        done = self.part('next')
        if self.state == 'OFFERING' or (self.part('by_pieces') and self.part('cts_sent')):
            done += self.part('offered') - self.part('middle')
        elif self.part('by_pieces'):
            done = self.part('offered')
        return f", {done % (1 << 64)} of {self.part('want')} moved"

    def wait_queued(self):
        peer = self.op['peer']
        state = state_names('PEER').get(int(peer['state']), '?')
        if state != 'READY':
            return f'a connection, the peer is {state}'
        if int(self.op['flags']) & FI_FENCE and peer['sent']:
            return f"the end of {int(peer['sent'])} earlier sends (FI_FENCE)"
        if self.op['tx']['rma'] and peer['rma']['views']['asked']['id']:
            return "a VIEW of the target's window, for its device"
        if self.op['tx']['rma'] and peer['sent']:
            return f"room in the transport, or the end of {int(peer['sent'])} earlier operations"
        return 'room in the transport, behind earlier sends'

    def wait_wire(self):
        return f"the device's completion of the {'operation' if self.op['tx']['rma'] else 'packet'}"

    def wait_fin_wait(self):
        if text(self.op['ops']['name']) != 'eager':
            return 'a FIN of the peer: all bytes are sent'
        matched = int(self.op['flags']) & FI_MATCH_COMPLETE
        return f"a FIN of the peer: the message {'is not matched' if matched else 'is not received'}"

    def wait_announced(self):
        return 'a FIN or CTS of the peer: the RTS is not matched, or the peer reads'

    def wait_copying(self):
        if self.part('ask_grant') or self.part('next') < self.part('granted'):
            return 'room in the transport for fragments'
        return 'a GRANT of the peer'

    def wait_moving(self, what):
        if self.part('inflight'):
            return f"the end of {self.part('inflight')} {what} in the device"
        return f'room in the transport for {what}'

    def wait_writing(self):
        return self.wait_moving('writes')

    def wait_asked(self):
        return "the target's answer: its process has to make progress"

    def wait_fetching(self):
        return self.wait_moving('reads')

    def wait_lent(self):
        return 'a FIN of the peer, which reads from a window'

    def wait_reading(self):
        return self.wait_moving('reads')

    def wait_offering(self):
        if self.part('pieces'):
            return f"the FINs of {self.part('pieces')} pieces that the peer reads"
        return 'room in the transport for pieces'

    def wait_piece_ready(self):
        return 'room in the transport to be offered'

    def wait_piece(self):
        return 'a FIN of the peer, which reads the piece'

    def wait_posted(self):
        rx = self.op['rx']
        if not rx['multi']:
            return self.wait_single(rx['listed'])
        if not rx['retired']:
            return f"messages that match: {int(rx['used'])} bytes have been used"
        return f"the end of the last {int(rx['slices'])} messages in the buffer"

    @staticmethod
    def wait_single(listed):
        if listed and listed['recv']['cancelled']:
            return 'the adapter to give it back: it is cancelled'
        in_list = listed and int(listed['recv']['slot']) != UINT32_MAX
        return 'a message that matches' + (", in the adapter's list" if in_list else '')

    def wait_cts(self):
        if self.op['peer']['lane'] != self.op['lane']:
            return 'the end of the connection that failed'
        if not self.part('cts_sent'):
            return 'room, or a grant, to send a CTS'
        if self.part('by_write'):
            return 'writes and the DONE of the peer'
        if self.part('pieces'):
            return f"the reads of {self.part('pieces')} pieces"
        if self.part('by_pieces') and self.part('offered') < self.part('middle'):
            return 'pieces of the peer'
        if self.part('inflight'):
            return f"{self.part('inflight')} fragments that the peer was granted"
        return 'fragments to be granted to the peer'


def hexadecimal(value):
    """As printf's %#x."""
    return hex(int(value)) if int(value) else '0'


# ---- peers ----

LISTS = ('pending', 'waiting', 'readers', 'to_grant', 'granted', 'writers', 'acks')


def is_idle(peer):
    return all(is_empty(peer[name]) for name in LISTS) and not peer['sent']


def lane_text(peer):
    lane, credit = peer['lane'], peer['credit']
    if not lane:
        return ', no connection' + (f", lost: {reason(peer['lost'])}" if peer['lost'] else '')
    units = {name: int(credit[name]) * CREDIT_UNIT for name in ('left', 'promised', 'owed')}
    return (f" by {text(lane['link']['xport']['ops']['name'])}, connection {int(lane['epoch'])}, "
            f"sent {int(peer['tx_seq'])}, received {int(peer['rx_seq'])} envelopes, "
            f"credit for {units['left']} bytes left, {units['promised']} promised, {units['owed']} owed")


def work_text(peer):
    if is_idle(peer):
        return '; idle'
    cnt = {name: length(peer[name]) for name in LISTS}
    busy = peer['busy_node']
    return (f"; sends: {cnt['pending']} queued, {int(peer['sent'])} under way, of these {cnt['waiting']} wait for the peer "
            f"and {cnt['writers']} for room; receives: {cnt['readers']} with reads to post, {cnt['to_grant']} with a grant "
            f"to send, {cnt['granted']} wait for the peer, which owes {int(peer['frags'])} fragments; "
            f"{cnt['acks']} acks to send" + ('' if is_empty(busy) else '; to be served'))


def peer_line(peer):
    name = '' if int(peer['fi_addr']) == FI_ADDR_NOTAVAIL else f", fi_addr {int(peer['fi_addr'])}"
    state = state_names('PEER').get(int(peer['state']), '?')
    return f"  peer {address(peer['addr'])}{name}: {state}{lane_text(peer)}{work_text(peer)}"


def is_idle_or_broken(peer):
    try:
        return is_idle(peer)
    except gdb.MemoryError:
        return False


def dump_peers(table):
    cnt = int(table['cnt'])
    if cnt > TABLE_MAX:
        raise gdb.MemoryError(f'a table of {cnt} peers cannot be')
    pointers = [table['peers'][i] for i in range(cnt)]
    idle = [is_idle_or_broken(peer.dereference()) for peer in pointers]
    shown = [peer for wanted in (False, True) for peer, is_so in zip(pointers, idle) if is_so == wanted][:PEERS_MAX]
    for peer in shown:
        try:
            yield peer_line(peer.dereference())
        except BROKEN as e:
            yield f'tagrv: the peer at {int(peer):#x} cannot be read: {e}'
    if len(shown) < cnt:
        yield f'  and {cnt - len(shown)} more peers'


# ---- endpoints ----

def dump_header(engine):
    match, credit, rails = engine['match'], engine['credit'], engine['rails']
    rail_cnt = min(int(rails['cnt']), rails['all'].type.range()[1] + 1)
    ways = ', '.join(f"{int(rails['all'][i]['ups'])} {text(rails['all'][i]['xport']['ops']['name'])}"
                     for i in range(rail_cnt))
    yield (f"endpoint {address(engine['name'])} of process {gdb.selected_inferior().pid}"
           f"{'' if engine['enabled'] else ', not enabled'}: connections so far: {ways}; "
           f"{int(match['posted']['level']['cnt'])} receives posted, "
           f"{int(match['unexpected']['level']['cnt'])} messages unexpected, budget for "
           f"{int(credit['budget']) * CREDIT_UNIT} bytes of them left; {int(credit['frags'])} fragments granted and not "
           f"here; {int(engine['stats']['bad_packets'])} packets refused")


def dump_tags(engine):
    """The list of receives in an adapter: dump_tags() of dump.c, tagrv_tags_get_counts()."""
    tags = engine['tags']
    if not tags:
        return
    lost, offload, stood_for = not tags['list'], tags['offload'], int(tags['stood_for'])
    listed, entries = (0, 0) if lost else (int(offload['listed_cnt']), int(tags['max_entries']))
    soft = 0 if lost else int(offload['soft_cnt']) + stood_for - (stood_for > 0)
    yield (f"  list: {listed} of {entries} entries, {soft} receives in software; {int(tags['unexpected'])} messages unexpected, "
           f"{int(tags['handled'])} handled; {int(tags['outside'])} peers outside")


def dump_ops(engine, clock):
    sends, receives = Ops(), Ops()
    sends.collect(engine['pools']['tx_ops'])
    yield from sends.dump('sends', engine, clock)
    rx = engine['rx'].dereference()
    receives.collect_posted(rx['match']['posted']['pool'])
    receives.collect(rx['ops'], int(engine.address))
    receives.collect(rx['slices'], int(engine.address))
    receives.collect(engine['pools']['pieces'])
    yield from receives.dump('receives (posted ones are shared)' if rx['shared'] else 'receives', engine, clock)


def guarded(what, lines):
    """The lines, up to the first thing that cannot be read."""
    try:
        yield from lines
    except BROKEN as e:
        yield f'tagrv: {what} cannot be read: {e}'


def dump_endpoint(engine, clock):
    yield from guarded('the endpoint', dump_header(engine))
    yield from guarded('the list of the adapter', dump_tags(engine))
    yield from guarded('the rest of the peers', dump_peers(engine['table']))
    yield from guarded('the rest of the operations', dump_ops(engine, clock))


def dump_domain(dom, numbers, wanted):
    """numbers: of endpoints, goes on from one domain to the next."""
    clock, described = Clock(dom['clock']), False
    for engine in objects(dom['engines'], 'struct tagrv_engine', 'dom_node'):
        number = next(numbers)
        if wanted not in (None, number):
            continue
        if not described:
            yield f'tagrv: domain at {int(dom.address):#x}: {clock.describe()}'
            described = True
        yield f'tagrv: endpoint {number}'
        yield from dump_endpoint(engine, clock)


def dump_domains(doms, numbers, wanted):
    for dom in objects(doms, 'struct tagrv_dom', 'all_node'):
        yield from guarded(f'the rest of the domain at {int(dom.address):#x}', dump_domain(dom, numbers, wanted))


def dump_all(wanted):
    numbers = itertools.count()
    symbol = gdb.lookup_global_symbol('tagrv_doms') or gdb.lookup_static_symbol('tagrv_doms')
    if symbol is None:
        raise Failure('tagrv_doms is not known: the plug-in is not loaded, was built without -g, or stripped')
    yield from guarded('the rest of the domains', dump_domains(symbol.value(), numbers, wanted))
    cnt = next(numbers)
    if not cnt:
        yield 'tagrv: no endpoint was found'
    elif wanted is not None and wanted >= cnt:
        raise Failure(f'there are {cnt} endpoints, and they are counted from 0')


class TagrvDump(gdb.Command):
    """Print what the tagrv provider's endpoints wait for: their peers and unfinished operations.

tagrv-dump [N]     N: only the endpoint at this place, counted from 0

Works on a process and on a core; calls nothing in the process."""

    def __init__(self):
        super().__init__('tagrv-dump', gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        try:
            wanted = int(argument) if argument.strip() else None
        except ValueError:
            raise gdb.GdbError('usage: tagrv-dump [NUMBER OF AN ENDPOINT]') from None
        if not gdb.selected_inferior().pid:
            raise gdb.GdbError('tagrv-dump: there is no process and no core')
        language = gdb.parameter('language')
        gdb.execute('set language c', to_string=True)   # the program's may be another one
        try:
            for line in dump_all(wanted):
                gdb.write(line + '\n')
        except Failure as e:
            raise gdb.GdbError(f'tagrv-dump: {e}') from None
        finally:
            gdb.execute(f'set language {language}', to_string=True)


TagrvDump()
