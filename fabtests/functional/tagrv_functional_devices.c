/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The functional tests of messages, one-sided operations and failures over RDMA devices in
 * memory that behave as an adapter of one vendor: FAKE_VERBS=profile. With
 * FAKE_VERBS_PINNED, regions keep their pages, where the kernel allows it.
 *
 *   runner --fork--> one process: provider, devices fake0 and fake1
 *                      |-- thread: rank 0, copy 0 of rank_module.so
 *                      `-- thread: rank 1, copy 1
 *
 * The devices are in the memory of one process, so the ranks are threads. Each runs a copy
 * of the module, which has variables of its own; what processes have of their own else, the
 * environment and the provider, is one for both. A case that ends a process is skipped.
 */
#include "common/fake_verbs.h"
#include "common/slowness.h"
#include "framework/options.h"
#include "rank_module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT	__attribute__((visibility("default")))

enum { MORE_VARIABLES = 64 };

/* The provider's own, in this program. */
struct fi_provider *fi_prov_ini(void);

static const char *module_path;
static rank_module_run_fn *run_rank[RUN_RANKS_MAX];
static struct fi_provider *provider;
static _Thread_local int rank_nr = -1;

/* ---- what the module calls ---- */

/* The library's function would offer the providers that it has found itself. */
EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *own = hints ? fi_dupinfo(hints) : fi_allocinfo();
	int ret;

	if (!own)
		return -FI_ENOMEM;
	if (!own->domain_attr->name)
		own->domain_attr->name = strdup(rank_nr % 2 ? "fake1" : "fake0");
	ret = provider->getinfo(version, node, service, flags, own, info);
	fi_freeinfo(own);
	for (struct fi_info *i = ret ? NULL : *info; i; i = i->next)
		if (!i->fabric_attr->prov_name)
			i->fabric_attr->prov_name = strdup(provider->name);
	return ret;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return provider->fabric(attr, fabric, context);
}

static pthread_mutex_t setting = PTHREAD_MUTEX_INITIALIZER;
static size_t variables, room;

static void move_environment(void)
{
	char **moved;

	while (environ[variables])
		variables++;
	room = variables + MORE_VARIABLES;
	moved = calloc(room + 1, sizeof(*moved));
	if (!moved)
		abort();
	memcpy(moved, environ, variables * sizeof(*moved));
	environ = moved;
}

/* Another rank may look a variable up meanwhile: nothing moves, and nothing is freed. */
EXPORT int setenv(const char *name, const char *value, int overwrite)
{
	size_t len = strlen(name), i = 0;
	char *text;

	if (asprintf(&text, "%s=%s", name, value) < 0)
		return -1;
	pthread_mutex_lock(&setting);
	if (!room)
		move_environment();
	while (i < variables && (strncmp(environ[i], name, len) || environ[i][len] != '='))
		i++;
	if (i == room)
		abort();
	if (i == variables || overwrite)
		__atomic_store_n(&environ[i], text, __ATOMIC_RELEASE);
	variables += i == variables;
	pthread_mutex_unlock(&setting);
	return 0;
}

/* ---- the process of a case ---- */

/* The loader takes a file with another inode for another library. */
static void *load_copy(void)
{
	int from = open(module_path, O_RDONLY | O_CLOEXEC), to = memfd_create("rank", MFD_CLOEXEC);
	char path[64];
	struct stat st;
	void *module;

	if (from < 0 || to < 0 || fstat(from, &st) || sendfile(to, from, NULL, (size_t)st.st_size) != st.st_size) {
		perror(module_path);
		_exit(EXIT_FAILURE);
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", to);
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(EXIT_FAILURE);
	}
	close(from);
	return module;
}

/*
 * The library reads FI_LOG_* when one of its calls is made that looks for providers. No such
 * call is made otherwise: the ones of the cases come to fi_getinfo() and fi_fabric() above. It
 * loads all providers, and so is left out without FI_LOG_LEVEL.
 */
static void begin_log(void)
{
	struct fi_param *params;
	int cnt;

	if (getenv("FI_LOG_LEVEL") && !fi_getparams(&params, &cnt))
		fi_freeparams(params);
}

static void begin(int ranks)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	begin_log();
	for (int i = 0; i < ranks; i++)
		run_rank[i] = (rank_module_run_fn *)(uintptr_t)dlsym(load_copy(), "rank_module_run");
	provider = fi_prov_ini();
	/* Libraries that libfabric loads print and exit. */
	for (const int *sig = (const int[]){ SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, 0 }; *sig; sig++)
		signal(*sig, SIG_DFL);
	config.pinned = getenv("FAKE_VERBS_PINNED") && fake_verbs_can_pin();
	fake_verbs_start(&config);
}

static void run_here(const char *name, struct test *t)
{
	rank_nr = t->rank;
	run_rank[t->rank](name, t);
}

static const char *end(void)
{
	static char text[200];
	struct fake_verbs_counts n;

	provider->cleanup();
	n = fake_verbs_count();
	if (n.objects || n.rnr || n.cq_overflows || n.sq_overflows) {
		snprintf(text, sizeof(text), "the devices have %u objects left, %u packets found no receive buffer, "
			 "%u completions and %u requests no room", n.objects, n.rnr, n.cq_overflows, n.sq_overflows);
		return text;
	}
	fake_verbs_stop();
	return NULL;
}

/* ---- the program ---- */

static bool wanted(const struct test_case *test_case, const char *pattern)
{
	return !pattern || strstr(test_case->name, pattern) || !fnmatch(pattern, test_case->name, 0);
}

static void find_module(const char *program)
{
	static char path[4096];
	const char *given = getenv("RANK_MODULE"), *slash = strrchr(program, '/');

	snprintf(path, sizeof(path), "%.*s.libs/rank_module.so", slash ? (int)(slash - program + 1) : 0, program);
	module_path = given ? given : path;
}

int main(int argc, char **argv)
{
	static const struct run_together together = { begin, run_here, end };
	rank_module_tables_fn *tables_of;
	const struct test_case *const *tables;
	struct run_tally tally = { 0 };
	struct options opt;
	size_t cnt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, NULL, 0);
	options_default_timeout(&opt, 300);
	(void)slowness();
	find_module(argv[0]);
	setenv("FI_TAGRV_TRANSPORTS", "verbs", 1);
	opt.run.together = &together;
	opt.run.address[0] = opt.run.address[1] = "127.0.0.1";
	tables_of = (rank_module_tables_fn *)(uintptr_t)dlsym(load_copy(), "rank_module_tables");
	tables = tables_of(&cnt);
	for (size_t i = 0; i < cnt; i++)
		for (const struct test_case *c = tables[i]; c->name; c++)
			if (wanted(c, opt.pattern) && opt.list)
				printf("%-32s %s\n", c->name, c->shows);
			else if (wanted(c, opt.pattern))
				run_counted(c, &opt.run, &tally);
	if (opt.list)
		return EXIT_SUCCESS;
	run_print_tally(&tally);
	return tally.failed || !tally.passed ? EXIT_FAILURE : EXIT_SUCCESS;
}
