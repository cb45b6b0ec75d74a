// SPDX-License-Identifier: GPL-2.0
/*
 * Measures ns-3 where it is comparable with slbnsim.
 *
 * usage: bench_ns3 hold SCHEDULER PENDING MEAN EVENTS
 *        bench_ns3 simulator PENDING MEAN EVENTS
 *        bench_ns3 forward FLOWS SECONDS
 *
 * `hold` measures one of its schedulers in the hold model, as bench_wheel.c does
 * for slbnsim's. `simulator` does the same through Simulator::Schedule(), where
 * an event is an object with a function that is called.
 *
 * `forward` sends UDP packets through routers. Each flow has two hosts, and one
 * packet in the network at a time: the destination returns it, and after a pause
 * the source sends the next one. SLBN's control packets do the same, with as many
 * bytes over as many links of the same delays. Other parts of ns-3 are disabled
 * as far as users can: no IPv6, queueing disciplines, checksums, traces. Ten
 * flows share a chain of routers, which is a separate network, so that no router
 * has more than a dozen routes (ns-3 searches them linearly), and no routes need
 * to be computed. Setup and the first half second are not measured.
 *
 * Each prints its CPU time as JSON.
 */
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include "hold.h"

using namespace ns3;

namespace
{

uint64_t number(const char *text)
{
	return std::strtoull(text, nullptr, 10);
}

/* ------------------------------------------------------------------------ */
/* Schedulers                                                               */

void hold_events(Scheduler &scheduler, struct hold &hold, uint64_t count,
		 uint32_t &added)
{
	while (count--) {
		Scheduler::Event event = scheduler.RemoveNext();

		event.key.m_ts += hold_delay(&hold);
		event.key.m_uid = added++;
		scheduler.Insert(event);
	}
}

int run_hold(const char *name, uint64_t pending, uint64_t mean, uint64_t events)
{
	ObjectFactory factory(std::string("ns3::") + name);
	Ptr<Scheduler> scheduler = factory.Create<Scheduler>();
	struct hold hold = hold_begin(mean);
	uint32_t added = 0;
	uint64_t begin;

	while (added < pending) {
		Scheduler::Event event = {};

		event.key.m_ts = hold_delay(&hold);
		event.key.m_uid = added++;
		scheduler->Insert(event);
	}
	hold_events(*scheduler, hold, 3 * pending, added);
	begin = cpu_time();
	hold_events(*scheduler, hold, events, added);
	hold_print(events, cpu_time() - begin);
	return 0;
}

/* Events that only schedule the next one. */
struct Holding {
	struct hold hold;
	uint64_t from;
	uint64_t until;
	uint64_t count;
	uint64_t begin;

	void Fire()
	{
		if (count++ == from)
			begin = cpu_time();
		if (count > until)
			Simulator::Stop();
		Next();
	}

	void Next()
	{
		Simulator::Schedule(NanoSeconds(hold_delay(&hold)),
				    &Holding::Fire, this);
	}
};

int run_simulator(uint64_t pending, uint64_t mean, uint64_t events)
{
	Holding holding = { hold_begin(mean), 3 * pending, 3 * pending + events,
			    0, 0 };
	uint64_t ns;

	for (uint64_t n = 0; n < pending; n++)
		holding.Next();
	Simulator::Run();
	ns = cpu_time() - holding.begin;
	hold_print(events, ns);
	return 0;
}

/* ------------------------------------------------------------------------ */
/* Forwarding                                                               */

constexpr uint32_t FLOWS_OF_CHAIN = 10;
constexpr uint32_t ROUTERS = HOPS - 1;
constexpr uint32_t PAYLOAD =
	122; /* an SLBN packet's, with the options for HOPS */
constexpr uint16_t PORT = 9;
constexpr uint64_t PAUSE = 5000000; /* mean, ns */
constexpr uint64_t JOINED = 500000000; /* ns */

/* Addresses of a chain. Each link has four. */
constexpr uint32_t LINK_MASK = 0xfffffffc;
constexpr uint32_t SIDE_MASK = 0xffff0000;
constexpr uint32_t SOURCES = 0x0a010000; /* 10.1.0.0 */
constexpr uint32_t DESTINATIONS = 0x0a020000;
constexpr uint32_t BETWEEN = 0x0a030000;

struct hold dice = hold_begin(0);

/* A flow: its source, and its destination, which returns packets. */
class Flow
{
      public:
	Flow(Ptr<Node> source, Ptr<Node> destination, Ipv4Address address)
	    : source(Open(source)), destination(Open(destination))
	{
		this->source->Connect(InetSocketAddress(address, PORT));
		this->source->SetRecvCallback(
			MakeCallback(&Flow::Answer, this));
		this->destination->SetRecvCallback(
			MakeCallback(&Flow::Return, this));
		Simulator::ScheduleWithContext(
			source->GetId(),
			NanoSeconds(hold_between(&dice, 0, JOINED / 2)),
			&Flow::Send, this);
	}

	/* Trips of packets over HOPS links. */
	uint64_t Trips() const
	{
		return trips;
	}

      private:
	static Ptr<Socket> Open(Ptr<Node> node)
	{
		Ptr<Socket> socket = Socket::CreateSocket(
			node, UdpSocketFactory::GetTypeId());

		socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
		return socket;
	}

	void Send()
	{
		source->Send(Create<Packet>(PAYLOAD));
	}

	void Return(Ptr<Socket>)
	{
		Address from;
		Ptr<Packet> packet = destination->RecvFrom(from);

		trips++;
		destination->SendTo(packet, 0, from);
	}

	void Answer(Ptr<Socket>)
	{
		uint64_t pause = hold_between(&dice, PAUSE / 2, PAUSE * 3 / 2);

		source->Recv();
		trips++;
		Simulator::Schedule(NanoSeconds(pause), &Flow::Send, this);
	}

