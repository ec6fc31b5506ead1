/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads the file of measured times and rates: see profile.h.
 */
#include "select/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"

#define MAGIC		"tagrv-profile 1"
#define DEVICES_MAX	64
#define FILE_MAX	(64 << 10)	/* bytes */
#define TRANSPORT_MAX	16
#define BLANKS		" \t\r"

static const struct key {
	const char *name;
	size_t	offset;
	double	min, max;	/* other values are mistakes */
} keys[] = {
#define KEY(field, min, max) \
	{ #field, offsetof(struct tagrv_xport_attr, field), min, max }
	KEY(latency, 0, 10),
	KEY(bandwidth, 1, 1e15),
	KEY(copy_bandwidth, 1, 1e15),
	KEY(overhead, 0, 10),
	KEY(get_overhead, 0, 10),
	KEY(reg_overhead, 0, 10),
	KEY(reg_growth, 0, 1),
	KEY(prep_overhead, 0, 10),
	KEY(frag_overhead, 0, 10),
	KEY(put_more, -10, 10),
	KEY(pipe_from, 1, 1e18),
};

struct entry {
	char	transport[TRANSPORT_MAX];
	char	device[TAGRV_DEVNAME_MAX];
	uint64_t peer;		/* model; 0: a device's section, for all peers */
	char	title[TRANSPORT_MAX + TAGRV_DEVNAME_MAX + TAGRV_MODEL_STRLEN + 8];
	double	value[TAGRV_ARRAY_SIZE(keys)];
	bool	known[TAGRV_ARRAY_SIZE(keys)];
};

struct tagrv_profile {
	size_t	cnt;
	struct entry entry[DEVICES_MAX];
};

/* ---- lines ---- */

/* Cuts the next word off the line; NULL: there is none. */
static char *next_word(char **line)
{
	char *word = *line + strspn(*line, BLANKS), *end;

	if (!*word)
		return NULL;
	end = word + strcspn(word, BLANKS);
	*line = *end ? end + 1 : end;
	*end = '\0';
	return word;
}

static struct entry *find(const struct tagrv_profile *profile,
			  const char *transport, const char *device,
			  uint32_t peer_key)
{
	for (size_t i = 0; i < profile->cnt; i++) {
		const struct entry *entry = &profile->entry[i];

		if (tagrv_model_key(entry->peer) == peer_key &&
		    !strcmp(entry->transport, transport) &&
		    !strcmp(entry->device, device))
			return (struct entry *) entry;
	}
	return NULL;
}

/* The following functions return NULL, or a text about the mistake. */

/* peer: a model, or 0 for the section of a device. */
static const char *add_entry(struct tagrv_profile *profile, const char *transport,
			     const char *device, uint64_t peer)
{
	struct entry *entry = &profile->entry[profile->cnt];
	char model[TAGRV_MODEL_STRLEN];

	if (profile->cnt == DEVICES_MAX)
		return "too many devices";
	if (find(profile, transport, device, tagrv_model_key(peer)))
		return peer ? "this pair was there before" :
			      "this device was there before";
	if (strlen(transport) >= sizeof(entry->transport) ||
	    strlen(device) >= sizeof(entry->device))
		return "this name is too long";
	strcpy(entry->transport, transport);
	strcpy(entry->device, device);
	entry->peer = peer;
	if (peer)
		snprintf(entry->title, sizeof(entry->title), "pair %s %s %s", transport,
			 device, tagrv_model_text(peer, model, sizeof(model)));
	else
		snprintf(entry->title, sizeof(entry->title), "device %s %s", transport,
			 device);
	profile->cnt++;
	return NULL;
}

static const char *parse_device(struct tagrv_profile *profile, char *line)
{
	char *transport = next_word(&line), *device = next_word(&line);

	if (!transport || !device || next_word(&line))
		return "a transport and a device are wanted";
	return add_entry(profile, transport, device, 0);
}

static const char *parse_pair(struct tagrv_profile *profile, char *line)
{
	char *transport = next_word(&line), *device = next_word(&line);
	char *model = next_word(&line);
	uint64_t peer;

	if (!transport || !device || !model || next_word(&line))
		return "a transport, a device and the model of a peer's are wanted";
	if (!tagrv_model_parse(model, &peer))
		return "a model is written as 15b3:1017@100000";
	return add_entry(profile, transport, device, peer);
}

static const char *parse_value(struct tagrv_profile *profile, const char *name,
			       char *line)
{
	const char *text = next_word(&line);
	struct entry *entry;
	size_t i = 0;
	double value;
	char *end;

	while (i < TAGRV_ARRAY_SIZE(keys) && strcmp(keys[i].name, name))
		i++;
	if (i == TAGRV_ARRAY_SIZE(keys))
		return "this is not known here";
	if (!profile->cnt)
		return "a device must be named before";
	if (!text || next_word(&line))
		return "one number is wanted";
	value = strtod(text, &end);
	if (end == text || *end || !isfinite(value))
		return "this is no number";
	if (value < keys[i].min || value > keys[i].max)
		return "this number makes no sense";
	entry = &profile->entry[profile->cnt - 1];
	if (entry->known[i])
		return "this was there before";
	entry->value[i] = value;
	entry->known[i] = true;
	return NULL;
}

static const char *parse_line(struct tagrv_profile *profile, char *line)
{
	const char *name;

	line[strcspn(line, "#")] = '\0';
	name = next_word(&line);
	if (!name)
		return NULL;
	if (!strcmp(name, "device"))
		return parse_device(profile, line);
	if (!strcmp(name, "pair"))
		return parse_pair(profile, line);
	return parse_value(profile, name, line);
}

/* *number: the line of the mistake. */
static const char *parse_lines(struct tagrv_profile *profile, char *text,
			       unsigned *number)
{
	char *line = strsep(&text, "\n");
	const char *error = NULL;

	*number = 1;
	if (strcmp(line, MAGIC))
		return "'" MAGIC "' is wanted";
	while (!error && (line = strsep(&text, "\n"))) {
		++*number;
		error = parse_line(profile, line);
	}
	return error;
}

struct tagrv_profile *tagrv_profile_parse(char *text, char *error,
					  size_t error_len)
{
	struct tagrv_profile *profile = calloc(1, sizeof(*profile));
	/* The application's locale may write numbers with a comma. */
	locale_t plain = newlocale(LC_ALL_MASK, "C", NULL), own;
	const char *problem = "out of memory";
	unsigned number = 0;

	if (profile && plain) {
		own = uselocale(plain);
		problem = parse_lines(profile, text, &number);
		uselocale(own);
	}
	if (plain)
		freelocale(plain);
	if (!problem)
		return profile;
	snprintf(error, error_len, "line %u: %s", number, problem);
	free(profile);
	return NULL;
}

void tagrv_profile_free(struct tagrv_profile *profile)
{
	free(profile);
}

/* ---- the file ---- */

int tagrv_profile_path(const struct tagrv_params *params, char *path,
		       size_t size)
{
	const char *dir = secure_getenv("XDG_CONFIG_HOME");
	const char *home = secure_getenv("HOME");
	int len;

	if (!strcmp(params->profile, "none"))
		return -FI_ENODATA;
	if (*params->profile)
		len = snprintf(path, size, "%s", params->profile);
	else if (dir && *dir == '/')
		len = snprintf(path, size, "%s/tagrv/profile", dir);
	else if (home && *home == '/')
		len = snprintf(path, size, "%s/.config/tagrv/profile", home);
	else
		return -FI_ENODATA;
	return len < 0 || (size_t) len >= size ? -FI_ENODATA : 0;
}

/*
 * NULL, or why the file must not be used. A file that FI_TAGRV_PROFILE names may
 * be any user's. One that was found in a home directory may not: after su, HOME
 * can be another user's.
 */
static const char *check_file(const struct stat *st, bool named)
{
	if (!S_ISREG(st->st_mode) || st->st_size > FILE_MAX)
		return "it is no file of at most 64 KiB";
	if (st->st_mode & S_IWOTH)
		return "everybody may write to it";
	if (!named && st->st_uid && st->st_uid != geteuid())
		return "it is another user's; FI_TAGRV_PROFILE can name it";
	return NULL;
}

/* NULL, or a text about the problem; *text is to be freed in both cases. */
static const char *read_whole(int fd, size_t len, char **text)
{
	*text = calloc(1, len + 1);
	if (!*text)
		return strerror(ENOMEM);
	if (read(fd, *text, len) != (ssize_t) len)
		return "it cannot be read whole";
	return strlen(*text) == len ? NULL : "it is no text";
}

/* Returns the whole file as a string to be freed; NULL: 'error' has the reason. */
static char *read_file(const char *path, bool named, char *error,
		       size_t error_len)
{
	/* O_NONBLOCK: open() of a FIFO must not wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *problem;
	char *text = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		problem = strerror(errno);
	} else {
		problem = check_file(&st, named);
		if (!problem)
			problem = read_whole(fd, (size_t) st.st_size, &text);
	}
	if (fd >= 0)
		close(fd);
	if (!problem)
		return text;
	snprintf(error, error_len, "%s", problem);
	free(text);
	return NULL;
}

struct tagrv_profile *tagrv_profile_load(const struct tagrv_params *params)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;
	struct tagrv_profile *profile = NULL;
	char path[1024], error[128], *text;

	if (tagrv_profile_path(params, path, sizeof(path)))
		return NULL;
	if (!*params->profile && access(path, F_OK))
		return NULL;
	text = read_file(path, *params->profile, error, sizeof(error));
	if (text)
		profile = tagrv_profile_parse(text, error, sizeof(error));
	free(text);
	if (profile)
		tagrv_info("times and rates of %zu devices and pairs from %s\n",
			   profile->cnt, path);
	else if (!atomic_flag_test_and_set(&logged))
		tagrv_warn("the profile %s is not used: %s\n", path, error);
	return profile;
}

static bool apply(const struct tagrv_profile *profile, const struct tagrv_device *dev,
		  uint32_t peer_key, struct tagrv_xport_attr *attr)
{
	const struct entry *entry =
		profile ? find(profile, dev->ops->name, dev->name, peer_key) : NULL;

	if (!entry)
		return false;
	/* Of the device alone these two say little: they are relative to its other values. */
	if (peer_key) {
		attr->put_more = 0;
		attr->pipe_from = 0;
	}
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(keys); i++)
		if (entry->known[i])
			*(double *) ((char *) attr + keys[i].offset) =
				entry->value[i];
	attr->source = "profile";
	attr->section = entry->title;
	return true;
}

void tagrv_profile_apply(const struct tagrv_profile *profile,
			 const struct tagrv_device *dev,
			 struct tagrv_xport_attr *attr)
{
	(void) apply(profile, dev, 0, attr);
}

bool tagrv_profile_apply_pair(const struct tagrv_profile *profile,
			      const struct tagrv_device *dev, uint32_t peer_key,
			      struct tagrv_xport_attr *attr)
{
	return peer_key && apply(profile, dev, peer_key, attr);
}

uint64_t tagrv_profile_pair(const struct tagrv_profile *profile,
			    const struct tagrv_device *dev, size_t i)
{
	for (size_t k = 0; profile && k < profile->cnt; k++) {
		const struct entry *entry = &profile->entry[k];

		if (entry->peer && !strcmp(entry->transport, dev->ops->name) &&
		    !strcmp(entry->device, dev->name) && !i--)
			return entry->peer;
	}
	return 0;
}
