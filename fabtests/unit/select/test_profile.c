/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * profile.c: lines of measured times and rates, and warnings about wrong ones.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/caught_log.h"
#include "select/profile.h"

#define FIRST	"tagrv-profile 1\n"

static const struct tagrv_xport_attr declared = {
	.latency = 1, .bandwidth = 2, .copy_bandwidth = 3, .overhead = 4,
	.get_overhead = 5, .reg_overhead = 6, .reg_growth = 7,
	.source = "declared",
};

static struct tagrv_profile *parse(const char *lines, char *wrong, size_t len)
{
	char *text = strdup(lines);
	struct tagrv_profile *profile = tagrv_profile_parse(text, wrong, len);

	free(text);
	return profile;
}

static struct tagrv_xport_attr apply(const struct tagrv_profile *profile,
				     const char *name)
{
	struct tagrv_device dev = { .ops = tagrv_xport_local() };
	struct tagrv_xport_attr attr = declared;

	snprintf(dev.name, sizeof(dev.name), "%s", name);
	tagrv_profile_apply(profile, &dev, &attr);
	return attr;
}

Test(profile, replaces_what_it_knows_of_a_device)
{
	char wrong[128] = "";
	struct tagrv_profile *profile = parse(FIRST
		"# by hand\n\n"
		"device verbs shm\nlatency 9\n"
		"device shm other\nlatency 8\n"
		"device shm shm\n"
		"\tlatency 2.5e-07 # s\n"
		"copy_bandwidth 4e9\r\n"
		"reg_growth 0", wrong, sizeof(wrong));
	struct tagrv_xport_attr attr;

	cr_assert_not_null(profile, "%s", wrong);
	attr = apply(profile, "shm");
	cr_expect_eq(attr.latency, 2.5e-7);
	cr_expect_eq(attr.bandwidth, 2);
	cr_expect_eq(attr.copy_bandwidth, 4e9);
	cr_expect_eq(attr.overhead, 4);
	cr_expect_eq(attr.get_overhead, 5);
	cr_expect_eq(attr.reg_growth, 0);
	cr_expect_str_eq(attr.source, "profile");
	attr = apply(profile, "none");
	cr_expect_eq(attr.latency, 1);
	cr_expect_str_eq(attr.source, "declared");
	attr = apply(NULL, "shm");
	cr_expect_eq(attr.latency, 1);
	tagrv_profile_free(profile);
}

#define MODEL	UINT64_C(0x0015b310170186a0)	/* 15b3:1017@100000 */

/* A pair's values come on top of the device's, and are for these peers only. */
Test(profile, a_pair_has_a_section_of_its_own)
{
	char wrong[128] = "";
	struct tagrv_profile *profile = parse(FIRST
		"pair shm shm 15b3:1017@100000\nlatency 5\npipe_from 65536\n"
		"device shm shm\nlatency 4\noverhead 3\nput_more -1e-6\n"
		"pair shm shm 15b3:1017@25000\nlatency 6\n"
		"pair shm other 15b3:1017@100000\nlatency 7\n", wrong, sizeof(wrong));
	struct tagrv_device dev = { .ops = tagrv_xport_local(), .name = "shm" };
	struct tagrv_xport_attr attr;

	cr_assert_not_null(profile, "%s", wrong);
	attr = apply(profile, "shm");
	cr_expect_eq(attr.latency, 4);
	cr_expect_eq(attr.put_more, -1e-6);
	cr_expect_str_eq(attr.section, "device shm shm");
	cr_expect_not(tagrv_profile_apply_pair(profile, &dev, 0, &attr));
	cr_expect_not(tagrv_profile_apply_pair(profile, &dev, tagrv_model_key(MODEL + 1), &attr));
	cr_expect_not(tagrv_profile_apply_pair(NULL, &dev, tagrv_model_key(MODEL), &attr));
	cr_expect_eq(attr.latency, 4);
	cr_expect(tagrv_profile_apply_pair(profile, &dev, tagrv_model_key(MODEL), &attr));
	cr_expect_eq(attr.latency, 5);
	cr_expect_eq(attr.overhead, 3);
	cr_expect_eq(attr.pipe_from, 65536);
	cr_expect_eq(attr.put_more, 0, "the device's is relative to its own latency");
	cr_expect_str_eq(attr.section, "pair shm shm 15b3:1017@100000");
	cr_expect_eq(tagrv_profile_pair(profile, &dev, 0), MODEL);
	cr_expect_eq(tagrv_profile_pair(profile, &dev, 1), MODEL - 75000);
	cr_expect_eq(tagrv_profile_pair(profile, &dev, 2), 0);
	cr_expect_eq(tagrv_profile_pair(NULL, &dev, 0), 0);
	attr = apply(profile, "other");
	cr_expect_eq(attr.latency, 1, "a pair's section is not the device's");
	tagrv_profile_free(profile);
}

