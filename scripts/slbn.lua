-- SPDX-License-Identifier: GPL-2.0
--
-- SLBN's control packets for Wireshark and tshark, by the grammar in
-- include/uapi/fairpath/slbn.h:
--
--	tshark -X lua_script:scripts/slbn.lua -r FILE -Y 'slbn.bw < 1000000'
--	wireshark -X lua_script:scripts/slbn.lua FILE
--
-- or for good, copied to where Wireshark looks for plugins: "Personal Lua
-- Plugins" in its dialog About, Folders. Root may have to give up its rights:
-- newer versions run no scripts for it.
--
-- They are found at their port, and by their magic at any other. Rates are
-- filtered by in bit/s and shown in larger units, too. slbn.B.hop has each hop
-- of the set B, slbn.tag the tag of each hop, in their order. An answer is told
-- from which packet it is one (slbn.response_to, slbn.time), by session,
-- sequence and hop, so that a capture of several links can be one file.
--
-- What slbn_parse_packet() in include/fairpath/slbn/slbn_wire.h would refuse has an expert
-- information for the reason, slbn.flaw.*; beside it is shown what can be.
--
-- Works in Lua 5.2 (Wireshark 4.0) and 5.4 (4.4): numbers are taken apart by
-- division, as the two have no operator for bits in common.

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
local is_answer = { [3] = true, [5] = true }

local options = {
	[0] = "Padding",
	[OPTION_AUTH] = "Authentication",
}

local slbn = Proto("slbn", "SLBN, explicit max-min fair rates")

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
	trailer = ProtoField.bytes("slbn.trailer", "Not part of the packet"),
	response_in = ProtoField.framenum("slbn.response_in", "Response in",
		base.NONE, frametype.RESPONSE),
	response_to = ProtoField.framenum("slbn.response_to", "Response to",
		base.NONE, frametype.REQUEST),
	time = ProtoField.relative_time("slbn.time", "Time since the request"),
}
slbn.fields = f

local function malformed(name, text)
	return ProtoExpert.new("slbn.flaw." .. name, text, expert.group.MALFORMED,
		expert.severity.ERROR)
end

-- As enum slbn_parse_result has them.
local flaws = {
	short = malformed("short", "Ends before its header, tags or options do"),
	strange = malformed("strange", "Not a version that is known"),
	type = malformed("type", "No such type"),
	hops = malformed("hops", "Hop slots, hop, bottleneck or B out of range"),
	rate = malformed("rate", "A rate out of range"),
	option = malformed("option", "An option of the wrong length, or twice"),
}
slbn.experts = flaws

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

-- The hops in B: a list, a set, and in words. The set's first octet stands last.
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

-- Requests by what their answers have in common with them, and, by the number
-- of the frame, what was found out.
local requests, answer_of, request_of

function slbn.init()
	requests, answer_of, request_of = {}, {}, {}
end

local function match(pinfo, key, answers)
	local request = requests[key]

	if not answers then
		requests[key] = { frame = pinfo.number, time = pinfo.rel_ts }
	elseif request then
		answer_of[request.frame] = pinfo.number
		request_of[pinfo.number] = request
	end
end

local function show_match(tree, pinfo)
	local answer, request = answer_of[pinfo.number], request_of[pinfo.number]

	if answer then
		tree:add(f.response_in, answer):set_generated()
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

-- All options from `at` on; what is wrong with them, or nil.
local function show_options(tree, tvb, at, length)
	local authenticated = false

	while at < length do
		if at + 2 > length then
			return "short", "half an option"
		end
		local kind, size = tvb(at, 1):uint(), tvb(at + 1, 1):uint()

		if at + 2 + size > length then
			tree:add(f.option, tvb(at, length - at))
			return "short", string.format("an option of %d octets", size)
		end
		local option = tree:add(f.option, tvb(at, 2 + size))

		option:append_text(": " .. (options[kind] or string.format("unknown (%d)", kind)))
		option:add(f.option_type, tvb(at, 1))
		option:add(f.option_length, tvb(at + 1, 1))
		if kind == OPTION_AUTH and (authenticated or size ~= AUTH_LENGTH) then
			return "option", authenticated and "authentication twice" or
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

	local function flaw(name, text)
		found = true
		tree:add_proto_expert_info(flaws[name], text)
	end
	local function done()
		if found then
			pinfo.cols.info:append(" [malformed]")
		end
		return captured
	end

	tree:add(f.magic, tvb(0, 4))
	if given < HEADER_LENGTH then
		flaw("short", string.format("%d octets, less than a header", given))
	end
	if captured < 5 then
		return done()
	end
	tree:add(f.version, tvb(4, 1))
	if tvb(4, 1):uint() ~= VERSION then
		flaw("strange", string.format("version %d", tvb(4, 1):uint()))
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

	-- What it says, in words.
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

	-- Is that in order?
	if not types[kind] then
		flaw("type", string.format("type %d", kind))
	end
	local slots_are_valid = slots >= 2 and slots <= HOPS_MAX and slots % 2 == 0

	if not slots_are_valid then
		flaw("hops", string.format("slots %d", slots))
	end
	if hop > slots then
		flaw("hops", string.format("hop %d of %d", hop, slots))
	end
	if b ~= NO_HOP and b >= slots then
		flaw("hops", string.format("bottleneck %d of %d", b, slots))
	end
	if #B > 0 and B[#B] >= slots then
		flaw("hops", string.format("hop %d of %d in B", B[#B], slots))
	end
	for _, name in ipairs(rates) do
		if at[name]:uint64():tonumber() > RATE_MAX then
			flaw("rate", name .. " above 1000 Tbit/s")
		end
	end
	if at.demand:uint64():tonumber() == 0 then
		flaw("rate", "no demand")
	end
	if length > given then
		flaw("short", string.format("%d octets, and %d are there", length, given))
	end

	-- Tags and options can be found only if their lengths are right.
	local tags_end = HEADER_LENGTH + 2 * slots

	if slots_are_valid and length < tags_end then
		flaw("short", string.format("%d octets, and tags to %d", length, tags_end))
	elseif slots_are_valid and length <= captured then
		show_tags(tree, tvb, slots, in_B)
		local name, reason = show_options(tree, tvb, tags_end, length)

		if name then
			flaw(name, reason)
		end
	end
	if length >= HEADER_LENGTH and captured > length then
		tree:add(f.trailer, tvb(length, captured - length))
	end

	if not found then
		if not pinfo.visited then
			match(pinfo, session .. "/" .. seq .. "/" .. hop, is_answer[kind])
		end
		show_match(tree, pinfo)
	end
	return done()
end

local function is_one(tvb, pinfo, root)
	if tvb:len() < HEADER_LENGTH or tvb(0, 4):uint() ~= MAGIC then
		return false
	end
	dissect(tvb, pinfo, root)
	return true
end

slbn.dissector = dissect
DissectorTable.get("udp.port"):add(PORT, slbn)
slbn:register_heuristic("udp", is_one)
