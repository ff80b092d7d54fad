// Client code knows ops and streams, and no backend.
#ifdef HEARTH_MUST_FAIL
#include <hearth/backends/backend.hpp>
#else
#include <hearth/streams/op_table.hpp>
#endif

int main() {}
