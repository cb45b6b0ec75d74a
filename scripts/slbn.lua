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
-- each hop of the set B, slbn.tag the tag of each hop, in order. Replies are
-- matched with requests (slbn.response_to, slbn.time) by session, sequence
-- number and hop, so that a capture of several links can be one file.
--
-- A packet that slbn_parse_packet() in include/fairpath/slbn/slbn_wire.h
-- rejects gets the expert information slbn.error.REASON, as in enum
-- slbn_parse_result; fields are still shown as far as possible.
--
-- Works with Lua 5.2 (Wireshark 4.0) and 5.4 (4.4), which have no common
-- operators for bits: numbers are split by division.

local PORT = 49470
local MAGIC = 0x534c424e
local VERSION = 1
local HEADER_LENGTH = 72
local HOPS_MAX = 64
local RATE_MAX = 1e15
local NO_HOP = 255
local OPTION_AUTH = 1
local AUTH_LENGTH = 8

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
}

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
	reserved = ProtoField.uint8("slbn.reserved", "Reserved", base.HEX),
	session = ProtoField.bytes("slbn.session", "Session"),
	bw2 = ProtoField.uint64("slbn.bw2", "bw''"),
	bw1 = ProtoField.uint64("slbn.bw1", "bw'"),
	bw = ProtoField.uint64("slbn.bw", "bw"),
	demand = ProtoField.uint64("slbn.demand", "Demand"),
	B = ProtoField.uint64("slbn.B", "B", base.HEX),
	B_hop = ProtoField.uint8("slbn.B.hop", "Hop in B"),
	tags = ProtoField.none("slbn.tags", "Tags"),
	tag = ProtoField.uint16("slbn.tag", "Tag"),
	option = ProtoField.none("slbn.option", "Option"),
	option_type = ProtoField.uint8("slbn.option.type", "Type", base.DEC, options),
	option_length = ProtoField.uint8("slbn.option.length", "Length"),
	option_value = ProtoField.bytes("slbn.option.value", "Value"),
	auth = ProtoField.uint64("slbn.auth", "Authentication", base.HEX),
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
	truncated = malformed("truncated", "Ends within its header, tags or options"),
	not_slbn = malformed("not_slbn", "Unknown version"),
	bad_type = malformed("bad_type", "Unknown type"),
	bad_hops = malformed("bad_hops", "Hop slots, hop, bottleneck or B out of range"),
	bad_rate = malformed("bad_rate", "Rate out of range"),
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
	{ "bottleneck", 14, 1 },
	{ "reserved", 15, 1 },
	{ "session", 16, 16 },
	{ "bw2", 32, 8 },
	{ "bw1", 40, 8 },
	{ "bw", 48, 8 },
	{ "demand", 56, 8 },
	{ "B", 64, 8 },
}
local rates = { "bw2", "bw1", "bw", "demand" }

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

local function show_tags(tree, tvb, slots, in_B)
	local range = tvb(HEADER_LENGTH, 2 * slots)
	local counted = 0
	local tags = tree:add(f.tags, range)

	for hop = 0, slots - 1 do
		local tag = range(2 * hop, 2)
		local text = string.format("Hop %d: not counted", hop)

		if tag:uint() ~= 0 then
			text = string.format("Hop %d: %d", hop, tag:uint())
			counted = counted + 1
		end
		if in_B[hop] then
			text = text .. ", in B"
		end
		tags:add(f.tag, tag):set_text(text)
	end
	tags:append_text(string.format(": at %d of %d hops", counted, slots))
end

-- Show the options from `at` on; returns the first error and its text, or nil.
local function show_options(tree, tvb, at, length)
	local authenticated = false

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
		if kind == OPTION_AUTH and (authenticated or size ~= AUTH_LENGTH) then
			return "bad_option", authenticated and "authentication twice" or
				string.format("authentication of %d octets", size)
		end
		if kind == OPTION_AUTH then
			authenticated = true
			option:add(f.auth, tvb(at + 2, size))
		elseif size > 0 then
			option:add(f.option_value, tvb(at + 2, size))
		end
		at = at + 2 + size
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
	if given < HEADER_LENGTH then
		report("truncated", string.format("%d octets, less than the header", given))
	end
	if captured < 5 then
		return done()
	end
	tree:add(f.version, tvb(4, 1))
	if tvb(4, 1):uint() ~= VERSION then
		report("not_slbn", string.format("version %d", tvb(4, 1):uint()))
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
	if at.demand:uint64():tonumber() == RATE_MAX then
		item.demand:append_text(", no limit")
	end
	if b == NO_HOP then
		item.bottleneck:append_text(" (none: limited by its demand)")
	end
	item.B:append_text(" (" .. B_text .. ")")
	for _, each in ipairs(B) do
		item.B:add(f.B_hop, at.B, each)
	end
	local text = string.format("%s session %s… seq %d hop %d bw %s bottleneck %s",
		types[kind] or "Type " .. kind, session:sub(1, 8):lower(), seq, hop,
		rate_text(at.bw:uint64():tonumber()), b == NO_HOP and "-" or b)

	pinfo.cols.info = text
	tree:append_text(": " .. text)

	-- Check the ranges as slbn_parse_packet() does.
	if not types[kind] then
		report("bad_type", string.format("type %d", kind))
	end
	local slots_are_valid = slots >= 2 and slots <= HOPS_MAX and slots % 2 == 0

	if not slots_are_valid then
		report("bad_hops", string.format("slots %d", slots))
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
	if at.demand:uint64():tonumber() == 0 then
		report("bad_rate", "demand 0")
	end
	if length > given then
		report("truncated", string.format("length %d, but the datagram has %d octets", length, given))
	end

	-- Tags and options can be found only with valid slots and length.
	local tags_end = HEADER_LENGTH + 2 * slots

	if slots_are_valid and length < tags_end then
		report("truncated", string.format("length %d, but the tags end at %d", length, tags_end))
	elseif slots_are_valid and length <= captured then
		show_tags(tree, tvb, slots, in_B)
		local name, reason = show_options(tree, tvb, tags_end, length)

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
