dnl SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
dnl
dnl What the provider needs: libfabric, nettle and uthash always, jansson for the
dnl tools that write JSON, ncurses for tagrv_top, libibverbs for RDMA devices, Criterion for its unit tests, sys/sdt.h for trace points. Every message
dnl names the package.

AC_DEFUN([TAGRV_CONFIGURE], [
	PKG_CHECK_MODULES([LIBFABRIC], [libfabric >= 1.17],
		[libfabric_version=`$PKG_CONFIG --modversion libfabric`],
		[AC_MSG_ERROR([libfabric 1.17 or later with its headers is missing
  (Debian, Ubuntu: apt-get install libfabric-dev; elsewhere: libfabric-devel)
  $LIBFABRIC_PKG_ERRORS])])
	TAGRV_CHECK_NETTLE
	TAGRV_CHECK_JANSSON
	TAGRV_CHECK_NCURSES
	TAGRV_CHECK_UTHASH
	TAGRV_CHECK_VERBS
	TAGRV_CHECK_CRITERION
	TAGRV_CHECK_SDT
])

dnl For job keys: src/auth/README.md tells why this library.
AC_DEFUN([TAGRV_CHECK_NETTLE], [
	PKG_CHECK_MODULES([NETTLE], [nettle >= 3.4], [],
		[AC_MSG_ERROR([nettle 3.4 or later with its headers is missing
  (Debian, Ubuntu: apt-get install nettle-dev; elsewhere: nettle-devel or
  libnettle-devel)
  $NETTLE_PKG_ERRORS])])
])

dnl For the option --json of tools; the plug-in does not use it.
AC_DEFUN([TAGRV_CHECK_JANSSON], [
	PKG_CHECK_MODULES([JANSSON], [jansson >= 2.7], [],
		[AC_MSG_ERROR([jansson 2.7 or later with its headers is missing
  (Debian, Ubuntu: apt-get install libjansson-dev; elsewhere: jansson-devel)
  $JANSSON_PKG_ERRORS])])
])

dnl For the live view of tagrv_top; nothing else uses it.
AC_DEFUN([TAGRV_CHECK_NCURSES], [
	PKG_CHECK_MODULES([NCURSES], [ncursesw >= 6.0], [],
		[AC_MSG_ERROR([ncurses 6.0 or later with its headers is missing
  (Debian, Ubuntu: apt-get install libncurses-dev; elsewhere: ncurses-devel)
  $NCURSES_PKG_ERRORS])])
])

AC_DEFUN([TAGRV_CHECK_UTHASH], [
	AC_CHECK_HEADER([uthash.h], [],
		[AC_MSG_ERROR([uthash.h is missing
  (Debian, Ubuntu: apt-get install uthash-dev; elsewhere: uthash-devel)])])
])

AC_DEFUN([TAGRV_CHECK_VERBS], [
	AC_ARG_WITH([verbs], [AS_HELP_STRING([--without-verbs],
		[build without rdma-core: no RDMA devices])],
		[], [with_verbs=yes])
	with_verbs_text="no (--without-verbs)"
	AS_IF([test "$with_verbs" != no], [
		PKG_CHECK_MODULES([VERBS], [libibverbs >= 1.3], [],
			[AC_MSG_ERROR([libibverbs with its headers is missing
  (Debian, Ubuntu: apt-get install libibverbs-dev; elsewhere: rdma-core-devel);
  --without-verbs builds a plug-in that uses no RDMA device
  $VERBS_PKG_ERRORS])])
		with_verbs_text="libibverbs `$PKG_CONFIG --modversion libibverbs`"
		AC_DEFINE([HAVE_VERBS], [1], [Define to 1 to use RDMA devices.])])
	AM_CONDITIONAL([HAVE_VERBS], [test "$with_verbs" != no])
])

AC_DEFUN([TAGRV_CHECK_CRITERION], [
	AC_ARG_WITH([criterion], [AS_HELP_STRING([--without-criterion],
		[leave the unit tests out of 'make check'; --with-criterion=plain:
		use Criterion's headers only, to run the tests faster, or under an emulator])],
		[], [with_criterion=check])
	plain_criterion=no
	AS_IF([test "$with_criterion" = plain],
		[with_criterion=yes plain_criterion=yes])
	with_criterion_text="no (--without-criterion)"
	AS_IF([test "$with_criterion" != no], [
		PKG_CHECK_MODULES([CRITERION], [criterion >= 2.3], [
			with_criterion=yes
			with_criterion_text="Criterion `$PKG_CONFIG --modversion criterion`"], [
			AS_IF([test "$with_criterion" = yes],
				[AC_MSG_ERROR([Criterion is missing
  (Debian, Ubuntu: apt-get install libcriterion-dev)])])
			with_criterion=missing
			with_criterion_text="no: 'make check' will fail (Criterion is missing: apt-get install libcriterion-dev)"])])
	AS_IF([test "$plain_criterion" = yes], [
		CRITERION_LIBS=
		with_criterion_text="$with_criterion_text, headers only"])
	AM_CONDITIONAL([PLAIN_CRITERION], [test "$plain_criterion" = yes])
	AM_CONDITIONAL([HAVE_CRITERION], [test "$with_criterion" = yes])
	AM_CONDITIONAL([MISS_CRITERION], [test "$with_criterion" = missing])
])

dnl core/trace.h uses parts of sys/sdt.h that are not promised to stay.
AC_DEFUN([TAGRV_COMPILE_SDT], [
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <sys/sdt.h>]], [[
		int i = 0;
		__asm__ inline volatile (
			_SDT_ASM_BODY(tagrv, test, _SDT_ASM_ARGS, (1))
			: : _SDT_ASM_OPERANDS_1(i));
		__asm__ inline volatile (_SDT_ASM_BASE);]])], [$1], [$2])
])

dnl clang gives asm operands a place on the stack: each point would cost a store for
dnl each argument. gcc names the register or memory where the argument is.
AC_DEFUN([TAGRV_CHECK_SDT], [
	AC_ARG_WITH([sdt], [AS_HELP_STRING([--without-sdt],
		[build without trace points])],
		[], [with_sdt=check])
	with_sdt_text="no (--without-sdt)"
	AS_IF([test "$with_sdt" = check], [
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
			#ifdef __clang__
			#error
			#endif]])], [], [
			with_sdt=no
			with_sdt_text="no (with $CC they cost time: --with-sdt)"])])
	AS_IF([test "$with_sdt" != no], [
		AC_MSG_CHECKING([for sys/sdt.h])
		TAGRV_COMPILE_SDT([
			AC_MSG_RESULT([yes])
			with_sdt_text=yes
			AC_DEFINE([HAVE_SDT], [1], [Define to 1 to have trace points.])], [
			AC_MSG_RESULT([no])
			AS_IF([test "$with_sdt" = yes],
				[AC_MSG_ERROR([sys/sdt.h is missing
  (Debian, Ubuntu: apt-get install systemtap-sdt-dev; elsewhere: systemtap-sdt-devel)])])
			with_sdt_text="no (sys/sdt.h is missing: apt-get install systemtap-sdt-dev)"])])
])