	Ptr<Socket> source;
	Ptr<Socket> destination;
	uint64_t trips = 0;
};

/* Add an interface with the address BASE to a node; return its number. */
uint32_t join(Ptr<Node> node, Ptr<NetDevice> device, uint32_t base)
{
	Ptr<Ipv4> ipv4 = node->GetObject<Ipv4>();
	uint32_t interface = ipv4->AddInterface(device);
	Ipv4InterfaceAddress address{ Ipv4Address(base), Ipv4Mask(LINK_MASK) };

	/* Ipv4AddressHelper would add a queueing discipline, too. */
	ipv4->AddAddress(interface, address);
	ipv4->SetUp(interface);
	return interface;
}

/* A link; its ends have the addresses BASE + 1 and BASE + 2. */
struct Link {
	uint32_t interface_a;
	uint32_t interface_b;

	Link(Ptr<Node> a, Ptr<Node> b, uint32_t base, const char *rate,
	     uint64_t delay)
	{
		PointToPointHelper helper;
		NetDeviceContainer devices;

		helper.SetDeviceAttribute("DataRate", StringValue(rate));
		helper.SetChannelAttribute("Delay",
					   TimeValue(NanoSeconds(delay)));
		devices = helper.Install(a, b);
		interface_a = join(a, devices.Get(0), base + 1);
		interface_b = join(b, devices.Get(1), base + 2);
	}
};

/* Add a route to NETWORK at NODE. */
void route(Ptr<Node> node, uint32_t network, uint32_t mask, uint32_t interface)
{
	Ptr<Ipv4> ipv4 = node->GetObject<Ipv4>();
	Ptr<Ipv4StaticRouting> routing =
		Ipv4StaticRoutingHelper().GetStaticRouting(ipv4);

	routing->AddNetworkRouteTo(Ipv4Address(network), Ipv4Mask(mask),
				   interface);
}

/* A host at a router, with the address BASE + 1. */
Ptr<Node> host(const InternetStackHelper &stack, Ptr<Node> router,
	       uint32_t base)
{
	Ptr<Node> node = CreateObject<Node>();

	stack.Install(node);
	Link link(node, router, base, "100Mbps", HOST_DELAY);
	route(node, 0, 0, link.interface_a);
	return node;
}

/* A chain of routers, with sources at one end and destinations at the other. */
void build_chain(const InternetStackHelper &stack, uint32_t count,
		 std::vector<std::unique_ptr<Flow>> &flows)
{
	NodeContainer routers(ROUTERS);
	uint32_t n;

	stack.Install(routers);
	for (n = 0; n + 1 < ROUTERS; n++) {
		Ptr<Node> a = routers.Get(n), b = routers.Get(n + 1);
		Link link(a, b, BETWEEN + 4 * n, "5Gbps",
			  hold_between(&dice, ROUTER_DELAY_LEAST,
				       ROUTER_DELAY_MOST));

		route(a, DESTINATIONS, SIDE_MASK, link.interface_a);
		route(b, SOURCES, SIDE_MASK, link.interface_b);
	}
	for (n = 0; n < count; n++) {
		Ptr<Node> source = host(stack, routers.Get(0), SOURCES + 4 * n);
		Ptr<Node> destination = host(stack, routers.Get(ROUTERS - 1),
					     DESTINATIONS + 4 * n);

		flows.push_back(std::make_unique<Flow>(
			source, destination,
			Ipv4Address(DESTINATIONS + 4 * n + 1)));
	}
}

uint64_t trips_of(const std::vector<std::unique_ptr<Flow>> &flows)
{
	uint64_t trips = 0;

	for (const auto &flow : flows)
		trips += flow->Trips();
	return trips;
}

void run_until(uint64_t time)
{
	Simulator::Stop(NanoSeconds(time) - Simulator::Now());
	Simulator::Run();
}

int run_forward(uint64_t count, double seconds)
{
	std::vector<std::unique_ptr<Flow>> flows;
	uint64_t begin, trips, events, ns;
	InternetStackHelper stack;

	stack.SetRoutingHelper(Ipv4StaticRoutingHelper());
	stack.SetIpv6StackInstall(false);
	while (flows.size() < count)
		build_chain(stack,
			    std::min<uint64_t>(FLOWS_OF_CHAIN,
					       count - flows.size()),
			    flows);
	run_until(JOINED);
	trips = trips_of(flows);
	events = Simulator::GetEventCount();
	begin = cpu_time();
	run_until(JOINED + seconds * 1e9);
	ns = cpu_time() - begin;
	std::printf("{\"events\": %" PRIu64 ", \"hops\": %" PRIu64
		    ", \"ns\": %" PRIu64 "}\n",
		    Simulator::GetEventCount() - events,
		    HOPS * (trips_of(flows) - trips), ns);
	return 0;
}

int usage()
{
	std::fprintf(stderr,
		     "usage: bench_ns3 hold SCHEDULER PENDING MEAN EVENTS\n"
		     "       bench_ns3 simulator PENDING MEAN EVENTS\n"
		     "       bench_ns3 forward FLOWS SECONDS\n");
	return 2;
}

} // namespace

int main(int argc, char **argv)
{
	std::string what = argc > 1 ? argv[1] : "";

	if (what == "hold" && argc == 6)
		return run_hold(argv[2], number(argv[3]), number(argv[4]),
				number(argv[5]));
	if (what == "simulator" && argc == 5)
		return run_simulator(number(argv[2]), number(argv[3]),
				     number(argv[4]));
	if (what == "forward" && argc == 4)
		return run_forward(number(argv[2]),
				   std::strtod(argv[3], nullptr));
	return usage();
}
