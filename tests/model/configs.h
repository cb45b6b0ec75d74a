/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The networks that the model explores, and how much may happen in them. Larger
 * bounds multiply the states; those of the longer run have .all set.
 */
#ifndef CONFIGS_H
#define CONFIGS_H

#include "model.h"

/*
 * A session of weight 1 over these links whose demand is unlimited, and which
 * may leave, or stays.
 */
#define LEAVES(...)                                   \
	{                                             \
		{ __VA_ARGS__, -1 }, { UNLIMITED }, 1 \
	}
#define STAYS(...)                                          \
	{                                                   \
		{ __VA_ARGS__, -1 }, { UNLIMITED }, 1, true \
	}

static const struct config configs[] = {
	/* Nothing fails: A is what sessions hold, and 0 after the last Leave. */
	{
		.name = "join-leave",
		.links = { { 100 } },
		.sessions = { LEAVES(0), LEAVES(0) },
		.settle = 1,
	},
	{
		.name = "join-leave-3",
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0), LEAVES(0) },
		.settle = 64,
	},
	{
		.name = "join-leave-3-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { LEAVES(0), LEAVES(0), LEAVES(0) },
		.settle = 64,
	},
	{
		.name = "weights",
		.links = { { 1000, 50 } },
		.sessions = { STAYS(0), { { 0, -1 }, { UNLIMITED, 100 }, 3 } },
		.changes = 2,
		.settle = 16,
	},
	/* Codes of rises above 2047 are rounded. */
	{
		.name = "rounding",
		.links = { { 30011, 300 } },
		.sessions = { LEAVES(0),
			      { { 0, -1 }, { UNLIMITED, 9001 }, 2 } },
		.changes = 1,
		.settle = 16,
	},
	{
		.name = "path",
		.links = { { 100 }, { 60 } },
		.sessions = { LEAVES(0, 1), LEAVES(0) },
		.changes = 0,
		.settle = 4,
	},
	{
		.name = "crossing",
		.links = { { 100 }, { 60 } },
		.sessions = { STAYS(0, 1), LEAVES(1, 0) },
		.settle = 64,
	},
	{
		.name = "parking-lot",
		.links = { { 100 }, { 60 } },
		.sessions = { LEAVES(0, 1), STAYS(0), STAYS(1) },
		.settle = 256,
	},
	{
		.name = "three-links",
		.links = { { 100 }, { 60 }, { 90 } },
		.sessions = { STAYS(0, 1, 2), LEAVES(2, 1) },
		.settle = 64,
	},
	/* Lost packets, without rotations: errors stay, and are safe. */
	{
		.name = "loss-no-memory",
		.links = { { 100 } },
		.sessions = { { { 0, -1 },
				{ 20, UNLIMITED },
				1,
				.stays = true },
			      LEAVES(0) },
		.losses = 1,
		.changes = 1,
	},
	{
		.name = "loss-memory",
		.links = { { 100 } },
		.sessions = { { { 0, -1 },
				{ 20, UNLIMITED },
				1,
				.stays = true },
			      LEAVES(0) },
		.memory = FULL_MEMORY,
		.losses = 1,
		.changes = 1,
		.settle = 64,
	},
	{
		.name = "loss-path-no-memory",
		.links = { { 100 }, { 60 } },
		.sessions = { STAYS(0, 1), STAYS(0, 1) },
		.losses = 2,
	},
	{
		.name = "loss-path-memory",
		.links = { { 100 }, { 60 } },
		.sessions = { STAYS(0, 1), LEAVES(0) },
		.memory = FULL_MEMORY,
		.losses = 1,
		.settle = 64,
	},
	/* Leases end, and ledgers are dropped. */
	{
		.name = "lease-no-memory",
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.rotations = 2,
		.losses = 1,
		.expiries = 1,
	},
	{
		.name = "lease-memory",
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.memory = FULL_MEMORY,
		.rotations = 2,
		.losses = 1,
		.deaths = 1,
		.expiries = 2,
		.settle = 64,
	},
	{
		.name = "lease-evict",
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.memory = EVICTING_MEMORY,
		.rotations = 2,
		.losses = 1,
		.expiries = 1,
	},
	{
		.name = "lease-leave",
		.links = { { 100 } },
		.sessions = { STAYS(0), LEAVES(0) },
		.memory = FULL_MEMORY,
		.rotations = 2,
		.losses = 1,
		.expiries = 1,
	},
	{
		.name = "lease-path",
		.links = { { 100 }, { 60 } },
		.sessions = { STAYS(0, 1), STAYS(0) },
		.memory = FULL_MEMORY,
		.rotations = 2,
		.losses = 1,
		.expiries = 1,
	},
	/* A link restarts. */
	{
		.name = "restart",
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.memory = FULL_MEMORY,
		.rotations = 1,
		.restarts = 1,
		.expiries = 2,
	},
	/* T differs: the second link never rotates. */
	{
		.name = "unequal-epochs",
		.links = { { 100 }, { 60, .keeps = true } },
		.sessions = { STAYS(0, 1), STAYS(1) },
		.memory = FULL_MEMORY,
		.rotations = 2,
		.losses = 1,
		.expiries = 1,
	},
	/* Capacities change. */
	{
		.name = "capacity",
		.links = { { 100, .C2 = 40 } },
		.sessions = { STAYS(0), { { 0, -1 }, { UNLIMITED, 20 }, 1 } },
		.changes = 1,
		.capacities = 2,
		.settle = 64,
	},
	{
		.name = "capacity-lease",
		.links = { { 100, .C2 = 40 } },
		.sessions = { STAYS(0), STAYS(0) },
		.memory = FULL_MEMORY,
		.rotations = 1,
		.expiries = 1,
		.capacities = 1,
	},
	/* Duplicates, and retransmissions that are too early. */
	{
		.name = "early-memory",
		.links = { { 100 } },
		.sessions = { LEAVES(0), STAYS(0) },
		.memory = FULL_MEMORY,
		.early = 1,
		.settle = 256,
	},
	{
		.name = "duplicate-memory",
		.links = { { 100 } },
		.sessions = { LEAVES(0), STAYS(0) },
		.memory = FULL_MEMORY,
		.duplicates = 1,
		.settle = 256,
	},
	{
		.name = "copies-memory-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { { { 0, -1 },
				{ 20, UNLIMITED },
				1,
				.stays = true },
			      STAYS(0) },
		.memory = FULL_MEMORY,
		.changes = 1,
		.duplicates = 1,
	},
	{
		.name = "duplicate-memory-path",
		.links = { { 100 }, { 60 } },
		.sessions = { STAYS(0, 1), STAYS(0) },
		.memory = FULL_MEMORY,
		.losses = 1,
		.duplicates = 1,
	},
	{
		.name = "early-no-memory",
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.early = 1,
	},
	/* Assumptions are false. */
	{
		.name = "duplicate-no-memory",
		.violates = "rates in use",
		.links = { { 100 } },
		.sessions = { { { 0, -1 },
				{ UNLIMITED, 20 },
				1,
				.stays = true },
			      STAYS(0),
			      STAYS(0) },
		.changes = 1,
		.duplicates = 1,
	},
	{
		.name = "late-data",
		.violates = "data arriving",
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.memory = FULL_MEMORY,
		.rotations = 2,
		.losses = 1,
		.expiries = 1,
		.late_data = true,
	},
	{
		.name = "restart-path",
		.all = true,
		.links = { { 100 }, { 60 } },
		.sessions = { STAYS(0, 1), STAYS(0) },
		.memory = FULL_MEMORY,
		.rotations = 1,
		.restarts = 1,
		.expiries = 1,
	},
	{
		.name = "lease-no-memory-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.rotations = 2,
		.losses = 2,
		.deaths = 1,
		.expiries = 1,
	},
	{
		.name = "lease-evict-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.memory = EVICTING_MEMORY,
		.rotations = 3,
		.losses = 1,
		.expiries = 2,
	},
	{
		.name = "lease-memory-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.memory = FULL_MEMORY,
		.rotations = 3,
		.losses = 2,
		.deaths = 1,
		.expiries = 2,
		.settle = 256,
	},
	{
		.name = "loss-no-memory-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { { { 0, -1 }, { 20, UNLIMITED }, 1 }, LEAVES(0) },
		.losses = 2,
		.changes = 1,
	},
	{
		.name = "loss-3-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0), STAYS(0) },
		.memory = EVICTING_MEMORY,
		.losses = 1,
	},
	{
		.name = "lease-leave-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { LEAVES(0), LEAVES(0) },
		.memory = FULL_MEMORY,
		.rotations = 2,
		.losses = 1,
		.expiries = 1,
	},
	{
		.name = "lease-path-all",
		.all = true,
		.links = { { 100 }, { 60 } },
		.sessions = { STAYS(0, 1), STAYS(0) },
		.memory = EVICTING_MEMORY,
		.rotations = 2,
		.losses = 1,
		.expiries = 1,
	},
	{
		.name = "lease-3-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0), STAYS(0) },
		.memory = FULL_MEMORY,
		.rotations = 2,
		.expiries = 1,
	},
	{
		.name = "restart-all",
		.all = true,
		.links = { { 100 } },
		.sessions = { STAYS(0), STAYS(0) },
		.memory = FULL_MEMORY,
		.rotations = 1,
		.losses = 1,
		.restarts = 1,
		.expiries = 1,
	},
};

#endif /* CONFIGS_H */
