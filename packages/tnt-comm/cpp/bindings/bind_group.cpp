#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interrupt.hpp"
#include "tnt/comm/group/group.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

using TicketPtr = std::shared_ptr<Ticket>;
using Driver = Group::Driver;

Driver driver_of(bool will_wait) {
  return will_wait ? Driver::caller : Driver::engine;
}

std::size_t count_of(const py::array& array) {
  return static_cast<std::size_t>(array.size());
}

TicketPtr start_barrier(Group& group, bool will_wait) {
  return group.start_barrier(driver_of(will_wait));
}

TicketPtr start_allreduce(Group& group, const py::array& in, py::array out,
                          const std::string& dtype, const std::string& op, bool will_wait) {
  return group.start_allreduce(in.data(), out.mutable_data(), count_of(in), parse_dtype(dtype),
                               parse_reduce_op(op), driver_of(will_wait));
}

TicketPtr start_broadcast(Group& group, const py::array& in, py::array out,
                          const std::string& dtype, int root, bool will_wait) {
  return group.start_broadcast(in.data(), out.mutable_data(), count_of(in), parse_dtype(dtype),
                               root, driver_of(will_wait));
}

TicketPtr start_allgather(Group& group, const py::array& in, const std::string& dtype,
                          std::uint64_t shape_id, bool will_wait) {
  return group.start_allgather(in.data(), count_of(in), parse_dtype(dtype), shape_id,
                               driver_of(will_wait));
}

TicketPtr start_reduce_scatter(Group& group, const py::array& in, py::array out,
                               const std::string& dtype, const std::string& op, bool will_wait) {
  const auto num_rows = static_cast<std::size_t>(in.shape(0));
  const std::size_t row_elements = num_rows == 0 ? 0 : count_of(in) / num_rows;
  return group.start_reduce_scatter(in.data(), out.mutable_data(), num_rows, row_elements,
                                    parse_dtype(dtype), parse_reduce_op(op), driver_of(will_wait));
}

void wait(Ticket& ticket, double timeout_s) {
  const py::gil_scoped_release unlocked;
  ticket.wait(timeout_s, python_signals());
}

py::list take_blocks(Ticket& ticket) {
  Gathered& gathered = ticket.gathered();
  return views_of(std::move(gathered.blocks), gathered.ends);
}

}  // namespace

void bind_group(py::module_& module) {
  // Starting takes a lock for a moment only, so it keeps the GIL.
  py::classh<Ticket>(module, "Ticket")
      .def("is_done", &Ticket::is_done)
      .def("wait", &wait, py::arg("timeout_s"))
      .def("take_blocks", &take_blocks);

  py::classh<Group>(module, "Group")
      .def_static("world", &Group::world, py::call_guard<py::gil_scoped_release>())
      .def_static("create", py::overload_cast<std::vector<int>>(&Group::create), py::arg("ranks"),
                  py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("rank", &Group::rank)
      .def_property_readonly("size", &Group::size)
      .def_property_readonly("ranks", &Group::ranks)
      .def("start_barrier", &start_barrier, py::arg("will_wait"))
      .def("start_allreduce", &start_allreduce, py::arg("array"), py::arg("out"), py::arg("dtype"),
           py::arg("op"), py::arg("will_wait"))
      .def("start_broadcast", &start_broadcast, py::arg("array"), py::arg("out"), py::arg("dtype"),
           py::arg("root"), py::arg("will_wait"))
      .def("start_allgather", &start_allgather, py::arg("array"), py::arg("dtype"),
           py::arg("shape_id"), py::arg("will_wait"))
      .def("start_reduce_scatter", &start_reduce_scatter, py::arg("array"), py::arg("out"),
           py::arg("dtype"), py::arg("op"), py::arg("will_wait"));
}

}  // namespace tnt::comm::bindings