Test(profile, mistakes_are_told_with_their_line)
{
	static const struct {
		const char *text, *said;
	} known[] = {
		{ "", "line 1: 'tagrv-profile 1' is wanted" },
		{ "tagrv-profile 2\n", "line 1: 'tagrv-profile 1' is wanted" },
		{ FIRST "latency 1\n", "line 2: a device must be named before" },
		{ FIRST "device shm\n", "line 2: a transport and a device" },
		{ FIRST "device shm a b\n", "line 2: a transport and a device" },
		{ FIRST "device shm a\ndevice shm a\n",
		  "line 3: this device was there before" },
		{ FIRST "device shm a\n\nspeed 1\n",
		  "line 4: this is not known here" },
		{ FIRST "device shm a\nlatency\n", "line 3: one number" },
		{ FIRST "device shm a\nlatency 1 s\n", "line 3: one number" },
		{ FIRST "device shm a\nlatency fast\n", "line 3: this is no number" },
		{ FIRST "device shm a\nlatency 1e-6s\n", "line 3: this is no number" },
		{ FIRST "device shm a\nlatency nan\n", "line 3: this is no number" },
		{ FIRST "device shm a\nbandwidth inf\n", "line 3: this is no number" },
		{ FIRST "device shm a\nlatency -1\n", "line 3: this number makes no" },
		{ FIRST "device shm a\nbandwidth 0\n", "line 3: this number makes no" },
		{ FIRST "device shm a\nlatency 1\nlatency 1\n",
		  "line 4: this was there before" },
		{ FIRST "device averyveryverylongone a\n", "line 2: this name is too long" },
		{ FIRST "pair shm a\n", "line 2: a transport, a device and the model" },
		{ FIRST "pair shm a 1:1@1 b\n", "line 2: a transport, a device and the model" },
		{ FIRST "pair shm a b\n", "line 2: a model is written as 15b3" },
		{ FIRST "pair shm a 0:0@5\n", "line 2: a model is written as 15b3" },
		{ FIRST "pair shm a 1:1@1\ndevice shm a\npair shm a 1:1@1\n",
		  "line 4: this pair was there before" },
		{ FIRST "device shm a\nput_more -11\n", "line 3: this number makes no" },
		{ FIRST "device shm a\npipe_from 0\n", "line 3: this number makes no" },
	};
	char wrong[128];

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(known); i++) {
		cr_expect_null(parse(known[i].text, wrong, sizeof(wrong)),
			       "%s", known[i].text);
		cr_expect_not_null(strstr(wrong, known[i].said),
				   "%s: %s", known[i].text, wrong);
	}
}

/* The same sequence in each run. */
static unsigned draw(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned) (state >> 32);
}

/*
 * Bytes that were changed, cut off or doubled do no harm: a profile is refused with the line
 * of a mistake, or all of its values make sense. The transports' names need no check.
 */
Test(profile, changed_bytes_do_no_harm, .timeout = 30)
{
	static const char good[] = FIRST "device shm shm\nlatency 2e-7 # s\nreg_growth 0\n"
		"pair shm shm 15b3:1017@100000\nlatency 5e-6\nput_more -1e-6\n"
		"pipe_from 65536\ncopy_bandwidth 4e9\n";
	static const char bytes[] = "\n \t#:@-+.e0123456789abcdefxnpidv\x80\xff";
	struct tagrv_device dev = { .ops = tagrv_xport_local(), .name = "shm" };
	unsigned taken = 0, refused = 0;
	char text[2 * sizeof(good)], wrong[128];

	for (int round = 0; round < 20000; round++) {
		struct tagrv_profile *profile;
		struct tagrv_xport_attr attr = declared;
		size_t len = sizeof(good) - 1;

		memcpy(text, good, sizeof(good));
		for (unsigned i = draw() % 3 + 1; i; i--)
			text[sizeof(FIRST) - 1 + draw() % (len - sizeof(FIRST) + 1)] =
				bytes[draw() % (sizeof(bytes) - 1)];
		if (!(draw() % 4))
			text[draw() % len] = '\0';
		else if (!(draw() % 8))
			strcat(text, good + draw() % len);
		wrong[0] = '\0';
		profile = tagrv_profile_parse(text, wrong, sizeof(wrong));
		refused += !profile;
		taken += !!profile;
		cr_assert(profile || !strncmp(wrong, "line ", 5), "'%s'", wrong);
		if (!profile)
			continue;
		tagrv_profile_apply(profile, &dev, &attr);
		for (size_t i = 0; tagrv_profile_pair(profile, &dev, i); i++)
			cr_assert(tagrv_profile_apply_pair(profile, &dev,
				tagrv_model_key(tagrv_profile_pair(profile, &dev, i)), &attr));
		cr_assert(attr.latency >= 0 && attr.latency <= 10 && attr.pipe_from >= 0 &&
			  attr.put_more >= -10 && attr.put_more <= 10 &&
			  attr.copy_bandwidth >= 1);
		tagrv_profile_free(profile);
	}
	cr_assert(taken > 1000 && refused > 1000, "%u taken, %u refused", taken, refused);
}

