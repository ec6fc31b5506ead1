/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Replaces libfabric's log, so that tests can count lines. A program that links
 * caught_log.c prints no log line; the lines of all its tests are kept.
 */
#ifndef FABTESTS_COMMON_CAUGHT_LOG_H
#define FABTESTS_COMMON_CAUGHT_LOG_H

/* How often the text occurs in all lines logged so far. */
int log_count(const char *text);

/* Called with each line as it is logged. Lines of level info are logged only while it is set. */
extern void (*log_hook)(const char *line);

#endif
