// An empty cuBLASLt for the host's driver: a machine with NVIDIA's library would load that one,
// which needs a card. Devices on the host thus always lack the library of products.
namespace {

[[maybe_unused]] constexpr int kHasNoFunctions = 0;

}  // namespace
