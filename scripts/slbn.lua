-- SPDX-License-Identifier: GPL-2.0
--
-- Dissector of SLBN control packets for Wireshark and tshark. The format is
-- defined in include/uapi/fairpath/slbn.h.
--
--	tshark -X lua_script:scripts/slbn.lua -r FILE -Y 'slbn.bw < 1000000'
--	wireshark -X lua_script:scripts/slbn.lua FILE
--
-- To install it, copy it to the folder "Personal Lua Plugins" (Help, About
-- Wireshark, Folders). Newer versions of Wireshark run no Lua scripts for root:
-- run tshark as another user.
--
-- Packets are found at their UDP port, and by their magic at any other port.
-- Rates are in bit/s in filters, and shown in larger units, too. slbn.B.hop is
-- each hop of the set B, slbn.tag and slbn.code the tag and code of each hop, in
-- order, slbn.held the rate of the code: what the hop holds above use (above
-- use1 in packets to the destination). Replies are matched with requests
-- (slbn.response_to, slbn.time) by session, sequence number and hop, so that a
-- capture of several links can be one file.
--
-- Of packets of other versions only magic and version are shown.
--
-- A packet that slbn_parse_packet() in include/fairpath/slbn/slbn_wire.h
-- rejects gets the expert information slbn.error.REASON, as in enum
-- slbn_parse_result; fields are still shown as far as possible.
--
-- Works with Lua 5.2 (Wireshark 4.0) and 5.4 (4.4), which have no common
-- operators for bits: numbers are split by division.

local PORT = 49470
local MAGIC = 0x534c424e
local VERSION = 2
local HEADER_LENGTH = 96
local HOPS_MAX = 64
local RATE_MAX = 1e15
local WEIGHT_MAX = 1000000
local NO_HOP = 255
local NO_EPOCH = 0xffffffff
local OPTION_AUTH = 1
local AUTH_LENGTH = 14
local OPTION_TRACE = 2
local TRACE_LENGTH = 40
local OPTION_SHARE = 3
local SHARE_LENGTH = 16

local types = {
	[1] = "Join",
	[2] = "Probe",
	[3] = "ProbeAck",
	[4] = "Leave",
	[5] = "LeaveAck",
}
local is_reply = { [3] = true, [5] = true }

local options = {
	[0] = "Padding",
	[OPTION_AUTH] = "Authentication",
	[OPTION_TRACE] = "Trace",
	[OPTION_SHARE] = "Share",
}

-- Octets of a slot, and of the router's address in it.
local address_lengths = { [10] = 4, [22] = 16 }

local slbn = Proto("slbn", "SLBN explicit max-min fair rate control")

