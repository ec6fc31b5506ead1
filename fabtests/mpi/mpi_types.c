/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Types with gaps: vectors, indexed blocks, structures, and structures of vectors.
 * The bytes in the blocks arrive, the bytes between stay unchanged. Where all
 * elements have the same type, the other side may use a contiguous buffer. This
 * program computes the places of the bytes itself, without asking MPI.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 21, BLOCKS = 64, MAX_BYTES = 1 << 20 };

struct block {
	int at, len;
};

struct layout {
	const char *name;
	MPI_Datatype type;
	MPI_Datatype unit;	/* common type of all elements, if there is one */
	int extent, size, blocks;
	struct block block[BLOCKS];
};

struct particle {
	char kind;
	double place[3];
	int16_t charge;
	int32_t id;
	float unused;
	char mark[5];
};

static uint32_t state;
static int next, prev;

static void add_block(struct layout *layout, int at, int len)
{
	layout->block[layout->blocks++] = (struct block) { at, len };
	layout->size += len;
}

static void vector(struct layout *layout)
{
	int count = 9, len = 3, stride = 7, word = (int) sizeof(int32_t);

	*layout = (struct layout) { .name = "vector", .unit = MPI_INT32_T };
	MPI_Type_vector(count, len, stride, MPI_INT32_T, &layout->type);
	for (int i = 0; i < count; i++)
		add_block(layout, i * stride * word, len * word);
	layout->extent = ((count - 1) * stride + len) * word;
}

/* Blocks of random length, some empty, at random distances. */
static void indexed(struct layout *layout)
{
	int len[BLOCKS], at[BLOCKS], end = 0;

	*layout = (struct layout) { .name = "indexed", .unit = MPI_BYTE };
	for (int i = 0; i < BLOCKS; i++) {
		len[i] = (int) (check_random(&state) % 40);
		at[i] = end + (int) (check_random(&state) % 20);
		end = at[i] + len[i];
	}
	at[0] = 0;	/* the blocks contain the first and the last byte */
	len[0] = 1;
	len[BLOCKS - 1]++;
	end = at[BLOCKS - 1] + len[BLOCKS - 1];
	for (int i = 0; i < BLOCKS; i++)
		add_block(layout, at[i], len[i]);
	MPI_Type_indexed(BLOCKS, len, at, MPI_BYTE, &layout->type);
	layout->extent = end;
}

static void structure(struct layout *layout)
{
	int len[] = { 1, 3, 1, 1, 5 };
	MPI_Aint at[] = {
		offsetof(struct particle, kind),
		offsetof(struct particle, place),
		offsetof(struct particle, charge),
		offsetof(struct particle, id),
		offsetof(struct particle, mark),
	};
	MPI_Datatype types[] = {
		MPI_CHAR, MPI_DOUBLE, MPI_INT16_T, MPI_INT32_T, MPI_CHAR
	};
	int bytes[] = { 1, 8, 2, 4, 1 };
	MPI_Datatype tight;

	*layout = (struct layout) { .name = "struct", .unit = MPI_DATATYPE_NULL };
	MPI_Type_create_struct(5, len, at, types, &tight);
	MPI_Type_create_resized(tight, 0, sizeof(struct particle),
				&layout->type);
	MPI_Type_free(&tight);
	for (int i = 0; i < 5; i++)
		add_block(layout, (int) at[i], len[i] * bytes[i]);
	layout->extent = sizeof(struct particle);
}

/* A column of a matrix; its extent is one word, so that the next column follows. */
static void column(struct layout *layout)
{
	int rows = 16, columns = 24, word = (int) sizeof(int32_t);
	MPI_Datatype one;

	*layout = (struct layout) { .name = "column", .unit = MPI_INT32_T };
	MPI_Type_vector(rows, 1, columns, MPI_INT32_T, &one);
	MPI_Type_create_resized(one, 0, word * columns * rows, &layout->type);
	MPI_Type_free(&one);
	for (int i = 0; i < rows; i++)
		add_block(layout, i * columns * word, word);
	layout->extent = word * columns * rows;
}

static void nested(struct layout *layout)
{
	int len[] = { 2, 1, 7 }, word = (int) sizeof(int32_t);
	MPI_Datatype inner, types[3], tight;
	MPI_Aint at[] = { 0, 40, 160 };

	*layout = (struct layout) { .name = "nested", .unit = MPI_DATATYPE_NULL };
	MPI_Type_create_hvector(3, 2, 5 * word, MPI_INT32_T, &inner);
	types[0] = MPI_DOUBLE;
	types[1] = inner;
	types[2] = MPI_CHAR;
	MPI_Type_create_struct(3, len, at, types, &tight);
	MPI_Type_create_resized(tight, 0, 200, &layout->type);
	MPI_Type_free(&tight);
	MPI_Type_free(&inner);
	add_block(layout, 0, 16);
	for (int i = 0; i < 3; i++)
		add_block(layout, 40 + i * 5 * word, 2 * word);
	add_block(layout, 160, 7);
	layout->extent = 200;
}

/* Copies into the blocks or out of them; 'row' has the bytes without gaps. */
static void scatter(const struct layout *layout, int count, char *buf,
		    char *row, bool out)
{
	for (int i = 0; i < count; i++)
		for (int b = 0; b < layout->blocks; b++) {
			char *p = buf + (size_t) i * (size_t) layout->extent +
				  layout->block[b].at;
			size_t len = (size_t) layout->block[b].len;

			if (out)
				memcpy(row, p, len);
			else
				memcpy(p, row, len);
			row += len;
		}
}

