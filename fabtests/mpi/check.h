/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the MPI programs here share: options, random numbers, contents that can be
 * checked, and the result.
 * To build one: mpicc -pthread -o PROGRAM PROGRAM.c check.c
 */
#ifndef MPI_CHECK_H
#define MPI_CHECK_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set by check_start; equal on all ranks, except rank. */
struct check {
	int rank, ranks;
	int count;		/* -n: amount of work, in units of the program */
	int threads;		/* -j: threads, for programs that start threads */
	uint32_t seed;		/* -s */
	bool multiple;		/* -m: initialized for MPI_THREAD_MULTIPLE */
};

extern struct check check;

/*
 * Initializes MPI and reads the options. 'help' describes the program, 'unit' names
 * the unit of -n, 'count' is its default. Ends the program for -h and for wrong
 * options.
 */
void check_start(int argc, char **argv, const char *help, const char *unit,
		 int count);

/* check_start with MPI_THREAD_MULTIPLE, whatever the options. */
void check_start_threads(int argc, char **argv, const char *help,
			 const char *unit, int count);

/*
 * Names the phase that begins, for the report of failures and of a program that
 * does not move: one in which nobody called check_phase, check_fill, check_bytes or
 * check_status for the time of -t. 'what' must stay valid. Any thread may call it.
 */
void check_phase(const char *what);

/* Counts a failure and prints the first ones. Any thread may call it. */
void check_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(ok, ...)	((ok) ? (void) 0 : check_fail(__VA_ARGS__))

/* Collects the failures of all ranks, prints one line, finalizes MPI; returns
 * the exit status: 0, or 1 when anything failed on any rank. */
int check_finish(void);

/* Returns a hash of all bits of x. */
uint32_t check_mix(uint32_t x);

/* Returns the next random number. */
uint32_t check_random(uint32_t *state);

/* Returns a key for the contents of one message. */
uint32_t check_key(int from, int to, int tag, int number);

/* Returns a random length below max: mostly short, some beyond every change of protocol. */
int check_random_len(uint32_t *state, int max);

/* Fills with bytes derived from the key. */
void check_fill(void *buf, size_t len, uint32_t key);

/* Fills with a constant, before a receive. */
void check_poison(void *buf, size_t len);

/* Counts a failure unless buf has the bytes of the key; 'what' names the buffer. */
bool check_bytes(const void *buf, size_t len, uint32_t key, const char *what);

/* Counts a failure unless the status has these values; -1: not compared. */
bool check_status(const MPI_Status *status, int source, int tag, int bytes);

/* malloc that ends the program when there is no memory. */
void *check_alloc(size_t len);

#endif
