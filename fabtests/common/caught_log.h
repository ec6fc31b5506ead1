/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Stands in for libfabric's log, so that tests can count lines. A program that
 * links caught_log.c prints no log line: they are kept, those of all its tests.
 */
#ifndef FABTESTS_COMMON_CAUGHT_LOG_H
#define FABTESTS_COMMON_CAUGHT_LOG_H

/* How often this text is in what was logged, warnings and what log_hook saw. */
int log_count(const char *text);

/* Sees each line as it is logged, those of level info, too; NULL: none. */
extern void (*log_hook)(const char *line);

#endif
