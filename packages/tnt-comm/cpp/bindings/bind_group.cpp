#include <pybind11/stl.h>

#include <tuple>

#include "bindings.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/shared_array.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

using RequestPtr = std::shared_ptr<Request>;
using Driver = Group::Driver;

std::shared_ptr<Group> create(std::vector<int> ranks) {
  return Group::create(std::move(ranks), {"", "", &user_line});
}

// What C++ needs of an input, and of an output if there is one.
struct Arrays {
  Arrays(const py::array& source, const std::string& dtype_name)
      : in(source.data()),
        count(count_of(source)),
        dtype(parse_dtype(dtype_name)),
        shape(packed_shape_of(source)) {}
  Arrays(const py::array& source, py::array& target, const std::string& dtype_name)
      : Arrays(source, dtype_name) {
    out = target.mutable_data();
  }

  const void* in;
  void* out = nullptr;
  std::size_t count;
  DType dtype;
  std::uint64_t shape;
};

Group::Rows rows_of(const py::array& array) {
  const auto num_rows = static_cast<std::size_t>(array.shape(0));
  return {num_rows, num_rows == 0 ? 0 : count_of(array) / num_rows};
}

// Of what is gathered; the array with it may hold something else.
using Shape = std::vector<py::ssize_t>;

using Call = std::tuple<bool, std::string, std::string>;  // will_wait, label, caller

// Whoever is going to wait runs the operation right here, unlocked. Starting
// alone takes a lock for a moment only, so it keeps the GIL.
template <typename Function>
RequestPtr start(const Call& call, std::uint64_t shape, Function&& function) {
  const auto& [will_wait, name, caller] = call;
  const CallLabel label{name, caller, &user_line, {}, shape};
  if (!will_wait) return function(Driver::engine, label);
  const py::gil_scoped_release unlocked;
  return function(Driver::caller, label);
}

RequestPtr start_barrier(Group& group, const Call& call) {
  return start(call, 0, [&](Driver driver, const CallLabel& label) {
    return group.start_barrier(driver, label);
  });
}

RequestPtr start_allreduce(Group& group, const py::array& in, py::array out,
                           const std::string& dtype, const std::string& op, const Call& call) {
  const Arrays arrays(in, out, dtype);
  return start(call, arrays.shape, [&](Driver driver, const CallLabel& label) {
    return group.start_allreduce(arrays.in, arrays.out, arrays.count, arrays.dtype,
                                 parse_reduce_op(op), driver, label);
  });
}

RequestPtr start_broadcast(Group& group, const py::array& in, py::array out,
                           const std::string& dtype, int root, const Call& call) {
  const Arrays arrays(in, out, dtype);
  return start(call, arrays.shape, [&](Driver driver, const CallLabel& label) {
    return group.start_broadcast(arrays.in, arrays.out, arrays.count, arrays.dtype, root, driver,
                                 label);
  });
}

RequestPtr start_allgather(Group& group, const py::array& in, const std::string& dtype,
                           const Shape& shape, const Call& call) {
  const Arrays arrays(in, dtype);
  return start(call, 0, [&](Driver driver, const CallLabel& label) {
    return group.start_allgather(arrays.in, arrays.count, arrays.dtype,
                                 pack_row_shape(shape.data(), shape.size()), driver, label);
  });
}

RequestPtr start_gather(Group& group, const py::array& in, const std::string& dtype,
                        const Shape& shape, int root, const Call& call) {
  const Arrays arrays(in, dtype);
  return start(call, 0, [&](Driver driver, const CallLabel& label) {
    return group.start_gather(arrays.in, arrays.count, arrays.dtype,
                              pack_row_shape(shape.data(), shape.size()), root, driver, label);
  });
}

RequestPtr start_reduce_scatter(Group& group, const py::array& in, py::array out,
                                const std::string& dtype, const std::string& op, const Call& call) {
  const Arrays arrays(in, out, dtype);
  const Group::Rows rows = rows_of(in);
  return start(call, arrays.shape, [&](Driver driver, const CallLabel& label) {
    return group.start_reduce_scatter(arrays.in, arrays.out, rows, arrays.dtype,
                                      parse_reduce_op(op), driver, label);
  });
}

RequestPtr start_alltoall(Group& group, const py::array& in, py::array out,
                          const std::string& dtype, const Call& call) {
  const Arrays arrays(in, out, dtype);
  const Group::Rows rows = rows_of(in);
  return start(call, arrays.shape, [&](Driver driver, const CallLabel& label) {
    return group.start_alltoall(arrays.in, arrays.out, rows, arrays.dtype, driver, label);
  });
}

RequestPtr start_scatter(Group& group, const py::array& in, py::array out, const std::string& dtype,
                         int root, const Call& call) {
  const Arrays arrays(in, out, dtype);
  const Group::Rows rows = rows_of(in);
  return start(call, arrays.shape, [&](Driver driver, const CallLabel& label) {
    return group.start_scatter(arrays.in, arrays.out, rows, arrays.dtype, root, driver, label);
  });
}

void wait(Request& request, double timeout_s) {
  const py::gil_scoped_release unlocked;
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
  module.def("empty", &empty);

  py::classh<Request>(module, "Request")
      .def("is_done", &Request::is_done)
      .def("wait", &wait)
      .def("take_blocks", &take_blocks);

  py::classh<Group>(module, "Group")
      .def_static("world", &Group::world, py::call_guard<InterruptibleCall>())
      .def_static("create", &create, py::call_guard<InterruptibleCall>())
      .def_property_readonly("rank", &Group::rank)
      .def_property_readonly("size", &Group::size)
      .def_property_readonly("ranks", &Group::ranks)
      .def("start_barrier", &start_barrier)
      .def("start_allreduce", &start_allreduce)
      .def("start_broadcast", &start_broadcast)
      .def("start_allgather", &start_allgather)
      .def("start_gather", &start_gather)
      .def("start_reduce_scatter", &start_reduce_scatter)
      .def("start_alltoall", &start_alltoall)
      .def("start_scatter", &start_scatter);
}

}  // namespace tnt::comm::bindings
