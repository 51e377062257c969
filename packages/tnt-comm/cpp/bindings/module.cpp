#include "bindings.hpp"

PYBIND11_MODULE(_core, module) {
  using namespace tnt::comm::bindings;  // NOLINT: the functions below
  module.doc() = "Private C++ core of tnt_comm; use the package's public names.";
  bind_errors(module);
  bind_job(module);
  bind_group(module);
  bind_allreduce(module);
  bind_shared_array(module);
  bind_fusion(module);
  bind_gatherer(module);
  bind_trace(module);
}
