// SPDX-License-Identifier: GPL-2.0-only
//
// The C++ example: what goes out of scope goes back, on the way back from an
// exception too. The kernel's harness is C, so this says TAP by itself.

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/resource.h>

#define main raii_example
#include "../lib/examples/raii.cc"
#undef main

static int number;
static bool failed;

static void result(bool ok, const char *name)
{
	failed |= !ok;
	std::printf("%sok %d - %s\n", ok ? "" : "not ", ++number, name);
}

// What a device owes to its clients
static std::string owed(int index)
{
	std::string all, value;

	for (const char *name : { "used", "clients", "pools" }) {
		std::ifstream f("/sys/class/devpool/devpool" + std::to_string(index) + "/" + name);

		if (!(f >> value))
			return "";
		all += value + " ";
	}
	return all;
}

static int mappings()
{
	std::ifstream f("/proc/self/maps");
	std::string line;
	int n = 0;

	while (std::getline(f, line))
		n += line.find("/dev/devpool") != std::string::npos;
	return n;
}

// The first device that has memory
static int find()
{
	struct devpool_info info;
	struct devpool *dev;
	int ret;

	for (int i = 0; i < 16; i++) {
		if (devpool_open(("/dev/devpool" + std::to_string(i)).c_str(), &dev))
			continue;
		ret = devpool_info(dev, &info);
		devpool_close(dev);
		if (!ret && (info.out_features & DEVPOOL_FEATURE_MMAP) &&
		    info.out_bytes >= 20 << 20)
			return i;
	}
	return -1;
}

int main()
{
	int index = find();
	std::string before;
	struct rlimit limit = { 32 << 20, RLIM_INFINITY };

	std::puts("TAP version 13\n1..3");
	if (index < 0) {
		for (int i = 1; i <= 3; i++)
			std::printf("ok %d # SKIP there is no device with 20 MiB of memory\n", i);
		return 0;
	}
	before = owed(index);
	setenv("DEVPOOL_DEVICE", ("/dev/devpool" + std::to_string(index)).c_str(), 1);
	result(!raii_example() && !before.empty() && owed(index) == before && !mappings(),
	       "what goes out of scope goes back");

	// There is a device and a pool by then, and no room to map a block.
	setrlimit(RLIMIT_AS, &limit);
	result(raii_example() == 1 && owed(index) == before && !mappings(),
	       "an exception gives back what there was");
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_AS, &limit);

	setenv("DEVPOOL_DEVICE", "/dev/devpool-none", 1);
	result(raii_example() == 1, "without a device there is an exception");
	return failed;
}