/* Checks that the bytes between blocks are unchanged. */
static void check_gaps(const struct layout *layout, int count, char *buf)
{
	size_t bytes = (size_t) count * (size_t) layout->size;
	size_t room = (size_t) count * (size_t) layout->extent;
	char *same = check_alloc(bytes);

	check_poison(same, bytes);
	scatter(layout, count, buf, same, false);
	for (size_t i = 0; i < room; i++)
		if ((unsigned char) buf[i] != 0xa5) {
			check_fail("%s: byte %zu between the blocks is written",
				   layout->name, i);
			break;
		}
	free(same);
}

struct side {
	char *buf, *row;
	MPI_Datatype type;
	int count;
};

/* A side with the bytes in blocks, or contiguous. */
static struct side side_of(const struct layout *layout, int count, bool row)
{
	size_t bytes = (size_t) count * (size_t) layout->size;
	int unit = 1;
	struct side side = {
		.buf = check_alloc((size_t) count * (size_t) layout->extent),
		.row = check_alloc(bytes),
		.type = layout->type,
		.count = count,
	};

	check_poison(side.buf, (size_t) count * (size_t) layout->extent);
	check_poison(side.row, bytes);
	if (row) {
		MPI_Type_size(layout->unit, &unit);
		side.type = layout->unit;
		side.count = (int) (bytes / (size_t) unit);
	}
	return side;
}

static void *start_of(struct side *side, bool row)
{
	return row ? side->row : side->buf;
}

/* late: the receive is posted after the message has arrived. */
static void exchange(const struct layout *layout, int count, bool row_out,
		     bool row_in, bool late)
{
	struct side out = side_of(layout, count, row_out);
	struct side in = side_of(layout, count, row_in);
	size_t bytes = (size_t) count * (size_t) layout->size;
	MPI_Request rreq, sreq;
	MPI_Status status;
	int got;

	check_phase(layout->name);
	check_fill(out.row, bytes, check_key(check.rank, next, TAG, count));
	scatter(layout, count, out.buf, out.row, false);
	if (!late)
		MPI_Irecv(start_of(&in, row_in), in.count, in.type, prev, TAG,
			  MPI_COMM_WORLD, &rreq);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Isend(start_of(&out, row_out), out.count, out.type, next, TAG,
		  MPI_COMM_WORLD, &sreq);
	if (late) {
		MPI_Probe(prev, TAG, MPI_COMM_WORLD, &status);
		MPI_Irecv(start_of(&in, row_in), in.count, in.type, prev, TAG,
			  MPI_COMM_WORLD, &rreq);
	}
	MPI_Wait(&rreq, &status);
	MPI_Wait(&sreq, MPI_STATUS_IGNORE);
	MPI_Get_count(&status, in.type, &got);
	CHECK(got == in.count, "%s: %d of %d elements", layout->name, got,
	      in.count);
	if (!row_in)
		scatter(layout, count, in.buf, in.row, true);
	check_bytes(in.row, bytes, check_key(prev, check.rank, TAG, count),
		    layout->name);
	check_gaps(layout, count, in.buf);
	free(out.buf);
	free(out.row);
	free(in.buf);
	free(in.row);
}

/* From one rank to all, and from all to all. */
static void collective(const struct layout *layout, int count)
{
	struct side one = side_of(layout, count, false);
	size_t bytes = (size_t) count * (size_t) layout->size;
	int root = count % check.ranks;

	check_phase("broadcast of a type with gaps");
	if (check.rank == root) {
		check_fill(one.row, bytes, check_key(root, 0, TAG, count));
		scatter(layout, count, one.buf, one.row, false);
	}
	MPI_Bcast(one.buf, one.count, one.type, root, MPI_COMM_WORLD);
	scatter(layout, count, one.buf, one.row, true);
	check_bytes(one.row, bytes, check_key(root, 0, TAG, count),
		    layout->name);
	check_gaps(layout, count, one.buf);
	free(one.buf);
	free(one.row);
}

static void try_layout(struct layout *layout)
{
	bool alike = layout->unit != MPI_DATATYPE_NULL;

	MPI_Type_commit(&layout->type);
	for (int bytes = 1; bytes <= MAX_BYTES; bytes *= 8) {
		int count = bytes / layout->size + 1;

		for (int late = 0; late < 2; late++) {
			exchange(layout, count, false, false, late);
			if (!alike)
				continue;
			exchange(layout, count, true, false, late);
			exchange(layout, count, false, true, late);
		}
		collective(layout, count);
	}
	MPI_Type_free(&layout->type);
}

int main(int argc, char **argv)
{
	static void (*const make[])(struct layout *) = {
		vector, indexed, structure, column, nested
	};
	struct layout layout;

	check_start(argc, argv, "Messages of types with gaps.", "rounds", 2);
	state = check_mix(check.seed);	/* equal on all ranks, and so the layout */
	for (int i = 0; i < check.count; i++) {
		int distance = i % check.ranks;

		next = (check.rank + distance + 1) % check.ranks;
		prev = (check.rank + 2 * check.ranks - distance - 1) %
		       check.ranks;
		for (size_t m = 0; m < sizeof(make) / sizeof(*make); m++) {
			make[m](&layout);
			try_layout(&layout);
		}
	}
	return check_finish();
}