/* ---- files ---- */

static char folder[] = "/tmp/tagrv-test-XXXXXX";
static char file[64];

static void enter_folder(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(file, sizeof(file), "%s/tagrv", folder);
	mkdir(file, 0700);
	snprintf(file, sizeof(file), "%s/tagrv/profile", folder);
	setenv("XDG_CONFIG_HOME", folder, 1);
}

static void leave_folder(void)
{
	unlink(file);
	*strrchr(file, '/') = '\0';
	rmdir(file);
	rmdir(folder);
}

static void write_file(const char *text)
{
	FILE *f = fopen(file, "w");

	cr_assert_not_null(f);
	cr_assert_geq(fputs(text, f), 0);
	fclose(f);
}

TestSuite(profile_file, .init = enter_folder, .fini = leave_folder,
	  .timeout = 20);

Test(profile_file, of_the_user_is_found_or_not_missed)
{
	struct tagrv_params params = { .profile = "" };
	struct tagrv_profile *profile;

	cr_expect_null(tagrv_profile_load(&params));
	write_file(FIRST "device shm shm\nlatency 0.5\n");
	profile = tagrv_profile_load(&params);
	cr_assert_not_null(profile);
	cr_expect_eq(apply(profile, "shm").latency, 0.5);
	tagrv_profile_free(profile);
	strcpy(params.profile, "none");
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_eq(log_count("\n"), 0);
}

Test(profile_file, without_a_folder_there_is_none)
{
	struct tagrv_params params = { .profile = "" };
	char path[64];

	setenv("XDG_CONFIG_HOME", "relative", 1);
	setenv("HOME", folder, 1);
	cr_expect_eq(tagrv_profile_path(&params, path, sizeof(path)), 0);
	cr_expect_not_null(strstr(path, "/.config/tagrv/profile"));
	unsetenv("HOME");
	cr_expect_eq(tagrv_profile_path(&params, path, sizeof(path)),
		     -FI_ENODATA);
}

Test(profile_file, that_is_named_and_missing_is_one_warning)
{
	struct tagrv_params params;

	snprintf(params.profile, sizeof(params.profile), "%s", file);
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_eq(log_count("\n"), 1);
	cr_expect_eq(log_count("No such file"), 1);
}

Test(profile_file, with_a_mistake_is_one_warning)
{
	struct tagrv_params params = { .profile = "" };

	write_file(FIRST "device shm shm\nlatency fast\n");
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_eq(log_count("\n"), 1);
	cr_expect_eq(log_count("line 3: this is no number"), 1);
}

Test(profile_file, that_is_none_is_refused)
{
	struct tagrv_params params;

	snprintf(params.profile, sizeof(params.profile), "%s", folder);
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_eq(log_count("\n"), 1);
	cr_expect_eq(log_count("it is no file"), 1);
}

#define GOOD	FIRST "device shm shm\nlatency 0.5\n"

Test(profile_file, that_everybody_may_write_is_not_trusted)
{
	struct tagrv_params params = { .profile = "" };

	write_file(GOOD);
	chmod(file, 0646);
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_eq(log_count("everybody may write"), 1);
	snprintf(params.profile, sizeof(params.profile), "%s", file);
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_eq(log_count("\n"), 1);
}

/* Only root can make such a file; other users skip the check. */
Test(profile_file, of_another_user_must_be_named)
{
	struct tagrv_params params = { .profile = "" };
	struct tagrv_profile *profile;

	write_file(GOOD);
	if (chown(file, 12345, (gid_t) -1)) {
		cr_log_warn("not root: no file of another user");
		return;
	}
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_eq(log_count("it is another user's"), 1);
	snprintf(params.profile, sizeof(params.profile), "%s", file);
	profile = tagrv_profile_load(&params);
	cr_expect_not_null(profile);
	tagrv_profile_free(profile);
}

Test(profile_file, that_is_no_text_is_refused)
{
	struct tagrv_params params = { .profile = "" };
	FILE *f;

	write_file(GOOD);
	f = fopen(file, "a");
	cr_assert_eq(fwrite("\0nonsense", 1, 9, f), 9);
	fclose(f);
	cr_expect_null(tagrv_profile_load(&params));
	cr_expect_eq(log_count("it is no text"), 1);
}
