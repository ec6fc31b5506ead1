/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One file for a bug report: versions, limits, devices, parameters, tables, environment. A
 * value whose name speaks of a secret is left out.
 */
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "api/info/info.h"
#include "util/info/info_host.h"
#include "wireup/wireup.h"

/* Variables that a run depends on, by the beginnings of their names. */
static const char *const wanted[] = {
	"FI_", "OMPI_", "OPAL_", "PMIX_", "PRTE_", "MPIR_", "MPICH_", "HYDRA_", "PMI_", "SLURM_",
	"RDMAV_", "IBV_", "MLX5_", "UCX_", "LD_", "MALLOC_", "OMP_", "KMP_",
};
static const char *const secret[] = {
	"KEY", "TOKEN", "SECRET", "PASS", "PWD", "COOKIE", "CREDENTIAL", "JWT", "AUTH", "UUID",
	"PRECONDITION",		/* Open MPI's key of a job: orte_precondition_transports */
};

static bool is_wanted(const char *name)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(wanted); i++)
		if (!strncmp(name, wanted[i], strlen(wanted[i])))
			return true;
	return false;
}

static bool is_secret(const char *name, size_t len)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(secret); i++)
		for (size_t at = 0; at + strlen(secret[i]) <= len; at++)
			if (!strncasecmp(name + at, secret[i], strlen(secret[i])))
				return true;
	return false;
}

/* Of an address with a user's name and password, too. */
static bool has_login(const char *value)
{
	const char *at = strstr(value, "://");

	return at && strchr(at, '@');
}

/* Control characters could hide what else is in the report. */
static void print_clean(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc((unsigned char) *text < ' ' || *text == 127 ? '?' : *text, out);
	fputc('\n', out);
}

static bool is_ours(const struct info_host *host, const char *variable)
{
	return (host->set_level && !strncmp(variable, "FI_LOG_LEVEL=", 13)) ||
	       (host->set_prov && !strncmp(variable, "FI_LOG_PROV=", 12));
}

static void print_environment(FILE *out, const struct info_host *host)
{
	fputs("\n== environment\n", out);
	for (char **env = environ; *env; env++) {
		size_t len = strcspn(*env, "=");

		if (!is_wanted(*env) || is_ours(host, *env))
			continue;
		if (is_secret(*env, len) || has_login(*env))
			fprintf(out, "%.*s=(set, %zu characters, left out)\n", (int) len, *env,
				strlen(*env) - len - 1);
		else
			print_clean(out, *env);
	}
}

/* Prints the first line of a file, "-" if there is none. */
static void print_file(FILE *out, const char *path)
{
	char line[256] = "";
	FILE *file = fopen(path, "r");

	if (file && !fgets(line, sizeof(line), file))
		line[0] = '\0';
	if (file)
		fclose(file);
	line[strcspn(line, "\n")] = '\0';
	fprintf(out, "%s: %s\n", path, *line ? line : "-");
}

static void print_limit(FILE *out, const char *name, int resource)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		fprintf(out, "%s: unlimited\n", name);
	else
		fprintf(out, "%s: %llu\n", name, (unsigned long long) limit.rlim_cur);
}

static void print_system(FILE *out)
{
	struct utsname name;
	uint32_t version = fi_version();

	fprintf(out, "== versions\ntagrv %s, wire version %d, libfabric %u.%u (headers %d.%d)\n",
		PACKAGE_VERSION, TAGRV_WIRE_VERSION, FI_MAJOR(version), FI_MINOR(version),
		FI_MAJOR_VERSION, FI_MINOR_VERSION);
	if (!uname(&name))
		fprintf(out, "%s %s %s\n", name.sysname, name.release, name.machine);
	print_file(out, "/etc/debian_version");
	print_file(out, "/sys/module/ib_core/version");
	fprintf(out, "\n== limits\nprocessors: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
	print_limit(out, "locked memory (ulimit -l), bytes", RLIMIT_MEMLOCK);
	print_limit(out, "open files (ulimit -n)", RLIMIT_NOFILE);
	print_limit(out, "processes (ulimit -u)", RLIMIT_NPROC);
	print_file(out, "/proc/sys/kernel/yama/ptrace_scope");
	print_file(out, "/proc/sys/vm/unprivileged_userfaultfd");
	print_file(out, "/proc/sys/vm/overcommit_memory");
	print_file(out, "/proc/sys/net/core/somaxconn");
}

/* name: of the adapter, or adapter:port. */
static void print_adapter(FILE *out, const char *name)
{
	static const char *const files[] = { "fw_ver", "hca_type" };
	static const char *const of_port[] = { "state", "rate" };
	const char *port = strchr(name, ':');
	int len = (int) strcspn(name, ":");
	char path[256];

	for (size_t k = 0; k < TAGRV_ARRAY_SIZE(files); k++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/%s", len, name, files[k]);
		print_file(out, path);
	}
	for (size_t k = 0; k < TAGRV_ARRAY_SIZE(of_port); k++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/ports/%s/%s", len, name,
			 port ? port + 1 : "1", of_port[k]);
		print_file(out, path);
	}
}

/* Attributes of the kernel's view of each adapter that is offered. */
static void print_adapters(FILE *out, const struct info_host *host)
{
	for (size_t i = 0; i < host->cnt; i++)
		if (!tagrv_info_is_local(host->descs[i].name))
			print_adapter(out, host->descs[i].name);
}

int info_report(FILE *out, const struct info_host *host)
{
	time_t now = time(NULL);
	char date[64] = "";
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm);
	fprintf(out, "tagrv_info --report, %s\n\n", date);
	print_system(out);
	fputs("\n== host\n", out);
	info_text_host(out, host);
	print_adapters(out, host);
	fputs("\n== protocols\n", out);
	(void) info_text_protocols(out, host);
	print_environment(out, host);
	return fflush(out) || ferror(out) ? -(errno ? errno : EIO) : 0;
}
