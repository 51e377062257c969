#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <tuple>

#include "bindings.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/group_object.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

using RequestPtr = std::shared_ptr<Request>;
std::shared_ptr<Group> create(std::vector<int> ranks) {
  ensure_joined();
  const InterruptibleCall interruptible;
  return Group::create(std::move(ranks), {"", "", &user_line});
}

// The collectives that callers may ask for: by name, what a member gets, whether there is a root.
py::dict collectives() {
  constexpr std::array kLayouts = {"none", "same", "part", "parts", "blocks"};
  py::dict all;
  for (std::size_t i = 0; i < kNumCallableKinds; ++i) {
    const CollectiveTraits& traits = kCollectiveTraits[i];
    all[py::str(traits.name)] =
        py::make_tuple(i, kLayouts[static_cast<std::size_t>(traits.result)], traits.has_root);
  }
  return all;
}

using Result = std::optional<py::array>;
// Of an array whose rows are gathered: what is sent may be another one.
using Shape = std::optional<std::vector<py::ssize_t>>;
using Words = std::tuple<bool, std::string, std::string>;  // will_wait, label, caller

Call call_of(CollectiveKind kind, const py::array& in, Result& out, const std::string& dtype,
             const Shape& shape, const std::string& op, int root) {
  const CollectiveTraits& traits = traits_of(kind);
  Call call{.kind = kind, .in = in.data(), .count = count_of(in), .dtype = parse_dtype(dtype)};
  if (out) call.out = out->mutable_data();
  if (traits.reduces) call.op = parse_reduce_op(op);
  if (traits.cuts_rows()) {
    const auto num_rows = static_cast<std::size_t>(in.shape(0));
    call.row_elements = num_rows == 0 ? 0 : call.count / num_rows;
    call.count = num_rows;
  }
  call.root = root;
  call.shape = shape ? pack_row_shape(shape->data(), shape->size()) : packed_shape_of(in);
  return call;
}

// Whoever is going to wait runs the operation right here, unlocked. Starting
// alone takes a lock for a moment only, so it keeps the GIL.
RequestPtr start(Group& group, std::size_t kind, const py::array& in, Result out,
                 const std::string& dtype, const Shape& shape, const std::string& op, int root,
                 const Words& words) {
  const auto& [will_wait, name, caller] = words;
  const CallLabel label{name, caller, &user_line};
  const Call call = call_of(static_cast<CollectiveKind>(kind), in, out, dtype, shape, op, root);
  if (!will_wait) return group.start(call, Group::Driver::engine, label);
  const Unlocked unlocked;
  return group.start(call, Group::Driver::caller, label);
}

void wait(Request& request, double timeout_s) {
  const Unlocked unlocked;
  request.wait(timeout_s, python_signals());
}

py::list take_blocks(Request& request) {
  Gathered& gathered = request.gathered();
  return views_of(std::move(gathered.blocks), gathered.ends);
}

py::array empty(const std::shared_ptr<Group>& group, const py::dtype& dtype,
                const std::vector<py::ssize_t>& shape) {
  std::size_t num_bytes = static_cast<std::size_t>(dtype.itemsize());
  for (const py::ssize_t length : shape) {
    num_bytes = bytes_in_memory(static_cast<std::size_t>(length), num_bytes, "An array");
  }
  std::unique_ptr<SharedArray> memory;
  {
    const InterruptibleCall interruptible;
    memory = std::make_unique<SharedArray>(*group, num_bytes);
  }
  const void* data = memory->data();
  return py::array(dtype, shape, data, owner_of(std::move(memory)));
}

}  // namespace

void bind_group(py::module_& module) {
  module.def("new_result", &new_result);
  module.def("collectives", &collectives);
  module.def("empty", &empty);

  py::classh<Request>(module, "Request")
      .def("is_done", &Request::is_done)
      .def("wait", &wait)
      .def("take_blocks", &take_blocks);

  py::classh<Group>(module, "Group")
      .def_static("world",
                  [] {
                    ensure_joined();
                    return Group::world();
                  })
      .def_static("create", &create)
      .def_property_readonly("rank", &Group::rank)
      .def_property_readonly("size", &Group::size)
      .def_property_readonly("ranks", &Group::ranks)
      .def("start", &start);
}

}  // namespace tnt::comm::bindings
