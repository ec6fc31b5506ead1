/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The faults of tagrv_faults.
 */
#include "faults.h"
#include "framework/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
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

/* ---- the command that does faults of rails ---- */

static FILE *to_injector, *from_injector;

static void exec_injector(int in, int out)
{
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	execl(settings.inject, settings.inject, (char *)NULL);
	perror(settings.inject);
	_exit(127);
}

/* Before any side is forked: the sides must not keep the command's input open. */
void fault_injector_start(void)
{
	int to[2], from[2];
	pid_t pid;

	if (!settings.inject)
		return;
	MUST(!pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC), "pipe: %s", strerror(errno));
	pid = fork();
	if (!pid)
		exec_injector(to[0], from[1]);
	MUST(pid > 0, "fork: %s", strerror(errno));
	close(to[0]);
	close(from[1]);
	to_injector = fdopen(to[1], "w");
	from_injector = fdopen(from[0], "r");
	MUST(to_injector && from_injector, "fdopen: %s", strerror(errno));
	signal(SIGPIPE, SIG_IGN);
}

/* A side is forked with the pipes: it closes them, or the command would outlive the controller. */
void fault_injector_leave(void)
{
	if (!settings.inject)
		return;
	close(fileno(to_injector));
	close(fileno(from_injector));
}

void fault_inject(const struct fault *f, bool on)
{
	char answer[16];

	fprintf(to_injector, "%s %s %d %c %s\n", on ? "on" : "off", kind_names[f->kind], f->rail,
		f->side ? 'b' : 'a', f->amount);
	MUST(!fflush(to_injector) && fgets(answer, sizeof(answer), from_injector) &&
	     !strcmp(answer, "done\n"), "%s did not do: %s %s", settings.inject, on ? "on" : "off",
	     kind_names[f->kind]);
}
