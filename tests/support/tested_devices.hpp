// The devices that tests with a device as their parameter run on: those of the host, and in
// programs that are built with HEARTH_TEST_VULKAN the first of Vulkan.
#pragma once

#include <gtest/gtest.h>

#ifdef HEARTH_TEST_VULKAN
#define HEARTH_TESTED_DEVICES(...) ::testing::Values("vulkan:0")
#else
#define HEARTH_TESTED_DEVICES(...) ::testing::Values(__VA_ARGS__)
#endif
