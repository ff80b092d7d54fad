// Holds a device's token, so that records queued by several streams meanwhile meet at the actor.
#pragma once

#include "stepped_runtime.hpp"

#include "runtime/client/device_endpoint.hpp"

namespace hearth::testing {

class HeldToken {
 public:
  explicit HeldToken(const Device& device) : endpoint_(device.endpoint()) {
    while (!endpoint_.doorbell.try_claim()) {
      pass(std::chrono::milliseconds(1));
    }
  }
  HeldToken(const HeldToken&) = delete;
  HeldToken& operator=(const HeldToken&) = delete;
  ~HeldToken() {
    endpoint_.doorbell.release_with_work();
    endpoint_.wake_if_free();
  }

 private:
  DeviceEndpoint& endpoint_;
};

}  // namespace hearth::testing
