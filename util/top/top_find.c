/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finds boards by the links in /proc/PID/fd: see top_find.h.
 */
#include "util/top/top_find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_LEN	384

struct search {
	const char *proc;
	uid_t	user;
	struct top_found *found;
	size_t	cnt, cap;
};

/* First line of a small file, without its end. False: there is none. */
static bool read_line(const char *path, const char *begin, char *line, size_t size)
{
	FILE *file = fopen(path, "re");
	bool ok = false;

	if (!file)
		return false;
	while (!ok && fgets(line, (int) size, file))
		ok = !strncmp(line, begin, strlen(begin));
	fclose(file);
	line[ok ? strcspn(line, "\n") : 0] = '\0';
	return ok;
}

/*
 * Whether the board says that it is this process's. A process in a container has another
 * number in there, which is the last of NSpid.
 */
static bool is_own(const struct search *search, pid_t pid, uint32_t board_pid)
{
	char path[PATH_LEN], line[256];
	const char *last;

	snprintf(path, sizeof(path), "%s/%d/status", search->proc, (int) pid);
	if (!read_line(path, "NSpid:", line, sizeof(line)))
		return (uint32_t) pid == board_pid;
	last = strrchr(line, '\t');
	return last && strtoul(last, NULL, 10) == board_pid;
}

/* A process may have several descriptors of one board. */
static bool is_known(const struct search *search, const struct top_found *found)
{
	for (size_t i = search->cnt; i && search->found[i - 1].pid == found->pid; i--)
		if (search->found[i - 1].inode == found->inode)
			return true;
	return false;
}

static void add(struct search *search, struct top_found *found)
{
	size_t cap = search->cap ? 2 * search->cap : 16;
	struct top_found *more;
	char path[PATH_LEN];

	if (search->cnt == search->cap) {
		more = realloc(search->found, cap * sizeof(*more));
		if (!more)
			return;
		search->found = more;
		search->cap = cap;
	}
	snprintf(path, sizeof(path), "%s/%d/comm", search->proc, (int) found->pid);
	if (!read_line(path, "", found->command, sizeof(found->command)))
		strcpy(found->command, "?");
	top_page_clean(found->command, sizeof(found->command));
	search->found[search->cnt++] = *found;
}

static void link_of(const char *proc, pid_t pid, unsigned number, char link[PATH_LEN])
{
	snprintf(link, PATH_LEN, "%s/%d/fd/%u", proc, (int) pid, number);
}

static void look_at_link(struct search *search, pid_t pid, unsigned number)
{
	struct top_found found = { .pid = pid, .number = number };
	char link[PATH_LEN];
	int fd;

	link_of(search->proc, pid, number, link);
	fd = top_page_open(link, search->user, &found.inode);
	if (fd < 0)
		return;
	found.state = top_page_head(fd, &found.head);
	close(fd);
	/* Of a broken one, or of another layout, the owner is not known. */
	if (!is_known(search, &found) &&
	    (found.state != TOP_FINE || is_own(search, pid, found.head.pid)))
		add(search, &found);
}

int top_find_open(const char *proc, uid_t user, const struct top_found *found)
{
	char link[PATH_LEN];
	ino_t inode;
	int fd;

	link_of(proc, found->pid, found->number, link);
	fd = top_page_open(link, user, &inode);
	if (fd < 0 || inode == found->inode)
		return fd;
	close(fd);
	return -ENOENT;
}

static bool is_users(const struct search *search, const char *path)
{
	struct stat st;

	return !stat(path, &st) && st.st_uid == search->user;
}

static void look_at_process(struct search *search, pid_t pid)
{
	struct dirent *entry;
	char path[PATH_LEN];
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%d/fd", search->proc, (int) pid);
	if (!is_users(search, path) || !(dir = opendir(path)))
		return;
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char) entry->d_name[0]) && strlen(entry->d_name) < 10)
			look_at_link(search, pid, (unsigned) strtoul(entry->d_name, NULL, 10));
	closedir(dir);
}

static int compare(const void *a, const void *b)
{
	const struct top_found *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int top_find(const char *proc, uid_t user, pid_t pid, struct top_found **found)
{
	struct search search = { .proc = proc, .user = user };
	struct dirent *entry;
	DIR *dir;

	*found = NULL;
	if (pid) {
		look_at_process(&search, pid);
		*found = search.found;
		return (int) search.cnt;
	}
	dir = opendir(proc);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char) entry->d_name[0]))
			look_at_process(&search, (pid_t) strtol(entry->d_name, NULL, 10));
	closedir(dir);
	if (search.cnt)
		qsort(search.found, search.cnt, sizeof(*search.found), compare);
	*found = search.found;
	return (int) search.cnt;
}
