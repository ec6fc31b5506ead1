/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shows on real packets that the layer makes a device one with a list: each case
 * opens two devices and sends from one to the other. fabtests/scripts/tmsim loads
 * the layer; without it, or a device that has a list, all cases fail.
 *
 * usage: tmsim_check DEVICE_A DEVICE_B [-t PART_OF_NAME] [--seed N]
 */
#include <stdlib.h>
#include <string.h>

#include "tmsim/tmsim_pair.h"

static unsigned passed, failed;

static void run_case(const struct tmsim_case *one)
{
	struct pair pair;
	bool ok = pair_open(&pair) && one->run(&pair);

	pair_close(&pair);
	printf("%s %s\n", ok ? "ok  " : "FAIL", one->name);
	fflush(stdout);
	if (ok)
		passed++;
	else
		failed++;
}

static void run_table(const struct tmsim_case *cases, const char *part)
{
	for (; cases->name; cases++)
		if (strstr(cases->name, part))
			run_case(cases);
}

int main(int argc, char **argv)
{
	const char *part = "";
	int i;

	for (i = 3; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "-t"))
			part = argv[i + 1];
		else if (!strcmp(argv[i], "--seed"))
			random_seed = strtoul(argv[i + 1], NULL, 0);
		else
			break;
	}
	if (argc < 3 || i != argc) {
		fprintf(stderr, "usage: tmsim_check DEVICE_A DEVICE_B [-t PART_OF_NAME] [--seed N]\n");
		return 2;
	}
	pair_devices[0] = argv[1];
	pair_devices[1] = argv[2];
	run_table(list_cases, part);
	run_table(race_cases, part);
	run_table(random_cases, part);
	printf("%u passed, %u failed\n", passed, failed);
	return failed || !passed;
}
