/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The faults of tagrv_faults.
 */
#include "faults.h"
#include "framework/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const kind_names[KINDS] = {
	"loss", "delay", "reorder", "duplicate", "corrupt", "rate", "cut", "down", "down-all",
	"stop", "kill",
};

/* What must be survived, with one rail and with more. A port that is down may break links. */
static const enum bound bounds[KINDS][2] = {
	[LOSS] = { SURVIVED, SURVIVED },
	[DELAY] = { SURVIVED, SURVIVED },
	[REORDER] = { SURVIVED, SURVIVED },
	[DUPLICATE] = { SURVIVED, SURVIVED },
	[CORRUPT] = { SURVIVED, SURVIVED },
	[RATE] = { SURVIVED, SURVIVED },
	[CUT] = { SURVIVED, SURVIVED },
	[DOWN] = { BROKEN, SURVIVED },
	[DOWN_ALL] = { BROKEN, SURVIVED },
	[STOP] = { SURVIVED, SURVIVED },
	[KILL] = { RESTARTED, RESTARTED },
};

/* How often, of 64. */
static const unsigned shares[KINDS] = {
	[LOSS] = 12, [DELAY] = 8, [REORDER] = 8, [DUPLICATE] = 8, [CORRUPT] = 8, [RATE] = 6,
	[CUT] = 4, [DOWN] = 3, [DOWN_ALL] = 1, [STOP] = 4, [KILL] = 2,
};

/* From 'least' to 'most' in thousandths of the unit. */
static void draw_amount(struct fault *f, uint64_t r, unsigned least, unsigned most,
			const char *unit)
{
	unsigned amount = least + (unsigned)(r % (most - least + 1));

	snprintf(f->amount, sizeof(f->amount), "%u.%03u%s", amount / 1000, amount % 1000, unit);
}

static bool is_possible(const struct fault *f)
{
	if (f->kind >= STOP)
		return true;
	return settings.inject && (settings.down || (f->kind != DOWN && f->kind != DOWN_ALL));
}

static enum kind draw_kind(uint64_t r)
{
	unsigned at = r % 64, kind = 0;

	while (at >= shares[kind])
		at -= shares[kind++];
	return (enum kind)kind;
}

static void draw_details(struct fault *f, uint64_t r)
{
	f->us = 20000 + (int64_t)(r >> 32) % 150000;
	switch (f->kind) {
	case LOSS:
		draw_amount(f, r, 100, 3000, "%");
		break;
	case DELAY:
	case REORDER:
		draw_amount(f, r, 100, 5000, "ms");
		break;
	case DUPLICATE:
		draw_amount(f, r, 100, 10000, "%");
		break;
	case CORRUPT:
		draw_amount(f, r, 100, 2000, "%");
		break;
	case RATE:
		draw_amount(f, r, 20000, 500000, "mbit");
		break;
	case CUT:
		f->us = 10000 + (int64_t)(r >> 32) % 600000;
		break;
	case STOP:
		f->us = (int64_t)(r >> 32) % 60000;
		break;
	default:
		break;
	}
	if (!f->amount[0])
		strcpy(f->amount, "-");
}

/* A fault depends on the seed and its number alone. */
void fault_draw(struct fault *f, uint64_t number)
{
	uint64_t random = settings.seed * 7919 + number;

	pattern_next(&random);
	memset(f, 0, sizeof(*f));
	do
		f->kind = draw_kind(pattern_next(&random));
	while (!is_possible(f));
	f->rail = (int)(pattern_next(&random) % settings.rails);
	f->side = (int)(pattern_next(&random) & 1);
	draw_details(f, pattern_next(&random));
}

enum bound fault_bound(const struct fault *f)
{
	return bounds[f->kind][settings.rails > 1];
}

void fault_inject(const struct fault *f, bool on)
{
	char rail[12];
	int status = 0;
	pid_t pid;

	snprintf(rail, sizeof(rail), "%d", f->rail);
	pid = fork();
	if (!pid) {
		execl(settings.inject, settings.inject, on ? "on" : "off", kind_names[f->kind], rail,
		      f->side ? "b" : "a", f->amount, (char *)NULL);
		perror(settings.inject);
		_exit(127);
	}
	MUST(pid > 0, "fork: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0)
		MUST(errno == EINTR, "waitpid: %s", strerror(errno));
	MUST(!status, "%s %s %s ends with status %d", settings.inject, on ? "on" : "off",
	     kind_names[f->kind], WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}
