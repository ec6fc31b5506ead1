/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Takes looks: see top_look.h. All processes are asked first, and then awaited together:
 * one that is busy answers within a millisecond or so, one that sleeps or computes does
 * not, and shows what it has written before.
 */
#include "util/top/top_look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"

#define STEP_NS	1000000		/* between looks at answers */

/* ---- reading ---- */

static void free_processes(struct top_look *look)
{
	for (size_t i = 0; i < look->cnt; i++)
		free(look->processes[i].endpoints);
	free(look->processes);
}

void top_look_free(struct top_look *look)
{
	free_processes(look);
	*look = (struct top_look) { 0 };
}

static void add_retransmits(const struct top_source *source, struct top_endpoint *endpoint)
{
	const struct tagrv_board_record *record = &endpoint->record;
	uint64_t sum;

	for (unsigned i = 0; i < record->rail_cnt; i++) {
		if (strcmp(record->rails[i].xport, "verbs") ||
		    !top_retransmits(source->sys, record->rails[i].device, &sum))
			continue;
		endpoint->has_retransmits = true;
		endpoint->retransmits += sum;
	}
}

struct question {
	uint64_t asked;		/* what was written to the boards */
	uint64_t ns;		/* when */
};

/* Of two viewers that ask at once, the process answers the later one: that will do. */
static bool is_answer(const struct tagrv_board_record *record, const struct question *question)
{
	return record->answers == question->asked || record->ns >= question->ns;
}

/* Reads the slots of a board. Returns how many are live and have not answered. */
static size_t read_slots(int fd, const struct top_found *found,
			 const struct question *question, struct top_process *process)
{
	size_t silent = 0;

	process->cnt = 0;
	for (unsigned i = 0; i < TAGRV_BOARD_SLOTS; i++) {
		struct top_endpoint *endpoint = &process->endpoints[process->cnt];

		if (!(found->head.live >> i & 1))
			continue;
		*endpoint = (struct top_endpoint) { 0 };
		if (!top_page_record(fd, &found->head, i, &endpoint->record)) {
			silent++;
			continue;
		}
		endpoint->answered = is_answer(&endpoint->record, question);
		silent += !endpoint->answered;
		process->cnt++;
	}
	return silent;
}

/*
 * Reads a board again. Returns as read_slots(). Of a process that has ended meanwhile
 * nothing is left.
 */
static size_t read_board(const struct top_source *source, struct top_found *found,
			 const struct question *question, struct top_process *process)
{
	size_t silent = 0;
	int fd;

	if (found->state != TOP_FINE)
		return 0;
	fd = top_find_open(source->proc, source->user, found);
	if (fd < 0) {
		process->gone = true;
		return 0;
	}
	found->state = process->state = top_page_head(fd, &found->head);
	process->open = found->head.endpoints;
	if (found->state == TOP_FINE)
		silent = read_slots(fd, found, question, process);
	close(fd);
	return silent;
}

static void pause_a_step(void)
{
	nanosleep(&(struct timespec) { .tv_nsec = STEP_NS }, NULL);
}

/* One that has answered is not read again. */
static void read_boards(const struct top_source *source, struct top_found *found,
			const struct question *question, struct top_look *look)
{
	uint64_t end = tagrv_clock_ns() + (uint64_t) source->wait_ms * 1000000;
	size_t silent;

	do {
		silent = 0;
		for (size_t i = 0; i < look->cnt; i++) {
			struct top_process *process = &look->processes[i];

			if (process->gone || process->complete)
				continue;
			process->complete = !read_board(source, &found[i], question, process);
			silent += !process->complete;
		}
		if (silent)
			pause_a_step();
	} while (silent && tagrv_clock_ns() < end);
}

/* ---- a look ---- */

static int init_process(const struct top_found *found, struct top_process *process)
{
	*process = (struct top_process) {
		.pid = found->pid,
		.state = found->state,
		.version = found->head.version,
		.open = found->head.endpoints,
	};
	memcpy(process->command, found->command, sizeof(process->command));
	memcpy(process->release, found->head.release, sizeof(process->release));
	if (found->state != TOP_FINE)
		return 0;
	process->endpoints = calloc(TAGRV_BOARD_SLOTS, sizeof(*process->endpoints));
	return process->endpoints ? 0 : -ENOMEM;
}

static int init_look(struct top_look *look, const struct top_found *found, size_t cnt)
{
	int ret = 0;

	*look = (struct top_look) { .ns = tagrv_clock_ns() };
	look->processes = calloc(cnt + 1, sizeof(*look->processes));
	if (!look->processes)
		return -ENOMEM;
	while (look->cnt < cnt && !ret) {
		ret = init_process(&found[look->cnt], &look->processes[look->cnt]);
		look->cnt++;
	}
	if (ret)
		top_look_free(look);
	return ret;
}

static void ask(const struct top_source *source, const struct top_found *found,
		const struct question *question)
{
	int fd = found->state == TOP_FINE ?
		 top_find_open(source->proc, source->user, found) : -ENOENT;

	if (fd < 0)
		return;
	(void) top_page_ask(fd, question->asked);
	close(fd);
}

static void drop_gone(struct top_look *look)
{
	size_t left = 0;

	for (size_t i = 0; i < look->cnt; i++)
		if (look->processes[i].gone)
			free(look->processes[i].endpoints);
		else
			look->processes[left++] = look->processes[i];
	look->cnt = left;
}

/* Another value than any viewer has used before. */
static uint64_t new_question(void)
{
	return tagrv_clock_ns() * 64 + ((uint64_t) getpid() & 63);
}

int top_look_take(const struct top_source *source, struct top_look *look)
{
	struct top_found *found;
	struct question question = { .asked = new_question(), .ns = tagrv_clock_ns() };
	int cnt = top_find(source->proc, source->user, source->pid, &found);
	int ret;

	if (cnt < 0)
		return cnt;
	ret = init_look(look, found, (size_t) cnt);
	for (int i = 0; i < cnt && !ret; i++)
		ask(source, &found[i], &question);
	if (!ret)
		read_boards(source, found, &question, look);
	free(found);
	drop_gone(look);
	for (size_t i = 0; i < look->cnt; i++)
		for (size_t k = 0; k < look->processes[i].cnt; k++)
			add_retransmits(source, &look->processes[i].endpoints[k]);
	return ret;
}

const struct top_endpoint *top_look_find(const struct top_look *look, pid_t pid,
					 const struct top_endpoint *endpoint)
{
	for (size_t i = 0; i < look->cnt; i++) {
		const struct top_process *process = &look->processes[i];

		for (size_t k = 0; k < process->cnt && process->pid == pid; k++) {
			const struct tagrv_board_record *record = &process->endpoints[k].record;

			if (record->number == endpoint->record.number &&
			    !strcmp(record->name, endpoint->record.name))
				return &process->endpoints[k];
		}
	}
	return NULL;
}
