/* SPDX-License-Identifier: GPL-2.0 */
/* Included by mainline's tcp_bic.c, which takes nothing from it. */
