/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the MPI programs here have in common: options, random numbers, contents
 * that can be checked, and the verdict.
 * To build one: mpicc -pthread -o PROGRAM PROGRAM.c check.c
 */
#ifndef MPI_CHECK_H
#define MPI_CHECK_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set by check_start, the same on all ranks but for rank. */
struct check {
	int rank, ranks;
	int count;		/* -n, how much to do, in units of the program */
	int threads;		/* -j, of programs that have some */
	uint32_t seed;		/* -s */
	bool multiple;		/* -m: initialized for MPI_THREAD_MULTIPLE */
};

extern struct check check;

/*
 * Initializes MPI and reads the options. 'help' says what the program does,
 * 'unit' of what there are 'count' unless -n says otherwise. Ends the program
 * for -h and for wrong options.
 */
void check_start(int argc, char **argv, const char *help, const char *unit,
		 int count);

/* The same with MPI_THREAD_MULTIPLE, whatever the options. */
void check_start_threads(int argc, char **argv, const char *help,
			 const char *unit, int count);

/*
 * Says what goes on from here: named with failures, and when the time of -t is
 * over. 'what' must live on. Any thread may call it.
 */
void check_phase(const char *what);

/* Counts a failure, and prints it if it is one of the first; any thread. */
void check_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(ok, ...)	((ok) ? (void) 0 : check_fail(__VA_ARGS__))

/* Collects the failures of all ranks, prints one line, finalizes MPI; returns
 * the exit status: 0, or 1 when anything failed on any rank. */
int check_finish(void);

/* A well mixed value that depends on all bits of x. */
uint32_t check_mix(uint32_t x);

/* The next of a row of random numbers. */
uint32_t check_random(uint32_t *state);

/* A key for the contents of one message: all four matter. */
uint32_t check_key(int from, int to, int tag, int number);

/* Mostly small, some beyond every switch of protocol; below max. */
int check_random_len(uint32_t *state, int max);

/* Bytes that follow from the key; each differs from what was there before. */
void check_fill(void *buf, size_t len, uint32_t key);

/* Fills with what no message leaves behind by accident. */
void check_poison(void *buf, size_t len);

/* Counts a failure unless these are the bytes of the key; 'what' names them. */
bool check_bytes(const void *buf, size_t len, uint32_t key, const char *what);

/* Counts a failure unless the status tells this; -1: not looked at. */
bool check_status(const MPI_Status *status, int source, int tag, int bytes);

/* malloc that ends the program when there is no memory. */
void *check_alloc(size_t len);

#endif