local f = {
	magic = ProtoField.uint32("slbn.magic", "Magic", base.HEX),
	version = ProtoField.uint8("slbn.version", "Version"),
	type = ProtoField.uint8("slbn.type", "Type", base.DEC, types),
	length = ProtoField.uint16("slbn.length", "Length"),
	seq = ProtoField.uint32("slbn.seq", "Sequence"),
	hop = ProtoField.uint8("slbn.hop", "Hop"),
	slots = ProtoField.uint8("slbn.slots", "Hop slots"),
	bottleneck = ProtoField.uint8("slbn.bottleneck", "Bottleneck (b)"),
	slot_length = ProtoField.uint8("slbn.slot_length", "Slot length"),
	flags = ProtoField.uint8("slbn.flags", "Flags", base.HEX),
	again = ProtoField.bool("slbn.flags.again", "Retransmitted", 8, nil, 0x01),
	weight = ProtoField.uint24("slbn.weight", "Weight"),
	epoch = ProtoField.uint32("slbn.epoch", "Epoch (us)"),
	session = ProtoField.bytes("slbn.session", "Session"),
	bw2 = ProtoField.uint64("slbn.bw2", "bw''"),
	bw1 = ProtoField.uint64("slbn.bw1", "bw'"),
	bw = ProtoField.uint64("slbn.bw", "bw"),
	use1 = ProtoField.uint64("slbn.use1", "use1"),
	use = ProtoField.uint64("slbn.use", "use"),
	g = ProtoField.uint64("slbn.g", "g"),
	B = ProtoField.uint64("slbn.B", "B", base.HEX),
	B_hop = ProtoField.uint8("slbn.B.hop", "Hop in B"),
	source = ProtoField.none("slbn.source", "Source"),
	slot = ProtoField.none("slbn.slot", "Slot"),
	tag = ProtoField.uint16("slbn.tag", "Tag"),
	code = ProtoField.uint16("slbn.code", "Code", base.HEX),
	held = ProtoField.uint64("slbn.held", "Held above use"),
	link = ProtoField.uint16("slbn.link", "Link"),
	router4 = ProtoField.ipv4("slbn.router", "Router"),
	router6 = ProtoField.ipv6("slbn.router6", "Router"),
	option = ProtoField.none("slbn.option", "Option"),
	option_type = ProtoField.uint8("slbn.option.type", "Type", base.DEC, options),
	option_length = ProtoField.uint8("slbn.option.length", "Length"),
	option_value = ProtoField.bytes("slbn.option.value", "Value"),
	auth_key = ProtoField.uint8("slbn.auth.key", "Key number"),
	auth_time = ProtoField.uint32("slbn.auth.time", "Sent by the source (s)"),
	auth = ProtoField.uint64("slbn.auth", "Hash", base.HEX),
	trace_hop = ProtoField.uint8("slbn.trace.hop", "Hop"),
	trace_filled = ProtoField.bool("slbn.trace.filled", "Written by its link", 8, nil, 0x01),
	trace_ttl = ProtoField.uint8("slbn.trace.ttl", "TTL"),
	trace_backlog = ProtoField.uint32("slbn.trace.backlog", "Backlog (octets)"),
	trace_capacity = ProtoField.uint64("slbn.trace.capacity", "Capacity"),
	trace_share = ProtoField.uint64("slbn.trace.share", "Fair share"),
	trace_weights = ProtoField.uint64("slbn.trace.weights", "Weights of sessions (N)"),
	trace_held = ProtoField.uint64("slbn.trace.held", "Held by sessions (A)"),
	share_links = ProtoField.uint8("slbn.share.links", "Links that state their share"),
	share_bands = ProtoField.uint8("slbn.share.bands", "Of these, links with bands"),
	share = ProtoField.uint64("slbn.share", "Smallest fair share"),
	trailer = ProtoField.bytes("slbn.trailer", "Trailer"),
	response_in = ProtoField.framenum("slbn.response_in", "Response in",
		base.NONE, frametype.RESPONSE),
	response_to = ProtoField.framenum("slbn.response_to", "Response to",
		base.NONE, frametype.REQUEST),
	time = ProtoField.relative_time("slbn.time", "Time since the request"),
}
slbn.fields = f

local function malformed(name, text)
	return ProtoExpert.new("slbn.error." .. name, text, expert.group.MALFORMED,
		expert.severity.ERROR)
end

-- As in enum slbn_parse_result.
local errors = {
	truncated = malformed("truncated", "Ends within its header, slots or options"),
	bad_version = malformed("bad_version", "Unknown version"),
	bad_type = malformed("bad_type", "Unknown type"),
	bad_hops = malformed("bad_hops", "Hop slots, their length, hop, bottleneck or B out of range"),
	bad_rate = malformed("bad_rate", "Rate out of range"),
	bad_weight = malformed("bad_weight", "Weight out of range"),
	bad_option = malformed("bad_option", "Option of wrong length, or repeated"),
}
slbn.experts = errors

-- The header after its magic and version: fields, offsets and lengths.
local header = {
	{ "type", 5, 1 },
	{ "length", 6, 2 },
	{ "seq", 8, 4 },
	{ "hop", 12, 1 },
	{ "slots", 13, 1 },
	{ "slot_length", 14, 1 },
	{ "bottleneck", 15, 1 },
	{ "flags", 16, 1 },
	{ "weight", 17, 3 },
	{ "epoch", 20, 4 },
	{ "session", 24, 16 },
	{ "B", 40, 8 },
	{ "bw2", 48, 8 },
	{ "bw1", 56, 8 },
	{ "bw", 64, 8 },
	{ "use1", 72, 8 },
	{ "use", 80, 8 },
	{ "g", 88, 8 },
}
local rates = { "bw2", "bw1", "bw", "use1", "use", "g" }

