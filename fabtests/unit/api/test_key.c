/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Job keys as applications give them: auth_key of fi_getinfo, fi_domain and
 * fi_endpoint, and what holds without one.
 */
#include <stdlib.h>
#include <string.h>

#include "unit/api/api_fixture.h"
#include "unit/auth/auth_environment.h"

#define DOMAIN_KEY	"the key of the domain"
#define EP_KEY		"the key of the endpoint"

static void set_up(void)
{
	api_log_start("warn");
	api_init();
	forget_jobs();
}

TestSuite(key, .init = set_up, .timeout = 30);

static void give(uint8_t **key, size_t *len, const char *text)
{
	free(*key);
	*key = text ? (uint8_t *) strdup(text) : NULL;
	*len = text ? strlen(text) : 0;
}

static struct fi_info *hints_with(const char *domain_key, const char *ep_key)
{
	struct fi_info *hints = api_hints();

	give(&hints->domain_attr->auth_key, &hints->domain_attr->auth_key_size,
	     domain_key);
	give(&hints->ep_attr->auth_key, &hints->ep_attr->auth_key_size, ep_key);
	return hints;
}

static void expect_key(const struct tagrv_auth_key *key, const char *secret)
{
	struct tagrv_auth_key want;

	cr_assert_eq(tagrv_auth_key_make(&want, secret, strlen(secret)), 0);
	cr_expect_arr_eq(key, &want, sizeof(want));
}

static struct tagrv_domain *domain_of(const struct api *api)
{
	return tagrv_container_of(api->domain, struct tagrv_domain, domain);
}

static struct tagrv_auth_key *ep_key_of(const struct api *api)
{
	return tagrv_container_of(api->ep, struct tagrv_ep, ep)->key;
}

