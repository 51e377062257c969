#pragma once

#include <pybind11/pybind11.h>

namespace tnt::comm::bindings {

// One function per file; module.cpp calls them.
void bind_errors(pybind11::module_& module);
void bind_job(pybind11::module_& module);
void bind_group(pybind11::module_& module);
void bind_allreduce(pybind11::module_& module);
void bind_shared_array(pybind11::module_& module);
void bind_fusion(pybind11::module_& module);
void bind_gatherer(pybind11::module_& module);
void bind_trace(pybind11::module_& module);

}  // namespace tnt::comm::bindings
