// Client code reaches a device only through its endpoint.
#ifdef HEARTH_MUST_FAIL
#include "runtime/device/device_actor.hpp"
#else
#include "runtime/client/device_endpoint.hpp"
#endif

int main() {}
