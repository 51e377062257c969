#include <pybind11/stl.h>

#include <optional>
#include <tuple>

#include "bindings.hpp"
#include "tnt/comm/capi/arguments.hpp"
#include "tnt/comm/communicator/gatherer.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

using PlainTensor = std::tuple<std::string, std::string, std::size_t>;  // name, dtype, elements

FusionPlan make_plan(const std::vector<PlainTensor>& tensors, std::size_t threshold_bytes,
                     const std::optional<std::string>& wire_dtype) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, dtype, num_elements] : tensors) {
    specs.push_back({name, parse_dtype(dtype), num_elements});
  }
  return {std::move(specs), threshold_bytes,
          wire_dtype ? std::optional(parse_dtype(*wire_dtype)) : std::nullopt};
}

std::int64_t create_reducer(const std::shared_ptr<Group>& group, const FusionPlan& plan,
                            const std::string& name, const std::string& phase) {
  const InterruptibleCall interruptible;
  return reducers().add(std::make_shared<GradientReducer>(group, plan, name, phase));
}

std::int64_t create_device_reducer(const std::shared_ptr<Group>& group, const FusionPlan& plan,
                                   const std::string& name, const std::string& phase, int gpu) {
  const InterruptibleCall interruptible;
  return reducers().add(
      std::make_shared<GradientReducer>(group, plan, name, device_finder(gpu), phase));
}

void start_device_tensor(std::int64_t handle, std::size_t tensor, DevicePointer data, double scale,
                         std::uintptr_t stream) {
  const Unlocked unlocked;
  reducers().find(handle)->start_on_device(tensor, data, scale,
                                           reinterpret_cast<ForeignStream>(stream));
}

void finish_device_tensor(std::int64_t handle, std::size_t tensor, DevicePointer out,
                          std::uintptr_t stream, double timeout_s) {
  const Unlocked unlocked;
  reducers().find(handle)->finish_on_device(tensor, out, reinterpret_cast<ForeignStream>(stream),
                                            timeout_s, python_signals());
}

// What sums, and why.
std::pair<std::string, std::string> device_engine(std::int64_t handle) {
  const auto& engine = reducers().find(handle)->device_engine();
  if (!engine) return {"none", "it was not made for GPUs"};
  return {engine->engine == GpuSums::ipc ? "ipc" : "host", engine->reason};
}

void start_tensor(std::int64_t handle, std::size_t tensor, const py::array& array, double scale) {
  const void* data = array.data();
  const Unlocked unlocked;
  reducers().find(handle)->start(tensor, data, scale);
}

// Both arrays live until the reducer does not need them any more, maybe after the interpreter.
std::shared_ptr<void> keep(py::array array, py::array out) {
  using Arrays = std::pair<py::array, py::array>;
  return {new Arrays(std::move(array), std::move(out)), [](void* arrays) {
            if (Py_IsInitialized() == 0) return;
            const Locked locked;
            delete static_cast<Arrays*>(arrays);
          }};
}

void start_tensor_into(std::int64_t handle, std::size_t tensor, const py::array& array,
                       py::array out, double scale) {
  const void* data = array.data();
  void* sum = out.mutable_data();
  std::shared_ptr<void> owner = keep(array, std::move(out));
  const Unlocked unlocked;
  reducers().find(handle)->start_into(tensor, data, sum, scale, std::move(owner));
}

void finish_tensor(std::int64_t handle, std::size_t tensor, py::array out, double timeout_s) {
  void* data = out.mutable_data();
  const Unlocked unlocked;
  reducers().find(handle)->finish(tensor, data, timeout_s, python_signals());
}

// An array over the memory of the view, which it owns; None if nothing is lent.
py::object lend_tensor(std::int64_t handle, std::size_t tensor, const py::dtype& dtype,
                       const std::vector<py::ssize_t>& shape, double timeout_s) {
  BorrowedView view;
  {
    const Unlocked unlocked;
    view = reducers().find(handle)->lend(tensor, timeout_s, python_signals());
  }
  if (!view) return py::none();
  const void* data = view.get();
  return py::array(dtype, shape, data,
                   owner_of(std::make_unique<BorrowedView>(std::move(view)), "view"));
}

std::int64_t create_gatherer(const std::shared_ptr<Group>& group, const std::string& name) {
  const InterruptibleCall interruptible;
  return gatherers().add(std::make_shared<Gatherer>(group, name));
}

void start_blocks(std::int64_t handle, const py::array& array) {
  const void* data = array.data();
  const auto num_bytes = static_cast<std::size_t>(array.nbytes());
  const Unlocked unlocked;
  gatherers().find(handle)->start(data, num_bytes);
}

py::list finish_blocks(std::int64_t handle, double timeout_s) {
  std::vector<std::size_t> sizes;
  RecycledMemory blocks;
  {
    const Unlocked unlocked;
    blocks = gatherers().find(handle)->take(sizes, timeout_s, python_signals());
  }
  std::size_t end = 0;
  for (std::size_t& size : sizes) size = end += size;
  return views_of(std::move(blocks), sizes);
}

}  // namespace

void bind_reducer(py::module_& module) {
  py::class_<Bucket>(module, "Bucket")
      .def_property_readonly("dtype", [](const Bucket& bucket) { return name_of(bucket.dtype); })
      .def_readonly("tensor_ids", &Bucket::tensor_ids)
      .def_readonly("offsets", &Bucket::offsets)
      .def_readonly("num_elements", &Bucket::num_elements)
      .def_property_readonly("wire_dtype",
                             [](const Bucket& bucket) { return name_of(bucket.wire_dtype); });

  py::class_<FusionPlan>(module, "FusionPlan")
      .def(py::init(&make_plan))
      .def_property_readonly("buckets", &FusionPlan::buckets);

  module.def("create_reducer", &create_reducer);
  module.def("create_device_reducer", &create_device_reducer);
  module.def("start_device_tensor", &start_device_tensor);
  module.def("finish_device_tensor", &finish_device_tensor);
  module.def("is_on_device",
             [](std::int64_t handle) { return reducers().find(handle)->is_on_device(); });
  module.def("device_engine", &device_engine);
  module.def("obstacle_of_device", [](int gpu, bool is_stream_known) {
    const Unlocked unlocked;
    return obstacle_of_device(gpu, is_stream_known);
  });
  module.def("close_reducer", [](std::int64_t handle) { reducers().close(handle); });
  module.def("start_tensor", &start_tensor);
  module.def("start_tensor_into", &start_tensor_into);
  module.def("finish_tensor", &finish_tensor);
  module.def("lend_tensor", &lend_tensor);
  module.def("create_gatherer", &create_gatherer);
  module.def("close_gatherer", [](std::int64_t handle) { gatherers().close(handle); });
  module.def("start_blocks", &start_blocks);
  module.def("finish_blocks", &finish_blocks);
}

}  // namespace tnt::comm::bindings
