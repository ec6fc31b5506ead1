/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fuzzes the bytes that arrive from the network during connection set-up.
 *
 *   byte 0 even: the rest is one record, which is decoded
 *   byte 0 odd:  the rest is events for the state machine: one byte per event,
 *                records follow as bytes or are made from one byte each
 *
 * The driver aborts when the machine does something that its state does not allow.
 *
 *   clang -g -O1 -std=c11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
 *     -Iprov/tagrv/src -Ifabtests fabtests/fuzz/fuzz_wireup.c \
 *     prov/tagrv/src/wireup/conn*.c prov/tagrv/src/wireup/wireup_rec.c \
 *     prov/tagrv/src/core/addr.c prov/tagrv/src/core/log.c -lfabric
 */
#include <stdint.h>
#include <string.h>

#include "fuzz/fuzz_input.h"
#include "unit/wireup/conn_driver.h"

#define US	10
#define PEER	20

static void fuzz_decode(const uint8_t *data, size_t size)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec, again;
	size_t len;

	if (tagrv_wireup_rec_length(data, size) < 0 && size >= 10)
		driver_require(tagrv_wireup_rec_decode(data, size, &rec) < 0);
	if (tagrv_wireup_rec_decode(data, size, &rec))
		return;
	len = tagrv_wireup_rec_encode(&rec, buf);
	/* Encoding writes the sizes of missing links, too. */
	driver_require(len <= size + rec.link_cnt * 4 && len <= sizeof(buf));
	driver_require(!tagrv_wireup_rec_decode(buf, len, &again));
	driver_require(!memcmp(&rec, &again, sizeof(rec)));
}

/* Makes a plausible record from a few bits: sender, epochs, number of links. */
static struct tagrv_wireup_rec make_rec(struct driver *d, struct input *in)
{
	enum tagrv_wireup_rec_type type =
		(enum tagrv_wireup_rec_type) (next(in) % 7 + 1);
	uint8_t what = next(in);
	struct tagrv_wireup_rec rec =
		driver_rec(d, type, (uint8_t) (PEER + (what & 1)),
			   (what >> 1 & 3) + 1u);

	rec.reason = what >> 3 & 7;
	/* No REQ has this reason, and the one that some have needs another bit. */
	if (type == TAGRV_WIREUP_REQ && rec.reason == TAGRV_WIREUP_SELF)
		rec.reason = TAGRV_WIREUP_LOCAL;
	if (what & 64)
		rec.dst_epoch = next(in) % 8;
	if (what & 128)
		rec.link_cnt = next(in) % 3;
	rec.links[0].len = what & 32 ? next(in) % 65 : 8;
	rec.links[1] = rec.links[0];
	rec.links[(what >> 2) & 1].wire_id = FAKE_LOCAL_ID;
	return rec;
}

static void give_record(struct driver *d, struct input *in)
{
	struct driver_chan *chan = &d->chans[next(in) % DRIVER_CHANS];
	struct tagrv_wireup_rec rec;

	if (!chan->open)
		chan = driver_open(d, false);
	if (!chan)
		return;
	rec = make_rec(d, in);
	if (rec.type == TAGRV_WIREUP_REQ && (rec.reason & 1)) {
		memcpy(rec.dst_uuid, d->host.uuid, TAGRV_UUID_LEN);
		rec.dst_epoch = d->conn.epoch;
	}
	driver_record(d, chan, &rec);
}

/* Gives the machine a record decoded from bytes of the input. */
static void give_bytes(struct driver *d, struct input *in)
{
	struct driver_chan *chan = &d->chans[next(in) % DRIVER_CHANS];
	size_t len = (size_t) next(in) * 4;
	struct tagrv_wireup_rec rec;

	len = TAGRV_MIN(in->left, len);
	if (tagrv_wireup_rec_decode(in->pos, len, &rec))
		return;
	in->pos += len;
	in->left -= len;
	if (!chan->open)
		chan = driver_open(d, false);
	if (chan)
		driver_record(d, chan, &rec);
}

static void play(struct driver *d, struct input *in)
{
	struct driver_chan *chan;

	switch (next(in) % 14) {
	case 0:
		driver_want(d);
		break;
	case 1:
		driver_drop(d);
		break;
	case 2:
		if (d->dial)
			driver_answer_dial(d);
		break;
	case 3:
		if (d->dial)
			driver_fail_dial(d, next(in) & 1 ? -FI_ECONNREFUSED :
							   -FI_ETIMEDOUT);
		break;
	case 4:
		if (d->timer_at)
			driver_run_timer(d);
		break;
	case 5:
		chan = &d->chans[next(in) % DRIVER_CHANS];
		if (chan->open)
			driver_close(d, chan);
		break;
	case 6:
		tagrv_conn_close_sockets(&d->conn);
		driver_check(d);
		break;
	case 7:
		d->fake.bind_status = next(in) & 1 ? -FI_ENETUNREACH : 0;
		d->local.bind_status = next(in) & 1 ? -FI_EHOSTUNREACH : 0;
		d->fake.create_status = next(in) & 1 ? -FI_ENOMEM : 0;
		d->prepare_status = next(in) & 1 ? -FI_ENOMEM : 0;
		break;
	case 9:
		d->far = next(in) & 1;
		d->no_asks = next(in) & 1;
		d->draw_status = next(in) & 1 ? -FI_EIO : 0;
		break;
	case 10:
		if (d->conn.claim && driver_asked(d))
			driver_answer(d, next(in) & 1);
		break;
	case 8:
		give_bytes(d, in);
		break;
	default:
		give_record(d, in);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	static struct driver d;
	uint8_t what;

	if (!(next(&in) & 1)) {
		uint8_t *copy = malloc(in.left + 1);

		/* In a buffer of exactly its size, so that overruns are found. */
		memcpy(copy, in.pos, in.left);
		fuzz_decode(copy, in.left);
		free(copy);
		return 0;
	}
	driver_init(&d, US, PEER);
	what = next(&in);
	if (what & 1)
		driver_add_local(&d);
	d.here = what & 2;
	while (in.left)
		play(&d, &in);
	driver_fini(&d);
	return 0;
}
