// The devices of parameterized tests: those of the host and, in programs built with
// HEARTH_TEST_VULKAN, the first Vulkan device.
#pragma once

#include <gtest/gtest.h>

#ifdef HEARTH_TEST_VULKAN
#define HEARTH_TESTED_DEVICES(...) ::testing::Values("vulkan:0")
#else
#define HEARTH_TESTED_DEVICES(...) ::testing::Values(__VA_ARGS__)
#endif
