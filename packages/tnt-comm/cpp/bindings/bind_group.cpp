#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interrupt.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "user_line.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

using RequestPtr = std::shared_ptr<Request>;
using Driver = Group::Driver;

std::shared_ptr<Group> create(std::vector<int> ranks) {
  return Group::create(std::move(ranks), {"", "", &user_line});
}

std::size_t count_of(const py::array& array) {
  return static_cast<std::size_t>(array.size());
}

// Whoever is going to wait runs the operation right here, unlocked. Starting
// alone takes a lock for a moment only, so it keeps the GIL.
template <typename Function>
RequestPtr start(bool will_wait, Function&& function) {
  if (!will_wait) return function(Driver::engine);
  const py::gil_scoped_release unlocked;
  return function(Driver::caller);
}

RequestPtr start_barrier(Group& group, bool will_wait, const std::string& label,
                         const std::string& caller) {
  return start(will_wait, [&](Driver driver) {
    return group.start_barrier(driver, {label, caller, &user_line});
  });
}

RequestPtr start_allreduce(Group& group, const py::array& in, py::array out,
                           const std::string& dtype, const std::string& op, bool will_wait,
                           const std::string& label, const std::string& caller) {
  const void* source = in.data();
  void* target = out.mutable_data();
  const std::size_t count = count_of(in);
  return start(will_wait, [&](Driver driver) {
    return group.start_allreduce(source, target, count, parse_dtype(dtype), parse_reduce_op(op),
                                 driver, {label, caller, &user_line});
  });
}

RequestPtr start_broadcast(Group& group, const py::array& in, py::array out,
                           const std::string& dtype, int root, bool will_wait,
                           const std::string& label, const std::string& caller) {
  const void* source = in.data();
  void* target = out.mutable_data();
  const std::size_t count = count_of(in);
  return start(will_wait, [&](Driver driver) {
    return group.start_broadcast(source, target, count, parse_dtype(dtype), root, driver,
                                 {label, caller, &user_line});
  });
}

RequestPtr start_allgather(Group& group, const py::array& in, const std::string& dtype,
                           std::uint64_t shape_id, bool will_wait, const std::string& label,
                           const std::string& caller) {
  const void* source = in.data();
  const std::size_t count = count_of(in);
  return start(will_wait, [&](Driver driver) {
    return group.start_allgather(source, count, parse_dtype(dtype), shape_id, driver,
                                 {label, caller, &user_line});
  });
}

RequestPtr start_gather(Group& group, const py::array& in, const std::string& dtype,
                        std::uint64_t shape_id, int root, bool will_wait, const std::string& label,
                        const std::string& caller) {
  const void* source = in.data();
  const std::size_t count = count_of(in);
  return start(will_wait, [&](Driver driver) {
    return group.start_gather(source, count, parse_dtype(dtype), shape_id, root, driver,
                              {label, caller, &user_line});
  });
}

Group::Rows rows_of(const py::array& array) {
  const auto num_rows = static_cast<std::size_t>(array.shape(0));
  return {num_rows, num_rows == 0 ? 0 : count_of(array) / num_rows};
}

RequestPtr start_reduce_scatter(Group& group, const py::array& in, py::array out,
                                const std::string& dtype, const std::string& op, bool will_wait,
                                const std::string& label, const std::string& caller) {
  const void* source = in.data();
  void* target = out.mutable_data();
  const Group::Rows rows = rows_of(in);
  return start(will_wait, [&](Driver driver) {
    return group.start_reduce_scatter(source, target, rows, parse_dtype(dtype), parse_reduce_op(op),
                                      driver, {label, caller, &user_line});
  });
}

RequestPtr start_alltoall(Group& group, const py::array& in, py::array out,
                          const std::string& dtype, bool will_wait, const std::string& label,
                          const std::string& caller) {
  const void* source = in.data();
  void* target = out.mutable_data();
  const Group::Rows rows = rows_of(in);
  return start(will_wait, [&](Driver driver) {
    return group.start_alltoall(source, target, rows, parse_dtype(dtype), driver,
                                {label, caller, &user_line});
  });
}

RequestPtr start_scatter(Group& group, const py::array& in, py::array out, const std::string& dtype,
                         int root, bool will_wait, const std::string& label,
                         const std::string& caller) {
  const void* source = in.data();
  void* target = out.mutable_data();
  const Group::Rows rows = rows_of(in);
  return start(will_wait, [&](Driver driver) {
    return group.start_scatter(source, target, rows, parse_dtype(dtype), root, driver,
                               {label, caller, &user_line});
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

}  // namespace

void bind_group(py::module_& module) {
  module.def("new_result", &new_result, py::arg("dtype"), py::arg("shape"));

  py::classh<Request>(module, "Request")
      .def("is_done", &Request::is_done)
      .def("wait", &wait, py::arg("timeout_s"))
      .def("take_blocks", &take_blocks);

  py::classh<Group>(module, "Group")
      .def_static("world", &Group::world, py::call_guard<InterruptibleCall>())
      .def_static("create", &create, py::arg("ranks"), py::call_guard<InterruptibleCall>())
      .def_property_readonly("rank", &Group::rank)
      .def_property_readonly("size", &Group::size)
      .def_property_readonly("ranks", &Group::ranks)
      .def("start_barrier", &start_barrier, py::arg("will_wait"), py::arg("label"),
           py::arg("caller"))
      .def("start_allreduce", &start_allreduce, py::arg("array"), py::arg("out"), py::arg("dtype"),
           py::arg("op"), py::arg("will_wait"), py::arg("label"), py::arg("caller"))
      .def("start_broadcast", &start_broadcast, py::arg("array"), py::arg("out"), py::arg("dtype"),
           py::arg("root"), py::arg("will_wait"), py::arg("label"), py::arg("caller"))
      .def("start_allgather", &start_allgather, py::arg("array"), py::arg("dtype"),
           py::arg("shape_id"), py::arg("will_wait"), py::arg("label"), py::arg("caller"))
      .def("start_gather", &start_gather, py::arg("array"), py::arg("dtype"), py::arg("shape_id"),
           py::arg("root"), py::arg("will_wait"), py::arg("label"), py::arg("caller"))
      .def("start_reduce_scatter", &start_reduce_scatter, py::arg("array"), py::arg("out"),
           py::arg("dtype"), py::arg("op"), py::arg("will_wait"), py::arg("label"),
           py::arg("caller"))
      .def("start_alltoall", &start_alltoall, py::arg("array"), py::arg("out"), py::arg("dtype"),
           py::arg("will_wait"), py::arg("label"), py::arg("caller"))
      .def("start_scatter", &start_scatter, py::arg("array"), py::arg("out"), py::arg("dtype"),
           py::arg("root"), py::arg("will_wait"), py::arg("label"), py::arg("caller"));
}

}  // namespace tnt::comm::bindings