Test(key, getinfo_returns_the_keys)
{
	struct fi_info *hints = hints_with(DOMAIN_KEY, EP_KEY);
	struct fi_info *info = api_must_getinfo(hints);

	cr_assert_eq(info->domain_attr->auth_key_size, strlen(DOMAIN_KEY));
	cr_expect_arr_eq(info->domain_attr->auth_key, DOMAIN_KEY,
			 strlen(DOMAIN_KEY));
	cr_assert_eq(info->ep_attr->auth_key_size, strlen(EP_KEY));
	cr_expect_arr_eq(info->ep_attr->auth_key, EP_KEY, strlen(EP_KEY));
	cr_expect_neq(info->ep_attr->auth_key, hints->ep_attr->auth_key);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* The secret of the environment is nobody else's business. */
Test(key, getinfo_tells_no_key_of_the_environment)
{
	struct fi_info *info;

	setenv("FI_TAGRV_JOB_KEY", DOMAIN_KEY, 1);
	info = api_must_getinfo(NULL);
	cr_expect_null(info->domain_attr->auth_key);
	cr_expect_eq(info->domain_attr->auth_key_size, 0);
	cr_expect_null(info->ep_attr->auth_key);
	cr_expect_eq(info->ep_attr->auth_key_size, 0);
	fi_freeinfo(info);
}

static void expect_no_info(const struct fi_info *hints)
{
	struct fi_info *info;

	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
}

Test(key, getinfo_refuses_keys_of_other_lengths)
{
	struct fi_info *hints = hints_with("fifteen bytes..", NULL);

	expect_no_info(hints);
	hints->domain_attr->auth_key_size = 4097;
	expect_no_info(hints);
	give(&hints->domain_attr->auth_key, &hints->domain_attr->auth_key_size, NULL);
	hints->domain_attr->auth_key_size = 16;
	expect_no_info(hints);
	hints->domain_attr->auth_key_size = SIZE_MAX;	/* FI_AV_AUTH_KEY */
	expect_no_info(hints);
	fi_freeinfo(hints);

	hints = hints_with(NULL, "fifteen bytes..");
	expect_no_info(hints);
	hints->ep_attr->auth_key_size = SIZE_MAX;
	expect_no_info(hints);
	fi_freeinfo(hints);
}

static void open_with(struct api *api, const char *domain_key, const char *ep_key)
{
	struct fi_info *hints = hints_with(domain_key, ep_key);

	api_open_ep(api, hints, 0);
	fi_freeinfo(hints);
}

/* The endpoint's key counts, then the domain's, the environment's, the launcher's. */
Test(key, the_nearest_key_counts)
{
	struct api api = { 0 };

	setenv("SLURM_JOB_ID", "17", 1);
	open_with(&api, NULL, NULL);
	cr_expect_eq(ep_key_of(&api)->level, TAGRV_AUTH_SEPARATION);
	cr_expect_eq(ep_key_of(&api), &domain_of(&api)->key);
	api_close(&api);

	setenv("FI_TAGRV_JOB_KEY", "the key of the job", 1);
	open_with(&api, NULL, NULL);
	expect_key(ep_key_of(&api), "the key of the job");
	api_close(&api);

	open_with(&api, DOMAIN_KEY, NULL);
	expect_key(ep_key_of(&api), DOMAIN_KEY);
	api_close(&api);

	open_with(&api, DOMAIN_KEY, EP_KEY);
	expect_key(ep_key_of(&api), EP_KEY);
	expect_key(&domain_of(&api)->key, DOMAIN_KEY);
	api_close(&api);

	setenv("FI_TAGRV_JOB_KEY", "none", 1);
	open_with(&api, NULL, NULL);
	cr_expect_eq(ep_key_of(&api)->level, TAGRV_AUTH_NONE);
	api_close(&api);
}

/* A program changes what fi_getinfo returned. */
Test(key, domains_and_endpoints_refuse_wrong_keys)
{
	struct api api = { 0 };
	struct fid_domain *domain;
	struct fid_ep *ep;

	api_open_domain(&api, NULL);
	give(&api.info->domain_attr->auth_key,
	     &api.info->domain_attr->auth_key_size, "fifteen bytes..");
	REFUSED(fi_domain(api.fabric, api.info, &domain, NULL), -FI_EINVAL,
		"fi_domain: an auth_key");
	give(&api.info->domain_attr->auth_key,
	     &api.info->domain_attr->auth_key_size, NULL);
	api.info->domain_attr->auth_key_size = SIZE_MAX;
	REFUSED(fi_domain(api.fabric, api.info, &domain, NULL), -FI_EINVAL,
		"FI_AV_AUTH_KEY");
	api.info->domain_attr->auth_key_size = 0;
	give(&api.info->ep_attr->auth_key, &api.info->ep_attr->auth_key_size,
	     "fifteen bytes..");
	REFUSED(fi_endpoint(api.domain, api.info, &ep, NULL), -FI_EINVAL,
		"fi_endpoint: an auth_key");
	give(&api.info->ep_attr->auth_key, &api.info->ep_attr->auth_key_size, NULL);
	api_close(&api);
}

/* Who asked for a secret does not get an open domain. */
Test(key, a_wrong_key_of_the_environment_opens_nothing)
{
	struct api api = { 0 };
	struct fid_domain *domain;

	api_open_domain(&api, NULL);
	setenv("FI_TAGRV_JOB_KEY", "short", 1);
	REFUSED(fi_domain(api.fabric, api.info, &domain, NULL), -FI_EINVAL,
		"FI_TAGRV_JOB_KEY has 5 bytes");
	setenv("FI_TAGRV_JOB_KEY", "file:/no/such/file", 1);
	REFUSED(fi_domain(api.fabric, api.info, &domain, NULL), -FI_ENOENT,
		"/no/such/file");
	api_close(&api);
}

Test(key, an_alias_shares_the_endpoints_key)
{
	struct api api = { 0 };
	struct fid_ep *alias = NULL;

	open_with(&api, NULL, EP_KEY);
	cr_assert_eq(fi_ep_alias(api.ep, &alias, FI_TRANSMIT | FI_COMPLETION), 0);
	api_must_close(&alias->fid);
	expect_key(ep_key_of(&api), EP_KEY);
	api_close(&api);
}
