// A thread of a kernel that runs on the host, as the kernel and the driver see it. In C, because
// they are different libraries.
#pragma once

extern "C" {
struct HostThread {
  unsigned thread;
  unsigned group;
  void (*barrier)();
  void (*warp_barrier)();
  unsigned (*shuffle_xor)(unsigned x, unsigned bits);
};
}