local function rate_text(rate)
	local units = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s" }
	local unit = 1

	while rate >= 1000 and unit < #units do
		rate = rate / 1000
		unit = unit + 1
	end
	return string.format("%.6g %s", rate, units[unit])
end

-- The hops in B as a list, a set and a text. Octet 0 of B has the highest hops.
local function hops_in(B)
	local list, set, ranges = {}, {}, {}
	local from

	for hop = 0, HOPS_MAX do
		local octet = hop < HOPS_MAX and B(7 - math.floor(hop / 8), 1):uint() or 0

		if math.floor(octet / 2 ^ (hop % 8)) % 2 == 1 then
			list[#list + 1] = hop
			set[hop] = true
			from = from or hop
		elseif from then
			ranges[#ranges + 1] = from == hop - 1 and tostring(from) or
				string.format("%d-%d", from, hop - 1)
			from = nil
		end
	end
	if #list == 0 then
		return list, set, "no hop"
	end
	return list, set, (#list == 1 and "hop " or "hops ") .. table.concat(ranges, ", ")
end

-- Requests by session, sequence number and hop; matches by number of the frame.
local requests, reply_of, request_of

function slbn.init()
	requests, reply_of, request_of = {}, {}, {}
end

local function match(pinfo, key, replies)
	local request = requests[key]

	if not replies then
		requests[key] = { frame = pinfo.number, time = pinfo.rel_ts }
	elseif request then
		reply_of[request.frame] = pinfo.number
		request_of[pinfo.number] = request
	end
end

local function show_match(tree, pinfo)
	local reply, request = reply_of[pinfo.number], request_of[pinfo.number]

	if reply then
		tree:add(f.response_in, reply):set_generated()
	end
	if request then
		local ns = math.floor((pinfo.rel_ts - request.time) * 1e9 + 0.5)
		local seconds = math.floor(ns / 1e9)

		tree:add(f.response_to, request.frame):set_generated()
		tree:add(f.time, NSTime.new(seconds, ns - seconds * 1e9)):set_generated()
	end
end

-- The rate of a code: 11 bits of mantissa, 5 of exponent.
local function decode(code)
	return (code % 2048) * 2 ^ math.floor(code / 2048)
end

-- Show a return: the number of a link, and an address.
local function show_return(tree, tvb, at, length)
	tree:add(f.link, tvb(at, 2))
	tree:add(length == 10 and f.router4 or f.router6, tvb(at + 2, address_lengths[length]))
end

local function show_slots(tree, tvb, slots, length, in_B)
	local source = tree:add(f.source, tvb(HEADER_LENGTH, length - 4))

	show_return(source, tvb, HEADER_LENGTH, length)
	for hop = 0, slots - 1 do
		local at = HEADER_LENGTH + length - 4 + length * hop
		local tag, code = tvb(at, 2), tvb(at + 2, 2)
		local rate = decode(code:uint())
		local text = string.format("Hop %d: not counted", hop)

		if tag:uint() ~= 0 then
			text = string.format("Hop %d: ledger %d", hop, tag:uint())
		end
		if in_B[hop] then
			text = text .. ", in B"
		end
		if rate > 0 then
			text = text .. ", holds " .. rate_text(rate) .. " more"
		end
		local slot = tree:add(f.slot, tvb(at, length))

		slot:set_text(text)
		slot:add(f.tag, tag)
		slot:add(f.code, code)
		slot:add(f.held, code, UInt64(rate % 2 ^ 32, math.floor(rate / 2 ^ 32))):
			append_text(" (" .. rate_text(rate) .. ")"):set_generated()
		show_return(slot, tvb, at + 4, length)
	end
end

local function show_trace(option, tvb, at)
	local filled = tvb(at + 1, 1):uint() % 2 == 1

	option:append_text(string.format(" of hop %d%s", tvb(at, 1):uint(),
		filled and "" or ", not written yet"))
	option:add(f.trace_hop, tvb(at, 1))
	option:add(f.trace_filled, tvb(at + 1, 1))
	option:add(f.trace_ttl, tvb(at + 2, 1))
	option:add(f.trace_backlog, tvb(at + 4, 4))
	for n, name in ipairs({ "trace_capacity", "trace_share", "trace_weights", "trace_held" }) do
		local value = tvb(at + 8 * n, 8)
		local item = option:add(f[name], value)

		if name ~= "trace_weights" then
			item:append_text(" (" .. rate_text(value:uint64():tonumber()) .. ")")
		end
	end
end

-- Show the options from `at` on; returns the first error and its text, or nil.
local function show_options(tree, tvb, at, length)
	local lengths = {
		[OPTION_AUTH] = AUTH_LENGTH,
		[OPTION_TRACE] = TRACE_LENGTH,
		[OPTION_SHARE] = SHARE_LENGTH,
	}
	local found, too_high = {}, false

	while at < length do
		if at + 2 > length then
			return "truncated", "half an option"
		end
		local kind, size = tvb(at, 1):uint(), tvb(at + 1, 1):uint()

		if at + 2 + size > length then
			tree:add(f.option, tvb(at, length - at))
			return "truncated", string.format("an option of %d octets", size)
		end
		local option = tree:add(f.option, tvb(at, 2 + size))

		option:append_text(": " .. (options[kind] or string.format("unknown (%d)", kind)))
		option:add(f.option_type, tvb(at, 1))
		option:add(f.option_length, tvb(at + 1, 1))
		if lengths[kind] and (found[kind] or size ~= lengths[kind]) then
			return "bad_option", found[kind] and options[kind] .. " twice" or
				string.format("%s of %d octets", options[kind], size)
		end
		found[kind] = true
		if kind == OPTION_AUTH then
			option:add(f.auth_key, tvb(at + 2, 1))
			option:add(f.auth_time, tvb(at + 4, 4)):append_text(
				os.date("! (%Y-%m-%d %H:%M:%S UTC)", tvb(at + 4, 4):uint()))
			option:add(f.auth, tvb(at + 8, 8))
		elseif kind == OPTION_TRACE then
			show_trace(option, tvb, at + 2)
		elseif kind == OPTION_SHARE then
			local rate = tvb(at + 10, 8)

			option:add(f.share_links, tvb(at + 2, 1))
			option:add(f.share_bands, tvb(at + 3, 1))
			option:add(f.share, rate):append_text(
				" (" .. rate_text(rate:uint64():tonumber()) .. ")")
			too_high = rate:uint64():tonumber() > RATE_MAX
		elseif size > 0 then
			option:add(f.option_value, tvb(at + 2, size))
		end
		at = at + 2 + size
	end
	if too_high then
		return "bad_rate", "share above 10^15 bit/s"
	end
end

local function dissect(tvb, pinfo, root)
	local captured, given = tvb:len(), tvb:reported_len()
	local found = false

	if captured < 4 or tvb(0, 4):uint() ~= MAGIC then
		return 0
	end
	pinfo.cols.protocol = "SLBN"
	pinfo.cols.info = "SLBN"

	local tree = root:add(slbn, tvb())

	local function report(name, text)
		found = true
		tree:add_proto_expert_info(errors[name], text)
	end
	local function done()
		if found then
			pinfo.cols.info:append(" [malformed]")
		end
		return captured
	end

	tree:add(f.magic, tvb(0, 4))
	local version = VERSION

	if captured > 4 then
		version = tvb(4, 1):uint()
		tree:add(f.version, tvb(4, 1))
	end
	-- Of other versions only the first eight octets are known.
	if version ~= VERSION and given >= 8 then
		pinfo.cols.info = string.format("SLBN version %d", version)
		report("bad_version", string.format("version %d", version))
		return done()
	end
	if given < HEADER_LENGTH then
		report("truncated", string.format("%d octets, less than the header", given))
	end
	if captured < 5 or version ~= VERSION then
		return done()
	end

	local at, item = {}, {}

	for _, row in ipairs(header) do
		local name, offset, length = row[1], row[2], row[3]

		if offset + length <= captured then
			at[name] = tvb(offset, length)
			item[name] = tree:add(f[name], at[name])
		end
	end
	if captured < HEADER_LENGTH then
		return done()
	end

	local kind = at.type:uint()
	local length, seq = at.length:uint(), at.seq:uint()
	local hop, slots, b = at.hop:uint(), at.slots:uint(), at.bottleneck:uint()
	local session = tostring(at.session:bytes())
	local B, in_B, B_text = hops_in(at.B)

	-- Add texts to the numbers.
	for _, name in ipairs(rates) do
		item[name]:append_text(" (" .. rate_text(at[name]:uint64():tonumber()) .. ")")
	end
	if at.g:uint64():tonumber() == RATE_MAX then
		item.g:append_text(", no limit")
	end
	if at.epoch:uint() == NO_EPOCH then
		item.epoch:append_text(" (none)")
	end
	item.flags:add(f.again, at.flags)
	if b == NO_HOP then
		item.bottleneck:append_text(" (none: limited by its demand)")
	end
	item.B:append_text(" (" .. B_text .. ")")
	for _, each in ipairs(B) do
		item.B:add(f.B_hop, at.B, each)
	end
	local text = string.format("%s session %s… seq %d hop %d bw %s use %s bottleneck %s",
		types[kind] or "Type " .. kind, session:sub(1, 8):lower(), seq, hop,
		rate_text(at.bw:uint64():tonumber()), rate_text(at.use:uint64():tonumber()),
		b == NO_HOP and "-" or b)

	pinfo.cols.info = text
	tree:append_text(": " .. text)

	-- Check the ranges as slbn_parse_packet() does.
	if not types[kind] then
		report("bad_type", string.format("type %d", kind))
	end
	local slot_length, weight = at.slot_length:uint(), at.weight:uint()
	local slots_are_valid = slots >= 1 and slots <= HOPS_MAX and
		address_lengths[slot_length] ~= nil

	if not slots_are_valid then
		report("bad_hops", string.format("%d slots of %d octets", slots, slot_length))
	end
	if hop > slots then
		report("bad_hops", string.format("hop %d of %d", hop, slots))
	end
	if b ~= NO_HOP and b >= slots then
		report("bad_hops", string.format("bottleneck %d of %d", b, slots))
	end
	if #B > 0 and B[#B] >= slots then
		report("bad_hops", string.format("hop %d of %d in B", B[#B], slots))
	end
	for _, name in ipairs(rates) do
		if at[name]:uint64():tonumber() > RATE_MAX then
			report("bad_rate", name .. " above 1000 Tbit/s")
		end
	end
	if weight < 1 or weight > WEIGHT_MAX then
		report("bad_weight", string.format("weight %d", weight))
	end
	if length > given then
		report("truncated", string.format("length %d, but the datagram has %d octets", length, given))
	end

	-- Slots and options can be found only with valid slots and length.
	local slots_end = HEADER_LENGTH + slot_length - 4 + slot_length * slots

	if slots_are_valid and length < slots_end then
		report("truncated", string.format("length %d, but the slots end at %d", length, slots_end))
	elseif slots_are_valid and length <= captured then
		show_slots(tree, tvb, slots, slot_length, in_B)
		local name, reason = show_options(tree, tvb, slots_end, length)

		if name then
			report(name, reason)
		end
	end
	if length >= HEADER_LENGTH and captured > length then
		tree:add(f.trailer, tvb(length, captured - length))
	end

	if not found then
		if not pinfo.visited then
			match(pinfo, session .. "/" .. seq .. "/" .. hop, is_reply[kind])
		end
		show_match(tree, pinfo)
	end
	return done()
end

local function dissect_heuristically(tvb, pinfo, root)
	if tvb:len() < HEADER_LENGTH or tvb(0, 4):uint() ~= MAGIC then
		return false
	end
	dissect(tvb, pinfo, root)
	return true
end

slbn.dissector = dissect
DissectorTable.get("udp.port"):add(PORT, slbn)
slbn:register_heuristic("udp", dissect_heuristically)
