/* SPDX-License-Identifier: GPL-2.0 */
/* Empty: mainline's tcp_bic.c includes it but does not use it. */
